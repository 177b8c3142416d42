"""Typed reading of untyped JSON.

Called wherever a manifest is taken apart. Each reader takes a value and its
path, treats null as absent, and raises `InvalidFieldError` naming the path
when the value has another type; so a malformed manifest becomes a sentence,
never a TypeError further down. Lists may be very long: the path of an item is
built only if the item is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .errors import FieldPath, invalid, required
from .json_types import Json

MAX_DEPTH = 100
"""Nesting beyond which no Kubernetes object goes; guards the recursive readers."""

_SHOWN = 100


def mapping(value: Any, path: FieldPath) -> Json:
    """The object at `path`; empty when absent."""
    if value is None:
        return {}
    if not _is_object(value):
        raise invalid(path, shown(value), "must be an object")
    entries: Json = value
    return entries


def optional_mapping(value: Any, path: FieldPath) -> Json | None:
    """The object at `path`; None only if absent, not if empty."""
    return None if value is None else mapping(value, path)


def below(value: Json, path: FieldPath, *steps: str) -> tuple[Json, FieldPath]:
    """The object at the end of the steps, empty if absent, and its path."""
    for step in steps:
        path = path.child(step)
        value = mapping(value.get(step), path)
    return value, path


def objects(value: Any, path: FieldPath) -> Sequence[Json]:
    """The list of objects at `path`; empty when absent."""
    items = _list(value, path, "must be a list of objects")
    for position, item in enumerate(items):
        if not _is_object(item):
            if item is None:
                raise required(path.index(position))
            raise invalid(path.index(position), shown(item), "must be an object")
    return items


def named_objects(value: Any, path: FieldPath, key: str = "name") -> Sequence[Json]:
    """The list of objects at `path`, each with a text in the field `key`."""
    items = objects(value, path)
    for position, item in enumerate(items):
        name = item.get(key)
        if not name or not isinstance(name, str):
            required_text(name, path.index(position).child(key))
    return items


def texts(value: Any, path: FieldPath) -> Sequence[str]:
    """The list of texts at `path`; empty when absent."""
    items = _list(value, path, "must be a list of strings")
    for position, item in enumerate(items):
        if not isinstance(item, str):
            raise invalid(path.index(position), shown(item), "must be a string")
    return items


def text_map(value: Any, path: FieldPath) -> Mapping[str, str]:
    """The object of texts at `path`, as labels are; empty when absent."""
    entries = mapping(value, path)
    for name, item in entries.items():
        if not isinstance(item, str):
            raise invalid(path.key(name), shown(item), "must be a string")
    return entries


def text(value: Any, path: FieldPath) -> str | None:
    """The text at `path`; None when absent."""
    if value is not None and not isinstance(value, str):
        raise invalid(path, shown(value), "must be a string")
    return value


def required_text(value: Any, path: FieldPath) -> str:
    """The text at `path`, which must exist and not be empty."""
    content = text(value, path)
    if not content:
        raise required(path)
    return content


def integer(value: Any, path: FieldPath) -> int | None:
    """The whole number at `path`, 2.0 included; None when absent."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(path, shown(value), "must be an integer")
    return value


def boolean(value: Any, path: FieldPath) -> bool:
    """The truth value at `path`; False when absent."""
    if value is None:
        return False
    if not isinstance(value, bool):
        raise invalid(path, shown(value), "must be a boolean")
    return value


def require_shallow(value: Any, path: FieldPath) -> None:
    """Refuse a value that is nested deeper than `MAX_DEPTH`, without recursion."""
    for depth, _ in enumerate(_levels(value)):
        if depth == MAX_DEPTH:
            raise invalid(path, "...", f"must not be nested deeper than {MAX_DEPTH} levels")


def number_of_values(value: Any) -> int:
    """How many values are in a value that is not nested too deep: entries of objects, items of lists."""
    return sum(len(item) for level in _levels(value) for item in level if isinstance(item, _HOLDERS))


def objects_in(value: Any) -> Iterator[Json]:
    """All objects in a value that is not nested too deep, including the value itself."""
    return (item for level in _levels(value) for item in level if isinstance(item, _OBJECTS))


_OBJECTS = (dict, Mapping)
"""`dict` comes first, because that check is quick."""
_HOLDERS = (*_OBJECTS, list, tuple)
_SCALARS = frozenset({str, int, float, bool, type(None)})
"""Types of scalars. Looking a type up is five times as fast as `isinstance` with a `Mapping`."""


def _levels(value: Any) -> Iterator[Sequence[Any]]:
    """The value, then the objects and lists in it, then those in these, and so on, without recursion."""
    level = [value]
    while level:
        yield level
        level = [child for item in level for child in _children(item) if type(child) not in _SCALARS]


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, _OBJECTS):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _is_object(value: Any) -> bool:
    if not isinstance(value, _OBJECTS):
        return False
    for key in value:  # noqa: SIM110 - a generator would take three times as long
        if not isinstance(key, str):
            return False
    return True


def _list(value: Any, path: FieldPath, detail: str) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise invalid(path, shown(value), detail)
    return value


def shown(value: Any) -> Any:
    """The value as an error may repeat it: its beginning, or only its type."""
    if isinstance(value, str):
        return value if len(value) <= _SHOWN else value[:_SHOWN] + "..."
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else "..."
    return "object" if isinstance(value, Mapping) else "list"
