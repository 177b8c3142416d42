"""Values that admission sets in an object at each write.

The dry run passes through the same webhooks and policies as the write, so the live object and the answer
have it alike, and only git does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import quantity
from trainyard_api.json_types import JsonValue

from .differences import ABSENT, Difference
from .paths import Item, Path

_TEMPLATE: Final = ("spec", "template", "spec")
"""Below it the API server fills in no list by itself."""


def mutations(git: JsonValue, answer: JsonValue, live: JsonValue) -> Iterator[Difference]:
    """The values of git that are others, and the items of lists that git does not have.

    A field that git does not name may be a default. Only lists of objects are reported, and each list of a
    pod template, which the API server never fills in by itself. For kinds of a CRD it may, so these lists
    are not reported.

    Args:
        git: What was sent.
        answer: What the API server made of it.
        live: The object as it was read.
    """
    present = list(_mutations(git, live, ()))
    of_kubernetes = _is_of_kubernetes(git)
    for mutation in _mutations(git, answer, ()):
        if mutation in present and (
            of_kubernetes or mutation.git is not ABSENT or not isinstance(mutation.path[-1], str)
        ):
            yield mutation


def _is_of_kubernetes(manifest: JsonValue) -> bool:
    group = manifest["apiVersion"].rpartition("/")[0]
    return "." not in group or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))


def _mutations(git: JsonValue, cluster: JsonValue, path: Path) -> Iterator[Difference]:
    if git is None or _is_same(git, cluster):
        return
    if isinstance(git, dict) and isinstance(cluster, dict):
        for key in sorted(cluster):
            if key in git:
                yield from _mutations(git[key], cluster[key], (*path, key))
            elif _is_put_in(cluster[key], (*path, key)):
                yield Difference((*path, key), ABSENT, cluster[key])
    elif isinstance(git, list) and isinstance(cluster, list):
        yield from _items(git, cluster, path)
    else:
        yield Difference(path, git, cluster)


def _is_put_in(value: JsonValue, path: Path) -> bool:
    """Whether a list that git does not name is none of the API server's defaults."""
    if not isinstance(value, list) or not value or path[0] == "metadata":
        return False
    return path[:3] == _TEMPLATE or isinstance(value[0], dict)


def _items(git: Sequence[JsonValue], cluster: Sequence[JsonValue], path: Path) -> Iterator[Difference]:
    """Items belong together by name, otherwise where the item of git is in the other."""
    unmatched = list(enumerate(git))
    added = []
    for position, item in enumerate(cluster):
        name = item.get("name") if isinstance(item, dict) else None
        matches = [pair for pair in unmatched if _is_in(pair[1], item)] or [
            pair
            for pair in unmatched
            if name is not None and isinstance(pair[1], dict) and pair[1].get("name") == name
        ]
        if not matches:
            added.append((position, item))
            continue
        unmatched.remove(matches[0])
        step = position if name is None else Item((("name", name),))
        yield from _mutations(matches[0][1], item, (*path, step))
    for position, item in unmatched:
        yield Difference((*path, position), item, ABSENT)
    for position, item in added:
        yield Difference((*path, position), ABSENT, item)


def _is_in(git: JsonValue, cluster: JsonValue) -> bool:
    """Whether the cluster has everything that git has. Other values may be defaults."""
    if isinstance(git, dict) and isinstance(cluster, dict):
        return all(
            value is None or key not in cluster or _is_in(value, cluster[key]) for key, value in git.items()
        )
    if isinstance(git, list) and isinstance(cluster, list):
        return len(git) <= len(cluster) and all(
            any(_is_in(git_item, cluster_item) for cluster_item in cluster) for git_item in git
        )
    return _is_same(git, cluster)


def _is_same(git: JsonValue, cluster: JsonValue) -> bool:
    if git == cluster:
        return True
    try:
        # The API server writes a quantity its own way: `1000m` as `1`.
        return _is_number(git, cluster) and quantity.parse(git).nano == quantity.parse(cluster).nano
    except ValueError:
        return False


def _is_number(*values: JsonValue) -> bool:
    return all(isinstance(value, str | int | float) and not isinstance(value, bool) for value in values)
