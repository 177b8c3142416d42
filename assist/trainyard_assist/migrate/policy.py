"""The run policy of a job, and the restart policy of its replicas, in JobSet's terms.

Called by `target`. JobSet decides otherwise when a job gives up: by each Job's
backoffLimit and podFailurePolicy, instead of a count over all replicas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from .notes import Notes
from .source import Job, Kind, Role, unknown_fields

_PATH: Final = FieldPath("spec.runPolicy")
_OPERATORS: Final = frozenset(
    {
        "kubeflow.org/mpi-operator",
        "kubeflow.org/training-operator",
        "kubeflow.org/trainjob-controller",
        names.MANAGED_BY_TRAINER,
    }
)
"""The controllers that the operator replaces."""
_VOLCANO: Final = "volcano"
_PERMANENT: Final = range(1, 128)
"""Exit codes after which the policy ExitCode does not retry."""
_FIELDS: Final = (
    "activeDeadlineSeconds",
    "backoffLimit",
    "cleanPodPolicy",
    "managedBy",
    "schedulingPolicy",
    "suspend",
    "ttlSecondsAfterFinished",
)


@dataclass(frozen=True, slots=True)
class Policy:
    """Fields of the TrainJob and of its runtime that the run policy needs."""

    trainjob: Json = field(default_factory=dict)
    """Fields of the TrainJob's spec."""
    jobset: Json = field(default_factory=dict)
    """Fields of the JobSet's spec."""
    group: Json = field(default_factory=dict)
    """The runtime's podGroupPolicy."""
    annotations: Json = field(default_factory=dict)
    """Of the JobSet."""
    pod: Json = field(default_factory=dict)
    """Fields of every pod spec."""
    backoff_limit: int | None = None
    reasons: tuple[FieldPath, ...] = ()
    """The fields that need a runtime of its own."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """When pods of one role restart."""

    pod: str | None = None
    """restartPolicy of the pods; None: the platform's own, which is OnFailure."""
    job: Json = field(default_factory=dict)
    """Fields of the Job's spec."""
    reasons: tuple[FieldPath, ...] = ()


def read(job: Job, notes: Notes) -> Policy:
    """The run policy of a job."""
    run_policy = job.run_policy
    unknown_fields(run_policy, _FIELDS, _PATH, "a run policy", notes)
    _clean_pods(run_policy.get("cleanPodPolicy"), _PATH.child("cleanPodPolicy"), notes)
    jobset: dict[str, Any] = {}
    reasons = []
    ttl = json_reader.integer(
        run_policy.get("ttlSecondsAfterFinished"), _PATH.child("ttlSecondsAfterFinished")
    )
    if ttl is not None:
        jobset["ttlSecondsAfterFinished"] = max(0, ttl)
        reasons.append(_PATH.child("ttlSecondsAfterFinished"))
        message = "then the JobSet and its pods are deleted; the TrainJob with its status stays"
        notes.changed(_PATH.child("ttlSecondsAfterFinished"), message)
    backoff = json_reader.integer(run_policy.get("backoffLimit"), _PATH.child("backoffLimit"))
    if backoff is not None:
        reasons.append(_PATH.child("backoffLimit"))
    group, annotations, pod, gang_reasons = _gang(job, notes)
    reasons += gang_reasons
    return Policy(_trainjob(run_policy, notes), jobset, group, annotations, pod, backoff, tuple(reasons))


def restarts(role: Role, kind: Kind, policy: Policy, notes: Notes) -> Restarts:
    """When pods of the role restart."""
    path = role.path.child("restartPolicy")
    limit = {} if policy.backoff_limit is None else {"backoffLimit": max(0, policy.backoff_limit)}
    match role.restart_policy:
        case None | "":
            if kind.restart_policy == "Never" and not limit:
                message = "without it a failed pod ended the job; now pods are restarted, up to six times"
                notes.changed(path, message)
            return Restarts(job=limit)
        case "OnFailure":
            return Restarts(job=limit)
        case "Always":
            notes.changed(path, "is OnFailure: a Job's pods are not restarted when they are done")
            return Restarts(job=limit)
        case "Never":
            return Restarts("Never", {"backoffLimit": 0} if kind.never_is_final else limit, (path,))
        case "ExitCode":
            codes = {"containerName": names.NODE, "operator": "In", "values": list(_PERMANENT)}
            rules = [{"action": "FailJob", "onExitCodes": codes}]
            return Restarts("Never", {**limit, "podFailurePolicy": {"rules": rules}}, (path,))
    notes.lost(path, "is not one of Always, OnFailure, Never and ExitCode")
    return Restarts(job=limit)


def _trainjob(run_policy: Json, notes: Notes) -> Json:
    spec: dict[str, Any] = {}
    deadline = json_reader.integer(
        run_policy.get("activeDeadlineSeconds"), _PATH.child("activeDeadlineSeconds")
    )
    if deadline is not None and deadline < 1:
        notes.lost(_PATH.child("activeDeadlineSeconds"), "must be at least 1")
    elif deadline is not None:
        spec["activeDeadlineSeconds"] = deadline
    if json_reader.boolean(run_policy.get("suspend"), _PATH.child("suspend")):
        spec["suspend"] = True
    managed_by = managed(run_policy.get("managedBy"), _PATH.child("managedBy"), notes)
    if managed_by:
        spec["managedBy"] = managed_by
    return spec


def managed(value: Any, path: FieldPath, notes: Notes) -> str | None:
    """The value of managedBy; None for the operator itself."""
    manager = json_reader.text(value, path)
    if manager == names.MANAGED_BY_MULTIKUEUE:
        return manager
    if manager and manager not in _OPERATORS:
        notes.lost(path, f"a TrainJob is managed by its operator or by {names.MANAGED_BY_MULTIKUEUE}")
    return None


def _clean_pods(value: Any, path: FieldPath, notes: Notes) -> None:
    clean_pod_policy = json_reader.text(value, path)
    if clean_pod_policy == "None":
        notes.lost(path, "JobSet stops the pods that still run when a job is done; those that ended stay")
    elif clean_pod_policy == "All":
        notes.lost(
            path,
            "JobSet keeps the pods that have ended; "
            "spec.template.spec.ttlSecondsAfterFinished of a runtime removes them",
        )
    elif clean_pod_policy not in (None, "", "Running"):
        notes.lost(path, "is none of All, Running and None")


def _gang(job: Job, notes: Notes) -> tuple[Json, Json, Json, tuple[FieldPath, ...]]:
    """podGroupPolicy, annotations of the JobSet, fields of the pods, and what asked for them."""
    path = _PATH.child("schedulingPolicy")
    scheduling_policy = json_reader.mapping(job.run_policy.get("schedulingPolicy"), path)
    keys = ("minAvailable", "minResources", "priorityClass", "queue", "scheduleTimeoutSeconds")
    unknown_fields(scheduling_policy, keys, path, "a scheduling policy", notes)
    pod: dict[str, Any] = {}
    priority = json_reader.text(scheduling_policy.get("priorityClass"), path.child("priorityClass"))
    if priority:
        pod["priorityClassName"] = priority
    least = json_reader.integer(scheduling_policy.get("minAvailable"), path.child("minAvailable"))
    if least is not None and least != job.total:
        message = f"a gang is always all pods of the job, here {job.total}"
        notes.lost(path.child("minAvailable"), message)
    if scheduling_policy.get("minResources"):
        notes.lost(path.child("minResources"), "the pod group asks for what its pods request")
    queue = json_reader.text(scheduling_policy.get("queue"), path.child("queue"))
    timeout = json_reader.integer(
        scheduling_policy.get("scheduleTimeoutSeconds"), path.child("scheduleTimeoutSeconds")
    )
    scheduler = next((role.pod.get("schedulerName") for role in job.roles.values()), None)
    if queue or scheduler == _VOLCANO:
        if timeout is not None:
            notes.lost(path.child("scheduleTimeoutSeconds"), "Volcano has no such field")
        annotations = {names.VOLCANO_QUEUE_ANNOTATION: queue} if queue else {}
        return {_VOLCANO: {}}, annotations, {"schedulerName": _VOLCANO, **pod}, (path,)
    if timeout is not None:
        if not scheduler:
            message = "the pods need a schedulerName: that of the scheduler with coscheduling"
            notes.lost(path, message)
        return {"coscheduling": {"scheduleTimeoutSeconds": timeout}}, {}, pod, (path,)
    if least is not None:
        message = (
            "no gang scheduler is named: let Kueue admit the job, or use a runtime with a podGroupPolicy"
        )
        notes.lost(path, message)
    return {}, {}, pod, (path.child("priorityClass"),) if pod else ()
