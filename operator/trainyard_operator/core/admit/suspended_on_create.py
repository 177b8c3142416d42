"""A TrainJob that is created suspended in a queue waits until somebody resumes it (ADR 18).

Kueue suspends every job that it queues and resumes it when there is quota, even if the user suspended it. It
does not admit a job with a gate: an annotation that must be set
when the job is created. So a job that is created suspended gets one, and loses
it when its `spec.suspend` becomes false.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath

from ..model import Json

_METADATA: Final = FieldPath("metadata")
_ANNOTATIONS: Final = "/metadata/annotations"
_GATES: Final = f"{_ANNOTATIONS}/{names.QUEUE_GATES_ANNOTATION.replace('/', '~1')}"


def patch(manifest: Json, old: Json | None) -> tuple[Json, ...]:
    """The JSON patch for a TrainJob that is created (`old` is None) or changed; empty for most.

    One that is resumed stays suspended if it has a queue: Kueue decides then
    when it starts. Raises `InvalidFieldError` for what is not a TrainJob.
    """
    return _held(manifest) if old is None else _let_go(manifest, old)


def _held(manifest: Json) -> tuple[Json, ...]:
    gates = _gates(manifest)
    if not _is_suspended(manifest) or names.SENT_SUSPENDED in gates or _is_sent_by_others(manifest):
        return ()
    together = _operation("add", _GATES, ",".join([*gates, names.SENT_SUSPENDED]))
    return (together,) if _annotations(manifest) else (_operation("add", _ANNOTATIONS, {}), together)


def _let_go(manifest: Json, old: Json) -> tuple[Json, ...]:
    gates = _gates(manifest)
    if names.SENT_SUSPENDED not in gates or _is_suspended(manifest) or not _is_suspended(old):
        return ()
    others = ",".join(gate for gate in gates if gate != names.SENT_SUSPENDED)
    operation = _operation("replace", _GATES, others) if others else {"op": "remove", "path": _GATES}
    if not _texts(manifest, "labels").get(names.QUEUE_LABEL):
        return (operation,)
    return operation, _operation("add", "/spec/suspend", True)


def _is_sent_by_others(manifest: Json) -> bool:
    """Whether MultiKueue sends it from another cluster, or another controller owns it."""
    metadata = json_reader.mapping(manifest.get("metadata"), _METADATA)
    owners = json_reader.objects(metadata.get("ownerReferences"), _METADATA.child("ownerReferences"))
    if any(owner.get("controller") is True for owner in owners):
        return True
    return any(names.PREBUILT_WORKLOAD in _texts(manifest, field) for field in ("annotations", "labels"))


def _is_suspended(manifest: Json) -> bool:
    return json_reader.mapping(manifest.get("spec"), FieldPath("spec")).get("suspend") is True


def _gates(manifest: Json) -> list[str]:
    annotation = _annotations(manifest).get(names.QUEUE_GATES_ANNOTATION, "")
    return [gate for gate in annotation.split(",") if gate]


def _annotations(manifest: Json) -> Mapping[str, str]:
    return _texts(manifest, "annotations")


def _texts(manifest: Json, field: str) -> Mapping[str, str]:
    metadata = json_reader.mapping(manifest.get("metadata"), _METADATA)
    return json_reader.text_map(metadata.get(field), _METADATA.child(field))


def _operation(op: str, path: str, value: Any) -> Json:
    return {"op": op, "path": path, "value": value}
