"""What differs between two forms of a runtime, field by field.

Entries of a list that have names are compared by name, so that a new one does
not make all after it look changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from trainyard_api.json_types import Json

ABSENT: Final = None
"""The value of a field on the side that lacks it; manifests have no nulls."""


class Kind(StrEnum):
    """What happens to a runtime."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True)
class Field:
    """One field that differs; `ABSENT` where there is none."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Change:
    """A runtime that differs."""

    runtime: str
    kind: Kind
    fields: tuple[Field, ...] = ()


def between(before: Mapping[str, Json], after: Mapping[str, Json]) -> tuple[Change, ...]:
    """What differs between two catalogs, by name of the runtime."""
    return tuple(
        change
        for name in sorted({*before, *after})
        if (change := _change(name, before.get(name), after.get(name)))
    )


def fields(before: Any, after: Any, path: str = "") -> Iterator[Field]:
    """The fields that differ, outermost first."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from fields(before.get(key), after.get(key), _child(path, key))
    elif (entries_before := _named(before)) is not None and (entries_after := _named(after)) is not None:
        for name in dict.fromkeys((*entries_before, *entries_after)):
            yield from fields(entries_before.get(name), entries_after.get(name), f"{path}[{name}]")
    elif before != after:
        yield Field(path, before, after)


def _change(name: str, before: Json | None, after: Json | None) -> Change | None:
    if before is None:
        return Change(name, Kind.ADDED)
    if after is None:
        return Change(name, Kind.REMOVED)
    differences = tuple(fields(before, after))
    return Change(name, Kind.CHANGED, differences) if differences else None


def _named(value: Any) -> dict[str, Any] | None:
    """The entries of a list by name, if each has one of its own."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    by_name = {entry["name"]: entry for entry in value if isinstance(entry, Mapping) and "name" in entry}
    return by_name if len(by_name) == len(value) else None


def _child(path: str, key: str) -> str:
    if not key.replace("_", "").replace("-", "").isalnum():
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key
