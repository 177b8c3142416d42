"""TrainJobs of the API levels 2.0 to 2.2, which have the same apiVersion as today's.

They differ in a few fields: podSpecOverrides (2.0) and podTemplateOverrides
(2.1) are runtimePatches now, labels and annotations of the JobSet too, and
numProcPerNode is a number. A TrainJob without any of these passes through
unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, invalid
from trainyard_api.json_types import Json

from . import live, pods, processes
from .notes import Notes
from .source import metadata, unknown_fields

_SPEC: Final = FieldPath("spec")
_TRAINER: Final = _SPEC.child("trainer")
_OLD: Final = ("podSpecOverrides", "podTemplateOverrides", "labels", "annotations")
_POD: Final = (
    "serviceAccountName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "volumes",
    "initContainers",
    "containers",
    "schedulingGates",
    "imagePullSecrets",
)
_MOST_PATCHES: Final = 16
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")


def is_old(value: Json, moved: Mapping[str, int]) -> bool:
    """Whether a TrainJob has a field or a value that API level 2.3 expresses differently.

    `moved` are the numbers of processes that runtimes held, by `runtime_key`.
    """
    spec = value.get("spec")
    if not isinstance(spec, Mapping):
        return False
    number = live.mapping(spec.get("trainer")).get("numProcPerNode")
    return (
        any(spec.get(key) is not None for key in _OLD)
        or isinstance(number, str)
        or (number is None and runtime_key(value) in moved)
        or any(not _URI.fullmatch(uri) for _, uri in _uris(spec))
    )


def convert(value: Json, moved: Mapping[str, int], notes: Notes) -> tuple[Json, ...]:
    """The TrainJob of today; raises `InvalidFieldError`."""
    json_reader.require_shallow(value, FieldPath())
    spec = {**json_reader.mapping(value.get("spec"), _SPEC)}
    patches = list(overridden(spec, notes))
    own = list(json_reader.objects(spec.get("runtimePatches"), _SPEC.child("runtimePatches")))
    spec = {key: item for key, item in spec.items() if key not in (*_OLD, "runtimePatches")}
    if len(own) + len(patches) > _MOST_PATCHES:
        raise invalid(_SPEC, len(own) + len(patches), f"makes more than {_MOST_PATCHES} runtimePatches")
    if own or patches:
        spec["runtimePatches"] = [*own, *patches]
    trainer = _trainer(spec, moved.get(runtime_key(value)), notes)
    if trainer:
        spec["trainer"] = trainer
    initializer = without_bad_uris(
        json_reader.mapping(spec.get("initializer"), _SPEC.child("initializer")), notes
    )
    if initializer:
        spec["initializer"] = initializer
    job = {"apiVersion": names.TRAINER_API_VERSION, "kind": names.TRAINJOB}
    return ({**job, "metadata": metadata(value, notes, named=False), "spec": spec},)


def runtime_key(value: Json) -> str:
    """The runtime that a TrainJob refers to, or that an object is, as one text."""
    own = live.mapping(value.get("metadata"))
    if str(value.get("kind")) in names.RUNTIME_KINDS:
        kind, name = value["kind"], own.get("name")
    else:
        reference = live.mapping(live.mapping(value.get("spec")).get("runtimeRef"))
        kind, name = reference.get("kind") or names.CLUSTER_TRAINING_RUNTIME, reference.get("name")
    where = own.get("namespace") if kind == names.TRAINING_RUNTIME else None
    return f"{kind}/{where or ''}/{name}"


def overridden(spec: Json, notes: Notes) -> Iterator[Json]:
    """The runtime patches that replace overrides, labels and annotations.

    Each override becomes one patch: patches are applied in their order, as
    overrides were.
    """
    own = {}
    for key in ("labels", "annotations"):
        entries = json_reader.text_map(spec.get(key), _SPEC.child(key))
        if entries:
            own[key] = entries
            notes.changed(_SPEC.child(key), "are in runtimePatches, for the JobSet's metadata")
    made = [pods.patched({}, metadata=own)] if own else []
    for key in ("podSpecOverrides", "podTemplateOverrides"):
        path = _SPEC.child(key)
        overrides = json_reader.objects(spec.get(key), path)
        for position, override in enumerate(overrides):
            templates = _templates(override, key, path.index(position), notes)
            if templates:
                made.append(pods.patched(templates))
        if overrides:
            notes.changed(path, f"are runtimePatches of the manager {pods.MANAGER}")
    for number, patch in enumerate(made):
        yield {**patch, "manager": pods.MANAGER if number == 0 else f"{pods.MANAGER}-{number + 1}"}


def _templates(override: Json, kind: str, path: FieldPath, notes: Notes) -> dict[str, Json]:
    """The pod template patch of each ReplicatedJob that an override names."""
    own = {}
    pod, at = override, path
    if kind == "podTemplateOverrides":
        unknown_fields(override, ("targetJobs", "metadata", "spec"), path, "an override", notes)
        pod_metadata = json_reader.mapping(override.get("metadata"), path.child("metadata"))
        for key in ("labels", "annotations"):
            entries = json_reader.text_map(pod_metadata.get(key), path.child("metadata", key))
            if entries:
                own[key] = entries
        at = path.child("spec")
        pod = json_reader.mapping(override.get("spec"), at)
        unknown_fields(pod, _POD, at, "a pod override", notes)
    else:
        unknown_fields(override, ("targetJobs", *_POD), path, "an override", notes)
    spec = {key: pod[key] for key in _POD if pod.get(key) is not None}
    template = {key: item for key, item in (("metadata", own), ("spec", spec)) if item}
    targets = json_reader.named_objects(override.get("targetJobs"), path.child("targetJobs"))
    if not targets:
        notes.lost(path.child("targetJobs"), "does not name a ReplicatedJob, so the override has no effect")
    return {str(target["name"]): template for target in targets} if template else {}


def _trainer(spec: Json, moved: int | None, notes: Notes) -> dict[str, Any]:
    trainer = {**json_reader.mapping(spec.get("trainer"), _TRAINER)}
    number = trainer.get("numProcPerNode")
    path = _TRAINER.child("numProcPerNode")
    if isinstance(number, str):
        resources = _TRAINER.child("resourcesPerNode")
        amounts = json_reader.mapping(trainer.get("resourcesPerNode"), resources)
        del trainer["numProcPerNode"]
        count = processes.read(number, path, amounts, resources, notes)
        if count is not None:
            trainer["numProcPerNode"] = count
    elif number is None and moved is not None:
        trainer["numProcPerNode"] = moved
        notes.changed(path, f"is {moved}, as its runtime said")
    return trainer


def without_bad_uris(initializer: Json, notes: Notes) -> dict[str, Any]:
    """The initializer without the URIs that API level 2.3 refuses."""
    kept = {**initializer}
    for key, uri in _uris({"initializer": initializer}):
        if not _URI.fullmatch(uri):
            path = _SPEC.child("initializer", key, "storageUri")
            notes.lost(path, "must be a URI with a scheme, such as hf://, s3:// or pvc://")
            kept[key] = {name: item for name, item in kept[key].items() if name != "storageUri"}
    return kept


def _uris(spec: Json) -> Iterator[tuple[str, str]]:
    initializer = live.mapping(spec.get("initializer"))
    for key in ("dataset", "model"):
        uri = live.mapping(initializer.get(key)).get("storageUri")
        if isinstance(uri, str) and uri:
            yield key, uri
