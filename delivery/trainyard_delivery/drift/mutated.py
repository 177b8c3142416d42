"""What admission puts into an object at each write.

The dry run passes through the same webhooks and policies as the write, so the live object and the answer
have it alike, and only git does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trainyard_api import quantity

from .differences import ABSENT, Difference
from .paths import Item, Path

Json = Any

_TEMPLATE: Final = ("spec", "template", "spec")
"""Below it the API server fills in no list by itself."""


def mutations(git: Json, answer: Json, live: Json) -> Iterator[Difference]:
    """The values of git that are others, and the items of lists that git does not have.

    A field that git does not name may be a default. Told are only lists of objects, and each list of a pod
    template, which the API server never fills in by itself; for kinds of a CRD it may, so nothing is told.

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


def _is_of_kubernetes(manifest: Json) -> bool:
    group = manifest["apiVersion"].rpartition("/")[0]
    return "." not in group or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))


def _mutations(git: Json, there: Json, path: Path) -> Iterator[Difference]:
    if git is None or _is_same(git, there):
        return
    if isinstance(git, dict) and isinstance(there, dict):
        for key in sorted(there):
            if key in git:
                yield from _mutations(git[key], there[key], (*path, key))
            elif _is_put_in(there[key], (*path, key)):
                yield Difference((*path, key), ABSENT, there[key])
    elif isinstance(git, list) and isinstance(there, list):
        yield from _items(git, there, path)
    else:
        yield Difference(path, git, there)


def _is_put_in(value: Json, path: Path) -> bool:
    """Whether a list that git does not name is none of the API server's defaults."""
    if not isinstance(value, list) or not value or path[0] == "metadata":
        return False
    return path[:3] == _TEMPLATE or isinstance(value[0], dict)


def _items(git: Sequence[Json], there: Sequence[Json], path: Path) -> Iterator[Difference]:
    """Items belong together by name, otherwise where the item of git is in the other."""
    left = list(enumerate(git))
    added = []
    for position, item in enumerate(there):
        name = item.get("name") if isinstance(item, dict) else None
        like = [pair for pair in left if _is_in(pair[1], item)] or [
            pair
            for pair in left
            if name is not None and isinstance(pair[1], dict) and pair[1].get("name") == name
        ]
        if not like:
            added.append((position, item))
            continue
        left.remove(like[0])
        step = position if name is None else Item((("name", name),))
        yield from _mutations(like[0][1], item, (*path, step))
    for position, item in left:
        yield Difference((*path, position), item, ABSENT)
    for position, item in added:
        yield Difference((*path, position), ABSENT, item)


def _is_in(git: Json, there: Json) -> bool:
    """Whether what git says is all there; what it does not say may be a default."""
    if isinstance(git, dict) and isinstance(there, dict):
        return all(
            value is None or key not in there or _is_in(value, there[key]) for key, value in git.items()
        )
    if isinstance(git, list) and isinstance(there, list):
        return len(git) <= len(there) and all(any(_is_in(one, item) for item in there) for one in git)
    return _is_same(git, there)


def _is_same(git: Json, there: Json) -> bool:
    if git == there:
        return True
    try:
        # The API server writes a quantity its own way: `1000m` as `1`.
        return _is_number(git, there) and quantity.parse(git).nano == quantity.parse(there).nano
    except ValueError:
        return False


def _is_number(*values: Json) -> bool:
    return all(isinstance(value, str | int | float) and not isinstance(value, bool) for value in values)
