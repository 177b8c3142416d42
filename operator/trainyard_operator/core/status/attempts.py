"""Which pod of a TrainJob failed first in each of its attempts, and how: docs/adr/0021.

Called by the controller with what it saw of failed pods, and by `reconcile`
for the message of `Failed`. An attempt is all pods that JobSet's controller
created together; for the next attempt it recreates them. Its pods are gone
soon after; what is recorded here stays in the TrainJob's status. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trainyard_api import names
from trainyard_api.reasons import Reason

from ..model import Condition, EventNote, JobSet, Json, PodEnd, TrainJob
from . import conditions, termination_message

KEPT: Final = 8
"""Attempts that a status keeps: the first, and the last ones."""
LAST_WORDS: Final = 2000
"""Characters that a status keeps of a container's termination message."""
DELETED: Final = "Deleted"
"""The reason of a pod that ended because it was deleted."""
_SKEW: Final = timedelta(seconds=1)
"""By how much a node's clock may be behind the API server's, by which pods are deleted."""
_CONTINUED: Final = timedelta(minutes=10)
"""If a pod fails so long after the first of its attempt, the job had continued: its Job replaces pods."""
_LONGEST_WAIT: Final = timedelta(hours=1)
"""For how long a pod may wait for another that has failed, before it fails because of it."""
NO_FAILURE: Final = {
    DELETED: "was deleted",
    "EvictionByEvictionAPI": "was evicted",
    "PreemptionByScheduler": "was preempted",
    "Preempting": "was preempted",
    "DeletionByTaintManager": "was deleted because of a taint of its node",
    "DeletionByPodGC": "was lost with its node",
    "NodeLost": "was lost with its node",
    "NodeShutdown": "was ended with its node",
    "Terminated": "was ended with its node",
}
"""The reasons for which a pod ends that are no failure of the job, and what to say of the pod."""


def of(job: TrainJob, jobset: JobSet | None = None) -> tuple[Json, ...]:
    """The attempts that the TrainJob's status keeps, in their order.

    Given its JobSet, without those of an earlier one, which somebody has deleted: their numbers come again.
    """
    noted = (job.status.get(names.STATUS_FIELD) or {}).get("attempts")
    if not noted:
        return ()
    since = None if jobset is None else jobset.created
    # A pod of a JobSet, and so its failure, is no older than the JobSet: see `noted`.
    return tuple(attempt for attempt in counted(noted) if since is None or _failed_at(attempt) >= since)


def counted(noted: Sequence[Json]) -> tuple[Json, ...]:
    """The attempts counted from 1; earlier releases counted them from 0."""
    from_0 = any(attempt["attempt"] == 0 for attempt in noted)
    return tuple({**attempt, "attempt": attempt["attempt"] + 1} if from_0 else attempt for attempt in noted)


def settled(ends: Iterable[PodEnd], restarts: int, *, has_failed: bool) -> list[PodEnd]:
    """Those of the ends that no other can precede any more.

    A pod that was deleted or evicted, and one that lost others, is reported when its attempt is over: the
    job may continue with another pod, and the pod that failed first may still be ending.
    """
    return [
        end
        for end in ends
        if has_failed
        or end.attempt < restarts
        or not (
            end.lost_others or end.reason in NO_FAILURE or end.exit_code == termination_message.TERMINATED
        )
    ]


def is_failure(attempt: Json) -> bool:
    """Whether the attempt ended by a failure of the job's own."""
    return attempt["reason"] not in NO_FAILURE


def with_ends(before: Sequence[Json], ends: Iterable[PodEnd]) -> tuple[Json, ...]:
    """The attempts that are known and those seen now: for each, the pod that `is_before` the others."""
    first = {attempt["attempt"]: attempt for attempt in before}
    for end in ends:
        attempt = noted(end)
        earlier = first.get(attempt["attempt"])
        if earlier is None or _is_before(attempt, earlier):
            first[attempt["attempt"]] = attempt
    attempts = [first[number] for number in sorted(first)]
    return tuple(attempts if len(attempts) <= KEPT else [attempts[0], *attempts[1 - KEPT :]])


def sentence(attempt: Json) -> str:
    """How an attempt ended, in a sentence."""
    if not is_failure(attempt):
        return f"{who(attempt)} {NO_FAILURE[attempt['reason']]}, {_where(attempt)}"
    parts = [f"{who(attempt)} failed first: {_how(attempt)}, {_where(attempt)}"]
    words = termination_message.short(attempt.get("message", ""))
    return ": ".join([*parts, words] if words else parts)


def who(attempt: Json) -> str:
    """What failed first in an attempt: its rank, if known, and its pod's place."""
    pod = f"{attempt['job']} {attempt['index']}"
    return f"rank {attempt['rank']} ({pod})" if "rank" in attempt else pod


def _how(attempt: Json) -> str:
    reason = "" if attempt["reason"] == "Error" else attempt["reason"]
    code = f"exit code {attempt['exitCode']}" if attempt["exitCode"] else ""
    name = f" ({attempt['signal']})" if "signal" in attempt else ""
    lost = "lost others" if attempt.get("lostOthers") else ""
    return ", ".join(part for part in (lost, reason, code + name) if part)


def _where(attempt: Json) -> str:
    container = f"container {attempt['container']} of " if attempt["container"] else ""
    node = f" on node {attempt['node']}" if attempt["node"] else ""
    return f"{container}pod {attempt['pod']}{node}"


def with_last_failure(terminal: Condition, attempts: Sequence[Json]) -> Condition:
    """`Failed` with how the last attempt failed, after the message of JobSet's controller."""
    if terminal.type != names.FAILED or not attempts:
        return terminal
    last = attempts[-1]
    which = "" if last["attempt"] == 1 else f"In attempt {last['attempt']} "
    return replace(terminal, message=f"{terminal.message}. {which}{sentence(last)}")


def told(attempt: Json) -> tuple[int, str]:
    """What `notes` needs of an attempt about which there has been an Event."""
    return attempt["attempt"], attempt["failedAt"]


def notes(before: Collection[tuple[int, str]], now: Sequence[Json]) -> tuple[EventNote, ...]:
    """An Event for each attempt that is not in `before`, or that continued after the end in `before`."""
    return tuple(
        EventNote(*_KINDS[is_failure(new)], f"Attempt {new['attempt']}: {sentence(new)}")
        for new in now
        if all(number != new["attempt"] or replaces(new, conditions.moment(at)) for number, at in before)
    )


_KINDS: Final = {True: ("Warning", Reason.ATTEMPT_FAILED), False: ("Normal", Reason.ATTEMPT_ENDED)}


def noted(end: PodEnd) -> Json:
    """An attempt as the status keeps it, of the pod that failed first in it.

    It failed no earlier than its pod was created: a node's clock may be behind the API server's.
    """
    at = end.at if end.born is None else max(end.at, end.born)
    attempt: dict[str, Any] = {
        "attempt": end.attempt + 1,
        "job": end.job,
        "index": end.index,
        "pod": end.pod,
        "node": end.node,
        "container": end.container,
        "exitCode": end.exit_code,
        "reason": end.reason,
        "failedAt": at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
    }
    if end.rank is not None:
        attempt["rank"] = end.rank
    if end.lost_others:
        attempt["lostOthers"] = True
    if end.signal:
        attempt["signal"] = end.signal
    if end.message:
        attempt["message"] = end.message[-LAST_WORDS:]
    return attempt


def is_before(end: PodEnd, other: PodEnd) -> bool:
    """Whether the one pod failed before the other, or after the job had continued without the other."""
    return _is_before(noted(end), noted(other))


def replaces(attempt: Json, before: datetime) -> bool:
    """Whether the job had continued after the failure before of the same attempt, and then failed so."""
    lost_others = attempt.get("lostOthers", False)
    return not _is_told_to_end(attempt) and had_continued(before, _failed_at(attempt), lost_others)


def had_continued(before: datetime, at: datetime, lost_others: bool) -> bool:
    """Whether a job of which a pod had failed before had continued until another pod failed."""
    return at - before > (_LONGEST_WAIT if lost_others else _CONTINUED)


def _is_before(attempt: Json, other: Json) -> bool:
    """By `order`, unless the one was told to end well after the other had lost others: because of it."""
    if replaces(attempt, _failed_at(other)):
        return True
    if replaces(other, _failed_at(attempt)):
        return False
    if _is_told_to_end(attempt) and other.get("lostOthers"):
        # A difference: near the year 9999, nothing can be added to a time.
        return _failed_at(attempt) - _failed_at(other) <= _SKEW
    if _is_told_to_end(other) and attempt.get("lostOthers"):
        return not _is_before(other, attempt)
    return _order(attempt) < _order(other)


def _is_told_to_end(attempt: Json) -> bool:
    """By a deletion, whether its container had the time to end of itself or not."""
    return bool(attempt["reason"] == DELETED or attempt["exitCode"] == termination_message.TERMINATED)


def _failed_at(attempt: Json) -> datetime:
    return conditions.moment(attempt["failedAt"])


def _order(attempt: Json) -> tuple[Any, ...]:
    at, lost = _failed_at(attempt), attempt.get("lostOthers", False)
    code = termination_message.TERMINATED if _is_told_to_end(attempt) else attempt["exitCode"]
    return (*order(at, code, lost), attempt["job"], attempt["index"])


def order(at: datetime, exit_code: int, lost_others: bool) -> tuple[bool, datetime, bool, datetime]:
    """Sorts by who failed first: who lost others comes last, and within a second who was told to end."""
    return lost_others, at.replace(microsecond=0), exit_code == termination_message.TERMINATED, at
