"""From documents to the child objects that the operator would create.

Called by `trainyard render`. Takes the place of the API server as far as it
must: the defaults of the CRD schemas are applied, and what only a cluster
knows has a placeholder. The objects come from the same framework that
reconciliation uses, before it adds annotations of the operator's own.
Reads no files and writes none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from trainyard_api import fields, names
from trainyard_api.documents import Document
from trainyard_api.errors import FieldPath, InvalidFieldError

from . import framework, plugins, revisions
from .framework import DEFAULT_SETTINGS, Settings
from .model import Json, Runtime, TrainJob

DEFAULT_NAMESPACE: Final = "ns"
"""Where a TrainJob lives whose file does not say: a placeholder, as the uid is."""
PLACEHOLDER_UID: Final = "11111111-2222-3333-4444-555555555555"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RUNTIME_PATH: Final = FieldPath("spec")


class RenderError(ValueError):
    """Nothing can be rendered; its message begins with `file:line:` where there is one."""


class NothingToRenderError(RenderError):
    """The documents hold no TrainJob."""


def render(
    given: Sequence[Document],
    catalog: Sequence[Document] = (),
    settings: Settings = DEFAULT_SETTINGS,
    namespace: str = DEFAULT_NAMESPACE,
) -> tuple[Json, ...]:
    """The child objects of every TrainJob in `given`, sorted by kind and name.

    A runtime is looked up in `given` first, then in `catalog`. `namespace` is
    that of objects which name none.

    Raises `RenderError` for a runtime that is missing and for what cannot be built from.
    """
    runtimes = {
        key: document
        for documents in (catalog, given)
        for document in documents
        if (key := _runtime_key(document, namespace)) is not None
    }
    jobs = [document for document in given if _is(document, frozenset({names.TRAINJOB}))]
    if not jobs:
        raise NothingToRenderError("no TrainJob in the files")
    children = [child for job in jobs for child in _children(job, runtimes, settings, namespace)]
    return tuple(sorted(children, key=_order))


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


def with_runtime_defaults(manifest: Json) -> Json:
    """A runtime with the defaults of its CRD schema, as far as they reach a child object."""
    spec: Json = _without_nulls(manifest.get("spec") or {})
    for path, edit in _RUNTIME_DEFAULTS:
        spec = _edited(spec, path, edit)
    return {**manifest, "spec": spec}


def _defaults(**values: Any) -> Callable[[Any], Any]:
    return lambda found: {**values, **found} if isinstance(found, Mapping) else found


def _each(edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda found: [edit(item) for item in found] if isinstance(found, list) else found


_RUNTIME_DEFAULTS: Final[tuple[tuple[tuple[str, ...], Callable[[Any], Any]], ...]] = (
    (
        ("mlPolicy", "mpi"),
        _defaults(
            numProcPerNode=1,
            mpiImplementation="OpenMPI",
            sshAuthMountPath="/root/.ssh",
            runLauncherAsNode=False,
        ),
    ),
    (("podGroupPolicy", "coscheduling"), _defaults(scheduleTimeoutSeconds=60)),
    (("podGroupPolicy", "volcano", "networkTopology"), _defaults(mode="hard", highestTierAllowed=1)),
    (("template", "spec", "replicatedJobs"), _each(_defaults(groupName="default", replicas=1))),
    (("template", "spec", "failurePolicy"), _defaults(restartStrategy="Recreate")),
    (
        ("template", "spec", "volumeClaimPolicies"),
        _each(lambda policy: _edited(policy, ("retentionPolicy",), _defaults(whenDeleted="Delete"))),
    ),
)


def _edited(value: Any, path: Sequence[str], edit: Callable[[Any], Any]) -> Any:
    """`value` with `edit` applied to what is at `path`, if anything is."""
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


def _children(
    document: Document, runtimes: Mapping[tuple[str, str, str], Document], settings: Settings, namespace: str
) -> Sequence[Json]:
    try:
        job = _trainjob(document.value, namespace)
        if not revisions.supported(job):
            group, kind, _ = revisions.reference(job)
            raise RenderError(f"{document.place}: unsupported runtime: {kind}.{group}")
        key = _reference_key(job)
        if key not in runtimes:
            raise RenderError(
                f'{document.place}: {key[0]} "{key[2]}" is neither in the files nor in the catalog'
            )
        found = runtimes[key]
    except InvalidFieldError as error:
        raise RenderError(f"{document.place}: {error}") from error
    try:
        runtime = _runtime(found.value, key[1] or None)
        return framework.build(job, runtime, plugins.ALL, settings)
    except (InvalidFieldError, framework.UnsupportedPolicyError) as error:
        raise RenderError(f"{document.place}: with the runtime of {found.place}: {error}") from error


def _is(document: Document, kinds: frozenset[str]) -> bool:
    return (
        document.value.get("apiVersion") == names.TRAINER_API_VERSION and document.value.get("kind") in kinds
    )


def _runtime_key(document: Document, namespace: str) -> tuple[str, str, str] | None:
    if not _is(document, names.RUNTIME_KINDS):
        return None
    metadata = document.value.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise RenderError(f"{document.place}: metadata.name: Required value")
    kind = document.value["kind"]
    where = str(metadata.get("namespace") or namespace) if kind == names.TRAINING_RUNTIME else ""
    return kind, where, metadata["name"]


def _reference_key(job: TrainJob) -> tuple[str, str, str]:
    _, kind, name = revisions.reference(job)
    return kind, job.namespace if kind == names.TRAINING_RUNTIME else "", name


def _trainjob(manifest: Json, namespace: str) -> TrainJob:
    fields.mapping(manifest.get("spec"), FieldPath("spec"))
    job = with_trainjob_defaults(manifest)
    metadata = fields.mapping(job.get("metadata"), FieldPath("metadata"))
    reference = fields.mapping(job["spec"].get("runtimeRef"), FieldPath("spec.runtimeRef"))
    fields.required_text(reference.get("name"), FieldPath("spec.runtimeRef.name"))
    return TrainJob(
        namespace=fields.text(metadata.get("namespace"), FieldPath("metadata.namespace")) or namespace,
        name=fields.required_text(metadata.get("name"), FieldPath("metadata.name")),
        uid=fields.text(metadata.get("uid"), FieldPath("metadata.uid")) or PLACEHOLDER_UID,
        resource_version="",
        created=_EPOCH,
        spec=job["spec"],
    )


def _runtime(manifest: Json, namespace: str | None) -> Runtime:
    fields.mapping(manifest.get("spec"), _RUNTIME_PATH)
    defaulted = with_runtime_defaults(manifest)
    return Runtime(
        kind=manifest["kind"],
        name=manifest["metadata"]["name"],
        namespace=namespace,
        uid="",
        spec=defaulted["spec"],
    )


def _order(child: Json) -> tuple[str, str, str]:
    metadata = child["metadata"]
    return child["kind"], metadata["name"], metadata["namespace"]
