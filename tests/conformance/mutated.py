"""Manifests that Hypothesis has made of the good ones, near what the rules in CEL look at."""

from hypothesis import strategies as st

from tests.support.generated import pick, some
from tests.support.rule_examples import changed

_JOB = "spec.template.spec.replicatedJobs[0]"
_PATCH = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
_STEP = "template.metadata.labels[trainer.kubeflow.org/trainjob-ancestor-step]"

hosts = pick(
    "", "docker.io/", "ghcr.io/", "ghcr.io/kubeflow/", "localhost/", "a.b:5000/", "x/", "nvcr.io/nvidia/"
)
names = pick("train", "a/b", "kubeflow", "library/python", "pytorch/pytorch", "kubeflowx/train")
tags = pick("", ":1", ":latest", ":v1.0", ":latest-gpu")
digests = pick("", "@sha256:" + "0" * 64)
images = st.builds(lambda *parts: "".join(parts), hosts, names, tags, digests)
counts = st.one_of(st.integers(0, 3), pick(9_999, 10_000, 10_001, 2**31 - 1))
cpus = pick(0, 1, 4, "100m", "4096", "4096001m", "5k", "4.096k", 4097)
memories = pick("1Gi", "0", "128Ti", "131073Gi", "1e15", "200Ti", "1Mi", "137438953472Ki")
devices = pick(0, 1, "1", "8", "1000m", "2")
amounts = st.fixed_dictionaries(
    {}, optional={"cpu": cpus, "memory": memories, "nvidia.com/gpu": devices, "amd.com/gpu": devices}
)
resources = some(requests=amounts, limits=amounts)
truth = st.booleans()
capabilities = some(
    add=st.lists(pick("IPC_LOCK", "SYS_ADMIN"), max_size=2, unique=True), drop=pick(["ALL"], [])
)
seccomp = st.fixed_dictionaries({"type": pick("Unconfined", "RuntimeDefault")})
security = some(
    runAsNonRoot=truth,
    runAsUser=pick(0, 1, 1000),
    privileged=truth,
    allowPrivilegeEscalation=truth,
    procMount=pick("Default", "Unmasked"),
    capabilities=capabilities,
    seccompProfile=seccomp,
)
pod_security = some(runAsNonRoot=truth, runAsUser=pick(0, 1000), seccompProfile=seccomp)
ports = st.lists(
    st.fixed_dictionaries({"containerPort": st.integers(1, 9)}, optional={"hostPort": pick(0, 80)}),
    max_size=2,
    unique_by=lambda port: port["containerPort"],
)
volumes = st.lists(
    st.builds(
        lambda name, source: {"name": name, **source},
        pick("a", "b", "scratch"),
        pick({"emptyDir": {}}, {"hostPath": {"path": "/"}}),
    ),
    max_size=2,
    unique_by=lambda volume: volume["name"],
)
containers = st.lists(
    st.builds(
        lambda name, image, rest: {"name": name, "image": image, **rest},
        pick("one", "two"),
        images,
        some(resources=resources, securityContext=security, ports=ports),
    ),
    max_size=2,
    unique_by=lambda container: container["name"],
)


def _pod(job, **more):
    pod = f"{job}.template.spec.template.spec"
    return {
        f"{pod}.hostNetwork": truth,
        f"{pod}.hostPID": truth,
        f"{pod}.volumes": volumes,
        f"{pod}.initContainers": containers,
        f"{pod}.automountServiceAccountToken": truth,
        f"{pod}.securityContext": pod_security,
        f"{pod}.containers[0].resources": resources,
        f"{pod}.containers[0].securityContext": security,
        f"{pod}.containers[0].image": images,
        f"{pod}.containers[0].ports": ports,
        f"{pod}.containers[0].name": pick("node", "other"),
        f"{pod}.restartPolicy": pick("Always", "Never", "OnFailure"),
        f"{pod}.priorityClassName": pick("system-node-critical", "system", "high", ""),
        f"{job}.replicas": pick(0, 1, 2),
        f"{job}.{_STEP}": pick("trainer", "dataset-initializer", None, "x"),
        **more,
    }


_RUNTIME = _pod(
    _JOB,
    **{
        "metadata.labels[trainer.kubeflow.org/framework]": pick("torch", "Torch", "", None, "a.b-c", "-a"),
        "metadata.labels": pick(None, {}),
        "spec.mlPolicy.numNodes": counts,
        "spec.mlPolicy.mpi": some(numProcPerNode=counts),
        "kind": pick("TrainingRuntime"),
    },
)
_ENTRIES = f"{_PATCH}.template.spec.template.spec"
_TRAINJOB = {
    f"{_ENTRIES}.volumes": volumes,
    f"{_ENTRIES}.initContainers": st.lists(
        some(securityContext=security).map(lambda rest: {"name": "one", **rest}), max_size=1
    ),
    f"{_ENTRIES}.securityContext": pod_security,
    f"{_ENTRIES}.containers[0].securityContext": security,
    "spec.trainer.image": images,
    "spec.trainer.numNodes": counts,
    "spec.trainer.numProcPerNode": counts,
    "spec.trainer.resourcesPerNode": resources,
    "spec.trainer": pick(None, {}),
    "spec.runtimePatches": pick(None, []),
}


@st.composite
def manifests(draw):
    """A good manifest with up to three fields set to something else."""
    name = draw(pick("runtime", "launched", "initialized", "trainjob"))
    fields = _TRAINJOB if name == "trainjob" else _RUNTIME
    paths = draw(st.lists(pick(*fields), min_size=1, max_size=3, unique=True))
    return changed(name, {path: draw(fields[path]) for path in paths})
