"""Findings about Kueue: the Workload of a TrainJob, or of its JobSet, waits for quota.

Follows kueue.x-k8s.io/v1beta2, Kueue v0.19. While it waits, its condition
QuotaReserved is False and says why; the reasons are more precise where Kueue's
feature gate UnadmittedWorkloadsObservability is on.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from trainyard_api import names, similar
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_api.reasons import Reason
from trainyard_api.shown import listed
from trainyard_operator.core.decide import quota

from ... import queue_place, read, text
from ...queue_place import QueuePlace
from .. import facts
from ..model import Finding, Observation, Ref, Subject
from .finding import finding_of

_RESUMES_WITHIN: Final = 60.0
"""Seconds in which Kueue resumes what it has admitted, also while it is busy."""
_PATIENCE: Final = 5.0
"""Seconds in which Kueue creates a Workload."""
_EVALUATING: Final = 3.0
"""Seconds in which Kueue looks at a new Workload for the first time."""
_AS_FIRST: Final = (
    "no job is before it: it starts when enough of the jobs that use the quota have ended. To start sooner, "
    "request fewer resources, or ask the platform team for more quota for LocalQueue {queue}"
)
"""The next step of what is first in its queue."""
_PREEMPTOR: Final = re.compile(r"a workload \(UID: [^,()]*, JobUID: ([0-9a-f-]{36})\)")
"""How Kueue names the job that took the quota."""


def held(observation: Observation) -> Finding | None:
    """It was created suspended with a queue, and nobody has resumed it."""
    queue = facts.queue(observation)
    if (
        not queue
        or not read.suspended(observation.trainjob)
        or names.SENT_SUSPENDED not in facts.gates(observation)
    ):
        return None
    message = f"LocalQueue {queue} does not admit it before it is resumed"
    name, within = read.name(observation.trainjob), facts.namespace(observation)
    return finding_of(
        observation,
        Reason.HELD,
        facts.ref(observation.trainjob, names.TRAINJOB),
        message,
        name=name,
        namespace=within,
    )


def down(observation: Observation) -> Finding | None:
    """It waits for Kueue, which does not run: what Kueue said last may be long past."""
    if not is_needed(observation) or Subject.KUEUE in observation.unseen:
        return None
    if observation.kueue is not None:
        if read.number(observation.kueue, "status", "availableReplicas") > 0:
            return None
        replicas = read.number(observation.kueue, "spec", "replicas", default=1)
        message = f"it has no available pods (replicas: {replicas})"
        if _is_to_stop(observation):
            message += "; the TrainJob is suspended, but its own pods run until Kueue stops them"
        about = facts.ref(observation.kueue, "Deployment")
        return finding_of(observation, Reason.KUEUE_DOWN, about, message, namespace=about.namespace)
    # Without it, Kueue may run under another name. If the operator does not run either, the platform is gone.
    if not facts.operator_is_away(observation):
        return None
    message = "it does not exist, and no operator runs: the platform has been removed, or is being installed"
    about = Ref("Deployment", names.KUEUE_CONTROLLER, names.KUEUE_NAMESPACE)
    return finding_of(observation, Reason.KUEUE_DOWN, about, message, namespace=about.namespace)


def _is_to_stop(observation: Observation) -> bool:
    """Whether its user has suspended it, and Kueue has not suspended its JobSet."""
    jobset = facts.own_jobset(observation)
    if jobset is None or not facts.queue_of_jobset(observation):
        return False
    return read.suspended(observation.trainjob) and not read.suspended(jobset)


def is_needed(observation: Observation) -> bool:
    """Whether the job continues, or stops, only when Kueue acts."""
    if (
        not facts.queue(observation)
        or not facts.held_back(observation)
        or names.SENT_SUSPENDED in facts.gates(observation)
    ):
        return False
    return not facts.suspended_by_user(observation) or _is_to_stop(observation)


def gated(observation: Observation) -> Finding | None:
    """Somebody else keeps its queue from admitting it."""
    workload = waiting(observation)
    if workload is None or not (gates := facts.gates(observation)):
        return None
    message = "Kueue is not allowed to admit it yet"
    return finding_of(observation, Reason.GATED, _ref(workload), message, gates=listed(gates))


def workload_missing(observation: Observation) -> Finding | None:
    """A queue is named, nothing runs, and there is no Workload."""
    queue = facts.queue(observation)
    if not queue or not facts.held_back(observation) or observation.workloads or is_unseen(observation):
        return None
    if facts.age(observation, observation.trainjob) < _PATIENCE:
        return None
    message = f"it names LocalQueue {queue}, and has no Workload"
    return finding_of(
        observation, Reason.WORKLOAD_MISSING, Ref("LocalQueue", queue, facts.namespace(observation)), message
    )


def workload_unseen(observation: Observation) -> Finding | None:
    """It waits in a queue, and the user may not see its Workload."""
    queue = facts.queue(observation)
    if not queue or not facts.held_back(observation) or not is_unseen(observation):
        return None
    message = f"it is suspended until LocalQueue {queue} admits it"
    about = Ref("LocalQueue", queue, facts.namespace(observation))
    return finding_of(
        observation, Reason.WORKLOAD_UNSEEN, about, message, namespace=facts.namespace(observation)
    )


def is_unseen(observation: Observation) -> bool:
    """Whether it may have a Workload that could not be seen: that of its JobSet is looked for by its uid."""
    if observation.workloads:
        return False
    if facts.queue_suspends_trainjob(observation):  # then the Workload stands for the TrainJob
        return Subject.WORKLOADS in observation.unseen
    return not observation.unseen.keys().isdisjoint((Subject.WORKLOADS, Subject.JOBSET))


def workload_inactive(observation: Observation) -> Finding | None:
    """Kueue or a person has deactivated it."""
    workload = current(observation)
    if workload is None or read.at(workload, "spec", "active") is not False:
        return None
    message = _message(workload, "Evicted") or "its spec.active is false"
    name, within = read.name(workload), facts.namespace(observation)
    return finding_of(
        observation, Reason.WORKLOAD_INACTIVE, _ref(workload), message, name=name, namespace=within
    )


def workload_inadmissible(observation: Observation) -> Finding | None:
    """It will not get quota by waiting."""
    workload = waiting(observation)
    if workload is None:
        return None
    message, queue = _message(workload, "QuotaReserved"), _queue(workload)
    reason = read.text(read.condition(workload, "QuotaReserved"), "reason")
    if not quota.is_never(reason, message):
        return None
    hint = "" if queue in observation.local_queues else similar.hint(queue, observation.local_queues)
    return finding_of(observation, Reason.WORKLOAD_INADMISSIBLE, _ref(workload), message + hint, queue=queue)


def requeued_later(observation: Observation) -> Finding | None:
    """Kueue has evicted it and does not try it before some time: whether quota is free does not matter."""
    workload = waiting(observation)
    if workload is None or not (message := queue_place.backoff(workload)):
        return None
    return finding_of(observation, Reason.REQUEUED_LATER, _ref(workload), message)


def quota_short(observation: Observation) -> Finding | None:
    """It waits in its queue."""
    workload = waiting(observation)
    if workload is None:
        return None
    reason = _message(workload, "QuotaReserved")
    if not reason and facts.age(observation, workload) < _EVALUATING:
        return None
    message = reason or "Kueue has not considered it yet"
    if read.holds(workload, "Evicted"):
        evicted = read.condition(workload, "Evicted")
        eviction = _PREEMPTOR.sub(lambda _: _job(observation.preemptor), read.text(evicted, "message"))
        message += f"; it was evicted before ({read.text(evicted, 'reason')}: {eviction})"
    if observation.queue_place is not None:
        message = f"{_where(observation, observation.queue_place)}: {message}"
    queue = _queue(workload)
    finding = finding_of(observation, Reason.QUOTA_SHORT, _ref(workload), message, queue=queue)
    is_first = observation.queue_place is not None and observation.queue_place.position == 1
    return replace(finding, next_step=_AS_FIRST.format(queue=queue)) if is_first else finding


def _where(observation: Observation, place: QueuePlace) -> str:
    """Its place in the queue, who is before it, and for whom it waits."""
    visible = "of the visible jobs " if place.partial else ""
    sentence = f"it is number {place.position} {visible}in {place.queue}"
    if place.before:
        sentence += f", behind {listed(place.before, queue_place.NAMED, place.position - 1)}"
    if place.holders:
        holders = [
            f"{holder.job} (runs for {text.duration(facts.since(observation, holder.since))})"
            for holder in place.holders
        ]
        sentence += f", and waits for {listed(holders, queue_place.NAMED)}"
        unseen = place.only_own and not place.partial  # else it is said already
        return sentence + ("; you are not allowed to see the jobs of other namespaces" if unseen else "")
    return sentence + (", and waits for jobs that you are not allowed to see" if place.only_own else "")


def admission_check_pending(observation: Observation) -> Finding | None:
    """It has quota, and somebody else must agree."""
    workload = current(observation)
    if workload is None or not read.holds(workload, "QuotaReserved") or read.holds(workload, "Admitted"):
        return None
    for check in read.objects(workload, "status", "admissionChecks"):
        if check.get("state") != "Ready":
            name = read.text(check, "name")
            message = f"it is {read.text(check, 'state')}: {read.text(check, 'message') or 'no message'}"
            return finding_of(
                observation, Reason.ADMISSION_CHECK, Ref("AdmissionCheck", name), message, check=name
            )
    return None


def not_resumed(observation: Observation) -> Finding | None:
    """It is admitted, and Kueue has not resumed it."""
    workload, seconds = current(observation), admitted_for(observation)
    if workload is None or seconds is None or seconds < _RESUMES_WITHIN:
        return None
    of = "the JobSet's " if facts.queue_of_jobset(observation) else ""
    return finding_of(
        observation, Reason.NOT_RESUMED, _ref(workload), f"it is Admitted, and {of}spec.suspend is still true"
    )


def admitted_for(observation: Observation) -> float | None:
    """Seconds since Kueue admitted it, which has not resumed it yet; None if it waits for something else."""
    workload = current(observation)
    if not read.holds(workload, "Admitted") or not facts.held_back(observation):
        return None
    return facts.since(observation, read.moment(read.condition(workload, "Admitted"), "lastTransitionTime"))


def before_admission(observation: Observation) -> Finding | None:
    """The reason why it stays in its queue."""
    rules = (down, *BEFORE_ADMISSION)
    return next((finding for rule in rules if (finding := rule(observation)) is not None), None)


def preemptor(observation: Observation) -> str:
    """uid of the job that took its quota, according to Kueue; empty if none did."""
    workload = waiting(observation)
    if workload is None or not read.holds(workload, "Evicted"):
        return ""
    match = _PREEMPTOR.search(read.text(read.condition(workload, "Evicted"), "message"))
    return "" if match is None else match[1]


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


def current(observation: Observation) -> Json | None:
    """The newest Workload of the TrainJob that has not finished."""
    unfinished = [w for w in observation.workloads if not read.holds(w, "Finished")]
    return max(unfinished, key=lambda w: read.moment(w, "metadata", "creationTimestamp"), default=None)


def cluster(observation: Observation) -> str:
    """The cluster that MultiKueue has sent it to; empty if none yet."""
    return read.text(current(observation), "status", "clusterName")


def waiting(observation: Observation) -> Json | None:
    """The Workload, if the TrainJob waits for its quota."""
    workload = current(observation)
    return workload if workload is not None and _waits(workload) and facts.held_back(observation) else None


def _waits(workload: Json) -> bool:
    return not read.holds(workload, "QuotaReserved") and read.at(workload, "spec", "active") is not False


def _message(workload: Json, kind: str) -> str:
    return clean(read.text(read.condition(workload, kind), "message"))


def _queue(workload: Json) -> str:
    return read.text(workload, "spec", "queueName")


def _ref(workload: Json) -> Ref:
    return facts.ref(workload, "Workload")


BEFORE_ADMISSION: Final = (
    held,
    gated,
    workload_missing,
    workload_unseen,
    workload_inactive,
    workload_inadmissible,
    requeued_later,
    quota_short,
    admission_check_pending,
)
"""In the order in which Kueue decides."""
