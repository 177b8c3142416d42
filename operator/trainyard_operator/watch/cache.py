"""What the operator has seen: slim views of TrainJobs, runtimes, JobSets and runtime revisions.

Fed by the Kopf handlers, the informers and the answers to our own writes;
read by the controller. Never goes back in time: resourceVersions of one kind
are integers that only grow, and an older view of an object is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from trainyard_api import names

from ..core import model, revisions


class Key(NamedTuple):
    """Namespace and name of a TrainJob, and so of its JobSet."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class RuntimeKey(NamedTuple):
    """Kind, namespace (None: cluster-scoped) and name of a runtime."""

    kind: str
    namespace: str | None
    name: str


class Versioned(Protocol):
    """What a store can keep."""

    @property
    def uid(self) -> str:
        """The object's uid."""

    @property
    def resource_version(self) -> str:
        """The object's resourceVersion."""


def version(text: str) -> int:
    """A resourceVersion as a number; 0 for one that is none."""
    return int(text) if text.isdigit() else 0


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Versioned)


class Store(Generic[K, V]):
    """The latest view of each object of one kind.

    `seen` is the highest resourceVersion that its stream has delivered: what
    the stream has passed, it knows better than the answer to one of our writes.
    """

    def __init__(self) -> None:
        self._objects: dict[K, V] = {}
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
        """Take in a view from the stream; False if what we have is as new."""
        number = version(value.resource_version)
        self.seen = max(self.seen, number)
        current = self._objects.get(key)
        if current is not None and version(current.resource_version) >= number:
            return False
        self._objects[key] = value
        return True

    def wrote(self, key: K, value: V) -> bool:
        """Take in the answer to our own write; False if the stream is past it already."""
        number = version(value.resource_version)
        current = self._objects.get(key)
        if current is None and number <= self.seen:
            return False  # the stream has shown this version, and then its end
        if current is not None and version(current.resource_version) >= number:
            return False
        self._objects[key] = value
        return True

    def remove(self, key: K, *, uid: str | None = None, resource_version: str | None = None) -> bool:
        """Drop the object; not one of another uid, nor one newer than the version given."""
        if resource_version is not None:
            self.seen = max(self.seen, version(resource_version))
        current = self._objects.get(key)
        if current is None or (uid is not None and current.uid != uid):
            return False
        if resource_version is not None and version(current.resource_version) > version(resource_version):
            return False
        del self._objects[key]
        return True

    def replace(self, objects: Mapping[K, V], at: int) -> set[K]:
        """Take in a complete list of version `at`; returns the keys that changed or vanished.

        Objects of ours that are newer than the list stay.
        """
        changed = {key for key, value in objects.items() if self.observe(key, value)}
        for key in list(self._objects):
            if key not in objects and version(self._objects[key].resource_version) <= at:
                del self._objects[key]
                changed.add(key)
        self.seen = max(self.seen, at)
        return changed

    def clear(self) -> set[K]:
        """Drop everything; returns the keys there were."""
        keys = set(self._objects)
        self._objects.clear()
        return keys


@dataclass(frozen=True, slots=True)
class VersionedRuntime:
    """A live runtime with the version that it was seen at."""

    runtime: model.Runtime
    resource_version: str

    @property
    def uid(self) -> str:
        """The runtime's uid."""
        return self.runtime.uid


@dataclass(frozen=True, slots=True)
class Revision:
    """A ControllerRevision of a runtime, as it was stored."""

    name: str
    uid: str
    resource_version: str
    created: datetime
    runtime: model.Runtime | None
    """What it keeps; None if it is not what its own name and label say."""


@dataclass(frozen=True, slots=True)
class SeenJobSet:
    """A JobSet and whether a TrainJob, any TrainJob, is its controller."""

    jobset: model.JobSet
    of_trainjob: bool

    @property
    def uid(self) -> str:
        """The JobSet's uid."""
        return self.jobset.uid

    @property
    def resource_version(self) -> str:
        """The JobSet's resourceVersion."""
        return self.jobset.resource_version


class Cache:
    """All stores, and which TrainJobs refer to which runtime."""

    def __init__(self) -> None:
        self.trainjobs: Store[Key, model.TrainJob] = Store()
        self.jobsets: Store[Key, SeenJobSet] = Store()
        self.runtimes: Store[RuntimeKey, VersionedRuntime] = Store()
        self.revisions: Store[str, Revision] = Store()
        self.revisions_used: dict[str, float] = {}
        """When each revision was last recorded or chosen by us, on a monotonic clock."""
        self._users: dict[RuntimeKey, set[Key]] = {}

    def observe_trainjob(self, trainjob: model.TrainJob, *, ours: bool = False) -> bool:
        """Take in a TrainJob from its stream or, with `ours`, from the answer to our write."""
        key = Key(trainjob.namespace, trainjob.name)
        before = self.trainjobs.get(key)
        take: Callable[[Key, model.TrainJob], bool] = self.trainjobs.wrote if ours else self.trainjobs.observe
        if not take(key, trainjob):
            return False
        self._unlink(key, before)
        self._users.setdefault(runtime_key(trainjob), set()).add(key)
        return True

    def remove_trainjob(
        self, key: Key, *, uid: str | None = None, resource_version: str | None = None
    ) -> bool:
        """Drop a TrainJob (see `Store.remove`)."""
        before = self.trainjobs.get(key)
        if not self.trainjobs.remove(key, uid=uid, resource_version=resource_version):
            return False
        self._unlink(key, before)
        return True

    def users(self, runtime: RuntimeKey) -> set[Key]:
        """The TrainJobs that refer to the runtime."""
        return set(self._users.get(runtime, ()))

    def _unlink(self, key: Key, trainjob: model.TrainJob | None) -> None:
        if trainjob is None:
            return
        reference = runtime_key(trainjob)
        users = self._users.get(reference)
        if users is not None:
            users.discard(key)
            if not users:
                del self._users[reference]


def runtime_key(trainjob: model.TrainJob) -> RuntimeKey:
    """Which runtime the TrainJob refers to, with the API's default kind."""
    reference = trainjob.spec.get("runtimeRef")
    fields: Mapping[str, Any] = reference if isinstance(reference, Mapping) else {}
    kind = str(fields.get("kind") or "ClusterTrainingRuntime")
    namespace = trainjob.namespace if kind == "TrainingRuntime" else None
    return RuntimeKey(kind, namespace, str(fields.get("name") or ""))


def trainjob_of(manifest: model.Json) -> model.TrainJob:
    """The slim view of a TrainJob. Raises KeyError, TypeError or ValueError for what is none."""
    metadata = manifest["metadata"]
    return model.TrainJob(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        created=time_of(metadata["creationTimestamp"]),
        spec=manifest.get("spec") or {},
        status=manifest.get("status") or {},
        labels=metadata.get("labels") or {},
        annotations={
            name: value
            for name, value in (metadata.get("annotations") or {}).items()
            if name != "kubectl.kubernetes.io/last-applied-configuration"  # a copy of spec nobody reads
        },
        deleting="deletionTimestamp" in metadata,
    )


def runtime_of(manifest: model.Json, kind: str) -> VersionedRuntime:
    """The slim view of a live runtime. Raises KeyError or TypeError for what is none."""
    runtime = revisions.live({**manifest, "kind": kind})
    return VersionedRuntime(runtime, manifest["metadata"]["resourceVersion"])


def revision_of(manifest: model.Json) -> Revision:
    """The view of a ControllerRevision. Raises KeyError, TypeError or ValueError for what is none."""
    metadata = manifest["metadata"]
    return Revision(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        created=time_of(metadata["creationTimestamp"]),
        runtime=revisions.read(manifest),
    )


def companion_of(identity: model.Identity, manifest: model.Json) -> model.Companion:
    """The slim view of a child beside the JobSet. Raises KeyError or TypeError for what is no object."""
    metadata = manifest["metadata"]
    owners = metadata.get("ownerReferences") or ()
    owner: model.Json = next((owner for owner in owners if owner.get("controller")), {})
    of_trainjob = owner.get("kind") == names.TRAINJOB and owner["apiVersion"].startswith(
        f"{names.TRAINER_GROUP}/"
    )
    return model.Companion(
        api_version=identity.api_version,
        kind=identity.kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        owner_uid=owner.get("uid"),
        of_trainjob=owner["name"] if of_trainjob else None,
        deleting="deletionTimestamp" in metadata,
        annotations={
            name: value
            for name, value in (metadata.get("annotations") or {}).items()
            if name.startswith(names.OWN_PREFIX)
        },
    )


def time_of(text: str) -> datetime:
    """A Kubernetes timestamp as a time with a zone."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
