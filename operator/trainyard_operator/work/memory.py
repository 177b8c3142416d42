"""What this process remembers of each TrainJob from one look to the next, beyond what the cache shows.

Correctness needs nothing of it: a replica that has just started knows none of
it. It saves requests, spaces writes and shows refusals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from ..core import model
from ..core.decide import refusals
from ..core.status import pod_readiness
from ..watch.cache import Cache, Key
from .apply import Stripped, Written
from .pods import Start
from .status_throttle import Pace
from .undone import Undone

C = TypeVar("C", model.JobSet, model.Companion)

_NONE: Mapping[model.Identity, Stripped] = {}


class Refusal(NamedTuple):
    """A write that was refused, and a digest of what it was built from."""

    rejection: model.Rejection
    inputs: str


class Snapshot(NamedTuple):
    """What was found of the runtime that Kubeflow Trainer's controller kept for the job."""

    runtime: model.Runtime | None


@dataclass(slots=True)
class Memory:
    """What is remembered of the TrainJob with this uid."""

    uid: str
    refusal: Refusal | None = None
    companions: tuple[model.Companion, ...] = ()
    """As the last writes left them; only the look that follows at once relies on them."""
    stripped: Mapping[model.Identity, Stripped] = field(default_factory=lambda: _NONE)
    """Children from which the cluster removes our annotations."""
    checked_jobset: tuple[str, int] | None = None
    """Uid and generation of the JobSet when its spec was last seen as wanted."""
    foreign_jobset: str | None = None
    """Uid of the JobSet of another owner that was read from the API server itself."""
    had_jobset: bool = False
    """The TrainJob was seen with a JobSet of its own, or was given one."""
    confirmed: bool = False
    """The TrainJob was read from the API server itself since this replica leads."""
    authorities: str | None = None
    """The status server's authorities that its running pods are known to have."""
    snapshot: Snapshot | None = None
    idle_since: tuple[str, float] | None = None
    """Uid of the JobSet that should run and has no pod, and since when, on a monotonic clock."""
    waiting_since: tuple[str, float] | None = None
    """Uid of the JobSet that its queue holds back, and since when, on a monotonic clock."""
    deactivated: bool = False
    """The Workload of its JobSet was deactivated, and has not been activated since."""
    milestones: frozenset[str] = frozenset()
    """Those that have been counted."""
    attempts: tuple[str, frozenset[tuple[int, str]]] = ("", frozenset())
    """The uid of the JobSet, and those about whose failure there has been an Event: see `attempts.told`."""
    start: Start | None = None
    """What is known of its pods while not all of them are ready."""
    pace: Pace = field(default_factory=Pace)
    undone: Undone = field(default_factory=Undone)

    def wrote(self, write: model.Write, written: Written) -> None:
        """Remember what the answer to a write has shown."""
        if isinstance(write, model.Activate):
            self.deactivated = written.deactivated
        if written.checked_jobset is not None:
            self.checked_jobset = written.checked_jobset
            self.had_jobset = True
        child = written.stripped
        if child is not None and child.annotations:
            self.stripped = {**self.stripped, child.identity: child}
        elif child is not None and child.identity in self.stripped:
            self.stripped = {of: other for of, other in self.stripped.items() if of != child.identity}

    def idle(self, jobset: model.JobSet | None, now: float) -> float:
        """Seconds for which the JobSet has been seen without a pod, though it should run."""
        if jobset is None or jobset.suspend or not refusals.is_idle(jobset):
            self.idle_since = None
            return 0.0
        if self.idle_since is None or self.idle_since[0] != jobset.uid:
            self.idle_since = (jobset.uid, now)
        return now - self.idle_since[1]

    def waited(self, jobset: model.JobSet | None, now: float) -> float:
        """Seconds for which its queue has been seen to hold the JobSet back."""
        if jobset is None or not jobset.queue or not jobset.suspend:
            self.waiting_since = None
            return 0.0
        if self.waiting_since is None or self.waiting_since[0] != jobset.uid:
            self.waiting_since = (jobset.uid, now)
        return now - self.waiting_since[1]

    @property
    def seen(self) -> pod_readiness.Nodes | None:
        """What its pods have shown since it began to start."""
        return None if self.start is None else self.start.seen

    @property
    def starts(self) -> tuple[model.Cause, ...] | None:
        """What its pods wait for on their nodes; None if nobody has looked since it began to start."""
        if self.seen is None:
            return None
        return () if self.seen.held is None else (self.seen.held,)

    def unschedulable(self) -> tuple[model.EventNote, ...]:
        """The Event about pods that fit no node, once for each time that this begins."""
        if self.start is None or self.start.seen is None:
            return ()
        reported, self.start.reported = self.start.reported, bool(self.start.seen.unschedulable)
        return () if reported or not self.start.reported else (pod_readiness.note(self.start.seen),)

    def is_checked(self, jobset: model.JobSet) -> bool:
        """Whether nobody has edited its spec since it was as wanted."""
        return self.checked_jobset == (jobset.uid, jobset.generation)

    def complete(self, child: C) -> C:
        """The child with the annotations that the cluster has removed from it."""
        for stripped in self.stripped.values():
            if stripped.uid == child.uid:
                return replace(child, annotations={**stripped.annotations, **child.annotations})
        return child


class Memories:
    """The `Memory` of each TrainJob in the cache, removed with its TrainJob."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._of: dict[Key, Memory] = {}
        cache.trainjob_gone = self.forget

    def __len__(self) -> int:
        return len(self._of)

    def of(self, trainjob: model.TrainJob) -> Memory:
        """The memory of this TrainJob; if it is not in the cache, an empty one that is not kept."""
        key = Key.of(trainjob)
        memory = self._of.get(key)
        if memory is not None and memory.uid == trainjob.uid:
            return memory
        memory = Memory(trainjob.uid)
        current = self._cache.trainjobs.get(key)
        if current is not None and current.uid == trainjob.uid:
            self._of[key] = memory
        return memory

    def forget(self, key: Key) -> None:
        """The TrainJob is gone."""
        self._of.pop(key, None)

    def begin_to_lead(self) -> None:
        """Others may have led meanwhile: forget what they may have changed."""
        for memory in self._of.values():
            memory.companions = ()
            memory.confirmed = False
            memory.authorities = None
            memory.deactivated = False
