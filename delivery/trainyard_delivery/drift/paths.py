"""Paths inside an object."""

from __future__ import annotations

from typing import NamedTuple

from trainyard_api.json_types import JsonValue


class Item(NamedTuple):
    """The item of a list of objects that has these values in these fields."""

    fields: tuple[tuple[str, JsonValue], ...]

    def is_(self, item: JsonValue) -> bool:
        """Whether this is the item."""
        return isinstance(item, dict) and all(item.get(name) == value for name, value in self.fields)


Step = str | int | Item
Path = tuple[Step, ...]


def text(path: Path) -> str:
    """The path as people read it: `spec.containers[name=node].env[0]`, and a key with dots in brackets."""
    path_text = ""
    for step in path:
        if isinstance(step, Item):
            path_text += f"[{','.join(f'{name}={value}' for name, value in step.fields)}]"
        elif isinstance(step, int) or "." in step or "/" in step:
            path_text += f"[{step}]"
        else:
            path_text += f".{step}" if path_text else step
    return path_text


def below(value: JsonValue, step: Step) -> JsonValue:
    """The value one step below another; None if there is none."""
    if isinstance(value, dict):
        return value.get(step) if isinstance(step, str) else None
    if not isinstance(value, list):
        return None
    if isinstance(step, Item):
        return next((item for item in value if step.is_(item)), None)
    return value[step] if isinstance(step, int) and step < len(value) else None
