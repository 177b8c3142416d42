"""A failure that came twice alike: it is not tried a third time (docs/adr/0034).

Called by `reconcile`, and by the controller for the progress that an attempt had
made. JobSet's controller cannot compare failures, and begins the next attempt
at once; JobSet lets nobody change its `failurePolicy`. So the operator fails
the TrainJob and suspends the JobSet. It does not delete it: the JobSet's
volumes, with the checkpoints, would be deleted with it.

Two attempts failed alike if, one after the other,

- a container of each ended by itself with an error, or used too much memory;
- it was the same rank, or the exit code is the same;
- the last words are the same, but for what differs from run to run;
- both had come as far: the same progress, if the job reports it, else about
  the same time.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from ..build import retries
from ..build.info import Settings
from ..model import Activate, Cause, JobSet, Json, Suspend, TrainJob
from ..status import attempts, conditions, termination_message
from . import causes, job_recreation, queueing

LATELY: Final = timedelta(minutes=5)
"""An attempt that has run for longer since the failure is let be: it may succeed."""
POINTS: Final = 1
"""Percentage points by which the progress of two attempts that came as far may differ."""
MARGIN: Final = timedelta(minutes=10)
SHARE: Final = 0.25
"""By how much the time of two attempts that came as far may differ: the larger of both counts."""

_ERROR: Final = "Error"
_OUT_OF_MEMORY: Final = "OOMKilled"
_KILLED: Final = frozenset({137, 143})
"""Exit codes of a process that SIGKILL or SIGTERM ended: somebody else's doing."""
_CHANGING: Final = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"  # ids
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"  # times
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b"
    r"|\b\d{10}(?:\.\d{1,9})?\b"
    r"|\b0x[0-9a-f]{1,16}\b"  # addresses
    r"|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?\b"
    r"|\b(?:pid|process|thread|rank)[ =:#]{0,3}\d{1,20}\b",  # processes
    re.IGNORECASE,
)
"""Parts that differ from run to run; a step or a loss matches none of them."""
_SUFFIX: Final = re.compile(r"\A-\d{1,9}-[a-z0-9]{5}\b")
"""The suffix of a pod's name after that of its Job."""


def seen(job: TrainJob, jobset: JobSet | None, noted: Sequence[Json], now: datetime) -> Cause | None:
    """Why the TrainJob is not tried again, if its last two attempts have just failed alike.

    Not if its user has said how often it is to be tried.

    Args:
        job: The TrainJob.
        jobset: Its own JobSet; None: it has none.
        noted: How its attempts failed.
        now: The time.
    """
    if jobset is None or len(noted) < 2 or retries.noted(jobset) is not None:
        return None
    ended = {attempt["attempt"]: attempt for attempt in noted}
    last = jobset.restarts
    first, second = ended.get(last - 1), ended.get(last)
    if first is None or second is None or job.suspended or now - _at(second) > LATELY:
        return None
    if last == 2:
        start: datetime | None = queueing.resumed_at(jobset) or job.created
    else:
        before = ended.get(last - 2)
        start = None if before is None else _at(before)
    if not (_alike(first, second) and _came_as_far(first, second, start)):
        return None
    return causes.failed_alike(last - 1, last, attempts.sentence(second))


def stop(job: TrainJob, jobset: JobSet, settings: Settings) -> tuple[Activate | Suspend, ...]:
    """Writes that end the attempt that JobSet's controller has begun, and keep the JobSet."""
    if jobset.suspend or jobset.deleting:
        return ()
    if queueing.holds(job, jobset, settings):
        return (Activate(jobset.namespace, jobset.name, jobset.uid, active=False),)
    return (job_recreation.suspension(jobset),)


def with_progress(job: TrainJob, jobset: JobSet | None, noted: Sequence[Json]) -> tuple[Json, ...]:
    """The attempts, with the progress that the job had reported in the last one, if that is new.

    Args:
        job: The TrainJob, whose status says what it has reported.
        jobset: Its own JobSet; None: it has none.
        noted: How its attempts failed.
    """
    known = {attempt["attempt"]: attempt for attempt in attempts.of(job, jobset)}
    result = []
    for position, attempt in enumerate(noted):
        before = known.get(attempt["attempt"])
        if before is not None and not attempts.replaces(attempt, _at(before)):
            progress = before.get("progress")
        else:
            is_last = attempt is noted[-1]
            progress = _reported(job, noted[position - 1] if position else None) if is_last else None
        result.append(attempt if progress is None else {**attempt, "progress": progress})
    return tuple(result)


def _reported(job: TrainJob, before: Json | None) -> int | None:
    """The percentage that the job has reported since the attempt before failed; None if it has not."""
    trainer_status = job.status.get("trainerStatus") or {}
    percentage, at = trainer_status.get("progressPercentage"), trainer_status.get("lastUpdatedTime")
    if percentage is None or at is None:
        return None
    return int(percentage) if before is None or conditions.moment(at) > _at(before) else None


def _alike(first: Json, second: Json) -> bool:
    if not (_is_its_own(first) and _is_its_own(second) and first["reason"] == second["reason"]):
        return False
    if first["exitCode"] != second["exitCode"] and _who(first) != _who(second):
        return False
    words = _words(first)
    return first["reason"] == _OUT_OF_MEMORY or (words == _words(second) and any(map(str.isalpha, words)))


def _is_its_own(attempt: Json) -> bool:
    """Whether the job's own program has failed, and not what it runs on."""
    if attempt.get("lostOthers"):
        return False
    by_itself = attempt["reason"] == _ERROR and attempt["exitCode"] not in _KILLED
    return by_itself or attempt["reason"] == _OUT_OF_MEMORY


def _who(attempt: Json) -> tuple[object, ...]:
    return attempt["job"], attempt["index"], attempt.get("rank")


def _words(attempt: Json) -> str:
    """The last words, without what differs from run to run."""
    words = termination_message.short(attempt.get("message", ""))
    job, _, _ = attempt["pod"].rpartition("-")[0].rpartition("-")
    if job:
        before, *named = words.split(job)
        words = job.join((before, *(_SUFFIX.sub("", text) for text in named)))
    if attempt["node"]:
        words = words.replace(attempt["node"], "")
    return _CHANGING.sub("", words)


def _came_as_far(first: Json, second: Json, start: datetime | None) -> bool:
    """Whether they failed at the same step, or where none is known after as long; `start` is the first's."""
    before, after = first.get("progress"), second.get("progress")
    if before is not None or after is not None:
        return before is not None and after is not None and abs(before - after) <= POINTS
    if start is None or start > _at(first):
        return False
    took, took_then = _at(first) - start, _at(second) - _at(first)
    return abs(took - took_then) <= max(MARGIN, SHARE * max(took, took_then))


def _at(attempt: Json) -> datetime:
    return conditions.moment(attempt["failedAt"])
