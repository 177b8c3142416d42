"""Types of unchecked JSON and YAML, and copies of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

Json = Mapping[str, Any]
"""An object that is only read."""
JsonValue = Any
"""Any value: an object, a list, a text, a number, a truth value or null."""
Manifest = dict[str, Any]
"""A manifest under construction."""

_Value = TypeVar("_Value")


def copied(value: _Value) -> _Value:
    """The value with objects and lists of its own, in a third of the time that `copy.deepcopy` takes.

    Unlike that function, it does not look for what is there twice: what was read from a text holds no such
    thing (see `documents`).
    """
    copy: Any = value
    if isinstance(value, dict):
        copy = {key: copied(item) for key, item in value.items()}
    elif isinstance(value, list):
        copy = [copied(item) for item in value]
    return cast(_Value, copy)
