"""The number of processes per node, which could be a word and is always a number now.

Called for PyTorchJobs and for TrainJobs and runtimes of older API levels:
there it could be `auto`, `cpu` or `gpu`.
"""

from __future__ import annotations

import math
from typing import Any, Final

from trainyard_api import json_reader, quantity
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from .notes import Notes
from .source import count

_TOO_LONG: Final = 10
"""Digits of a number that nobody can mean; Python refuses to read one of thousands."""


def read(value: Any, path: FieldPath, resources: Json, resources_path: FieldPath, notes: Notes) -> int | None:
    """The number; None where the platform chooses it: one for each GPU or, without GPUs, for each CPU."""
    value = unquoted(value)
    if not isinstance(value, str):
        return count(value, path)
    if value in ("", "auto"):
        return None
    gpus, cpus = _amounts(resources, resources_path)
    if value == "gpu":
        if not gpus:
            notes.lost(path, "no resources name a GPU, so there will be one process for each CPU")
        return None
    if value == "cpu":
        if gpus and cpus is None:
            notes.lost(path, "no resources name a number of CPUs, so there will be one process for each GPU")
        return math.ceil(cpus) if gpus and cpus is not None else None
    notes.lost(path, "is neither a number nor one of auto, cpu and gpu")
    return None


def unquoted(value: Any) -> Any:
    """The number that a text holds; anything else as it is, and numbers too that are far too long."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _TOO_LONG:
        return int(value)
    return value


def _amounts(resources: Json, path: FieldPath) -> tuple[bool, float | None]:
    """Whether there are GPUs, and how many CPUs."""
    gpus, cpus = False, None
    for key in ("limits", "requests"):
        for name, value in json_reader.mapping(resources.get(key), path.child(key)).items():
            gpus = gpus or "gpu" in name.lower()
            if name == "cpu":
                cpus = _number(value)
    return gpus, cpus


def _number(value: Any) -> float | None:
    try:
        return quantity.parse(value).nano / quantity.NANO
    except (ValueError, TypeError):
        return None
