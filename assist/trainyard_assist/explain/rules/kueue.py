"""What Kueue says: the Workload that it creates for a TrainJob, or for its JobSet, waits for quota.

Follows kueue.x-k8s.io/v1beta2, Kueue v0.19. While it waits, its condition
QuotaReserved is False and says why; the reasons are more precise where Kueue's
feature gate UnadmittedWorkloadsObservability is on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from trainyard_api import names, similar
from trainyard_api.reasons import Reason
from trainyard_operator.core import quota

from .. import queue_place, read, text
from ..model import Finding, Json, Observation, QueuePlace, Ref, Subject
from .found import found

NAMESPACE: Final = "kueue-system"
NAME: Final = "kueue-controller-manager"
"""Of Kueue's Deployment, as upstream's chart has it."""
_RESUMES_WITHIN: Final = 60.0
"""Seconds in which Kueue resumes what it has admitted, also while it is busy."""
_PATIENCE: Final = 5.0
"""Seconds in which Kueue creates a Workload, and resumes what it has admitted."""
_EVALUATING: Final = 3.0
"""Seconds in which Kueue looks at a new Workload for the first time."""
_AS_FIRST: Final = (
    "none is before it: it starts when enough of the jobs that use the quota have ended. To start sooner, "
    "ask for less, or ask the platform team to raise the quota behind LocalQueue {queue}"
)
"""The next step of what is first in its queue."""
_PREEMPTOR: Final = re.compile(r"a workload \(UID: [^,()]*, JobUID: ([0-9a-f-]{36})\)")
"""How Kueue names the job that took the quota."""


def held(o: Observation) -> Finding | None:
    """It was created suspended with a queue, and nobody has resumed it."""
    queue = read.queue(o)
    if not queue or not read.suspended(o.trainjob) or names.SENT_SUSPENDED not in read.gates(o):
        return None
    message = f"LocalQueue {queue} does not admit it before it is resumed"
    name, within = read.name(o.trainjob), read.namespace(o)
    return found(o, Reason.HELD, read.ref(o.trainjob, names.TRAINJOB), message, name=name, namespace=within)


def down(o: Observation) -> Finding | None:
    """It waits for Kueue, which does not run: what Kueue said last may be long past."""
    if not is_needed(o) or Subject.KUEUE in o.unseen:
        return None
    about = Ref("Deployment", NAME, NAMESPACE)
    if o.kueue is not None:
        if read.number(o.kueue, "status", "availableReplicas") > 0:
            return None
        wanted = read.number(o.kueue, "spec", "replicas", default=1)
        message = f"it has no available pods, of {wanted} wanted"
        return found(o, Reason.KUEUE_DOWN, about, message, namespace=NAMESPACE)
    # Without it, Kueue may run under another name. If the operator does not run either, the platform is gone.
    if Subject.OPERATOR_LEASE in o.unseen or any(read.is_held(o, lease) for lease in o.leases):
        return None
    message = "it is not there, and no operator runs: the platform has been removed, or is being installed"
    return found(o, Reason.KUEUE_DOWN, about, message, namespace=NAMESPACE)


def is_needed(o: Observation) -> bool:
    """Whether the job goes on only by what Kueue does."""
    if not read.queue(o) or not read.held_back(o) or names.SENT_SUSPENDED in read.gates(o):
        return False
    return not (read.suspended(o.trainjob) and read.queue_of_jobset(o))  # its user has suspended it


def gated(o: Observation) -> Finding | None:
    """Somebody else keeps its queue from admitting it."""
    workload = waiting(o)
    if workload is None or not (gates := read.gates(o)):
        return None
    message = "it may not be admitted yet"
    return found(o, Reason.GATED, _ref(workload), message, gates=text.listed(gates))


def workload_missing(o: Observation) -> Finding | None:
    """A queue is named, nothing runs, and there is no Workload."""
    queue = read.queue(o)
    if not queue or not read.held_back(o) or o.workloads or Subject.WORKLOADS in o.unseen:
        return None
    if read.age(o, o.trainjob) < _PATIENCE:
        return None
    message = f"it names LocalQueue {queue}, and has no Workload"
    return found(o, Reason.WORKLOAD_MISSING, Ref("LocalQueue", queue, read.namespace(o)), message)


def workload_unseen(o: Observation) -> Finding | None:
    """It waits in a queue, and the user may not see its Workload."""
    queue = read.queue(o)
    if not queue or not read.held_back(o) or Subject.WORKLOADS not in o.unseen:
        return None
    message = f"it is suspended until LocalQueue {queue} admits it"
    about = Ref("LocalQueue", queue, read.namespace(o))
    return found(o, Reason.WORKLOAD_UNSEEN, about, message, namespace=read.namespace(o))


def workload_inactive(o: Observation) -> Finding | None:
    """Kueue or a person has deactivated it."""
    workload = current(o)
    if workload is None or read.at(workload, "spec", "active") is not False:
        return None
    message = _said(workload, "Evicted") or "its spec.active is false"
    name, within = read.name(workload), read.namespace(o)
    return found(o, Reason.WORKLOAD_INACTIVE, _ref(workload), message, name=name, namespace=within)


def workload_inadmissible(o: Observation) -> Finding | None:
    """It will not get quota by waiting."""
    workload = waiting(o)
    if workload is None:
        return None
    message, queue = _said(workload, "QuotaReserved"), _queue(workload)
    reason = read.text(read.condition(workload, "QuotaReserved"), "reason")
    if not quota.is_never(reason, message):
        return None
    hint = "" if queue in o.local_queues else similar.hint(queue, o.local_queues)
    return found(o, Reason.WORKLOAD_INADMISSIBLE, _ref(workload), message + hint, queue=queue)


def quota_short(o: Observation) -> Finding | None:
    """It waits in its queue."""
    workload = waiting(o)
    if workload is None:
        return None
    said = _said(workload, "QuotaReserved")
    if not said and read.age(o, workload) < _EVALUATING:
        return None
    message = said or "Kueue has not looked at it yet"
    evicted = read.condition(workload, "Evicted")
    if evicted is not None and read.holds(workload, "Evicted"):
        said = _PREEMPTOR.sub(lambda _: _job(o.preemptor), read.text(evicted, "message"))
        message += f"; it was evicted before ({read.text(evicted, 'reason')}: {said})"
    if o.queue_place is not None:
        message = f"{_where(o, o.queue_place)}: {message}"
    queue = _queue(workload)
    finding = found(o, Reason.QUOTA_SHORT, _ref(workload), message, queue=queue)
    is_first = o.queue_place is not None and o.queue_place.position == 1
    return replace(finding, next_step=_AS_FIRST.format(queue=queue)) if is_first else finding


def _where(o: Observation, place: QueuePlace) -> str:
    """Its place in the queue, who is before it, and for whom it waits."""
    said = f"it is number {place.position} in {place.queue}"
    said += " of those that can be seen" if place.partial else ""
    if place.before:
        said += f", behind {_first_of(place.before, place.position - 1)}"
    if place.holders:
        holders = [
            f"{holder.job} (runs for {text.duration(read.since(o, holder.since))})"
            for holder in place.holders
        ]
        said += f", and waits for {_first_of(holders, len(holders))}"
        unseen = place.only_own and not place.partial  # else it is said already
        return said + ("; the jobs of other namespaces you may not see" if unseen else "")
    return said + (", and waits for jobs that you may not see" if place.only_own else "")


def _first_of(words: Sequence[str], total: int) -> str:
    shown = words[: queue_place.NAMED]
    more = f" and {total - len(shown)} more" if total > len(shown) else ""
    return ", ".join(shown) + more


def admission_check_pending(o: Observation) -> Finding | None:
    """It has quota, and somebody else must agree."""
    workload = current(o)
    if workload is None or not read.holds(workload, "QuotaReserved") or read.holds(workload, "Admitted"):
        return None
    for check in read.objects(workload, "status", "admissionChecks"):
        if check.get("state") != "Ready":
            name = read.text(check, "name")
            message = f"it is {read.text(check, 'state')}: {read.text(check, 'message') or 'no message'}"
            return found(o, Reason.ADMISSION_CHECK, Ref("AdmissionCheck", name), message, check=name)
    return None


def not_resumed(o: Observation) -> Finding | None:
    """It is admitted, and Kueue has not resumed it."""
    workload, seconds = current(o), admitted_for(o)
    if workload is None or seconds is None or seconds < _RESUMES_WITHIN:
        return None
    of = "the JobSet's " if read.queue_of_jobset(o) else ""
    return found(o, Reason.NOT_RESUMED, _ref(workload), f"it is Admitted, and {of}spec.suspend is still true")


def admitted_for(o: Observation) -> float | None:
    """Seconds since Kueue admitted it, which has not resumed it yet; None if it waits for something else."""
    admitted = read.condition(current(o), "Admitted")
    if admitted is None or not read.holds(current(o), "Admitted") or not read.held_back(o):
        return None
    return read.since(o, read.moment(admitted, "lastTransitionTime"))


def before_admission(o: Observation) -> Finding | None:
    """What keeps it in its queue."""
    return next((finding for rule in BEFORE_ADMISSION if (finding := rule(o)) is not None), None)


def preemptor(o: Observation) -> str:
    """uid of the job that took its quota, according to Kueue; empty if none did."""
    workload = waiting(o)
    if workload is None or not read.holds(workload, "Evicted"):
        return ""
    said = _PREEMPTOR.search(read.text(read.condition(workload, "Evicted"), "message"))
    return "" if said is None else said[1]


def _job(workload: Json | None) -> str:
    """The job that a Workload belongs to, by kind and name."""
    if workload is None:
        return "a job that you cannot see"
    owner = next(iter(read.objects(workload, "metadata", "ownerReferences")), {})
    within = read.text(workload, "metadata", "namespace")
    kind = read.text(owner, "kind")
    return f"{'job' if kind == names.JOBSET else kind} {within}/{read.text(owner, 'name')}"


def concerns(trainjob: Json, jobset: Json | None) -> bool:
    """Whether Kueue may manage it: it or its JobSet names a queue, or it is suspended."""
    named = any(names.QUEUE_LABEL in read.texts(job, "metadata", "labels") for job in (trainjob, jobset))
    return named or read.suspended(trainjob)


def current(o: Observation) -> Json | None:
    """The newest Workload of the TrainJob that has not finished."""
    unfinished = [w for w in o.workloads if not read.holds(w, "Finished")]
    return max(unfinished, key=lambda w: read.moment(w, "metadata", "creationTimestamp"), default=None)


def cluster(o: Observation) -> str:
    """The cluster that MultiKueue has sent it to; empty if none yet."""
    return read.text(current(o), "status", "clusterName")


def waiting(o: Observation) -> Json | None:
    """The Workload, if the TrainJob waits for its quota."""
    workload = current(o)
    return workload if workload is not None and _waits(workload) and read.held_back(o) else None


def _waits(workload: Json) -> bool:
    return not read.holds(workload, "QuotaReserved") and read.at(workload, "spec", "active") is not False


def _said(workload: Json, kind: str) -> str:
    return text.clean(read.text(read.condition(workload, kind), "message"))


def _queue(workload: Json) -> str:
    return read.text(workload, "spec", "queueName")


def _ref(workload: Json) -> Ref:
    return read.ref(workload, "Workload")


BEFORE_ADMISSION: Final = (
    held,
    down,
    gated,
    workload_missing,
    workload_unseen,
    workload_inactive,
    workload_inadmissible,
    quota_short,
    admission_check_pending,
)
"""In the order in which Kueue decides."""
