"""The slim views of what the cluster holds: of each object what somebody reads, and no more.

Called for each object from the API server: by the watches, the webhook, and the command. What a tenant
decides the size of is kept packed. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from trainyard_api import names, runtime_ref

from .. import model
from ..packed import Packed
from ..status import conditions
from . import queueing, revisions


class RuntimeKey(NamedTuple):
    """Kind, namespace (None: cluster-scoped) and name of a runtime."""

    kind: str
    namespace: str | None
    name: str


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
    """The revision's content; None if it contradicts its name and label."""
    unreferenced_since: str | None = None
    """Since when no JobSet has named it, as its annotation says."""


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


def runtime_key(trainjob: model.TrainJob) -> RuntimeKey:
    """Which runtime the TrainJob refers to."""
    named = runtime_ref.of(trainjob.spec)
    return RuntimeKey(named.kind, named.namespace(trainjob.namespace), named.name)


def key_of(runtime: model.Runtime) -> RuntimeKey:
    """Which runtime it is."""
    return RuntimeKey(runtime.kind, runtime.namespace, runtime.name)


_READ_AT_EACH_LOOK = frozenset({"runtimeRef", "suspend", "managedBy", "activeDeadlineSeconds"})

_READ_OF_A_RUNTIME = frozenset({"podGroupPolicy"})
_READ_RUNTIME_LABELS = frozenset({names.FRAMEWORK_LABEL, names.SUPPORT_LABEL})
_READ_STATUS = frozenset({"conditions", "jobsStatus", names.STATUS_FIELD})

_READ_PROGRESS = frozenset({"progressPercentage", "lastUpdatedTime"})

_READ_ANNOTATIONS = frozenset(
    {names.ELASTIC_JOB_ANNOTATION, names.MAX_RESTARTS_ANNOTATION, names.RETENTION_ANNOTATION}
)
"""Annotations of a TrainJob that the operator reads, in addition to Kueue's. Others are dropped, because they
can be large."""
_LONGEST_ANNOTATION = 64
"""Characters that are kept of one of these. No valid value is longer, and an invalid one stays invalid."""


def _status(status: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is read of a status; once a TrainJob has ended, not how its attempts failed, which is long."""
    kept = _only(status, _READ_STATUS)
    if progress := _only((status or {}).get("trainerStatus"), _READ_PROGRESS):
        kept["trainerStatus"] = progress
    if names.STATUS_FIELD in kept and conditions.finished(conditions.of(kept)):
        kept[names.STATUS_FIELD] = _only(kept[names.STATUS_FIELD], frozenset({"state", "queue"}))
    return kept


def _only(fields: Mapping[str, Any] | None, kept: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in (fields or {}).items() if name in kept}


def _own_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    read = _only(annotations, _READ_ANNOTATIONS)
    return {name: value[:_LONGEST_ANNOTATION] for name, value in read.items()}


def trainjob_of(manifest: model.Json) -> model.TrainJob:
    """The slim view of a TrainJob. Raises KeyError, TypeError or ValueError for what is not one."""
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    patches = spec.get("runtimePatches") or ()
    return model.TrainJob(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        created=time_of(metadata["creationTimestamp"]),
        spec=Packed(spec, _READ_AT_EACH_LOOK),
        status=_status(manifest.get("status")),
        labels=queueing.labels_of(labels),
        annotations=queueing.annotations_of(annotations) | _own_annotations(annotations),
        deleting="deletionTimestamp" in metadata,
        collected=not names.DELETION_FINALIZERS.isdisjoint(metadata.get("finalizers") or ()),
        held_by_kueue=any(patch.get("manager") == names.KUEUES_PATCHES for patch in patches),
    )


def runtime_of(manifest: model.Json, kind: str) -> VersionedRuntime:
    """The slim view of a live runtime. Raises KeyError or TypeError for what is not one."""
    runtime = revisions.live({**manifest, "kind": kind})
    return VersionedRuntime(packed(runtime), manifest["metadata"]["resourceVersion"])


def packed(runtime: model.Runtime) -> model.Runtime:
    """The runtime as it is kept."""
    labels = _only(runtime.labels, _READ_RUNTIME_LABELS)
    return replace(runtime, spec=Packed(runtime.spec, _READ_OF_A_RUNTIME), labels=labels)


def revision_of(manifest: model.Json) -> Revision:
    """The view of a ControllerRevision. Raises KeyError, TypeError or ValueError for what is not one."""
    metadata = manifest["metadata"]
    runtime = revisions.read(manifest)
    return Revision(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        created=time_of(metadata["creationTimestamp"]),
        runtime=None if runtime is None else packed(runtime),
        unreferenced_since=(metadata.get("annotations") or {}).get(names.UNREFERENCED_SINCE_ANNOTATION),
    )


def companion_of(identity: model.Identity, manifest: model.Json) -> model.Companion:
    """The slim view of a companion of a JobSet. Raises KeyError or TypeError for what is not an object."""
    metadata = manifest["metadata"]
    owners = metadata.get("ownerReferences") or ()
    owner: model.Json = next((owner for owner in owners if owner.get("controller")), {})
    deleted = metadata.get("deletionTimestamp")
    of_trainjob = _is_trainjob(owner.get("kind"), owner.get("apiVersion", ""))
    return model.Companion(
        api_version=identity.api_version,
        kind=identity.kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        owner_uid=owner.get("uid"),
        of_trainjob=owner["name"] if of_trainjob else None,
        deleted=None if deleted is None else time_of(deleted),
        finalizers=tuple(metadata.get("finalizers") or ()),
        annotations={
            name: value
            for name, value in (metadata.get("annotations") or {}).items()
            if name.startswith(names.OWN_PREFIX)
        },
    )


def _is_trainjob(kind: str | None, api_version: str) -> bool:
    return kind == names.TRAINJOB and api_version.startswith(f"{names.TRAINER_GROUP}/")


def time_of(text: str) -> datetime:
    """A Kubernetes timestamp as a time with a zone."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


class _Owner(msgspec.Struct, rename="camel"):
    uid: str
    name: str = ""
    kind: str = ""
    api_version: str = ""
    controller: bool | None = None


class _Labels(msgspec.Struct):
    queue: str = msgspec.field(default="", name=names.QUEUE_LABEL)
    priority_class: str = msgspec.field(default="", name=names.PRIORITY_CLASS_LABEL)


class _SpecFields(msgspec.Struct):
    suspend: dict[str, Any] | None = msgspec.field(default=None, name="f:suspend")


class _Fields(msgspec.Struct):
    spec: _SpecFields | None = msgspec.field(default=None, name="f:spec")


class _ManagedFields(msgspec.Struct):
    time: datetime | None = None
    fields: _Fields | None = msgspec.field(default=None, name="fieldsV1")


class _JobSetMeta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int = 1
    creation_timestamp: datetime | None = None
    deletion_timestamp: str | None = None
    labels: _Labels | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    managed_fields: list[_ManagedFields] | None = None


class _JobSpec(msgspec.Struct):
    parallelism: int = 1


class _JobTemplate(msgspec.Struct):
    spec: _JobSpec = msgspec.field(default_factory=_JobSpec)


class _ReplicatedJob(msgspec.Struct):
    name: str
    replicas: int = 1
    template: _JobTemplate = msgspec.field(default_factory=_JobTemplate)


class _JobSetSpec(msgspec.Struct, rename="camel"):
    suspend: bool | None = None
    replicated_jobs: list[_ReplicatedJob] = msgspec.field(default_factory=list)
    volume_claim_policies: list[msgspec.Raw] | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int | None = None


class _JobSetStatus(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    replicated_jobs_status: list[model.ReplicatedJobStatus] | None = None
    restarts: int = 0


class _JobSet(msgspec.Struct):
    metadata: _JobSetMeta
    spec: _JobSetSpec | None = None
    status: _JobSetStatus | None = None


_jobset_decoder = msgspec.json.Decoder(_JobSet)


def jobset_of(raw: msgspec.Raw | bytes) -> SeenJobSet:
    """The slim view of a JobSet's JSON. Raises msgspec.DecodeError for what is not one."""
    decoded = _jobset_decoder.decode(raw)
    meta = decoded.metadata
    owner = next((owner for owner in meta.owner_references or () if owner.controller), None)
    of_trainjob = owner is not None and _is_trainjob(owner.kind, owner.api_version)
    status = decoded.status if of_trainjob and decoded.status is not None else _JobSetStatus()
    spec = decoded.spec or _JobSetSpec()
    annotations: Mapping[str, str] = meta.annotations or {}
    labels = meta.labels or _Labels()
    jobset = model.JobSet(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        owner_uid=None if owner is None else owner.uid,
        suspend=bool(spec.suspend),
        of_namesake=of_trainjob and owner is not None and owner.name == meta.name,
        owns_volumes=bool(spec.volume_claim_policies),
        deleting=meta.deletion_timestamp is not None,
        generation=meta.generation,
        annotations={name: value for name, value in annotations.items() if name.startswith(names.OWN_PREFIX)},
        conditions=tuple(
            model.Condition(
                c.type, c.status, c.reason, c.message, c.last_transition_time, c.observed_generation
            )
            for c in status.conditions or ()
        ),
        replicated_jobs_status=tuple(status.replicated_jobs_status or ()),
        restarts=status.restarts,
        queue=labels.queue,
        priority_class=labels.priority_class,
        created=meta.creation_timestamp,
        suspend_written=_suspend_written(meta.managed_fields or ()),
        queue_gates=annotations.get(names.QUEUE_GATES_ANNOTATION, ""),
        nodes=sum(
            job.replicas * job.template.spec.parallelism
            for job in spec.replicated_jobs
            if job.name not in names.INITIALIZERS
        ),
    )
    return SeenJobSet(jobset, of_trainjob)


def _suspend_written(managed: Sequence[_ManagedFields]) -> datetime | None:
    """When the manager of `spec.suspend`, who gave it its value, last changed something that it manages."""
    times = (
        entry.time
        for entry in managed
        if entry.time and entry.fields and entry.fields.spec and entry.fields.spec.suspend is not None
    )
    return max(times, default=None)
