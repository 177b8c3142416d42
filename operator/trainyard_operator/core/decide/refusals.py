"""A JobSet that should run, but none of whose pods do: who refuses its Jobs or pods, and what follows.

Called by `reconcile` and `revisions`. A TrainJob keeps the runtime that it was
created with. If that content is refused, retrying changes nothing, and a
corrected runtime would never reach the job. So, as long as no pod of it has
run:

1. `Blocked` says what is refused, and stays until something runs;
2. the JobSet is deleted once the runtime has other content than the JobSet;
3. a job without a JobSet whose content was refused is built from the runtime as it is now.

Each step is decided on what exists, so it does not matter where an operator is
killed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trainyard_api import names
from trainyard_api.reasons import Reason

from ..model import Job, JobSet, Json, Refused, TrainJob
from ..status import conditions

PATIENCE: Final = 30.0
"""Seconds for which a JobSet may well have no pod: it starts, ends or creates its next Jobs."""
AT_THE_START: Final = timedelta(seconds=120)
"""If pods are refused within this time after their Job started, none has run."""

OF_A_JOBSET: Final = frozenset({Reason.JOBS_REFUSED, Reason.PODS_REFUSED, Reason.PODS_OVER_QUOTA})
"""Why an accepted JobSet does not run, as reasons of `Blocked`."""
_ADMITTED: Final = 2
"""Generation of a JobSet that was resumed once. Kueue leaves no other trace of a suspension."""
_OF_CONTENT: Final = OF_A_JOBSET | {
    Reason.JOBSET_REJECTED,
    Reason.RUNTIME_INVALID,
    Reason.POLICY_UNSUPPORTED,
    Reason.FORBIDDEN,
}
"""Refusals that a change of the runtime may fix."""

JOBSET_EVENTS: Final = ("JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed")
"""Reasons of JobSet's events (0.12) about children that it could not create."""
JOB_EVENT: Final = "FailedCreate"
"""Reason of a Job's events about pods that could not be created."""
EVENTS: Final = frozenset({*JOBSET_EVENTS, JOB_EVENT})
SAID_OF_A_JOB: Final = re.compile(r"^(\(combined from similar events\): )?Error creating: ")
"""Prefix of the cause in such an event; see client-go's EventAggregator."""
OVER_QUOTA: Final = "exceeded quota"
"""The API server's words for a ResourceQuota that has no room for the object."""
_QUOTED: Final = re.compile(r'"[^"]*"')


@dataclass(frozen=True, slots=True)
class Warned:
    """An Event of type Warning. A time that it lacks is None."""

    about: str
    """uid of the object."""
    reason: str
    message: str
    first: datetime | None = None
    last: datetime | None = None


def is_idle(jobset: JobSet) -> bool:
    """Whether the JobSet counts no Job with a pod, and none that is suspended."""
    return not any(
        counts.ready or counts.active or counts.suspended for counts in jobset.replicated_jobs_status
    )


def of_jobset(jobset: JobSet, jobs: Sequence[Job], events: Collection[Warned]) -> tuple[Refused, ...]:
    """Refused objects of the JobSet: the reason why its Jobs have no pods, or why there are no Jobs."""
    of_jobs = [refused for job in sorted(jobs, key=lambda job: job.name) for refused in _of_job(job, events)]
    if of_jobs:
        return tuple(of_jobs)
    warnings = [event for event in events if event.about == jobset.uid and event.reason in JOBSET_EVENTS]
    return tuple(
        Refused(Reason.JOBS_REFUSED, message) for message in sorted({event.message for event in warnings})
    )


def has_run(jobset: JobSet, refused: Sequence[Refused], blocked_since: datetime | None) -> bool:
    """Whether pods of the JobSet may have run; `blocked_since` is the time of the condition that stands."""
    ended = any(counts.succeeded or counts.failed for counts in jobset.replicated_jobs_status)
    if ended or jobset.restarts or names.RAN_AS_ANNOTATION in jobset.annotations:
        return True
    if jobset.queue and jobset.generation > _ADMITTED:
        return True
    return not all(_at_the_start(refusal, blocked_since) for refusal in refused)


def takes_the_newest(trainjob: TrainJob) -> bool:
    """Whether a TrainJob that has no JobSet was refused with the content that it had, and never ran."""
    blocked = conditions.find(conditions.of(trainjob.status), names.BLOCKED) or {}
    return blocked.get("reason") in _OF_CONTENT and not any(
        count for counts in trainjob.status.get("jobsStatus") or () for count in _counted(counts)
    )


def _counted(counts: Json) -> Iterator[object]:
    return (counts.get(state) for state in ("ready", "succeeded", "failed", "active"))


def _of_job(job: Job, events: Collection[Warned]) -> Iterator[Refused]:
    warnings = [event for event in events if event.about == job.uid and event.reason == JOB_EVENT]
    if not warnings or job.active or job.suspended or job.finished:
        return
    newest = max(warnings, key=lambda event: (event.last is not None, event.last, event.message))
    # Each pod has its own name: without it, the same refusal of the next pod is the same message.
    message = _QUOTED.sub(
        lambda quoted: f'"{job.name}-..."' if quoted[0].startswith(f'"{job.name}-') else quoted[0],
        SAID_OF_A_JOB.sub("", newest.message),
    )
    reason = Reason.PODS_OVER_QUOTA if OVER_QUOTA in message else Reason.PODS_REFUSED
    first = min((event.first for event in warnings if event.first is not None), default=None)
    yield Refused(reason, f"Job {job.name}: {message}", first, job.started)


def _at_the_start(refused: Refused, blocked_since: datetime | None) -> bool:
    if refused.reason == Reason.JOBS_REFUSED:
        return True
    times = [at for at in (refused.first, blocked_since) if at is not None]
    return refused.started is not None and bool(times) and min(times) - refused.started <= AT_THE_START
