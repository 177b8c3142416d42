"""Kueue's objects, as the API server returns them, for forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard_api import names, quantity
from trainyard_assist import quota
from trainyard_assist.quota import Job, PodSet, State

Object = dict[str, Any]
Quota = Mapping[str, Any]
"""By resource: `4`, or (nominal, borrowingLimit, lendingLimit) with None for what is left out."""


def groups(*flavors: tuple[str, Quota]) -> list[Object]:
    """One resource group with these flavors."""
    if not flavors:
        return []
    return [
        {
            "coveredResources": list(flavors[0][1]),
            "flavors": [
                {"name": name, "resources": [resource_quota(*item) for item in resources.items()]}
                for name, resources in flavors
            ],
        }
    ]


def resource_quota(resource: str, amounts: Any) -> Object:
    given = amounts if isinstance(amounts, tuple) else (amounts,)
    keys = ("nominalQuota", "borrowingLimit", "lendingLimit")
    limits = {key: amount for key, amount in zip(keys, given, strict=False) if amount is not None}
    return {"name": resource, **limits}


def cluster_queue(
    name: str,
    *flavors: tuple[str, Quota],
    cohort: str = "",
    used: Mapping[tuple[str, str], str] = {},
    **spec: Any,
) -> Object:
    """A ClusterQueue whose jobs have reserved this much."""
    reserved: dict[str, list[Object]] = {}
    for (flavor, resource), total in used.items():
        reserved.setdefault(flavor, []).append({"name": resource, "total": total})
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"cohortName": cohort, "resourceGroups": groups(*flavors), **spec},
        "status": {
            "flavorsReservation": [{"name": flavor, "resources": rows} for flavor, rows in reserved.items()]
        },
    }


def cohort(name: str, *flavors: tuple[str, Quota], parent: str = "") -> Object:
    spec = {"parentName": parent, "resourceGroups": groups(*flavors)}
    return {"metadata": {"name": name}, "spec": {key: value for key, value in spec.items() if value}}


def local_queue(name: str, behind: str, namespace: str = "team", **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": behind, **spec}}


def workload(
    job: str,
    *,
    queue: str = "default",
    namespace: str = "team",
    priority: int = 0,
    created: int = 0,
    requests: Quota | None = None,
    conditions: list[Object] | None = None,
    admitted: tuple[str, str, Quota] | None = None,
    gates: str = "",
) -> Object:
    """The Workload of a job; `admitted`: the ClusterQueue, the flavor and what it has of it."""
    status: Object = {"conditions": conditions or []}
    if requests is not None:
        status["resourceRequests"] = [{"name": "node", "resources": dict(requests)}]
    if admitted is not None:
        behind, flavor, usage = admitted
        assigned = {"name": "node", "flavors": dict.fromkeys(usage, flavor), "resourceUsage": dict(usage)}
        status["admission"] = {"clusterQueue": behind, "podSetAssignments": [assigned]}
        status["conditions"].append(
            {"type": "QuotaReserved", "status": "True", "lastTransitionTime": moment(created)}
        )
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"jobset-{job}",
            "namespace": namespace,
            "creationTimestamp": moment(created),
            "ownerReferences": [{"kind": "JobSet", "name": job}],
            "annotations": {names.QUEUE_GATES_ANNOTATION: gates},
        },
        "spec": {"queueName": queue, "priority": priority, "podSets": [{"name": "node", "count": 1}]},
        "status": status,
    }


def looked_at(reason: str = "WaitingForQuota") -> Object:
    """What Kueue says of a Workload that it did not admit."""
    message = "couldn't assign flavors to pod set node"
    return {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}


def moment(second: int) -> str:
    return f"2026-01-01T{10 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def job(behind: str = "gpus", *, priority: int = 0, name: str = "team/new", **requests: Any) -> Job:
    """A job of one pod that is not sent yet; `gpu` is nvidia.com/gpu."""
    return Job(name=name, queue=behind, pods=(pods(**requests),), priority=priority)


def pods(**requests: Any) -> PodSet:
    named = {GPU if resource == "gpu" else resource: amount for resource, amount in requests.items()}
    return PodSet(requests={resource: quantity.parse(amount).nano for resource, amount in named.items()})


def state(*cluster_queues: Object, **others: Any) -> State:
    return quota.state(cluster_queues=cluster_queues, **others)


GPU = "nvidia.com/gpu"
