"""Compares one object: the request to the API server, and its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json, JsonValue

from .differences import ABSENT, Absent, Difference, differences
from .mutations import mutations
from .ownership import Writer, writer
from .paths import Path, text
from .writers import Right, with_others

NOT_SHOWN: Final = "(not shown)"
_SECRET: Final = ("data", "stringData")
_ANNOTATIONS: Final = ("metadata", "annotations")
_WHOLE_OBJECTS: Final = frozenset(
    {
        "kapp.k14s.io/original",
        "kubectl.kubernetes.io/last-applied-configuration",
        "objectset.rio.cattle.io/applied",
    }
)
"""Annotations in which clients keep the whole object that they have sent: of a Secret, also its values."""


@dataclass(frozen=True, slots=True)
class Row:
    """A difference between the cluster and git."""

    path: str
    git: JsonValue
    """The value in git; `ABSENT` for none."""
    cluster: JsonValue
    """The value in the cluster; `ABSENT` for none."""
    writer: Writer | None
    """The client that says that it wrote it; None if none does."""


def body(manifest: Json, live: Json, rights: Sequence[Right]) -> dict[str, JsonValue]:
    """The replace that would restore git's fields, unless the object has changed; others' fields stay."""
    expected = with_others(manifest, live, rights)
    expected.pop("status", None)
    expected["metadata"] = {**expected["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
    return expected


def controller(live: Json) -> str:
    """The object that controls this one, by its ownerReferences; empty if none does."""
    owners = live["metadata"].get("ownerReferences") or ()
    return next((f"{owner['kind']} {owner['name']}" for owner in owners if owner.get("controller")), "")


def rows(live: Json, answer: Json) -> tuple[Row, ...]:
    """Differences between the live object and the result of the dry run.

    Args:
        live: The object as it was read.
        answer: What the API server answered to a dry run of `body`.
    """
    return _rows(live, differences(_content(answer), _content(live)))


def mutated(live: Json, answer: Json, sent: Json) -> tuple[Row, ...]:
    """Values that admission sets at each write, and that are in both the live object and the answer.

    Args:
        live: The object as it was read.
        answer: What the API server answered to a dry run of `sent`.
        sent: The `body`.
    """
    return _rows(live, mutations(_content(sent), _content(answer), _content(live)))


def shown(value: JsonValue, path: Path) -> JsonValue:
    """What may be shown of a value of a Secret: not what it holds, nor a copy of that in an annotation."""
    if isinstance(value, Absent):
        return value
    if path[0] in _SECRET or (path[:2] == _ANNOTATIONS and path[-1] in _WHOLE_OBJECTS):
        return NOT_SHOWN
    if path == _ANNOTATIONS and isinstance(value, dict):
        return {key: NOT_SHOWN if key in _WHOLE_OBJECTS else text for key, text in value.items()}
    return value


def _rows(live: Json, changes: Iterable[Difference]) -> tuple[Row, ...]:
    is_secret = live.get("kind") == "Secret"
    return tuple(
        Row(
            text(change.path),
            shown(change.git, change.path) if is_secret else change.git,
            shown(change.cluster, change.path) if is_secret else change.cluster,
            None if change.cluster is ABSENT else writer(live, change.path),
        )
        for change in changes
    )


def _content(manifest: Json) -> dict[str, JsonValue]:
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in names.SERVER_METADATA}
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": metadata}
