"""Who else rightly writes into the objects of a stack: the table `writers.yaml`, and what it lets stand."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path as File
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from .paths import Item, Path, below

Json = Any

_TABLE: Final = File(__file__).with_name("writers.yaml")
EACH: Final = "*"


class Right(BaseModel):
    """A right to write somewhere: a row of the table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kinds: tuple[str, ...]
    names: tuple[str, ...] = ()
    paths: tuple[tuple[str, ...], ...]
    values: tuple[str, ...] = ()
    shape: Literal["certificates"] | None = None
    asked: str = Field(default="", alias="with")
    reason: str

    def holds_for(self, manifest: Mapping[str, Json]) -> bool:
        """Whether it is about this object."""
        named = not self.names or manifest["metadata"]["name"] in self.names
        return manifest["kind"] in self.kinds and named and (not self.asked or self.asked in manifest)

    def allows(self, value: Json) -> bool:
        """Whether this may be there."""
        if self.values:
            return isinstance(value, list) and set(value) <= set(self.values)
        return self.shape is None or _are_certificates(value)


@cache
def table() -> tuple[Right, ...]:
    """The rows of `writers.yaml`."""
    return tuple(Right.model_validate(row) for row in yaml.safe_load(_TABLE.read_text(encoding="utf-8")))


def with_others(
    manifest: Mapping[str, Json], live: Mapping[str, Json], rights: Sequence[Right]
) -> dict[str, Json]:
    """What git says, with what others rightly have written where git says nothing."""
    merged: dict[str, Json] = copy.deepcopy(dict(manifest))
    for right in rights:
        if right.holds_for(manifest):
            for pattern in right.paths:
                for path in _places(pattern, manifest, ()):
                    _take_over(merged, live, path, right)
    return merged


def _places(pattern: Sequence[str], value: Json, path: Path) -> Iterator[Path]:
    """The paths that a pattern stands for in an object, whether or not there is something."""
    for position, step in enumerate(pattern):
        if step == EACH:
            for item in value if isinstance(value, list) else ():
                one = Item((("name", item["name"]),))
                yield from _places(pattern[position + 1 :], item, (*path, one))
            return
        value, path = below(value, step), (*path, step)
    yield path


def _take_over(merged: dict[str, Json], live: Mapping[str, Json], path: Path, right: Right) -> None:
    there: Json = live
    for step in path:
        there = below(there, step)
    if there is None or not right.allows(there):
        return
    at: Json = merged
    *way, last = path
    for step in way:
        if isinstance(step, str) and below(at, step) is None:
            at[step] = {}
        at = below(at, step)
    if not at.get(last):
        at[last] = copy.deepcopy(there)


def _are_certificates(value: Json) -> bool:
    try:
        return base64.b64decode(value, validate=True).lstrip().startswith(b"-----BEGIN CERTIFICATE-----")
    except (TypeError, ValueError):
        return False
