"""What was seen of a TrainJob of two ranks, for the tests of `explain`: healthy, and each part to replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from trainyard_assist.explain import Observation

Object = dict[str, Any]

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
NAMESPACE = "team"


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata(name: str, seconds: float = 60, **more: Any) -> Object:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-of-{name}",
        "creationTimestamp": ago(seconds),
        **more,
    }


def owned_by(name: str) -> Object:
    return {"ownerReferences": [{"uid": f"uid-of-{name}", "controller": True}]}


def condition(kind: str, reason: str = "", message: str = "", status: str = "True", at: float = 60) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(at),
    }


def trainjob(
    *conditions: Object, seconds: float = 60, more: Mapping[str, Any] | None = None, **spec: Any
) -> Object:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {**metadata("tj", seconds), **(more or {})},
        "spec": {"runtimeRef": {"kind": "ClusterTrainingRuntime", "name": "rt"}, **spec},
        "status": {"conditions": list(conditions)},
    }


QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "research"}}


def gated(by: str) -> Object:
    return {"annotations": {"kueue.x-k8s.io/admission-gated-by": by}}


def jobset(*conditions: Object, seconds: float = 50, owner: str = "tj", **spec: Any) -> Object:
    return {
        "metadata": {**metadata("tj", seconds), **owned_by(owner), "uid": "uid-of-jobset"},
        "spec": spec,
        "status": {"conditions": list(conditions), "restarts": 0},
    }


def job(name: str = "tj-node-0", ranks: int = 2, seconds: float = 40, **status: Any) -> Object:
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    return {
        "metadata": metadata(name, seconds, labels=labels),
        "spec": {"completions": ranks, "parallelism": ranks, "template": {"metadata": {}}},
        "status": status,
    }


def container(state: Object, last: Object | None = None, restarts: int = 0, name: str = "node") -> Object:
    return {
        "name": name,
        "image": "img:1",
        "state": state,
        "lastState": last or {},
        "restartCount": restarts,
    }


RUNNING = {"running": {"startedAt": ago(30)}}


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int, reason: str = "Error", at: float = 10, message: str = "") -> Object:
    ended = {"exitCode": code, "reason": reason, "finishedAt": ago(at)}
    return {"terminated": {**ended, "message": message} if message else ended}


def pod(
    rank: int = 0,
    phase: str = "Running",
    *conditions: Object,
    state: Object | None = None,
    node: str | None = "n1",
    seconds: float = 35,
    of: str = "tj-node-0",
    statuses: list[Object] | None = None,
    limits: Object | None = None,
    **spec: Any,
) -> Object:
    ready = [condition("Ready", status="True" if phase == "Running" else "False")]
    index = {"batch.kubernetes.io/job-completion-index": str(rank)}
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": of.removeprefix("tj-").removesuffix("-0")}
    return {
        "metadata": metadata(f"{of}-{rank}-x", seconds, annotations=index, labels=labels) | owned_by(of),
        "spec": {
            "containers": [{"name": "node", "image": "img:1", "resources": {"limits": limits or {}}}],
            **({"nodeName": node} if node else {}),
            **spec,
        },
        "status": {
            "phase": phase,
            "conditions": list(conditions) or ready,
            "containerStatuses": statuses or ([container(state or RUNNING)] if node else []),
        },
    }


def deleted(of: Object, owners: Mapping[str, Any] | None = None) -> Object:
    """The pod while it is being deleted, as one on a lost node is for ever."""
    return {**of, "metadata": {**of["metadata"], **(owners or {}), "deletionTimestamp": ago(9)}}


def told(of: Object) -> Object:
    """The pod, of a runtime whose pods tell more."""
    own = {"annotations": {**of["metadata"]["annotations"], "trainyard.dev/sitecustomize.py": "..."}}
    return {**of, "metadata": of["metadata"] | own}


def unready(state: Object, last: Object, restarts: int = 0) -> Object:
    """The first rank, its container not running for long."""
    return pod(0, "Running", condition("Ready", status="False"), statuses=[container(state, last, restarts)])


def homeless(rank: int = 0, message: str = "", reason: str = "Unschedulable", **spec: Any) -> Object:
    """A pod that has no node."""
    said = [condition("PodScheduled", reason, message, "False")] if message else []
    found = pod(rank, "Pending", *said, node=None, **spec)
    found["status"]["conditions"] = said
    return found


def node(
    name: str = "n1", ready: str = "True", labels: Object | None = None, taints: Any = (), **allocatable: str
) -> Object:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints)},
        "status": {
            "conditions": [condition("Ready", "KubeletStopped", "no word of it", ready)],
            "allocatable": {"cpu": "4", "memory": "8Gi", **allocatable},
        },
    }


def claim(name: str = "data") -> Object:
    return {"metadata": metadata(name), "spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}


def mounts(name: str) -> list[Object]:
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]


def event(about: str, reason: str, message: str) -> Object:
    return {
        "metadata": {"name": f"{about}.1", "creationTimestamp": ago(5)},
        "type": "Warning",
        "involvedObject": {"uid": about},
        "reason": reason,
        "message": message,
        "lastTimestamp": ago(5),
    }


def workload(
    *conditions: Object, name: str = "trainjob-tj-1", active: bool = True, seconds: float = 55, **status: Any
) -> Object:
    return {
        "metadata": metadata(name, seconds),
        "spec": {"queueName": "research", "active": active, "priority": 0},
        "status": {"conditions": list(conditions), **status},
    }


def lease(holder: str = "pod-1", renewed: float = 2) -> Object:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": ago(renewed)}
    return {"metadata": {"name": "trainyard-operator", "namespace": "trainyard-system"}, "spec": spec}


def deployment(available: int, name: str = "jobset-controller", namespace: str = "jobset-system") -> Object:
    place = {"name": name, "namespace": namespace}
    return {"metadata": place, "spec": {"replicas": 1}, "status": {"availableReplicas": available}}


def pod_group(phase: str, *conditions: Object) -> Object:
    spec = {"minMember": 2, "queue": "gangs"}
    return {
        "metadata": metadata("tj"),
        "spec": spec,
        "status": {"phase": phase, "conditions": list(conditions)},
    }


HEALTHY = Observation(
    now=NOW,
    trainjob=trainjob(),
    runtime={"metadata": {"name": "rt"}},
    leases=(lease(),),
    jobset=jobset(),
    jobs=(job(active=2),),
    pods=(pod(0), pod(1)),
    nodes=(node(),),
)


def seen(**changed: Any) -> Observation:
    """The healthy one, changed."""
    return replace(HEALTHY, **changed)


def unbuilt(**changed: Any) -> Observation:
    """Before there is a JobSet."""
    return seen(**{"jobset": None, "jobs": (), "pods": (), "nodes": (), **changed})


def suspended(**changed: Any) -> Observation:
    """With a JobSet that waits."""
    return seen(**{"trainjob": trainjob(suspend=True), "jobset": jobset(suspend=True), "pods": (), **changed})
