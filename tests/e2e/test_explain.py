"""Each cause is made for real, and `trainyard explain` names it within 10 s of its being there."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard_cli import explain

from .cluster import Cluster, Object, eventually
from .test_life import unchecked

pytestmark = pytest.mark.sandbox

JOB = "job"
WITHIN = 10.0
"""Seconds after which a cause that is there must be named."""
IMAGE = "docker.io/trainyard/torch-cpu:sandbox"
GHOST = "ghost"
GHOST_TAINT = {"key": "haunted", "value": "true", "effect": "NoSchedule"}
LABEL = "trainyard.dev/explained"


def runtime(pod: Object | None = None, container: Object | None = None, retries: int = 0) -> Object:
    """A namespace's own runtime, its pods and their container with these fields."""
    node = {"name": "node", "image": IMAGE, "imagePullPolicy": "IfNotPresent", **(container or {})}
    spec = {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", **(pod or {}), "containers": [node]}
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"backoffLimit": retries, "template": {"spec": spec}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "own", "labels": {"trainer.kubeflow.org/framework": "plain"}},
        "spec": {
            "mlPolicy": {"numNodes": 1},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}},
        },
    }


def trainjob(script: str = "sleep 600", nodes: int = 1, **spec: Any) -> Object:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": JOB},
        "spec": {
            "runtimeRef": {"kind": "TrainingRuntime", "name": "own"},
            "trainer": {"numNodes": nodes, "command": ["sh", "-c", script]},
            **spec,
        },
    }


def quota(name: str, **hard: str) -> Object:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}


def claim(name: str, storage_class: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }


def volume(**source: Any) -> tuple[Object, Object]:
    """The fields of a pod and its container that mount it."""
    return (
        {"volumes": [{"name": "v", **source}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    )


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": JOB}},
            }
        ]
    }
}


@dataclass(frozen=True)
class Case:
    """A cause: what makes it, by what in the cluster it is seen to be there, and what is said of it."""

    id: str
    state: str
    cause: str | None
    evidence: str
    """A pattern in what the namespace holds."""
    object: str = ""
    message: str = ""
    next_step: str = ""
    ranks: tuple[int, ...] = ()
    log: tuple[str, ...] = ()
    trainjob: Object = field(default_factory=trainjob)
    runtime: Object | None = field(default_factory=runtime)
    beside: tuple[Object, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    """Of the namespace."""

    @property
    def namespace(self) -> str:
        return f"explain-{self.id}"


POD = r"Pod {ns}/job-node-0-0-\w+"
CASES = (
    Case(
        "complete",
        "Complete",
        None,
        r'"type": "Complete"',
        trainjob=trainjob("true"),
    ),
    Case("running", "Running", None, r'"phase": "Running"'),
    Case(
        "runtime",
        "Held",
        "RuntimeNotFound",
        r'"reason": "RuntimeNotFound"',
        "TrainingRuntime {ns}/own",
        r'TrainingRuntime "own" is not found',
        r"create it, or create the TrainJob again with another runtimeRef",
        runtime=None,
    ),
    Case(
        "policy",
        "Held",
        "JobSetRejected",
        r"no JobSets here",
        "TrainJob {ns}/job",
        r".*no JobSets here.*",
        r".*",
        labels={LABEL: "no-jobsets"},
    ),
    Case(
        "suspended",
        "Held",
        "Suspended",
        r'"type": "Suspended"',
        "TrainJob {ns}/job",
        r"spec\.suspend is true",
        r"resume it: kubectl patch trainjob job -n {ns} --type=merge -p '\{\"spec\":\{\"suspend\":false\}\}'",
        trainjob=trainjob(suspend=True),
    ),
    Case(
        "elsewhere",
        "Held",
        "ManagedElsewhere",
        r'"kind": "TrainJob"',
        "TrainJob {ns}/job",
        r"spec\.managedBy is kueue\.x-k8s\.io/multikueue",
        r"ask where kueue\.x-k8s\.io/multikueue runs it; .*",
        trainjob=trainjob(managedBy="kueue.x-k8s.io/multikueue"),
    ),
    Case(
        "deadline",
        "Failed",
        "DeadlineExceeded",
        r'"reason": "DeadlineExceeded"',
        "TrainJob {ns}/job",
        r"TrainJob exceeded its active deadline of 2 s",
        r"create it again with a larger activeDeadlineSeconds \(2\)",
        trainjob=trainjob(activeDeadlineSeconds=2),
    ),
    Case(
        "quota",
        "Held",
        "PodsOverQuota",
        r"exceeded quota: small",
        "ResourceQuota {ns}/small",
        r"Job job-node-0: pods .* is forbidden: exceeded quota: small, requested: pods=1, .*limited: pods=0",
        r"wait for other jobs to end, ask for less, or have ResourceQuota small raised",
        beside=(quota("small", pods="0"),),
    ),
    Case(
        "pod-security",
        "Held",
        "PodsRefused",
        r"violates PodSecurity",
        "Job {ns}/job-node-0",
        r"pods .* is forbidden: violates PodSecurity .*",
        r"correct what the message names .*",
        labels={"pod-security.kubernetes.io/enforce": "restricted"},
    ),
    Case(
        "claim",
        "Held",
        "VolumeClaimPending",
        r"unbound immediate PersistentVolumeClaims",
        "PersistentVolumeClaim {ns}/data",
        r'Pod job-node-0-0-\w+ waits for it: storageclass.storage.k8s.io "nowhere" not found',
        r"see that StorageClass nowhere exists .*: kubectl describe pvc data -n {ns}",
        runtime=runtime(*volume(persistentVolumeClaim={"claimName": "data"})),
        beside=(claim("data", "nowhere"),),
    ),
    Case(
        "no-claim",
        "Held",
        "VolumeClaimMissing",
        r'persistentvolumeclaim \\"data\\" not found',
        "PersistentVolumeClaim {ns}/data",
        r"Pod job-node-0-0-\w+ needs it, and it does not exist",
        r"create PersistentVolumeClaim data, or correct the name",
        runtime=runtime(*volume(persistentVolumeClaim={"claimName": "data"})),
    ),
    Case(
        "resource",
        "Held",
        "NoNodeFits",
        r"Insufficient cpu",
        POD,
        r"0/2 nodes are available: .*Insufficient cpu.* "
        r"\(the pod asks for cpu 64, and no node has more than \d+.*\)",
        r"ask for what nodes have \(resourcesPerNode, nodeSelector, tolerations\), or have such a node added",
        trainjob={
            **trainjob(),
            "spec": {
                **trainjob()["spec"],
                "trainer": {"numNodes": 1, "resourcesPerNode": {"requests": {"cpu": "64"}}},
            },
        },
        runtime=runtime({"tolerations": [{"operator": "Exists"}]}),
    ),
    Case(
        "selector",
        "Held",
        "NoNodeFits",
        r"didn't match Pod's node affinity/selector",
        POD,
        r".*\(.*no node has the label disk=ssd\)",
        r"ask for what nodes have .*",
        runtime=runtime({"nodeSelector": {"disk": "ssd"}}),
    ),
    Case(
        "taint",
        "Held",
        "NoNodeFits",
        r"untolerated taint",
        POD,
        r".*\(node ghost has the taint .*haunted=true:NoSchedule.*\)",
        r"ask for what nodes have .*",
        runtime=runtime({"nodeSelector": {LABEL: GHOST}}),
    ),
    Case(
        "rank-unscheduled",
        "Held",
        "NoNodeFits",
        r"didn't match pod anti-affinity rules",
        r"Pod {ns}/job-node-0-[01]-\w+",
        r".*didn't match pod anti-affinity rules.*",
        r"ask for what nodes have .*",
        ranks=(0, 1),
        trainjob=trainjob(nodes=2),
        runtime=runtime({"affinity": APART}),
    ),
    Case(
        "image",
        "Held",
        "ImageNotPulled",
        r"ErrImagePull|ImagePullBackOff",
        POD,
        r"image registry\.invalid/none:1 cannot be pulled: (ErrImagePull|ImagePullBackOff): .*",
        r"correct the image registry\.invalid/none:1, or give the pods a pull secret for its registry",
        runtime=runtime(container={"image": "registry.invalid/none:1"}),
    ),
    Case(
        "secret",
        "Held",
        "SecretMissing",
        r"CreateContainerConfigError",
        "Secret {ns}/token",
        r'Pod job-node-0-0-\w+: secret "token" not found',
        r"create Secret token, or correct the name",
        runtime=runtime(container={"envFrom": [{"secretRef": {"name": "token"}}]}),
    ),
    Case(
        "secret-volume",
        "Held",
        "SecretMissing",
        r"FailedMount",
        "Secret {ns}/token",
        r'Pod job-node-0-0-\w+: MountVolume\.SetUp failed for volume "v" : secret "token" not found',
        r"create Secret token, or correct the name",
        runtime=runtime(*volume(secret={"secretName": "token"})),
    ),
    Case(
        "config",
        "Held",
        "ConfigMissing",
        r"CreateContainerConfigError",
        POD,
        r'container node: configmap "settings" not found',
        r"create what the message names, or correct the name",
        runtime=runtime(container={"envFrom": [{"configMapRef": {"name": "settings"}}]}),
    ),
    Case(
        "volume",
        "Held",
        "VolumeNotMounted",
        r"FailedMount",
        POD,
        r'MountVolume\.SetUp failed for volume "v" : .*',
        r"correct what the message names, .*",
        runtime=runtime(*volume(hostPath={"path": "/nowhere", "type": "Directory"})),
    ),
    Case(
        "command",
        "Failed",
        "ContainerCannotStart",
        r"StartError",
        POD,
        r"container node: .*no-such-command.*",
        r"correct command, working directory or mounts of container node",
        trainjob={
            **trainjob(),
            "spec": {**trainjob()["spec"], "trainer": {"numNodes": 1, "command": ["no-such-command"]}},
        },
    ),
    Case(
        "oom",
        "Failed",
        "OOMKilled",
        r"OOMKilled",
        POD,
        r"container node used more than its memory limit \(64Mi\)",
        r"raise the memory limit \(64Mi\) in resourcesPerNode, or use less",
        log=("filling",),
        trainjob=trainjob("echo filling; exec python3 -c 'b = bytearray(10**9)'"),
        runtime=runtime(container={"resources": {"limits": {"memory": "64Mi"}}}),
    ),
    Case(
        "exits",
        "Failed",
        "ContainerExited",
        r'"exitCode": 3',
        POD,
        r"container node exited with code 3",
        r"see its log: kubectl logs job-node-0-0-\w+ -c node -n {ns}",
        log=("Traceback:", "  in train", "lost"),
        trainjob=trainjob(r"echo Traceback:; echo '  in train'; printf '\033[31mlost\033[0m\n'; exit 3"),
    ),
    Case(
        "crash-loop",
        "Held",
        "ContainerExited",
        r"CrashLoopBackOff",
        POD,
        r"container node exited with code 4, after \d restarts",
        r"see its log: .*",
        log=("again",),
        trainjob=trainjob("echo again; exit 4"),
        runtime=runtime({"restartPolicy": "OnFailure"}, retries=6),
    ),
    Case(
        "rank-unready",
        "Held",
        "RankMissing",
        r"Readiness probe failed",
        r"Pod {ns}/job-node-0-1-\w+",
        r"rank 1 of 2 is Running and not Ready: Readiness probe failed: .*",
        r"look at pod job-node-0-1-\w+: kubectl describe pod job-node-0-1-\w+ -n {ns}",
        ranks=(1,),
        trainjob=trainjob(nodes=2),
        runtime=runtime(
            container={
                "readinessProbe": {
                    "periodSeconds": 1,
                    "exec": {
                        "command": [
                            "sh",
                            "-c",
                            'test "$JOB_COMPLETION_INDEX" = 0 || { echo not yet; false; }',
                        ]
                    },
                }
            }
        ),
    ),
    Case(
        "node",
        "Held",
        "NodeLost",
        r'"nodeName": "ghost"',
        "Node ghost",
        r"it is not Ready: .*; on it: job-node-0-0-\w+",
        r"wait for it to come back or for its pods to be replaced; .*",
        runtime=runtime({"nodeSelector": {LABEL: GHOST}, "tolerations": [{"operator": "Exists"}]}),
    ),
)


@dataclass
class Answer:
    """What was said last, and whether it was in time."""

    code: int
    document: Object
    late: bool = False


def ask(platform: Cluster, namespace: str, *, kubeconfig: Path | None = None) -> Answer:
    """What the command says, in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = explain.run(
        JOB,
        namespace=namespace,
        kubeconfig=str(kubeconfig or platform.sandbox.instance.kubeconfig),
        output=explain.Output.JSON,
        out=out,
        err=err,
    )
    assert code in (0, 1), err.getvalue()
    return Answer(code, json.loads(out.getvalue()))


def held(platform: Cluster) -> dict[str, str]:
    """What each namespace holds, as text."""
    kinds = "trainjobs,jobs,pods,persistentvolumeclaims,events"
    found: dict[str, list[str]] = {}
    for item in json.loads(platform.kubectl("get", kinds, "--all-namespaces", "-o", "json"))["items"]:
        item["metadata"].pop("managedFields", None)
        found.setdefault(item["metadata"]["namespace"], []).append(json.dumps(item, ensure_ascii=False))
    return {namespace: "\n".join(texts) for namespace, texts in found.items()}


@contextmanager
def ghost(platform: Cluster) -> Iterator[None]:
    """A node without a kubelet, that was ready for a moment."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": GHOST, "labels": {LABEL: GHOST}},
        "spec": {"taints": [GHOST_TAINT]},
    }
    platform.apply(node)
    status = {
        "status": {
            "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"},
            "capacity": {"cpu": "1", "memory": "1Gi", "pods": "10"},
        }
    }
    platform.kubectl("patch", "node", GHOST, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    try:
        yield
    finally:
        platform.kubectl("delete", "node", GHOST, "--wait=false")


@contextmanager
def no_jobsets(platform: Cluster) -> Iterator[None]:
    """An admission policy refuses the JobSets of namespaces with a label."""
    group = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rule = {
        "apiGroups": ["jobset.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["jobsets"],
    }
    selector = {"namespaceSelector": {"matchLabels": {LABEL: "no-jobsets"}}}
    policy = {
        **group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-jobsets"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "no JobSets here"}],
        },
    }
    binding = {
        **group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-jobsets"},
        "spec": {"policyName": "no-jobsets", "validationActions": ["Deny"], "matchResources": selector},
    }
    platform.apply(policy, binding)
    try:
        yield
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            platform.kubectl("delete", kind, "no-jobsets")


def made(case: Case, *, trainjobs: bool) -> list[Object]:
    objects = [case.trainjob] if trainjobs else [*case.beside, *([case.runtime] if case.runtime else [])]
    return [{**found, "metadata": {**found["metadata"], "namespace": case.namespace}} for found in objects]


@pytest.fixture(scope="module")
def answers(platform: Cluster) -> Iterator[dict[str, Answer]]:
    """What is said of each cause: as soon as it is named, or once it has been there for `WITHIN`."""
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": c.namespace, "labels": c.labels}}
        for c in CASES
    ]
    try:
        with ghost(platform), no_jobsets(platform):
            platform.apply(*namespaces)
            platform.apply(*(found for case in CASES for found in made(case, trainjobs=False)))
            [missing] = [case for case in CASES if case.runtime is None]
            probe = {**missing.trainjob, "metadata": {"name": "probe", "namespace": missing.namespace}}
            with unchecked(platform, probe):
                platform.apply(*(found for case in CASES for found in made(case, trainjobs=True)))
            yield collected(platform)
    finally:
        names = [case.namespace for case in CASES]
        platform.kubectl("delete", "namespaces", *names, "--wait=false", "--ignore-not-found")


def collected(platform: Cluster, timeout: float = 180) -> dict[str, Answer]:
    there: dict[str, float] = {}
    answers: dict[str, Answer] = {}
    open_cases = {case.id: case for case in CASES}
    deadline = time.monotonic() + timeout
    while open_cases and time.monotonic() < deadline:
        texts = held(platform)
        for case in list(open_cases.values()):
            if case.id not in there and re.search(case.evidence, texts.get(case.namespace, "")):
                there[case.id] = time.monotonic()
            asked = time.monotonic()
            answer = answers[case.id] = ask(platform, case.namespace)
            finding = answer.document["finding"] or {}
            named = (answer.document["state"], finding.get("cause")) == (case.state, case.cause)
            answer.late = asked - there.get(case.id, asked) > WITHIN
            if (named and case.id in there) or answer.late:
                del open_cases[case.id]
    never = {case.id: answers[case.id].document["answer"] for case in CASES if case.id not in there}
    assert never == {}, "these causes have not come about"
    return answers


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_cause_is_named_within_ten_seconds_with_its_object_and_the_next_step(
    case: Case, answers: dict[str, Answer]
) -> None:
    answer = answers[case.id]
    found = answer.document["finding"] or {}
    shown = f"{answer.document['answer']}\n{json.dumps(found, indent=2)}"
    assert (answer.document["state"], found.get("cause")) == (case.state, case.cause), shown
    assert answer.code == (1 if case.cause else 0)
    if not found:
        return
    place = found["object"]["namespace"]
    named = f"{found['object']['kind']} {place + '/' if place else ''}{found['object']['name']}"
    for pattern, said in (
        (case.object, named),
        (case.message, found["message"]),
        (case.next_step, found["nextStep"]),
    ):
        assert re.fullmatch(pattern.replace("{ns}", case.namespace), said), shown
    if case.id == "rank-unscheduled":
        assert len(found["ranks"]) == 1, shown
    else:
        assert tuple(found["ranks"]) == case.ranks, shown
    assert tuple(found["log"]) == case.log, shown


def asker(platform: Cluster, namespace: str, folder: Path, *resources: str) -> Path:
    """A kubeconfig of somebody who may get and list these resources of the namespace, and nothing else."""
    platform.kubectl("create", "serviceaccount", "asker", "-n", namespace)
    rights = [f"--resource={resource}" for resource in resources]
    platform.kubectl("create", "role", "asker", "-n", namespace, "--verb=get,list", *rights)
    who = f"--serviceaccount={namespace}:asker"
    platform.kubectl("create", "rolebinding", "asker", "-n", namespace, "--role=asker", who)
    token = platform.kubectl("create", "token", "asker", "-n", namespace).strip()
    config = yaml.safe_load(platform.sandbox.instance.kubeconfig.read_text())
    [context] = [c for c in config["contexts"] if c["name"] == config["current-context"]]
    context["context"] |= {"namespace": namespace, "user": "asker"}
    config["users"] = [{"name": "asker", "user": {"token": token}}]
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def test_what_the_asker_may_not_see_is_said_and_the_cause_named_all_the_same(
    platform: Cluster, answers: dict[str, Answer], tmp_path: Path
) -> None:
    rights = ("trainjobs.trainer.kubeflow.org", "pods", "jobs.batch")
    kubeconfig = asker(platform, "explain-resource", tmp_path, *rights)
    answer = platform.run("trainyard", "explain", JOB, "--kubeconfig", str(kubeconfig), check=False)
    assert (answer.returncode, answer.stderr) == (1, "")
    first, *rest = answer.stdout.splitlines()
    assert re.fullmatch(
        r"TrainJob explain-resource/job is held up: NoNodeFits: 0/2 nodes are available: "
        r".*Insufficient cpu.* \(the pod asks for cpu 64\)",
        first,
    )
    unseen = {
        "runtime": "get trainingruntimes.trainer.kubeflow.org",
        "JobSet": "get jobsets.jobset.x-k8s.io",
        "PersistentVolumeClaims": "list persistentvolumeclaims",
        "events": "list events",
        "nodes": "list nodes",
    }
    said = [line for line in rest if line.startswith("Could not see")]
    assert said == [f"Could not see the {what}: you are not allowed to {why}" for what, why in unseen.items()]
    refused = platform.run(
        "trainyard", "explain", JOB, "-n", "default", "--kubeconfig", str(kubeconfig),
        check=False,
    )  # fmt: skip
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "403 Forbidden" in refused.stderr


def test_a_job_that_is_not_there_cannot_be_asked_about(platform: Cluster) -> None:
    answer = platform.run("trainyard", "explain", "nobody", "-n", "default", check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "TrainJob nobody is not found: namespace default has none\n"


@contextmanager
def scaled_down(platform: Cluster, namespace: str, deployment: str) -> Iterator[None]:
    """Nothing of the deployment runs."""
    place = (f"deployment/{deployment}", "-n", namespace)

    def pods() -> list[Object]:
        text = platform.kubectl("get", "pods", "-n", namespace, "-o", "json")
        return [p for p in json.loads(text)["items"] if p["metadata"]["name"].startswith(deployment)]

    platform.kubectl("scale", *place, "--replicas=0")
    try:
        eventually(f"{deployment} is gone", lambda: not pods())
        yield
    finally:
        platform.kubectl("scale", *place, "--replicas=1")
        platform.kubectl("wait", *place, "--for=condition=Available", "--timeout=180s")


@contextmanager
def namespace(platform: Cluster, name: str) -> Iterator[str]:
    platform.kubectl("create", "namespace", name)
    try:
        yield name
    finally:
        platform.kubectl("delete", "namespace", name, "--wait=false")


def created(platform: Cluster, place: str, *manifests: Object) -> float:
    """Create the objects in the namespace; returns when they were there."""
    platform.apply(*({**m, "metadata": {**m["metadata"], "namespace": place}} for m in manifests))
    return time.monotonic()


def first_cause(platform: Cluster, place: str, kubeconfig: Path | None = None) -> str | None:
    finding = ask(platform, place, kubeconfig=kubeconfig).document["finding"]
    return finding and str(finding["cause"])


def test_a_jobset_controller_that_is_down_is_named_and_seen_by_its_absence_without_rights(
    platform: Cluster, tmp_path: Path
) -> None:
    with namespace(platform, "explain-jobset-down") as place:
        rights = ("trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io", "pods", "jobs.batch")
        kubeconfig = asker(platform, place, tmp_path, *rights)
        with scaled_down(platform, "jobset-system", "jobset-controller"):
            since = created(platform, place, runtime(), trainjob("true"))
            assert first_cause(platform, place) == "JobSetControllerDown"
            finding = ask(platform, place).document["finding"]
            assert finding["object"] == {
                "kind": "Deployment",
                "name": "jobset-controller",
                "namespace": "jobset-system",
            }
            assert finding["message"] == "no pod of it is available, of 0 wanted"
            named = eventually(
                "it is missed", lambda: first_cause(platform, place, kubeconfig) == "JobSetNotCreated"
            )
            assert named
            assert time.monotonic() - since < WITHIN
        eventually("it completes", lambda: ask(platform, place).document["state"] == "Complete")


def test_an_operator_that_is_down_is_named(platform: Cluster) -> None:
    with namespace(platform, "explain-operator-down") as place:
        created(platform, place, runtime(), trainjob(suspend=True))
        eventually("it is suspended", lambda: first_cause(platform, place) == "Suspended")
        eventually(
            "its JobSet", lambda: "job" in platform.kubectl("get", "jobsets", "-n", place, "-o", "name")
        )
        with scaled_down(platform, "trainyard-system", "trainyard-operator"):
            assert first_cause(platform, place) == "Suspended"
            platform.kubectl("delete", "jobset", JOB, "-n", place)
            finding = ask(platform, place).document["finding"]
            assert (finding["cause"], finding["object"]) == (
                "OperatorNotRunning",
                {"kind": "Lease", "name": "trainyard-operator", "namespace": "trainyard-system"},
            )
            assert re.fullmatch(r"nobody holds it; it was renewed \d+ s ago", finding["message"])
