"""What the TrainJob itself, its runtime and its operator show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from trainyard_api import names, similar
from trainyard_api.reasons import Reason
from trainyard_operator.core import nodes, refusals

from .. import read, text
from ..causes import TABLE
from ..model import Finding, Json, Observation, Ref, Subject
from . import attempts, kueue
from .found import found

_ENDED: Final = (names.JOBSET_COMPLETED, names.JOBSET_FAILED)
"""Conditions of a JobSet that has ended. The operator then says so in its TrainJob."""
_REASONS: Final = {reason.value: reason for reason in TABLE}


def deleting(o: Observation) -> Finding | None:
    """It is being deleted."""
    if not read.deleting(o.trainjob):
        return None
    held = read.at(o.trainjob, "metadata", "finalizers")
    finalizers = text.listed(held) if isinstance(held, list) and held else "none"
    message = f"it was deleted at {read.text(o.trainjob, 'metadata', 'deletionTimestamp')}"
    return found(o, Reason.DELETING, _self(o), message, finalizers=finalizers)


def managed_elsewhere(o: Observation) -> Finding | None:
    """Another controller is responsible for it; what that one reports counts."""
    manager = manager_elsewhere(o.trainjob)
    if not manager or reported_active(o.trainjob):
        return None
    if manager == names.MANAGED_BY_MULTIKUEUE and (held := kueue.before_admission(o)) is not None:
        return held
    cluster = kueue.cluster(o)
    message = f"spec.managedBy is {manager}" + (f", which has sent it to {cluster}" if cluster else "")
    return found(o, Reason.MANAGED_ELSEWHERE, _self(o), message, manager=manager)


def operator_down(o: Observation) -> Finding | None:
    """The operator has something to do, and none is running."""
    if not needs_operator(o) or Subject.OPERATOR_LEASE in o.unseen:
        return None
    if any(read.is_held(o, lease) for lease in o.leases):
        return None
    expected = next(iter(o.leases), None)
    if expected is None:
        about, message = Ref("Lease", names.OPERATOR), "there is no Lease of an operator"
        return found(o, Reason.OPERATOR_DOWN, about, message, namespace=names.SYSTEM_NAMESPACE)
    within = read.text(expected, "metadata", "namespace")
    renewed = read.since(o, read.moment(expected, "spec", "renewTime"))
    message = f"nobody holds it; it was last renewed {text.duration(renewed)} ago"
    return found(o, Reason.OPERATOR_DOWN, read.ref(expected, "Lease"), message, namespace=within)


def blocked(o: Observation) -> Finding | None:
    """The operator has reported what blocks it, with the next step at the end of its message."""
    return None if _blocked_by(o) in refusals.OF_A_JOBSET | nodes.REASONS else _blocked(o)


def blocked_by_refusals(o: Observation) -> Finding | None:
    """The operator has reported what its JobSet was refused, and nothing else is more precise any more."""
    return _blocked(o) if _blocked_by(o) in refusals.OF_A_JOBSET else None


def blocked_by_pods(o: Observation) -> Finding | None:
    """The operator has reported what its pods wait for, and the user may not see them."""
    return _blocked(o) if _blocked_by(o) in nodes.REASONS and Subject.PODS in o.unseen else None


def stepped(o: Observation, finding: Finding) -> Finding:
    """The finding, with the operator's own next step if it has reported the same cause."""
    said = _blocked(o)
    if said is None or said.cause is not finding.cause:
        return finding
    return replace(finding, next_step=said.next_step)


def _blocked_by(o: Observation) -> str:
    return read.text(read.condition(o.trainjob, names.BLOCKED), "reason")


def _blocked(o: Observation) -> Finding | None:
    condition = read.condition(o.trainjob, names.BLOCKED)
    if condition is None or not read.holds(o.trainjob, names.BLOCKED):
        return None
    cause = _REASONS.get(read.text(condition, "reason"), Reason.BLOCKED)
    message, _, step = read.text(condition, "message").rpartition("; ")
    if not message:
        message, step = step, TABLE[Reason.BLOCKED].next_step
    about = read.named_runtime(o) if TABLE[cause].at == "Runtime" else _self(o)
    if cause is Reason.RUNTIME_NOT_FOUND and "; did you mean " not in message:
        message += _nearest(o)
    return Finding(cause, about, message, step)


def runtime_missing(o: Observation) -> Finding | None:
    """There is no runtime to build a JobSet from."""
    if o.runtime is not None or Subject.RUNTIME in o.unseen or read.own_jobset(o) is not None:
        return None
    runtime = read.named_runtime(o)
    message = f"{runtime} is not found{_nearest(o)}"
    return found(o, Reason.RUNTIME_NOT_FOUND, runtime, message, runtime=runtime)


def _nearest(o: Observation) -> str:
    """The runtime with the nearest name, of either kind."""
    kinds = {read.name(runtime): read.text(runtime, "kind") for runtime in o.runtimes}
    close = similar.nearest(read.named_runtime(o).name, kinds)
    return "" if close is None else f"; did you mean {kinds[close]} {close}?"


def suspended(o: Observation) -> Finding | None:
    """Somebody has suspended it, and no queue resumes it."""
    resumed_by_kueue = (read.queue(o) or o.workloads) and not read.queue_of_jobset(o)
    sent_suspended = read.queue(o) and names.SENT_SUSPENDED in read.gates(o)
    if not read.suspended(o.trainjob) or resumed_by_kueue or sent_suspended:
        return None
    named: dict[str, Any] = {"name": read.name(o.trainjob), "namespace": read.namespace(o)}
    message = "spec.suspend is true"
    if not (queue := read.queue(o)):
        return found(o, Reason.SUSPENDED, _self(o), message, **named)
    message += f", so LocalQueue {queue} does not admit it before it is resumed"
    finding = found(o, Reason.SUSPENDED, _self(o), message, **named)
    return replace(finding, next_step=TABLE[Reason.HELD].next_step.format(**named))


def deadline_exceeded(o: Observation) -> Finding | None:
    """It ran for too long."""
    condition = read.condition(o.trainjob, names.FAILED)
    if condition is None or condition.get("reason") != Reason.DEADLINE_EXCEEDED:
        return None
    seconds = read.number(o.trainjob, "spec", "activeDeadlineSeconds")
    message = f"{read.text(condition, 'message')} of {seconds} s"
    return found(o, Reason.DEADLINE_EXCEEDED, _self(o), message, seconds=seconds)


def failed_alike(o: Observation) -> Finding | None:
    """Two attempts failed alike, and the operator did not let it be tried again."""
    condition = read.condition(o.trainjob, names.FAILED)
    if condition is None or condition.get("reason") != Reason.SAME_FAILURE:
        return None
    message, _, _ = read.text(condition, "message").rpartition("; ")
    last = next(reversed(attempts.of(o)), None)
    about = _self(o) if last is None else Ref("Pod", last["pod"], read.namespace(o))
    log = () if last is None else text.tail(read.text(last, "message"))
    return found(o, Reason.SAME_FAILURE, about, message, log=log)


def runtime_unsupported(o: Observation) -> Finding | None:
    """Its runtimeRef is of an unsupported kind."""
    condition = read.condition(o.trainjob, names.FAILED)
    if condition is None or condition.get("reason") != Reason.RUNTIME_NOT_SUPPORTED:
        return None
    runtime = read.named_runtime(o)
    return found(o, Reason.RUNTIME_NOT_FOUND, runtime, read.text(condition, "message"), runtime="a runtime")


def manager_elsewhere(trainjob: Json) -> str:
    """The other controller that is responsible for it; empty if it is this operator."""
    manager = read.text(trainjob, "spec", "managedBy")
    return "" if manager == names.MANAGED_BY_TRAINER else manager


def reported_active(trainjob: Json) -> bool:
    """Whether its status counts Jobs that are active."""
    return any(read.number(job, "active") > 0 for job in read.objects(trainjob, "status", "jobsStatus"))


def needs_operator(o: Observation) -> bool:
    """Whether there is something for the operator to do."""
    jobset = read.own_jobset(o)
    if Subject.JOBSET in o.unseen:
        return False
    if jobset is None or any(read.holds(jobset, ended) for ended in _ENDED):
        return True
    if not read.queue_of_jobset(o):
        return read.suspended(jobset) != read.suspended(o.trainjob)
    gated = names.SENT_SUSPENDED in read.gates(o)
    return not read.suspended(jobset) if read.suspended(o.trainjob) else gated


def _self(o: Observation) -> Ref:
    return read.ref(o.trainjob, names.TRAINJOB)
