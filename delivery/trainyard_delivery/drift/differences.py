"""The differences between two states of one object, each at its own path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainyard_api.json_types import JsonValue

from .paths import Item, Path


class Absent:
    """No value; JSON's null is a value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()

_IDENTITIES: Final = (
    ("name",),
    ("mountPath",),
    ("containerPort", "protocol"),
    ("port", "protocol"),
    ("kind", "namespace", "name"),
    ("key",),
    ("type",),
    ("flavor",),
)
"""Fields that tell the items of a list apart: the first that all items have, with no two alike."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference from git."""

    path: Path
    git: JsonValue
    """The value in git; `ABSENT` for none."""
    cluster: JsonValue
    """The value in the cluster; `ABSENT` for none."""


def differences(git: JsonValue, cluster: JsonValue, path: Path = ()) -> Iterator[Difference]:
    """Each difference, in the order of the fields' names.

    What is wholly new or wholly gone is one difference, however large. Items of a list are matched by their
    names or similar fields; without these,
    an item that is in only one of the lists is new or gone.
    """
    if git == cluster:
        return
    if isinstance(git, dict) and isinstance(cluster, dict):
        for key in sorted({*git, *cluster}):
            yield from differences(git.get(key, ABSENT), cluster.get(key, ABSENT), (*path, key))
    elif isinstance(git, list) and isinstance(cluster, list):
        identity = _identity(git, cluster)
        yield from _items(git, cluster, path) if identity is None else _named(git, cluster, identity, path)
    else:
        yield Difference(path, git, cluster)


def _identity(git: Sequence[JsonValue], cluster: Sequence[JsonValue]) -> tuple[str, ...] | None:
    for fields in _IDENTITIES:
        if all(_tells_apart(items, fields) for items in (git, cluster)):
            return fields
    return None


def _tells_apart(items: Sequence[JsonValue], fields: Sequence[str]) -> bool:
    identities = set()
    for item in items:
        if not isinstance(item, dict) or fields[0] not in item or fields[-1] not in item:
            return False
        values = tuple(item.get(name) for name in fields)
        if any(isinstance(value, dict | list) for value in values):
            return False
        identities.add(values)
    return len(identities) == len(items)


def _named(
    git: Sequence[JsonValue], cluster: Sequence[JsonValue], fields: Sequence[str], path: Path
) -> Iterator[Difference]:
    def item(value: JsonValue) -> Item:
        return Item(tuple((name, value[name]) for name in fields if name in value))

    of_git, of_cluster = ({item(value): value for value in items} for items in (git, cluster))
    for step in {**of_git, **of_cluster}:
        yield from differences(of_git.get(step, ABSENT), of_cluster.get(step, ABSENT), (*path, step))
    common = [step for step in of_git if step in of_cluster]
    if common != [step for step in of_cluster if step in of_git]:
        yield Difference(path, git, cluster)


def _items(git: Sequence[JsonValue], cluster: Sequence[JsonValue], path: Path) -> Iterator[Difference]:
    missing = list(enumerate(git))
    added = []
    for position, item in enumerate(cluster):
        match = next((pair for pair in missing if pair[1] == item), None)
        if match is None:
            added.append((position, item))
        else:
            missing.remove(match)
    if not missing and not added:
        yield Difference(path, git, cluster)
    elif len(missing) == len(added) == 1 and _is_alike(missing[0][1], added[0][1]):
        yield from differences(missing[0][1], added[0][1], (*path, added[0][0]))
    else:
        for position, item in missing:
            yield Difference((*path, position), item, ABSENT)
        for position, item in added:
            yield Difference((*path, position), ABSENT, item)


def _is_alike(git: JsonValue, cluster: JsonValue) -> bool:
    """Whether one may be the other, changed: objects that have an equal field."""
    are_objects = isinstance(git, dict) and isinstance(cluster, dict)
    return are_objects and any(key in cluster and cluster[key] == value for key, value in git.items())
