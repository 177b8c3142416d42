"""Compares one object: the request to the API server, and its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from trainyard_api.json_types import Json, JsonValue

from .differences import ABSENT, Absent, Difference, differences
from .mutations import mutations
from .ownership import Writer, writer
from .paths import Path, text
from .writers import Right, with_others

_OF_THE_SERVER: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""Fields of `metadata` that git never sets."""
NOT_SHOWN: Final = "(not shown)"
_SECRET: Final = ("data", "stringData")


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


def _rows(live: Json, changes: Iterable[Difference]) -> tuple[Row, ...]:
    is_secret = live.get("kind") == "Secret"
    return tuple(
        Row(
            text(change.path),
            _shown(change.git, change.path, is_secret),
            _shown(change.cluster, change.path, is_secret),
            None if change.cluster is ABSENT else writer(live, change.path),
        )
        for change in changes
    )


def _content(manifest: Json) -> dict[str, JsonValue]:
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _OF_THE_SERVER}
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": metadata}


def _shown(value: JsonValue, path: Path, is_secret: bool) -> JsonValue:
    hidden = is_secret and path[0] in _SECRET and not isinstance(value, Absent)
    return NOT_SHOWN if hidden else value
