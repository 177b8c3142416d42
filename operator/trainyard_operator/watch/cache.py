"""What the operator has seen: slim views of TrainJobs, runtimes, JobSets and runtime revisions.

Fed by the Kopf handlers, the informers, the answers to our own writes, and other reads of objects from the
API server; read by the controller.
Never goes back in time: resourceVersions of one kind are integers that only
grow, and an older view of an object is refused.

Each change here wakes the affected TrainJobs, whatever its source:
a watch does not report a change that is here already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ..core import model
from ..core.build.plugins.jobset import has_ended
from ..core.decide.views import Revision, RuntimeKey, SeenJobSet, VersionedRuntime, key_of, runtime_key
from ..core.packed import Contents, Packed
from ..core.status import conditions


class Key(NamedTuple):
    """Namespace and name of a TrainJob, and so of its JobSet."""

    namespace: str
    name: str

    @classmethod
    def of(cls, job: model.TrainJob | model.JobSet) -> Key:
        """The key of a TrainJob or JobSet."""
        return cls(job.namespace, job.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Versioned(Protocol):
    """What a store can keep."""

    @property
    def uid(self) -> str:
        """The object's uid."""

    @property
    def resource_version(self) -> str:
        """The object's resourceVersion."""


REVISIONS_BYTES: Final = 32 * 1024 * 1024
"""Contents of revisions that are kept, all together: there may be many of each runtime, and most are
not read again."""


def version(text: str) -> int:
    """A resourceVersion as a number; 0 for one that is not a number."""
    return int(text) if text.isdigit() else 0


GONE: Final = 10_000
"""Objects of which it is remembered that they are gone: as many deletions may be on their way in a stream."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Versioned)


class Store(Generic[K, V]):
    """The latest view of each object of one kind.

    `seen` is the highest resourceVersion that its stream has delivered: up to
    there, the stream takes precedence over the answer to one of our writes.

    Args:
        changed: Called with the key and the former object when an object is new, changed or gone.
    """

    def __init__(self, changed: Callable[[K, V | None], None] = lambda key, before: None) -> None:
        self._objects: dict[K, V] = {}
        self._changed = changed
        self._gone: dict[str, None] = {}
        """The uids of objects that are gone, and whose deletion the stream has not delivered."""
        self.seen = 0

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[K]:
        return iter(self._objects)

    def get(self, key: K) -> V | None:
        """The object, None if there is none."""
        return self._objects.get(key)

    def values(self) -> Collection[V]:
        """All objects."""
        return self._objects.values()

    def observe(self, key: K, value: V) -> bool:
        """Take in a view from the stream; False if ours is as new."""
        number = version(value.resource_version)
        self.seen = max(self.seen, number)
        current = self._objects.get(key)
        if value.uid in self._gone or (current is not None and version(current.resource_version) >= number):
            return False
        self._objects[key] = value
        self._changed(key, current)
        return True

    def answered(self, key: K, value: V, *, news: bool = True) -> bool:
        """Take in what the API server answered to us; False if the stream is past it already.

        Args:
            key: The object's key.
            value: The object as it was answered.
            news: False for the answer to a write of ours that was guarded by the version held here: it
                holds nothing new.
        """
        number = version(value.resource_version)
        current = self._objects.get(key)
        if current is None and (number <= self.seen or value.uid in self._gone):
            return False  # the stream has shown this version, and then its deletion
        if current is not None and version(current.resource_version) >= number:
            return False
        self._objects[key] = value
        if news or current is None:
            self._changed(key, current)
        return True

    def keep(self, key: K, value: V) -> None:
        """Another view of an object that is held at this very version."""
        if (current := self._objects.get(key)) is not None:
            self._objects[key] = value
            self._changed(key, current)

    def gone(self, key: K, *, uid: str | None = None, resource_version: str | None = None) -> bool:
        """Drop the object as `remove` does, on the API server's word, which the stream may be behind.

        What the stream still delivers of it, before its deletion, is refused.
        """
        current = self._objects.get(key)
        if current is None or not self.remove(key, uid=uid, resource_version=resource_version):
            return False
        self._gone[current.uid] = None
        if len(self._gone) > GONE:
            del self._gone[next(iter(self._gone))]
        return True

    def remove(self, key: K, *, uid: str | None = None, resource_version: str | None = None) -> bool:
        """Drop the object; not one of another uid, nor one newer than the version given."""
        if uid is not None:
            self._gone.pop(uid, None)
        if resource_version is not None:
            self.seen = max(self.seen, version(resource_version))
        current = self._objects.get(key)
        if current is None or (uid is not None and current.uid != uid):
            return False
        if resource_version is not None and version(current.resource_version) > version(resource_version):
            return False
        del self._objects[key]
        self._changed(key, current)
        return True

    def replace(self, objects: Mapping[K, V], at: int) -> None:
        """Take in a complete list of version `at`; objects of ours that are newer than the list stay."""
        for key, value in objects.items():
            self.observe(key, value)
        for key in list(self._objects):
            if key not in objects:
                self.remove(key, resource_version=str(at))
        self.seen = max(self.seen, at)

    def clear(self) -> None:
        """Drop everything."""
        for key in list(self._objects):
            self.remove(key)


class Cache:
    """All stores, and which TrainJobs refer to which runtime."""

    def __init__(self) -> None:
        self.wake: Callable[[Key], None] = lambda key: None
        """Called with the key of a TrainJob when something that it depends on has changed."""
        self.trainjobs: Store[Key, model.TrainJob] = Store(self._trainjob_changed)
        self.jobsets: Store[Key, SeenJobSet] = Store(self._jobset_changed)
        self.runtimes: Store[RuntimeKey, VersionedRuntime] = Store(self._runtime_changed)
        self.revisions: Store[str, Revision] = Store(self._revision_changed)
        self.contents = Contents(REVISIONS_BYTES)
        """What the revisions keep; of those that are dropped, the look at a job reads it again."""
        self.revisions_used: dict[str, float] = {}
        """When we last recorded or chose each revision, on a monotonic clock."""
        self.recording = asyncio.Lock()
        """Held while a revision is recorded or collected."""
        self.collected: str | None = None
        """The revision whose deletion has been sent and not been answered."""
        self.trainjob_gone: Callable[[Key], None] = lambda key: None
        """Called when a TrainJob has left the cache."""
        self.trainjob_over: Callable[[Key], None] = lambda key: None
        """Called when a TrainJob has left the cache, or somebody else's write says that it has ended."""
        self._users: dict[RuntimeKey, set[Key]] = {}
        self._recorded: dict[RuntimeKey, dict[str, model.Runtime]] = {}
        self._ended: dict[Key, model.JobSet] = {}

    def _revision_changed(self, name: str, before: Revision | None) -> None:
        revision = self.revisions.get(name)
        if revision is None:
            self.contents.forget(name)
        elif revision.runtime is not None and isinstance(content := revision.runtime.spec, Packed):
            self.contents.use(name, content)
        was, now = (None if seen is None else seen.runtime for seen in (before, revision))
        if was is not None and (now is None or key_of(now) != key_of(was)):
            others = self._recorded[key_of(was)]
            del others[name]
            if not others:
                del self._recorded[key_of(was)]
        if now is not None:
            self._recorded.setdefault(key_of(now), {})[name] = now

    def recorded(self, runtime: RuntimeKey) -> list[model.Runtime]:
        """What the revisions of the runtime keep."""
        return list(self._recorded.get(runtime, {}).values())

    def named_like(self, runtime: RuntimeKey) -> set[str]:
        """The names of the runtimes that a reference to this one could have meant."""
        where = (runtime.kind, runtime.namespace)
        return {key.name for key in self.runtimes if (key.kind, key.namespace) == where}

    def users(self, runtime: RuntimeKey) -> set[Key]:
        """The TrainJobs that refer to the runtime."""
        return set(self._users.get(runtime, ()))

    def ended(self, trainjob: model.TrainJob) -> model.JobSet | None:
        """The TrainJob's JobSet that has ended and is gone, while the TrainJob's status does not say so yet.

        A JobSet with a short TTL may be gone before anybody has seen it end,
        or while nobody leads. Without its last state it would be recreated,
        and the job would train twice.
        """
        jobset = self._ended.get(Key.of(trainjob))
        return jobset if jobset is not None and jobset.owner_uid == trainjob.uid else None

    def is_unfinished(self, key: Key) -> bool:
        """Whether there is such a TrainJob, and it has not ended."""
        trainjob = self.trainjobs.get(key)
        return trainjob is not None and not _has_finished(trainjob)

    def _trainjob_changed(self, key: Key, before: model.TrainJob | None) -> None:
        if before is not None:
            self._unlink(key, before)
        trainjob = self.trainjobs.get(key)
        if trainjob is not None:
            self._users.setdefault(runtime_key(trainjob), set()).add(key)
        if trainjob is None or _has_finished(trainjob):
            self._ended.pop(key, None)
            self.trainjob_over(key)
        if trainjob is None:
            self.trainjob_gone(key)
        self.wake(key)

    def _jobset_changed(self, key: Key, before: SeenJobSet | None) -> None:
        if key in self.jobsets:
            self._ended.pop(key, None)
        elif before is not None and before.of_trainjob:
            self._keep_end(key, before.jobset)
        self.wake(key)

    def _keep_end(self, key: Key, jobset: model.JobSet) -> None:
        trainjob = self.trainjobs.get(key)
        if trainjob is None or trainjob.uid != jobset.owner_uid or _has_finished(trainjob):
            return
        if has_ended(jobset):
            self._ended[key] = jobset

    def _runtime_changed(self, key: RuntimeKey, before: VersionedRuntime | None) -> None:
        for user in self.users(key):
            trainjob = self.trainjobs.get(user)
            if trainjob is not None and not _has_finished(trainjob):
                self.wake(user)

    def _unlink(self, key: Key, trainjob: model.TrainJob) -> None:
        reference = runtime_key(trainjob)
        users = self._users.get(reference)
        if users is not None:
            users.discard(key)
            if not users:
                del self._users[reference]


def _has_finished(trainjob: model.TrainJob) -> bool:
    return conditions.finished(conditions.of(trainjob.status))
