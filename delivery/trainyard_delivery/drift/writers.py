"""Other writers of a stack's objects: the table `writers.yaml`."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path as File
from typing import Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from trainyard_api.json_types import Json, JsonValue, copied

from .paths import Item, Path, below

_TABLE: Final = File(__file__).with_name("writers.yaml")
EACH: Final = "*"


class Right(BaseModel):
    """A right to write somewhere: a row of the table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kinds: tuple[str, ...]
    names: tuple[str, ...] = ()
    paths: tuple[tuple[str, ...], ...]
    values: tuple[str, ...] = ()
    by: str = ""
    shape: Literal["certificates", "dockercfg"] | None = None
    field: str = Field(default="", alias="with")
    reason: str

    def holds_for(self, manifest: Json) -> bool:
        """Whether it applies to this object."""
        has_name = not self.names or manifest["metadata"]["name"] in self.names
        return manifest["kind"] in self.kinds and has_name and (not self.field or self.field in manifest)

    def allows(self, value: JsonValue) -> bool:
        """Whether this may exist as a whole."""
        return not self.values and (self.shape is None or _SHAPES[self.shape](value))

    def allows_item(self, item: JsonValue) -> bool:
        """Whether this may be in the live list, whatever else is."""
        if self.shape == "dockercfg":
            return isinstance(item, dict) and _are_dockercfg([item])
        return (item.get(self.by) if self.by and isinstance(item, dict) else item) in self.values


@cache
def table() -> tuple[Right, ...]:
    """The rows of `writers.yaml`."""
    rows = yaml.load(_TABLE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return tuple(Right.model_validate(row) for row in rows)


def with_others(manifest: Json, live: Json, rights: Sequence[Right]) -> dict[str, JsonValue]:
    """The manifest in git, with values of others in fields and lists that git does not set."""
    merged: dict[str, JsonValue] = copied(dict(manifest))
    for right in rights:
        if right.holds_for(manifest):
            for pattern in right.paths:
                for path in _places(pattern, manifest, ()):
                    _take_over(merged, live, path, right)
    return merged


def _places(pattern: Sequence[str], value: JsonValue, path: Path) -> Iterator[Path]:
    """The paths that a pattern matches in an object, whether or not they exist."""
    for position, step in enumerate(pattern):
        if step == EACH:
            for item in value if isinstance(value, list) else ():
                element = Item((("name", item["name"]),))
                yield from _places(pattern[position + 1 :], item, (*path, element))
            return
        value, path = below(value, step), (*path, step)
    yield path


def _take_over(merged: dict[str, JsonValue], live: Mapping[str, JsonValue], path: Path, right: Right) -> None:
    value: JsonValue = live
    for step in path:
        value = below(value, step)
    items = (
        [entry for entry in enumerate(value) if right.allows_item(entry[1])]
        if isinstance(value, list)
        else []
    )
    if not items and (value is None or not right.allows(value)):
        return
    target: JsonValue = merged
    *parents, last = path
    for step in parents:
        if isinstance(step, str) and below(target, step) is None:
            target[step] = {}
        target = below(target, step)
    if items:
        _insert(target.setdefault(last, []), items)
    elif not target.get(last):
        target[last] = copied(value)


def _insert(target: list[JsonValue], items: Sequence[tuple[int, JsonValue]]) -> None:
    """Insert the items at their positions in the cluster, so that the order matches."""
    for position, item in items:
        if item not in target:
            target.insert(position, copied(item))


def _are_certificates(value: JsonValue) -> bool:
    try:
        return base64.b64decode(value, validate=True).lstrip().startswith(b"-----BEGIN CERTIFICATE-----")
    except (TypeError, ValueError):
        return False


def _are_dockercfg(value: JsonValue) -> bool:
    names = [value] if isinstance(value, str) else [entry.get("name") for entry in value]
    return all(isinstance(name, str) and _DOCKERCFG.search(name) for name in names)


_DOCKERCFG: Final = re.compile(r"-dockercfg-[a-z0-9]{5}$")
_SHAPES: Final[Mapping[str, Callable[[JsonValue], bool]]] = {
    "certificates": _are_certificates,
    "dockercfg": _are_dockercfg,
}
