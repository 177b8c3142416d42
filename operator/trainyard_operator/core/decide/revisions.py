"""Runtime revisions: a TrainJob keeps the runtime that it started with.

Called by `reconcile` for names, and by the shell to store revisions and to
choose the runtime of a job. A revision is a ControllerRevision in the
operator's own namespace, named by the hash of what it keeps; what does not
match its own name or label is not honoured, and users cannot write there.
Stores and collects nothing itself.

Which content was in force at a job's creation is decided by `Runtime.changed`,
kept with the revision: the time at which a revision was stored says little,
for it is stored when it is first used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from trainyard_api import documents, json_reader, names, runtime_ref
from trainyard_api.errors import FieldPath

from ..model import JobSet, Json, Runtime, RuntimeProblem, TrainJob
from ..status.conditions import moment, timestamp
from . import refusals

API_VERSION: Final = "apps/v1"
KIND: Final = "ControllerRevision"
SNAPSHOT_SUFFIX: Final = "-runtime-snapshot"
"""Suffix of the name of Trainer v2.3's snapshot ConfigMap."""
_FRAMEWORK: Final = "framework"
"""The label, where pods depend on it: a revision from before they did has none, and stays as it was."""
MAX_SNAPSHOT: Final = 256 * 1024
"""Characters. A larger snapshot is not read: parsing 1 MiB of YAML can take seconds and much memory."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The runtime to build a job from."""

    runtime: Runtime | RuntimeProblem
    lost: bool = False
    """The content that the job started with, or was created for, is no longer known."""
    renewed: bool = False
    """The original content was refused before a pod of it ran; this is the current content."""


def live(manifest: Json) -> Runtime:
    """A runtime as the API server returns it, with what its metadata tells about its age.

    `changed` is exact while the generation is 1; later it is the last write
    that managedFields record of somebody who owns fields of the spec.
    """
    metadata = manifest["metadata"]
    created = _time(metadata.get("creationTimestamp"))
    writes = [
        _time(entry.get("time"))
        for entry in metadata.get("managedFields") or ()
        if "f:spec" in (entry.get("fieldsV1") or {})
    ]
    last = max((at for at in writes if at is not None), default=None)
    return Runtime(
        kind=manifest["kind"],
        name=metadata["name"],
        namespace=metadata.get("namespace"),
        uid=metadata["uid"],
        spec=manifest.get("spec") or {},
        labels=metadata.get("labels") or {},
        created=created,
        changed=created if metadata.get("generation") == 1 else last,
    )


def name_of(runtime: Runtime) -> str:
    """Name of the revision that keeps this runtime: the same content has the same name."""
    return "runtime-" + digest(_content(runtime))[:32]


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def manifest_of(runtime: Runtime, namespace: str) -> Json:
    """The ControllerRevision, in the operator's namespace, that keeps this runtime."""
    metadata: dict[str, Any] = {
        "name": name_of(runtime),
        "namespace": namespace,
        "labels": {names.RUNTIME_UID_LABEL: runtime.uid},
    }
    if runtime.changed is not None:
        metadata["annotations"] = {names.IN_FORCE_SINCE_ANNOTATION: timestamp(runtime.changed)}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "data": _content(runtime),
        "revision": 1,
    }


def read(manifest: Json) -> Runtime | None:
    """The runtime that a ControllerRevision keeps; None if it is not what its name and label say."""
    try:
        metadata = manifest["metadata"]
        data = manifest["data"]
        since = (metadata.get("annotations") or {}).get(names.IN_FORCE_SINCE_ANNOTATION)
        runtime = Runtime(
            kind=data["kind"],
            name=data["name"],
            namespace=data.get("namespace"),
            uid=data["uid"],
            spec=data["spec"],
            labels=_labels(data),
            revision=metadata["name"],
            changed=_time(since or metadata.get("creationTimestamp")),
        )
        labelled = (metadata.get("labels") or {}).get(names.RUNTIME_UID_LABEL)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return runtime if name_of(runtime) == runtime.revision and labelled == runtime.uid else None


def read_snapshot(config_map: Json, trainjob: TrainJob) -> Runtime | None:
    """The runtime in the ConfigMap that Trainer v2.3 kept for a JobSet of its own making.

    It has no uid: users can write ConfigMaps, so what it says of its identity
    is not trusted, and it is never recorded as a revision.

    Parsing the largest one takes half a second: call it in a thread.

    Returns:
        None if the ConfigMap is not this TrainJob's, is too large, cannot be
        read, or holds another runtime than the TrainJob refers to.
    """
    metadata = config_map.get("metadata") or {}
    owners = [owner.get("uid") for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    text = (config_map.get("data") or {}).get("runtime")
    if owners != [trainjob.uid] or not isinstance(text, str) or len(text) > MAX_SNAPSHOT:
        return None
    try:
        manifest = documents.read(text)
        runtime = live({**manifest, "metadata": {**manifest["metadata"], "uid": ""}})
        labels = json_reader.text_map(runtime.labels, FieldPath("metadata.labels"))
        spec = json_reader.mapping(runtime.spec, FieldPath("spec"))
        runtime = replace(runtime, spec=spec, labels=labels, changed=None)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return runtime if refers(trainjob, runtime) else None


def other_kind(kind: str) -> str:
    """The other kind of runtime: a TrainJob that leaves its kind out means a ClusterTrainingRuntime."""
    return (
        names.TRAINING_RUNTIME if kind == names.CLUSTER_TRAINING_RUNTIME else names.CLUSTER_TRAINING_RUNTIME
    )


def say_the_other_kind(kind: str) -> str:
    """The way out of a reference to a runtime of this kind where only one of the other kind has its name."""
    other = other_kind(kind)
    return f"There is a {other} of that name: say runtimeRef.kind: {other}"


def refers(trainjob: TrainJob, runtime: Runtime) -> bool:
    """Whether this is the runtime that the TrainJob's runtimeRef names."""
    named = runtime_ref.of(trainjob.spec)
    expected = (named.kind, named.name, named.namespace(trainjob.namespace))
    return (runtime.kind, runtime.name, runtime.namespace) == expected


def supported(trainjob: TrainJob) -> bool:
    """Whether the runtimeRef is of a kind that can be built from at all."""
    group, kind, _ = runtime_ref.of(trainjob.spec)
    return group == names.TRAINER_GROUP and kind in names.RUNTIME_KINDS


def choose(
    trainjob: TrainJob,
    jobset: JobSet | None,
    live_runtime: Runtime | None,
    recorded: Sequence[Runtime],
    snapshot: Runtime | None = None,
    *,
    counts_live: bool = False,
) -> Chosen:
    """The runtime to build this job from.

    `recorded` are the revisions of the runtimeRef's runtime as `read` returns
    them; only those are honoured that carry the live runtime's uid (any uid
    once the runtime is gone). With a JobSet of this job:

    1. the revision that its annotation names; of a ClusterTrainingRuntime,
       which no tenant can create, also one of an earlier uid: removing the platform and installing it again
       recreates it;
    2. without that annotation Trainer v2.3 made it: the `snapshot`;
    3. else the live runtime, and what the job started with is lost.

    Without one, what was in force when the job was created:

    1. the live runtime, unless it has changed since, or was created later;
    2. the newest revision in force by then;
    3. the live runtime; lost if an older content is known to have existed;

    or the live runtime in place of any of these, if what the job was sent with
    was refused (see `refusals`), or if `counts_live`: Kueue counts its pods by it
    (see `queueing`). A JobSet of Trainer's keeps its snapshot all the same.
    """
    if not supported(trainjob):
        return Chosen(RuntimeProblem.NOT_SUPPORTED)
    earlier = [revision for revision in recorded if refers(trainjob, revision)]
    honoured = [r for r in earlier if live_runtime is None or r.uid == live_runtime.uid]
    if jobset is not None and jobset.owner_uid == trainjob.uid:
        if (
            counts_live
            and live_runtime is not None
            and names.RUNTIME_REVISION_ANNOTATION in jobset.annotations
        ):
            return Chosen(live_runtime)
        kept = honoured + [revision for revision in earlier if revision.namespace is None]
        return _started_with(jobset, live_runtime, kept, snapshot)
    if counts_live and live_runtime is not None:
        return Chosen(live_runtime)
    sent_with = _in_force(trainjob.created, live_runtime, honoured)
    if live_runtime is None or not refusals.takes_the_newest(trainjob):
        return sent_with
    content = sent_with.runtime
    if (
        isinstance(content, Runtime)
        and content.revision is not None
        and content.revision != name_of(live_runtime)
    ):
        return Chosen(live_runtime, renewed=True)
    return sent_with


def _started_with(
    jobset: JobSet, live_runtime: Runtime | None, recorded: Sequence[Runtime], snapshot: Runtime | None
) -> Chosen:
    revision = jobset.annotations.get(names.RUNTIME_REVISION_ANNOTATION)
    kept = snapshot if revision is None else next((r for r in recorded if r.revision == revision), None)
    if kept is not None:
        return Chosen(kept)
    if live_runtime is None:
        return Chosen(RuntimeProblem.NOT_FOUND, lost=True)
    return Chosen(live_runtime, lost=revision is None or name_of(live_runtime) != revision)


def _in_force(created: datetime, live_runtime: Runtime | None, honoured: Sequence[Runtime]) -> Chosen:
    if live_runtime is not None and live_runtime.changed is not None and live_runtime.changed <= created:
        return Chosen(live_runtime)
    by_then = [(r.changed, r) for r in honoured if r.changed is not None and r.changed <= created]
    if by_then:
        return Chosen(max(by_then, key=lambda entry: entry[0])[1])
    if live_runtime is None:
        return Chosen(RuntimeProblem.NOT_FOUND)
    existed = live_runtime.created is not None and live_runtime.created <= created
    return Chosen(live_runtime, lost=existed and live_runtime.changed is not None)


def _content(runtime: Runtime) -> Json:
    content = {"kind": runtime.kind, "name": runtime.name, "uid": runtime.uid, "spec": dict(runtime.spec)}
    if runtime.namespace is not None:
        content["namespace"] = runtime.namespace
    framework = runtime.labels.get(names.FRAMEWORK_LABEL)
    if framework in names.FRAMEWORKS_BY_LABEL:
        content[_FRAMEWORK] = framework
    return content


def _labels(content: Json) -> Mapping[str, str]:
    framework = json_reader.text(content.get(_FRAMEWORK), FieldPath("data").child(_FRAMEWORK))
    return {} if framework is None else {names.FRAMEWORK_LABEL: framework}


def _time(text: str | None) -> datetime | None:
    return None if text is None else moment(text)
