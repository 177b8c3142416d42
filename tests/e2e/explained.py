"""What makes each cause that `trainyard explain` names, and what is to be said of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support import cluster
from tests.support.cluster import Object

JOB = "job"
GHOST = "ghost"
LABEL = "trainyard.dev/explained"


def runtime(pod: Object | None = None, container: Object | None = None, retries: int = 0) -> Object:
    """A namespace's own runtime, its pods and their container with these fields."""
    return cluster.runtime(
        "own",
        kind="TrainingRuntime",
        job={"backoffLimit": retries},
        pod={"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", **(pod or {})},
        container=container,
    )


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
    ranks: str = r"\[\]"
    log: tuple[str, ...] = ()
    trainjob: Object = field(default_factory=trainjob)
    runtime: Object | None = field(default_factory=runtime)
    beside: tuple[Object, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    """Of the namespace."""

    @property
    def namespace(self) -> str:
        return f"explain-{self.id}"


TORCH = {"trainer.kubeflow.org/framework": "torch"}
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
        r"look for the TrainJob where kueue\.x-k8s\.io/multikueue runs it\. .*",
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
        r"wait for other jobs to end, request fewer resources, or have ResourceQuota small raised",
        beside=(quota("small", pods="0"),),
    ),
    Case(
        "pod-security",
        "Held",
        "PodsRefused",
        r"violates PodSecurity",
        "Job {ns}/job-node-0",
        r"pods .* is forbidden: violates PodSecurity .*",
        r"have the runtime or the policy corrected: .*",
        labels={"pod-security.kubernetes.io/enforce": "restricted"},
    ),
    Case(
        "claim",
        "Held",
        "VolumeClaimPending",
        r"unbound immediate PersistentVolumeClaims",
        "PersistentVolumeClaim {ns}/data",
        r'Pod job-node-0-0-\w+ waits for it: storageclass.storage.k8s.io "nowhere" not found',
        r"see why \(kubectl describe pvc data -n {ns}\), and have the platform team check that .* nowhere .*",
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
        "device",
        "Held",
        "DeviceNotOffered",
        r"Insufficient example.com/device",
        POD,
        r"it asks for example.com/device, but none of the \d+ nodes on which it can run offers it",
        r"have the platform team check that there are nodes with example.com/device .*",
        runtime=runtime(container={"resources": {"limits": {"example.com/device": "1"}}}),
    ),
    Case(
        "resource",
        "Held",
        "NoNodeFits",
        r"Insufficient ephemeral-storage",
        POD,
        r"0/10 nodes are available: .*Insufficient ephemeral-storage.* "
        r"\(the pod asks for ephemeral-storage 900Ti, and no node has more than \S+.*\)",
        r"change resourcesPerNode, nodeSelector or tolerations so that a node matches, "
        r"or have the platform team add a matching node",
        trainjob={
            **trainjob(),
            "spec": {
                **trainjob()["spec"],
                "trainer": {"numNodes": 1, "resourcesPerNode": {"requests": {"ephemeral-storage": "900Ti"}}},
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
        r"change resourcesPerNode, nodeSelector or tolerations .*",
        runtime=runtime({"nodeSelector": {"disk": "ssd"}}),
    ),
    Case(
        "taint",
        "Held",
        "NoNodeFits",
        r"untolerated taint",
        POD,
        r".*\(node ghost has the taint .*haunted=true:NoSchedule.*\)",
        r"change resourcesPerNode, nodeSelector or tolerations .*",
        runtime=runtime({"nodeSelector": {LABEL: GHOST}}),
    ),
    Case(
        "rank-unscheduled",
        "Held",
        "NoNodeFits",
        r"didn't match pod anti-affinity rules",
        r"Pod {ns}/job-node-0-[01]-\w+",
        r".*didn't match pod anti-affinity rules.*",
        r"change resourcesPerNode, nodeSelector or tolerations .*",
        ranks=r"\[[01]\]",
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
        r"create the object or key that the message names, or correct its name",
        runtime=runtime(container={"envFrom": [{"configMapRef": {"name": "settings"}}]}),
    ),
    Case(
        "volume",
        "Held",
        "VolumeNotMounted",
        r"FailedMount",
        POD,
        r'MountVolume\.SetUp failed for volume "v" : .*',
        r"correct the volume that the message names, .*",
        runtime=runtime(*volume(hostPath={"path": "/nowhere", "type": "Directory"})),
    ),
    Case(
        "command",
        "Failed",
        "ContainerCannotStart",
        r"StartError",
        POD,
        r"container node: .*no-such-command.*",
        r"correct the command, the working directory or the mounts of container node\. .*",
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
        # Of what is killed as its container starts, or with it as it ends, containerd may not hear
        # why, and the kubelet then knows no more than code 137: the container is there before and
        # after, and the kernel kills in it three times.
        trainjob=trainjob(
            "echo filling; exec 2>/dev/null; for i in 1 2 3; do sleep 2; "
            "python3 -c 'b = bytearray(10**9)'; code=$?; done; sleep 5; exit $code"
        ),
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
        "evicted",
        "Failed",
        "Evicted",
        r'"reason": "Evicted"',
        POD,
        r'node \S+: Usage of EmptyDir volume "v" exceeds the limit "1Mi"\. ?',
        r"if the message names memory, .*\. Otherwise, write less to the pod's own disk, .*",
        trainjob=trainjob("head -c 8000000 /dev/zero > /v/full; sleep 600"),
        runtime=runtime(*volume(emptyDir={"sizeLimit": "1Mi"})),
    ),
    Case(
        "sandbox",
        "Held",
        "SandboxNotMade",
        r"FailedCreatePodSandBox|FailedMount",
        POD,
        r".*",
        r"raise a limit that is too small for any container \(memory 1Mi of node\), or .*",
        runtime=runtime(container={"resources": {"limits": {"memory": "1Mi"}}}),
    ),
    Case(
        "rank-left",
        "Held",
        "RankLeft",
        r'"completedIndexes": "0"',
        r"Pod {ns}/job-node-0-1-\w+",
        r"node 0 of 2 ended with exit code 0 .* ago, and 1 still run: .*",
        r"see what the others wait for: kubectl logs job-node-0-1-\w+ -c node -n {ns}",
        trainjob=trainjob('test "$JOB_COMPLETION_INDEX" = 0 || sleep 600', nodes=2),
        runtime={**runtime(), "metadata": {"name": "own", "labels": TORCH}},
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
        r"node 1 of 2 is Running and not Ready: Readiness probe failed: .*",
        r"look at pod job-node-0-1-\w+: kubectl describe pod job-node-0-1-\w+ -n {ns}",
        ranks=r"\[1\]",
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
        r"it is not Ready: .*; pods on it: job-node-0-0-\w+",
        r"wait until Node ghost is Ready or its pods are replaced, .*",
        runtime=runtime({"nodeSelector": {LABEL: GHOST}, "tolerations": [{"operator": "Exists"}]}),
    ),
)
