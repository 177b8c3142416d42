"""How pods of TrainJobs fail, noted while they exist: docs/adr/0021.

An informer follows failed pods only, never pods that run or have succeeded.
Only how the first of each attempt failed is kept, until its TrainJob has ended
or is gone.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from trainyard_api import names

from ..core import model
from ..core.status import attempts, termination_message
from .cache import Cache, Key
from .informer import State

logger = logging.getLogger(__name__)

FAILED: Final = "status.phase=Failed"
"""Field selector of what is followed."""

SELECTOR: Final = names.JOBSET_UID_LABEL

_DISRUPTED: Final = "DisruptionTarget"
_UNKNOWN: Final = "ContainerStatusUnknown"
"""The kubelet's reason for a container that did not exist when its pod ended."""
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_HAS_FAILED: Final = "Failed"
"""The condition of a JobSet."""
_DIGITS: Final = 9
"""Of a number in a label: anybody may have written it, and a status accepts no larger ones."""
_SIGNALLED: Final = 128
"""An exit code is this plus the number of the signal that ended the process."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    labels: dict[str, str]
    creation_timestamp: datetime
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int = 0


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Terminated(msgspec.Struct, rename="camel"):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class _State(msgspec.Struct):
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, rename="camel"):
    name: str
    state: _State = msgspec.field(default_factory=_State)
    last_state: _State = msgspec.field(default_factory=_State)


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _Status(msgspec.Struct, rename="camel"):
    reason: str = ""
    message: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status


_decoder = msgspec.json.Decoder(_Pod)


Found = tuple[Key, str, model.PodEnd]
"""Key and uid of its JobSet, and how the pod ended."""


class PodEnds:
    """Where the informer of failed pods puts what it finds; see `Informed`.

    It keeps nothing of pods whose TrainJob is not in the cache, or has ended.
    """

    def __init__(self, cache: Cache) -> None:
        self.failed: Callable[[Key, str, model.PodEnd], None] = lambda key, jobset, end: None
        """Called for each failed pod of a TrainJob that has not ended, more than once for some."""
        self.over: Callable[[Key], None] = lambda key: None
        """Called when a TrainJob has ended or is gone."""
        self._cache = cache
        cache.trainjob_over = self.forget
        self._first: dict[Key, dict[tuple[str, int], model.PodEnd]] = {}

    def __len__(self) -> int:
        return len(self._first)

    def of(self, jobset: model.JobSet) -> Sequence[model.PodEnd]:
        """How the first pod of each attempt of the JobSet ended, as far as it was seen and is settled."""
        by_attempt = self._first.get(Key.of(jobset))
        if by_attempt is None:
            return ()
        ends = [end for (uid, _), end in by_attempt.items() if uid == jobset.uid]
        has_failed = any(c.type == _HAS_FAILED and c.status == "True" for c in jobset.conditions)
        return attempts.settled(ends, jobset.restarts, has_failed=has_failed)

    def forget(self, key: Key) -> None:
        """The TrainJob has ended or is gone."""
        self._first.pop(key, None)
        self.over(key)

    def decode(self, raw: msgspec.Raw | bytes) -> tuple[Key, Found]:
        """See `Informed`."""
        pod = _decoder.decode(raw)
        labels = pod.metadata.labels
        of = Key(pod.metadata.namespace, labels[names.JOBSET_NAME_LABEL])
        return self.key(pod.metadata.namespace, pod.metadata.name), (
            of,
            labels[names.JOBSET_UID_LABEL],
            _end(pod),
        )

    def key(self, namespace: str, name: str) -> Key:
        """See `Informed`."""
        return Key(namespace, name)

    def upsert(self, key: Key, value: Found) -> None:
        """See `Informed`."""
        of, uid, end = value
        if not self._cache.is_unfinished(of) or self._is_earlier(of, uid, end):
            return
        self.failed(of, uid, end)
        by_attempt = self._first.setdefault(of, {})
        before = by_attempt.get((uid, end.attempt))
        if before is None or _is_after_a_pause(end, before) or attempts.is_before(end, before):
            by_attempt[uid, end.attempt] = end
            if len(by_attempt) > attempts.KEPT:
                of_others = [noted for noted in by_attempt if noted[0] != uid]
                del by_attempt[of_others[0] if of_others else sorted(by_attempt)[1]]
            self._cache.wake(of)

    def _is_earlier(self, of: Key, uid: str, end: model.PodEnd) -> bool:
        """Whether the pod is older than the TrainJob, or than its JobSet: of one that had its name before."""
        seen = self._cache.jobsets.get(of)
        if end.born is None or (seen is not None and seen.jobset.uid == uid):
            return False
        trainjob = self._cache.trainjobs.get(of)
        created = [trainjob.created if trainjob else None, seen.jobset.created if seen else None]
        return any(at is not None and end.born < at for at in created)

    def remove(self, key: Key, uid: str, resource_version: str) -> None:
        """See `Informed`: what is known of a pod outlives it."""

    def replace(self, objects: dict[Key, Found], at: int) -> None:
        """See `Informed`. A leader waits for all of them: none may keep it from its work."""
        for key, value in objects.items():
            try:
                self.upsert(key, value)
            except Exception:
                logger.exception("pod %s: how it failed is not noted", key)

    def progress(self, at: int) -> None:
        """See `Informed`."""

    def changed(self, state: State) -> None:
        """See `Informed`."""


def _end(pod: _Pod) -> model.PodEnd:
    status = pod.status
    containers = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    ended = [(container.name, how) for container in containers if (how := _failure(container)) is not None]
    name, how = min(ended, key=lambda end: end[1].finished_at or _NEVER, default=("", _Terminated()))
    disruption = _disruption(pod)
    words = None if disruption is not None else termination_message.of(how.exit_code, how.message)
    if disruption is None and _was_told_to_end(pod, how, words):
        return _deleted(pod)
    reason, message = disruption or (
        how.reason or "Error",
        termination_message.said(how.exit_code, how.message),
    )
    exit_code = how.exit_code if words is None else words.exit_code
    return model.PodEnd(
        **_place(pod),
        container=name,
        exit_code=exit_code,
        signal=_signal(how.signal or exit_code - _SIGNALLED),
        reason=reason,
        at=(words and words.at) or how.finished_at or pod.metadata.deletion_timestamp or _last_change(pod),
        message=message[-attempts.LAST_WORDS :],
        rank=None if words is None else words.rank,
        lost_others=words is not None and words.lost_others,
    )


def _deleted(pod: _Pod) -> model.PodEnd:
    return model.PodEnd(
        **_place(pod),
        container="",
        exit_code=0,
        reason=attempts.DELETED,
        at=_deleted_at(pod) or _last_change(pod),
    )


def _place(pod: _Pod) -> dict[str, Any]:
    labels = pod.metadata.labels
    return {
        "job": labels.get(names.REPLICATED_JOB_LABEL, ""),
        "index": number(labels.get(names.JOB_COMPLETION_INDEX_LABEL)),
        "attempt": number(labels.get(names.RESTART_ATTEMPT_LABEL)),
        "pod": pod.metadata.name,
        "node": pod.spec.node_name,
        "born": pod.metadata.creation_timestamp,
    }


def _is_after_a_pause(end: model.PodEnd, before: model.PodEnd) -> bool:
    """Whether its job went on in the same attempt after the pods of before were deleted: it was suspended."""
    return before.reason == attempts.DELETED and end.born is not None and end.born >= before.at


def _failure(container: _Container) -> _Terminated | None:
    """How a container failed, now or before its last restart; None if it did not."""
    how = container.state.terminated
    if how is None or how.reason == _UNKNOWN:
        how = container.last_state.terminated
    return how if how is not None and how.exit_code else None


def _disruption(pod: _Pod) -> tuple[str, str] | None:
    """Reason and message of what ended the pod as a whole; None if nothing did."""
    if pod.status.reason:
        return pod.status.reason, pod.status.message
    for condition in pod.status.conditions or ():
        if (condition.type, condition.status) == (_DISRUPTED, "True"):
            return condition.reason, condition.message
    return None


def _was_told_to_end(pod: _Pod, how: _Terminated, words: termination_message.LastWords | None) -> bool:
    """Whether it ended because it was deleted: its Job was suspended, or another pod of it had failed."""
    deleted_at = _deleted_at(pod)
    if deleted_at is None:
        return False
    if words is not None and words.at is not None and not words.lost_others:
        return words.at.replace(microsecond=0) > deleted_at
    if how.finished_at is None or how.finished_at > deleted_at:
        return True
    return how.finished_at == deleted_at and how.exit_code == termination_message.TERMINATED


def _deleted_at(pod: _Pod) -> datetime | None:
    """When somebody deleted it; None if nobody did."""
    if pod.metadata.deletion_timestamp is None:
        return None
    try:
        return pod.metadata.deletion_timestamp - timedelta(seconds=pod.metadata.deletion_grace_period_seconds)
    except OverflowError:  # a grace period of many centuries
        return pod.metadata.deletion_timestamp


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _last_change(pod: _Pod) -> datetime:
    changes = [c.last_transition_time for c in pod.status.conditions or () if c.last_transition_time]
    return max(changes, default=pod.metadata.creation_timestamp)


def number(text: str | None) -> int:
    """The number that a label has; 0 if it has none, or one that no status accepts."""
    return int(text) if text is not None and text.isdecimal() and len(text) <= _DIGITS else 0
