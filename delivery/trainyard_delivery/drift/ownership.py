"""The writers of an object's fields, from its managedFields.

That is a hint, not a proof: a client chooses the name that it writes under,
and can empty the list. So it only ever says who, never whether.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard_api.json_types import Json

from .paths import Item, Path, Step, below


@dataclass(frozen=True, slots=True)
class Writer:
    """A client, as it called itself."""

    manager: str
    operation: str
    """`Apply` or `Update`."""
    at: str
    """When it wrote last, as metav1.Time; empty if unknown."""


def writer(live: Json, path: Path) -> Writer | None:
    """The last writer of the value at a path, or of the whole value that contains it.

    None if unknown, for example if it was removed.
    """
    writers = (
        Writer(entry.get("manager") or "", entry.get("operation") or "", entry.get("time") or "")
        for entry in live["metadata"].get("managedFields") or ()
        if _owns(entry.get("fieldsV1") or {}, live, path)
    )
    return max(writers, key=lambda writer: writer.at, default=None)


def _owns(fields: Any, live: Any, path: Path) -> bool:
    if not isinstance(fields, dict) or not fields:
        return False
    for step in path:
        key = _field(fields, below(live, step), step)
        if key is None:
            return False
        fields, live = fields[key], below(live, step)
        if not fields:
            return True  # a value that is owned as a whole, and contains the path
    return True


def _field(fields: Mapping[str, Any], value: Any, step: Step) -> str | None:
    """The key by which managedFields name a step (structured-merge-diff, `fieldpath.PathElement`)."""
    if isinstance(step, str):
        return f"f:{step}" if f"f:{step}" in fields else None
    if not isinstance(value, dict):
        value_key = f"v:{json.dumps(value, separators=(',', ':'))}"
        return value_key if value_key in fields else None
    for key in fields:
        if key.startswith("k:") and Item(tuple(json.loads(key[2:]).items())).is_(value):
            return key
    return None
