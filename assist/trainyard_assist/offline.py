"""TrainJobs and runtimes without a cluster: read from documents, as the API server would store them.

Called by `render` and `validate`. Applies the defaults of the CRD schemas, puts
placeholders for what only a cluster knows, and finds the runtime of a TrainJob.
Reads no files, and does not decide what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import Any, Final

from trainyard_api import json_reader, names, runtime_ref
from trainyard_api.documents import Document
from trainyard_api.errors import FieldPath, InvalidFieldError, UserError
from trainyard_api.json_types import Json
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import DEFAULT_SETTINGS
from trainyard_operator.core.build.phases import Defaults
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.model import Runtime, TrainJob

DEFAULT_NAMESPACE: Final = "ns"
"""The namespace of a TrainJob whose file names none: a placeholder, like the uid."""
PLACEHOLDER_UID: Final = "11111111-2222-3333-4444-555555555555"

_GENERATED: Final = "xxxxx"
"""In place of the characters that the API server appends to `generateName`."""
_LONGEST_PREFIX: Final = 58
"""Characters of `generateName` that the API server keeps."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OURS: Final = frozenset({names.TRAINJOB, *names.RUNTIME_KINDS})
_VERSION: Final = re.compile(r"^[- ]*apiVersion: *([^ \n]+)", re.MULTILINE)
"""In an object that is written as a text, like `_KIND`."""
_KIND: Final = re.compile(r"^[- ]*kind: *([A-Za-z]+)", re.MULTILINE)
_METADATA: Final = FieldPath("metadata")
_SPEC: Final = FieldPath("spec")

Runtimes = Mapping[tuple[str, str, str], Document]
"""Documents of runtimes by kind, namespace (empty: none) and name."""

IsOurs = Callable[[Json], bool]
"""Says whether an object is of a kind that is looked at."""


class UnreadableError(UserError, ValueError):
    """A document is not the TrainJob or runtime that it claims to be; the message has `file:line:`."""


def is_of(value: Json, kinds: Set[str]) -> bool:
    """Whether an object is of Trainer's API, and of one of these kinds."""
    return value.get("apiVersion") == names.TRAINER_API_VERSION and str(value.get("kind")) in kinds


def _is_ours(value: Json) -> bool:
    return is_of(value, _OURS)


def trainjob_documents(documents: Sequence[Document]) -> tuple[Document, ...]:
    """The documents that are TrainJobs."""
    return tuple(document for document in documents if is_of(document.value, {names.TRAINJOB}))


def inside_others(documents: Iterable[Document], is_ours: IsOurs = _is_ours) -> Iterator[str]:
    """What `inside` says about each document that is not looked at itself, with its place."""
    for document in documents:
        if not is_ours(document.value) and (sentence := inside(document.value, is_ours)):
            yield f"{document.place}: {sentence}"


def inside(outer: Json, is_ours: IsOurs = _is_ours) -> str:
    """A sentence about what stands in an object, such as an AppWrapper, and is not read there; empty without.

    Args:
        outer: The object; the items of a List are no part of it.
        is_ours: Whether an object would be checked in a document of its own.
    """
    kind = next((value["kind"] for value in _within(outer) if is_ours(value)), None)
    if kind is None:
        return ""
    where = f"inside {json_reader.shown(outer.get('kind'))}, where nobody looks"
    return f"a {kind} stands {where}: put it into a document of its own"


def _within(outer: Json) -> Iterator[Json]:
    """The objects in an object, and version and kind of those that it holds as text, as an Argo Workflow."""
    for value in json_reader.objects_in(outer):
        if value is not outer:
            yield value
        for text in value.values():
            if isinstance(text, str) and (version := _VERSION.search(text)) and (kind := _KIND.search(text)):
                yield {"apiVersion": version[1], "kind": kind[1]}


def runtime_documents(documents: Sequence[Document], namespace: str) -> Runtimes:
    """The documents that are runtimes, the last one of each name; `namespace` is that of those without one.

    Raises `UnreadableError` for a runtime without a name and without `generateName`.
    """
    runtimes = {}
    for document in documents:
        if is_of(document.value, names.RUNTIME_KINDS):
            runtimes[_runtime_key(document, namespace)] = document
    return runtimes


def runtime_document(job: TrainJob, runtimes: Runtimes) -> Document | None:
    """The runtime that the TrainJob refers to; None if it is not among them."""
    _, kind, name = runtime_ref.of(job.spec)
    return _of_kind(kind, name, job, runtimes)


def is_of_the_other_kind(job: TrainJob, runtimes: Runtimes) -> bool:
    """Whether a runtime of the other kind has the name to which the TrainJob refers."""
    _, kind, name = runtime_ref.of(job.spec)
    return _of_kind(revisions.other_kind(kind), name, job, runtimes) is not None


def _of_kind(kind: str, name: str, job: TrainJob, runtimes: Runtimes) -> Document | None:
    return runtimes.get((kind, job.namespace if kind == names.TRAINING_RUNTIME else "", name))


def trainjob(document: Document, namespace: str) -> TrainJob:
    """The TrainJob in a document; raises `UnreadableError`."""
    try:
        return trainjob_of(document.value, namespace)
    except InvalidFieldError as error:
        raise UnreadableError(f"{document.place}: {error}") from error


def trainjob_of(manifest: Json, namespace: str) -> TrainJob:
    """The TrainJob of a manifest, whether it is stored or not; raises `InvalidFieldError`."""
    json_reader.mapping(manifest.get("spec"), _SPEC)
    job = with_trainjob_defaults(manifest)
    metadata = json_reader.mapping(job.get("metadata"), _METADATA)
    reference = json_reader.mapping(job["spec"].get("runtimeRef"), _SPEC.child("runtimeRef"))
    json_reader.required_text(reference.get("name"), _SPEC.child("runtimeRef", "name"))
    return TrainJob(
        namespace=json_reader.text(metadata.get("namespace"), _METADATA.child("namespace")) or namespace,
        name=json_reader.required_text(name_of(metadata), _METADATA.child("name")),
        uid=json_reader.text(metadata.get("uid"), _METADATA.child("uid")) or PLACEHOLDER_UID,
        resource_version="",
        created=_EPOCH,
        spec=job["spec"],
        labels=json_reader.text_map(metadata.get("labels"), _METADATA.child("labels")),
        annotations=json_reader.text_map(metadata.get("annotations"), _METADATA.child("annotations")),
    )


def runtime(document: Document, namespace: str) -> Runtime:
    """The runtime in a document; raises `InvalidFieldError`."""
    manifest = document.value
    json_reader.mapping(manifest.get("spec"), _SPEC)
    metadata = json_reader.mapping(manifest.get("metadata"), _METADATA)
    kind, where, name = _runtime_key(document, namespace)
    return Runtime(
        kind=kind,
        name=name,
        namespace=where or None,
        uid="",
        spec=with_runtime_defaults(manifest)["spec"],
        labels=json_reader.text_map(metadata.get("labels"), _METADATA.child("labels")),
    )


def name_of(metadata: Json) -> Any:
    """The name in an object's metadata, a stable one where the API server generates it; None without any."""
    prefix = metadata.get("generateName")
    if metadata.get("name") or not prefix or not isinstance(prefix, str):
        return metadata.get("name")
    return prefix[:_LONGEST_PREFIX] + _GENERATED


def generated_names(documents: Sequence[Document]) -> Iterator[str]:
    """A sentence, with its place, about each TrainJob and runtime whose name the API server generates."""
    for document in documents:
        metadata = document.value.get("metadata")
        if _is_ours(document.value) and isinstance(metadata, Mapping):
            name = name_of(metadata)
            if name != metadata.get("name"):
                place = document.position(("metadata", "generateName"))
                yield (
                    f"{document.source}:{place.line}: metadata.generateName: the name is shown as {name}: "
                    f"the API server puts five characters of its choice for {_GENERATED}"
                )


def with_trainjob_defaults(manifest: Json) -> Json:
    """A TrainJob with the defaults of its CRD schema."""
    spec = {
        "suspend": False,
        "managedBy": names.MANAGED_BY_TRAINER,
        **_without_nulls(manifest.get("spec") or {}),
    }
    reference = spec.get("runtimeRef")
    if isinstance(reference, Mapping):
        spec["runtimeRef"] = {
            "apiGroup": names.TRAINER_GROUP,
            "kind": names.CLUSTER_TRAINING_RUNTIME,
            **reference,
        }
    return {**manifest, "spec": spec}


def jobset(manifest: Json, runtime: Json) -> Json:
    """The JobSet that the operator would build for a TrainJob.

    Args:
        manifest: The TrainJob.
        runtime: Its runtime, as the API server returns it.

    Raises:
        InvalidFieldError: One of them is invalid.
        UnsupportedPolicyError: The runtime has an ML policy that nobody implements.
    """
    job = trainjob_of(manifest, DEFAULT_NAMESPACE)
    children = plugins.ALL.build(job, revisions.live(runtime), DEFAULT_SETTINGS)
    return next(child for child in children if child["kind"] == names.JOBSET)


def with_runtime_defaults(manifest: Json) -> Json:
    """A runtime with those defaults of its CRD schema that affect a child object."""
    spec: Json = _without_nulls(manifest.get("spec") or {})
    for path, edit in _RUNTIME_DEFAULTS:
        spec = _edited(spec, path, edit)
    return {**manifest, "spec": spec}


def _defaults(**defaults: Any) -> Callable[[Any], Any]:
    return lambda value: {**defaults, **value} if isinstance(value, Mapping) else value


def _each(edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda items: [edit(item) for item in items] if isinstance(items, list) else items


_RUNTIME_DEFAULTS: Final[tuple[tuple[tuple[str, ...], Callable[[Any], Any]], ...]] = (
    *(
        (tuple(path.split(".")), _defaults(**values))
        for plugin in plugins.ALL.plugins
        if isinstance(plugin, Defaults)
        for path, values in plugin.defaults
    ),
    (("template", "spec", "replicatedJobs"), _each(_defaults(groupName="default", replicas=1))),
    (("template", "spec", "failurePolicy"), _defaults(restartStrategy="Recreate")),
    (
        ("template", "spec", "volumeClaimPolicies"),
        _each(lambda policy: _edited(policy, ("retentionPolicy",), _defaults(whenDeleted="Delete"))),
    ),
)


def _edited(value: Any, path: Sequence[str], edit: Callable[[Any], Any]) -> Any:
    """`value` with `edit` applied to what is at `path`, if there is anything."""
    if not path:
        return edit(value)
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    return {**value, path[0]: _edited(value[path[0]], path[1:], edit)}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _runtime_key(document: Document, namespace: str) -> tuple[str, str, str]:
    metadata = document.value.get("metadata")
    name = name_of(metadata) if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str):
        raise UnreadableError(f"{document.place}: metadata.name: Required value")
    kind = document.value["kind"]
    where = str(metadata.get("namespace") or namespace) if kind == names.TRAINING_RUNTIME else ""
    return kind, where, name
