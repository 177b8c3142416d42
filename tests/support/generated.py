"""TrainJobs and runtimes that Hypothesis has made: the same ones on every run.

Each pair is one that both controllers can build from: two ports without a name
in one container are not, from which the reference makes a JobSet that the API
server refuses. What admission refuses is for the cases about that.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from .corpus import RUNTIMES

Strategy = st.SearchStrategy[Any]

COUNT = 60
"""Pairs of a runtime and a TrainJob."""
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
FIELD = {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
SECRET = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}}
CORPUS = sorted(path.stem for path in RUNTIMES if path.stem not in ("mpi-nolauncher", "torch-badinj"))
"""Runtimes of the corpus from which something can be built without more ado."""


def some(**fields: Strategy) -> Strategy:
    """A mapping with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def pick(*values: Any) -> Strategy:
    """One of these values."""
    return st.sampled_from(values)


def distinct(strategy: Strategy, *keys: str, most: int = 3) -> Strategy:
    """A list in which no two have the same value, or the lack of one, in any of `keys`."""

    def by(key: str) -> Callable[[dict[str, Any]], Any]:
        return lambda item: item.get(key)

    return st.lists(strategy, max_size=most, unique_by=tuple(by(key) for key in keys or ("name",)))


def constant(**fields: Any) -> Strategy:
    """A mapping with these values."""
    return st.fixed_dictionaries({name: st.just(value) for name, value in fields.items()})


coin: Strategy = st.booleans()
words = st.dictionaries(pick("a", "example.com/b", "c"), pick("", "x", "y"), min_size=1)
labelled = some(labels=words, annotations=words)
arguments = st.lists(pick("run", "--fast", "x=1", "$(E)", "a b"), min_size=1, max_size=3)
cpu = pick(1, 2, 2.0, "1", "2.0", "500m", "1500m", "2k")
memory = pick("1Gi", "512Mi", "1000M", 1073741824)
gpu = pick(1, 2.0, "4")
amounts = st.fixed_dictionaries({}, optional={"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu})
resources = some(requests=amounts, limits=amounts)
env_name = pick("A", "B", "E", "NCCL_DEBUG", "PATH", "Z_LAST")
plain_env = distinct(st.fixed_dictionaries({"name": env_name, "value": pick("", "1", "$(A)/x")}))
env = distinct(
    st.builds(lambda name, value: {"name": name, **value}, env_name, pick({"value": "v"}, {}, FIELD, SECRET))
)
port = st.fixed_dictionaries({"containerPort": pick(80, 8080, 29500)}, optional={"name": pick("p", "q")})
mount = st.fixed_dictionaries(
    {"name": pick("scratch", "more"), "mountPath": pick("/a", "/workspace", "/x/y")},
    optional={"readOnly": st.booleans(), "subPath": st.just("s")},
)
mounts = distinct(mount, "mountPath", most=2)
security = some(runAsUser=st.just(1), capabilities=st.just({"add": ["IPC_LOCK"]}))
toleration = some(key=st.just("k"), operator=pick("Exists"), effect=pick("NoSchedule"))
affinity = st.just(
    {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
                ]
            }
        }
    }
)
volumes = st.just([{"name": "scratch", "emptyDir": {}}, {"name": "more", "emptyDir": {"medium": "Memory"}}])


def container(name: str, environment: Strategy = env) -> Strategy:
    """A container of this name."""
    return st.fixed_dictionaries(
        {"name": st.just(name), "image": pick("img", "registry.example/img:1")},
        optional={
            "command": arguments,
            "args": arguments,
            "env": environment,
            "ports": distinct(port, "containerPort", "name", most=2),
            "resources": resources,
            "securityContext": security,
            "volumeMounts": mounts,
        },
    )


def replicated_job(name: str, ancestor: str | None, *containers: Strategy, **fields: Strategy) -> Strategy:
    """A ReplicatedJob whose template is the given step of a TrainJob (None: no step)."""
    metadata = {"labels": st.just({ANCESTOR: ancestor})} if ancestor else {}
    pod = st.fixed_dictionaries(
        {"containers": st.tuples(*containers).map(list), "volumes": volumes},
        optional={
            "nodeSelector": words,
            "tolerations": st.lists(toleration, max_size=2),
            "affinity": affinity,
        },
    )
    template = st.fixed_dictionaries({"spec": pod}, optional={"metadata": labelled})
    job = st.fixed_dictionaries({"template": template}, optional={"backoffLimit": pick(0, 3)})
    whole = {"spec": job} | ({"metadata": st.fixed_dictionaries(metadata)} if metadata else {})
    return st.fixed_dictionaries(
        {"name": st.just(name), "template": st.fixed_dictionaries(whole), **fields},
        optional={"groupName": st.just("g")},
    )


node = replicated_job("node", "trainer", container("sidecar", plain_env), container("node"))
initializers = st.tuples(
    replicated_job("dataset-initializer", "dataset-initializer", container("dataset-initializer")),
    replicated_job("model-initializer", "model-initializer", container("model-initializer")),
)
of_one_job = st.one_of(
    st.tuples(node).map(list), st.builds(lambda before, job: [*before, job], initializers, node)
)
of_mpi = st.tuples(
    replicated_job("node", None, container("node")),
    replicated_job("launcher", "trainer", container("node")),
).map(list)
injected = constant(envInjection={"targets": [{"jobName": "node", "containerNames": ["sidecar"]}]})
policies = {
    "plain": st.just({}),
    "torch": st.fixed_dictionaries({"torch": st.one_of(st.just({}), injected)}),
    "jax": constant(jax={}),
    "xgboost": constant(xgboost={}),
    "mpi": st.fixed_dictionaries(
        {"mpi": some(numProcPerNode=pick(1, 2), runLauncherAsNode=st.booleans(), sshAuthMountPath=pick("/s"))}
    ),
}
gangs = st.one_of(
    st.fixed_dictionaries({"coscheduling": some(scheduleTimeoutSeconds=pick(1, 90))}),
    st.fixed_dictionaries({"volcano": some(networkTopology=some(mode=pick("hard", "soft")))}),
)


@st.composite
def runtimes(draw: st.DrawFn) -> dict[str, Any]:
    """Spec of a runtime."""
    framework = draw(pick(*policies))
    policy = {**draw(policies[framework]), **draw(some(numNodes=pick(1, 2, 3)))}
    jobset = {
        "replicatedJobs": draw(of_mpi if framework == "mpi" else of_one_job),
        **draw(
            some(
                failurePolicy=st.just({"maxRestarts": 3}),
                network=st.just({"publishNotReadyAddresses": True}),
                ttlSecondsAfterFinished=pick(0, 60),
            )
        ),
    }
    metadata = draw(some(metadata=labelled))
    gang = draw(some(podGroupPolicy=gangs))
    ml = {"mlPolicy": policy} if policy or draw(coin) else {}
    return {**ml, **gang, "template": {**metadata, "spec": jobset}}


initializer = some(
    storageUri=pick("hf://a/b", "s3://bucket/x"), env=plain_env, secretRef=st.just({"name": "s"})
)


def patched_container(name: str, **fields: Strategy) -> Strategy:
    """The patch of a container of this name."""
    return st.fixed_dictionaries({"name": st.just(name)}, optional=fields)


patched_pod = some(
    affinity=affinity,
    containers=st.tuples(
        patched_container("node", volumeMounts=distinct(mount, "name", "mountPath", most=2)),
        patched_container("sidecar", env=plain_env, securityContext=security),
    ).map(list),
    imagePullSecrets=st.just([{"name": "pull"}]),
    nodeSelector=words,
    schedulingGates=st.just([{"name": "example.com/gate"}]),
    securityContext=constant(fsGroup=7),
    serviceAccountName=st.just("sa"),
    terminationGracePeriodSeconds=pick(0, 5),
    tolerations=st.lists(toleration, max_size=2),
    volumes=st.just([{"name": "patched", "emptyDir": {}}]),
)


def holding(name: str, strategy: Strategy, **optional: Strategy) -> Strategy:
    """A mapping with this field, and some others."""
    return st.fixed_dictionaries({name: strategy}, optional=optional)


patched_template = holding("template", holding("spec", patched_pod, metadata=labelled))
patched_job = st.fixed_dictionaries(
    {"name": st.just("node"), "template": holding("spec", patched_template, metadata=labelled)}
)
patched_jobset = holding(
    "spec", holding("replicatedJobs", st.tuples(patched_job).map(list)), metadata=labelled
)
patch = st.fixed_dictionaries(
    {"manager": pick("a.io/x", "b.io/y"), "trainingRuntimeSpec": holding("template", patched_jobset)}
)
trainer = some(
    args=arguments,
    command=arguments,
    env=env,
    image=pick("mine"),
    numNodes=pick(1, 2, 5),
    numProcPerNode=pick(1, 2, 8),
    resourcesPerNode=resources,
)
tuned = st.fixed_dictionaries(
    {"command": st.just(["tune", "run"])},
    optional={
        "args": st.lists(
            pick(
                "epochs=1", "model.lora_attn_modules=[q]", "model.quantize_base=True", "model.use_dora=True"
            ),
            unique=True,
        ),
        "numProcPerNode": pick(1, 2),
        "resourcesPerNode": resources,
    },
)


@st.composite
def trainjobs(draw: st.DrawFn, runtime: str) -> dict[str, Any]:
    """Spec of a TrainJob of the runtime named, less its `runtimeRef`."""
    whole: dict[str, Strategy] = {"suspend": st.booleans(), "activeDeadlineSeconds": st.just(3600)}
    if not runtime or runtime.startswith("torchtune"):
        whole["initializer"] = some(dataset=initializer, model=initializer)
    often = {
        "runtimePatches": distinct(patch, "manager", most=2),
        "trainer": st.one_of(trainer, tuned) if runtime.startswith("torchtune") else trainer,
    }
    chosen = {name: field for name, field in often.items() if draw(pick(True, True, True, False))}
    return dict(draw(st.fixed_dictionaries(chosen, optional=whole)))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """A runtime, or the name of one of the corpus, and a TrainJob."""
    of_the_corpus = draw(st.one_of(st.just(""), st.just(""), pick(*CORPUS)))
    runtime = of_the_corpus or draw(runtimes())
    return runtime, draw(trainjobs(of_the_corpus))


def drawn(number: int) -> Any:
    """The pair of this number."""
    return drawn_of(pairs(), number)


def drawn_of(strategy: Strategy, number: int) -> Any:
    """What is drawn for this number. Hypothesis starts with what is simplest; the last of a few is not."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=8,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found[-1]
