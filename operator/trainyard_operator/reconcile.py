"""What to do about a TrainJob, decided on what was observed and on nothing else.

Called by the shell with an `Observed` and the time; returns a `Plan`. Which
event led here does not matter, and neither does how far an earlier plan got:
every step leaves a state from which the next observation leads on.

Two orders matter against crashes. A deadline is written into the status
before the JobSet is deleted, in two rounds, because a TrainJob that is not
finished and has no JobSet would get a new one. A runtime revision is recorded
before the JobSet that refers to it is created.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from trainyard_api import names
from trainyard_api.errors import InvalidFieldError

from . import conditions, framework, marks, plugins, revisions
from .framework import DEFAULT_SETTINGS, Child, Plugin, Settings
from .model import (
    NOTHING,
    Condition,
    Create,
    Delete,
    EventNote,
    Identity,
    JobSet,
    Json,
    Observed,
    Plan,
    RecordRevision,
    Rejection,
    Runtime,
    RuntimeProblem,
    TrainJob,
    Update,
    Write,
)

RETRY_SECONDS: Final = 30.0
"""After how long what blocks a TrainJob is tried again."""
COLLECT_SECONDS: Final = 3.0
"""After how long a companion that is on its way out is looked for again: no watch tells of its end."""

_LONGEST_WAIT: Final = 86400.0
_LONGEST_MESSAGE: Final = 1000
"""An Event's message holds 1024 bytes."""

_NEXT_STEPS: Final = {
    "JobSetConflict": "delete it, or create the TrainJob again under another name",
    "JobSetRejected": "correct the runtime or the TrainJob's runtimePatches",
    "Forbidden": "see which admission policy or missing permission of the operator refuses it",
    "QuotaExceeded": "wait for other jobs to end, or have the namespace's ResourceQuota raised",
}
_SERVED_BY: Final = {
    "jobsets.jobset.x-k8s.io": "JobSet",
    "podgroups.scheduling.x-k8s.io": "the coscheduling plugin of scheduler-plugins",
    "podgroups.scheduling.volcano.sh": "Volcano",
}
"""Which installation brings a CRD."""


@dataclass(frozen=True, slots=True)
class _Cause:
    """Reason and message of a condition."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Step:
    """What the JobSet needs next."""

    writes: tuple[Write, ...] = ()
    events: tuple[EventNote, ...] = ()
    blocked: _Cause | None = None
    wait: float | None = None
    """Seconds until another look is due, even without an event, at what is to vanish; None: nothing is."""


def reconcile(
    observed: Observed,
    now: datetime,
    settings: Settings = DEFAULT_SETTINGS,
    using: Sequence[Plugin] = plugins.ALL,
) -> Plan:
    """The next writes, status and events for a TrainJob, and when to look again.

    The children beside the JobSet are created before it, each once. They are
    updated while the JobSet is missing or suspended, and left alone while it runs.

    Never raises for anything that a TrainJob or a runtime can contain: that
    becomes the condition `Blocked`.
    """
    job = observed.trainjob
    if job.deleting or not is_managed(job):
        return NOTHING
    jobset = _own_jobset(observed)
    before = conditions.of(job.status)
    if conditions.finished(before):
        return _after_the_end(job, jobset, before, now)

    after = _mirrored(conditions.without(_suspension(job, before, now), names.BLOCKED), jobset)
    if conditions.finished(after):
        return Plan(status=_status(job, after, jobset))
    if observed.runtime is RuntimeProblem.NOT_SUPPORTED:
        return Plan(status=_status(job, _failed(after, _unsupported(job), now), jobset))
    remaining = _remaining(job, after, now)
    if remaining is not None and remaining <= 0:
        overdue = _Cause("DeadlineExceeded", "TrainJob exceeded its active deadline")
        return Plan(
            status=_status(job, _failed(after, overdue, now), jobset),
            requeue_after=None if jobset is None else 0.0,
        )

    step = _next_step(observed, now, settings, using)
    events = step.events
    if step.blocked is not None:
        after = _with_blocked(before, after, step.blocked, now)
        events += _announced(before, step.blocked)
    return Plan(
        writes=step.writes,
        status=_status(job, after, jobset),
        events=events,
        requeue_after=_soonest(remaining, RETRY_SECONDS if step.blocked else step.wait),
    )


def companions(
    observed: Observed,
    settings: Settings = DEFAULT_SETTINGS,
    using: Sequence[Plugin] = plugins.ALL,
) -> tuple[Identity, ...]:
    """The children beside the JobSet that the next `reconcile` wants to know of.

    The shell looks them up, and says in `observed.companions` which there
    are. None for most TrainJobs, and for any whose JobSet runs.
    """
    job = observed.trainjob
    if job.deleting or not is_managed(job) or conditions.finished(conditions.of(job.status)):
        return ()
    if _runs(observed) or isinstance(observed.runtime, RuntimeProblem):
        return ()
    settings = marks.as_begun(settings, observed.jobset)
    try:
        if not framework.builds_beside(observed.runtime, using, settings):
            return ()
        children = framework.children(job, observed.runtime, using, settings)
    except (framework.UnsupportedPolicyError, InvalidFieldError):
        return ()
    return tuple(_identity(child.manifest) for child in children if child.manifest["kind"] != names.JOBSET)


def is_managed(job: TrainJob) -> bool:
    """Whether the TrainJob is this operator's, and not for example MultiKueue's."""
    return (job.spec.get("managedBy") or names.MANAGED_BY_TRAINER) == names.MANAGED_BY_TRAINER


def _own_jobset(observed: Observed) -> JobSet | None:
    jobset = observed.jobset
    return jobset if jobset is not None and jobset.owner_uid == observed.trainjob.uid else None


def _is_suspended(job: TrainJob) -> bool:
    return job.spec.get("suspend") is True


# --- status -----------------------------------------------------------------


def _after_the_end(
    job: TrainJob, jobset: JobSet | None, before: conditions.Conditions, now: datetime
) -> Plan:
    """A finished TrainJob starts nothing; past its deadline, what still runs is removed.

    That it is suspended is still said, as Trainer does: whoever suspends a job
    that is just ending waits for it.
    """
    after = conditions.without(_suspension(job, before, now), names.BLOCKED)
    failed = conditions.find(before, names.FAILED) or {}
    writes: tuple[Write, ...] = ()
    if jobset is not None and not jobset.deleting and failed.get("reason") == "DeadlineExceeded":
        writes = (Delete(names.JOBSET_API_VERSION, names.JOBSET, jobset.namespace, jobset.name, jobset.uid),)
    return Plan(writes=writes, status=_status(job, after, jobset))


def _suspension(job: TrainJob, before: conditions.Conditions, now: datetime) -> conditions.Conditions:
    at = conditions.timestamp(now)
    if _is_suspended(job):
        wanted = Condition(names.SUSPENDED, "True", "Suspended", "TrainJob is suspended", at)
        return conditions.with_condition(before, wanted)
    if conditions.is_true(before, names.SUSPENDED):
        wanted = Condition(names.SUSPENDED, "False", "Resumed", "TrainJob is resumed", at)
        return conditions.with_condition(before, wanted)
    return before


def _mirrored(current: conditions.Conditions, jobset: JobSet | None) -> conditions.Conditions:
    terminal = None if jobset is None else framework.status(jobset, plugins.ALL).terminal
    return current if terminal is None else conditions.with_condition(current, terminal)


def _failed(current: conditions.Conditions, why: _Cause, now: datetime) -> conditions.Conditions:
    wanted = Condition(names.FAILED, "True", why.reason, why.message, conditions.timestamp(now))
    return conditions.with_condition(current, wanted)


def _unsupported(job: TrainJob) -> _Cause:
    group, kind, _ = revisions.reference(job)
    return _Cause("TrainingRuntimeNotSupported", f"unsupported runtime: {kind}.{group}")


def _with_blocked(
    before: conditions.Conditions, after: conditions.Conditions, blocked: _Cause, now: datetime
) -> conditions.Conditions:
    """`after` with the condition at its end, dated as it was in `before` if it was there."""
    old = conditions.find(before, names.BLOCKED)
    at = conditions.timestamp(now) if old is None else old["lastTransitionTime"]
    wanted = Condition(names.BLOCKED, "True", blocked.reason, blocked.message, at)
    return conditions.with_condition(after, wanted)


def _announced(before: conditions.Conditions, blocked: _Cause) -> tuple[EventNote, ...]:
    """The Event for a block that is new or another than before."""
    old = conditions.find(before, names.BLOCKED) or {}
    if (old.get("reason"), old.get("message")) == (blocked.reason, blocked.message):
        return ()
    return (EventNote("Warning", blocked.reason, blocked.message),)


def _status(job: TrainJob, after: conditions.Conditions, jobset: JobSet | None) -> Json | None:
    """The fields of the status that differ from what is there.

    An empty list stands for no conditions, and for no jobsStatus when the
    JobSet is a new one: a status without any field is refused.
    """
    patch: dict[str, Any] = {}
    if after != conditions.of(job.status):
        patch["conditions"] = list(after)
    if jobset is not None:
        counts = framework.status(jobset, plugins.ALL).jobs_status
        if counts != tuple(job.status.get("jobsStatus") or ()):
            patch["jobsStatus"] = list(counts)
    return patch or None


# --- time -------------------------------------------------------------------


def _remaining(job: TrainJob, current: conditions.Conditions, now: datetime) -> float | None:
    """Seconds until the deadline; None without one, and while suspended."""
    seconds = job.spec.get("activeDeadlineSeconds")
    if not isinstance(seconds, int) or seconds <= 0 or _is_suspended(job):
        return None
    resumed = conditions.find(current, names.SUSPENDED)
    start = job.created if resumed is None else conditions.moment(resumed["lastTransitionTime"])
    return float(min(seconds, 2**53)) - (now - start).total_seconds()


def _soonest(deadline: float | None, retry: float | None) -> float | None:
    waits = [min(max(1.0, wait), _LONGEST_WAIT) for wait in (deadline, retry) if wait is not None]
    return min(waits, default=None)


# --- children ---------------------------------------------------------------


def _next_step(observed: Observed, now: datetime, settings: Settings, using: Sequence[Plugin]) -> _Step:
    job, jobset = observed.trainjob, observed.jobset
    if jobset is not None and jobset.deleting:
        return _Step(wait=RETRY_SECONDS)
    if jobset is not None and jobset.owner_uid != job.uid:
        return _Step(blocked=_foreign(names.JOBSET, jobset.name))
    if _runs(observed):
        return _Step()
    if isinstance(observed.runtime, RuntimeProblem):
        # What is as suspended as it should be needs no runtime now.
        if jobset is not None and jobset.suspend == _is_suspended(job):
            return _Step()
        return _Step(blocked=_runtime_missing(job))

    settings = marks.as_begun(settings, jobset)
    try:
        children = framework.children(job, observed.runtime, using, settings)
    except framework.UnsupportedPolicyError as error:
        return _Step(blocked=_policy_unsupported(observed.runtime, str(error), using))
    except InvalidFieldError as error:
        return _Step(blocked=_runtime_invalid(observed.runtime, str(error)))

    (wanted,) = (child.manifest for child in children if child.manifest["kind"] == names.JOBSET)
    beside = [child for child in children if child.manifest["kind"] != names.JOBSET]
    first = _companions_step(observed, beside)
    if first.blocked is not None or first.wait is not None:
        return first
    writes = _writes(observed, observed.runtime, wanted, first.writes, settings)
    if not writes:
        return _Step()
    if observed.rejection is not None and _is_recent(observed.rejection, now):
        return _Step(blocked=_rejected(observed.rejection))
    return _Step(writes=writes, events=_revision_lost(observed))


def _runs(observed: Observed) -> bool:
    """Whether the JobSet is to be left alone, because it runs and should."""
    jobset = observed.jobset
    return jobset is not None and not jobset.suspend and not _is_suspended(observed.trainjob)


def _identity(manifest: Json) -> Identity:
    return Identity(manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"])


def _companions_step(observed: Observed, children: Sequence[Child]) -> _Step:
    """What makes the children beside the JobSet what they should be."""
    job = observed.trainjob
    seen = {found.identity: found for found in observed.companions}
    writes: list[Write] = []
    for child in children:
        wanted = marks.labelled(child.manifest, job)
        found = seen.get(_identity(wanted))
        if found is None:
            writes.append(Create(wanted, child.generated))
        elif found.deleting or (found.owner_uid != job.uid and found.of_trainjob == job.name):
            # It goes with the TrainJob of this name that was there before.
            return _Step(wait=COLLECT_SECONDS)
        elif found.owner_uid != job.uid:
            return _Step(blocked=_foreign(found.kind, found.name))
        elif child.generated is None and marks.digest(found.annotations) != marks.digest(
            wanted["metadata"]["annotations"]
        ):
            writes.append(Update(wanted, found.uid, found.resource_version))
    return _Step(writes=tuple(writes))


def _writes(
    observed: Observed, runtime: Runtime, wanted: Json, first: tuple[Write, ...], settings: Settings
) -> tuple[Write, ...]:
    """What makes the JobSet what it should be, behind its companions; empty if all are."""
    jobset = observed.jobset
    record: tuple[Write, ...] = ()
    revision = runtime.revision
    if revision is None and runtime.uid:
        revision = revisions.name_of(runtime)
        record = (RecordRevision(runtime, revision),)
    marked = marks.marked(wanted, revision, settings.feature_gates)
    if jobset is None:
        return (*record, *first, Create(marked))
    same = marks.digest(jobset.annotations) == marks.digest(marked["metadata"]["annotations"])
    if same and observed.jobset_checked and jobset.suspend == marked["spec"]["suspend"]:
        return (*record, *first) if first else ()
    return (*record, *first, Update(marked, jobset.uid, jobset.resource_version))


def _is_recent(rejection: Rejection, now: datetime) -> bool:
    return rejection.at is None or now - rejection.at < timedelta(seconds=RETRY_SECONDS)


# --- words ------------------------------------------------------------------


def _reference(job: TrainJob) -> str:
    _, kind, name = revisions.reference(job)
    return f'{kind} "{name}"'


def _runtime_missing(job: TrainJob) -> _Cause:
    message = (
        f"{_reference(job)} is not found; create it, or create the TrainJob again with another runtimeRef"
    )
    return _Cause("RuntimeNotFound", message)


def _runtime_invalid(runtime: Runtime, what: str) -> _Cause:
    where = f'{runtime.kind} "{runtime.name}"'
    step = "correct the runtime or the TrainJob"
    return _Cause("RuntimeInvalid", _worded(f"no JobSet can be built from {where}: {what}", step))


def _policy_unsupported(runtime: Runtime, what: str, using: Sequence[Plugin]) -> _Cause:
    known = ", ".join(sorted(framework.implemented("mlPolicy", using)))
    message = _worded(f'{runtime.kind} "{runtime.name}": {what}', f"use a runtime with one of: {known}")
    return _Cause("MLPolicyNotSupported", message)


def _foreign(kind: str, name: str) -> _Cause:
    message = f'{kind} "{name}" exists and belongs to another owner'
    return _Cause("JobSetConflict", _worded(message, _NEXT_STEPS["JobSetConflict"]))


def _rejected(rejection: Rejection) -> _Cause:
    if rejection.reason == "CRDMissing":
        what = _SERVED_BY.get(rejection.resource, "what serves it")
        step = f"install {what}, or have the platform team do so"
    else:
        step = _NEXT_STEPS.get(rejection.reason, "see the operator's log")
    return _Cause(rejection.reason, _worded(rejection.message, step))


def _revision_lost(observed: Observed) -> tuple[EventNote, ...]:
    if not observed.runtime_revision_lost:
        return ()
    message = (
        f"{_reference(observed.trainjob)} has changed since the TrainJob began, and its earlier content "
        "is not kept any more; the JobSet is built from the present one"
    )
    return (EventNote("Warning", "RuntimeRevisionLost", message),)


def _worded(what: str, step: str) -> str:
    """The sentence with the next step at its end, whatever must be cut before."""
    room = _LONGEST_MESSAGE - len(step) - 5
    return f"{what if len(what) <= room else what[:room] + '...'}; {step}"
