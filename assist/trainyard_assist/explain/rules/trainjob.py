"""Findings about the TrainJob itself, its runtime and its operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trainyard_api import names, similar
from trainyard_api.json_types import Json
from trainyard_api.reasons import Reason
from trainyard_api.shown import listed
from trainyard_operator.core.decide import refusals
from trainyard_operator.core.decide.causes import MEND_QUOTA, MEND_WEBHOOK
from trainyard_operator.core.status import pod_readiness

from ... import read, text
from .. import facts
from ..causes import TABLE, At
from ..model import Finding, Observation, Ref, Subject
from . import attempts, kueue
from .finding import finding_of

_ENDED: Final = (names.JOBSET_COMPLETED, names.JOBSET_FAILED)
"""Conditions of a JobSet that has ended. The operator then says so in its TrainJob."""
_REASONS: Final = {reason.value: reason for reason in TABLE}


def deleting(observation: Observation) -> Finding | None:
    """It is being deleted."""
    if not read.deleting(observation.trainjob):
        return None
    held = read.at(observation.trainjob, "metadata", "finalizers")
    finalizers = listed(held) if isinstance(held, list) and held else "none"
    message = f"it was deleted at {read.text(observation.trainjob, 'metadata', 'deletionTimestamp')}"
    return finding_of(observation, Reason.DELETING, _self(observation), message, finalizers=finalizers)


def managed_elsewhere(observation: Observation) -> Finding | None:
    """Another controller is responsible for it; what that one reports counts."""
    manager = manager_elsewhere(observation.trainjob)
    if not manager or reported_active(observation.trainjob):
        return None
    if manager == names.MANAGED_BY_MULTIKUEUE and (held := kueue.before_admission(observation)) is not None:
        return held
    cluster = kueue.cluster(observation)
    message = f"spec.managedBy is {manager}" + (f", which has sent it to {cluster}" if cluster else "")
    return finding_of(observation, Reason.MANAGED_ELSEWHERE, _self(observation), message, manager=manager)


def operator_down(observation: Observation) -> Finding | None:
    """The operator has something to do, and none is running."""
    if not needs_operator(observation) or not facts.operator_is_away(observation):
        return None
    expected = next(iter(observation.leases), None)
    if expected is None:
        about, message = Ref("Lease", names.OPERATOR), "there is no Lease of an operator"
        return finding_of(observation, Reason.OPERATOR_DOWN, about, message, namespace=names.SYSTEM_NAMESPACE)
    within = read.text(expected, "metadata", "namespace")
    renewed = facts.since(observation, read.moment(expected, "spec", "renewTime"))
    message = f"nobody holds it; it was last renewed {text.duration(renewed)} ago"
    return finding_of(
        observation, Reason.OPERATOR_DOWN, facts.ref(expected, "Lease"), message, namespace=within
    )


def blocked(observation: Observation) -> Finding | None:
    """The operator has reported what blocks it, with the next step at the end of its message.

    Of one that is away, this may be long past: the queue, the JobSet and the pods tell what is left of it.
    """
    if _blocked_by(observation) in refusals.OF_A_JOBSET | pod_readiness.REASONS:
        return None
    return None if facts.operator_is_away(observation) else _blocked(observation)


def blocked_by_refusals(observation: Observation) -> Finding | None:
    """The operator has reported what its JobSet was refused, and nothing else is more precise any more."""
    if facts.operator_is_away(observation) and observation.current_pods:
        return None
    return _blocked(observation) if _blocked_by(observation) in refusals.OF_A_JOBSET else None


def blocked_by_pods(observation: Observation) -> Finding | None:
    """The operator has reported what its pods wait for, and the user may not see them."""
    return (
        _blocked(observation)
        if _blocked_by(observation) in pod_readiness.REASONS and Subject.PODS in observation.unseen
        else None
    )


def with_reported_step(observation: Observation, finding: Finding) -> Finding:
    """The finding of a refusal, with the operator's own next step if it has reported the same cause."""
    if names.UNANSWERED in finding.message:
        return replace(finding, next_step=MEND_WEBHOOK)
    if refusals.OVER_QUOTA in finding.message:
        return replace(finding, next_step=MEND_QUOTA)
    report = _blocked(observation)
    if report is None or report.cause is not finding.cause:
        return finding
    return replace(finding, next_step=report.next_step)


def _blocked_by(observation: Observation) -> str:
    return read.text(read.condition(observation.trainjob, names.BLOCKED), "reason")


def _blocked(observation: Observation) -> Finding | None:
    condition = read.condition(observation.trainjob, names.BLOCKED)
    if condition is None or not read.holds(observation.trainjob, names.BLOCKED):
        return None
    cause = _REASONS.get(read.text(condition, "reason"), Reason.BLOCKED)
    message, _, step = read.text(condition, "message").rpartition("; ")
    if not message:
        message, step = step, TABLE[Reason.BLOCKED].next_step
    about = facts.named_runtime(observation) if TABLE[cause].at is At.RUNTIME else _self(observation)
    if cause is Reason.RUNTIME_NOT_FOUND and "; did you mean " not in message:
        message += _nearest(observation)
    return Finding(cause, about, message, step)


def runtime_missing(observation: Observation) -> Finding | None:
    """There is no runtime to build a JobSet from."""
    if (
        observation.runtime is not None
        or not observation.unseen.keys().isdisjoint((Subject.RUNTIME, Subject.JOBSET))
        or facts.own_jobset(observation) is not None
    ):
        return None
    runtime = facts.named_runtime(observation)
    message = f"{runtime} is not found{_nearest(observation)}"
    return finding_of(observation, Reason.RUNTIME_NOT_FOUND, runtime, message, runtime=runtime)


def _nearest(observation: Observation) -> str:
    """The runtime with the nearest name, of either kind."""
    kinds = {read.name(runtime): read.text(runtime, "kind") for runtime in observation.runtimes}
    close = similar.nearest(facts.named_runtime(observation).name, kinds)
    return similar.meant(None if close is None else f"{kinds[close]} {close}")


def suspended(observation: Observation) -> Finding | None:
    """Somebody has suspended it, and no queue resumes it."""
    queue = facts.queue(observation)
    resumed_by_kueue = (queue or observation.workloads) and not facts.suspended_by_user(observation)
    sent_suspended = queue and names.SENT_SUSPENDED in facts.gates(observation)
    if not read.suspended(observation.trainjob) or resumed_by_kueue or sent_suspended:
        return None

    def of(cause: Reason) -> Finding:
        held = f", so LocalQueue {queue} does not admit it before it is resumed" if queue else ""
        name, within = read.name(observation.trainjob), facts.namespace(observation)
        message = f"spec.suspend is true{held}"
        return finding_of(observation, cause, _self(observation), message, name=name, namespace=within)

    finding = of(Reason.SUSPENDED)
    return replace(finding, next_step=of(Reason.HELD).next_step) if queue else finding


def deadline_exceeded(observation: Observation) -> Finding | None:
    """It ran for too long."""
    condition = read.condition(observation.trainjob, names.FAILED)
    if condition is None or condition.get("reason") != Reason.DEADLINE_EXCEEDED:
        return None
    seconds = read.number(observation.trainjob, "spec", "activeDeadlineSeconds")
    message = f"{read.text(condition, 'message')} of {seconds} s"
    return finding_of(observation, Reason.DEADLINE_EXCEEDED, _self(observation), message, seconds=seconds)


def failed_alike(observation: Observation) -> Finding | None:
    """Two attempts failed alike, and the operator did not let it be tried again."""
    condition = read.condition(observation.trainjob, names.FAILED)
    if condition is None or condition.get("reason") != Reason.SAME_FAILURE:
        return None
    message, _, _ = read.text(condition, "message").rpartition("; ")
    last = next(reversed(attempts.of(observation)), None)
    about = _self(observation) if last is None else Ref("Pod", last["pod"], facts.namespace(observation))
    log = () if last is None else text.tail(read.text(last, "message"))
    return finding_of(observation, Reason.SAME_FAILURE, about, message, log=log)


def runtime_unsupported(observation: Observation) -> Finding | None:
    """Its runtimeRef is of an unsupported kind."""
    condition = read.condition(observation.trainjob, names.FAILED)
    if condition is None or condition.get("reason") != Reason.RUNTIME_NOT_SUPPORTED:
        return None
    runtime = facts.named_runtime(observation)
    return finding_of(
        observation, Reason.RUNTIME_NOT_FOUND, runtime, read.text(condition, "message"), runtime="a runtime"
    )


def manager_elsewhere(trainjob: Json) -> str:
    """The other controller that is responsible for it; empty if it is this operator."""
    manager = read.text(trainjob, "spec", "managedBy")
    return "" if manager == names.MANAGED_BY_TRAINER else manager


def reported_active(trainjob: Json) -> bool:
    """Whether its status counts Jobs that are active."""
    return any(read.number(job, "active") > 0 for job in read.objects(trainjob, "status", "jobsStatus"))


def needs_operator(observation: Observation) -> bool:
    """Whether there is something for the operator to do.

    In a queue, it deactivates the Workload of a job that is suspended, and activates it again.
    """
    jobset = facts.own_jobset(observation)
    if Subject.JOBSET in observation.unseen:
        return False
    if jobset is None or any(read.holds(jobset, ended) for ended in _ENDED):
        return True
    if not facts.queue_of_jobset(observation):
        return read.suspended(jobset) != read.suspended(observation.trainjob)
    suspended = read.suspended(observation.trainjob)
    if names.SENT_SUSPENDED in facts.gates(observation):
        return not suspended
    reported = read.holds(observation.trainjob, names.SUSPENDED)
    return suspended != reported or (suspended and not read.suspended(jobset))


def _self(observation: Observation) -> Ref:
    return facts.ref(observation.trainjob, names.TRAINJOB)
