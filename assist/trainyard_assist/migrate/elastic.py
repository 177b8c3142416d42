"""Losses of elastic policies: the number of a TrainJob's nodes is fixed.

Called for PyTorchJobs, PaddleJobs and runtimes of older API levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from .notes import Notes

TORCH: Final = "; on the catalog's runtime torch-elastic it continues with fewer, down to MIN_NODES"
"""The nearest alternative for PyTorch."""


def note_bounds(
    policy: Json, keys: Sequence[str], path: FieldPath, total: int | None, notes: Notes, *, way_out: str = ""
) -> None:
    """Note the bounds (`keys`, the lower one first) that differ from `total`, and metrics.

    `way_out` names the alternative for a job that continues with fewer nodes.
    """
    for key in keys:
        number = json_reader.integer(policy.get(key), path.child(key))
        if number is not None and number != total:
            number_is = "" if total is None else f"; it is {total}"
            message = f"the number of nodes of a TrainJob does not change while it runs{number_is}"
            notes.lost(path.child(key), message + (way_out if key == keys[0] else ""))
    if policy.get("metrics"):
        notes.lost(path.child("metrics"), "nothing scales a TrainJob while it runs")
