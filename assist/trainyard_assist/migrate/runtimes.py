"""Runtimes of the API levels 2.0 to 2.2, which have the same apiVersion as today's.

Their torch policy had a number of processes, which is a field of TrainJobs
today, and an elastic policy, which no longer exists. A runtime without these
passes through unchanged.
"""

from __future__ import annotations

from typing import Any, Final

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath, InvalidFieldError
from trainyard_api.json_types import Json

from . import elastic, live, processes
from .notes import Notes
from .source import count, metadata, unknown_fields

_SPEC: Final = FieldPath("spec")
_TORCH: Final = _SPEC.child("mlPolicy", "torch")
_OLD: Final = ("numProcPerNode", "elasticPolicy")


def is_old(value: Json) -> bool:
    """Whether a runtime has a field that API level 2.3 does not."""
    return any(_torch(value).get(key) is not None for key in _OLD)


def processes_of(value: Json) -> int | None:
    """The number of processes that an old runtime holds, for the TrainJobs that refer to it."""
    try:
        return count(processes.unquoted(_torch(value).get("numProcPerNode")), _TORCH)
    except InvalidFieldError:
        return None


def convert(value: Json, notes: Notes) -> tuple[Json, ...]:
    """The runtime of today; raises `InvalidFieldError`."""
    json_reader.require_shallow(value, FieldPath())
    spec = json_reader.mapping(value.get("spec"), _SPEC)
    policy = json_reader.mapping(spec.get("mlPolicy"), _SPEC.child("mlPolicy"))
    torch = json_reader.mapping(policy.get("torch"), _TORCH)
    _note_processes(torch, notes)
    restarts = _elastic(torch, notes)
    kept = {key: item for key, item in torch.items() if key not in _OLD}
    new: dict[str, Any] = {**spec, "mlPolicy": {**policy, "torch": kept}}
    if restarts is not None:
        template = json_reader.mapping(spec.get("template"), _SPEC.child("template"))
        new["template"] = _with_restarts(template, restarts)
    same = {key: value[key] for key in ("apiVersion", "kind")}
    return ({**same, "metadata": metadata(value, notes, named=False), "spec": new},)


def _note_processes(torch: Json, notes: Notes) -> None:
    path = _TORCH.child("numProcPerNode")
    value = torch.get("numProcPerNode")
    if value in (None, "auto"):
        return
    number = None if value in ("cpu", "gpu") else processes.read(value, path, {}, path, notes)
    if number is None:
        message = "only a TrainJob can set it: without a number there is one process for each GPU or CPU"
    else:
        message = f"only a TrainJob can set it, as spec.trainer.numProcPerNode: {number}; those here do"
    notes.lost(path, message)


def _elastic(torch: Json, notes: Notes) -> int | None:
    """Note what an elastic policy loses; returns the number of restarts."""
    path = _TORCH.child("elasticPolicy")
    elastic_policy = json_reader.mapping(torch.get("elasticPolicy"), path)
    keys = ("minNodes", "maxNodes", "maxRestarts", "metrics")
    unknown_fields(elastic_policy, keys, path, "an elastic policy", notes)
    elastic.note_bounds(elastic_policy, keys[:2], path, None, notes, way_out=elastic.TORCH)
    restarts = json_reader.integer(elastic_policy.get("maxRestarts"), path.child("maxRestarts"))
    if restarts is not None:
        notes.changed(path.child("maxRestarts"), "is spec.template.spec.failurePolicy.maxRestarts")
    return restarts


def _with_restarts(template: Json, restarts: int) -> Json:
    path = _SPEC.child("template", "spec")
    spec = json_reader.mapping(template.get("spec"), path)
    policy = json_reader.mapping(spec.get("failurePolicy"), path.child("failurePolicy"))
    return {**template, "spec": {**spec, "failurePolicy": {"maxRestarts": restarts, **policy}}}


def _torch(value: Json) -> Json:
    policy = live.mapping(live.mapping(value.get("spec")).get("mlPolicy"))
    return live.mapping(policy.get("torch"))
