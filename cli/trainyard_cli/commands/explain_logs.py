"""How `trainyard explain --logs` shows what the nodes of a failed attempt printed last.

The one that failed first comes last, where a reader of a terminal looks first.
Users with the right to write ConfigMaps may have changed it, so all of it is cleaned and bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trainyard_api.printable import clean
from trainyard_operator.core.decide.last_lines import Kept, Lines

_DIGITS: Final = 9
_MOST: Final = 1000
"""Lines of a node; the operator keeps no more."""


def lines(kept: Kept | str) -> Iterator[str]:
    """The lines to print: of each node, or why there are none."""
    if isinstance(kept, str):
        yield f"Last lines: {clean(kept)}"
        return
    for place in _places(kept):
        node = kept.pods[place]
        job, index = split(place)
        first = ", which failed first" if place == kept.first else ""
        runs = "" if node.ended or node.missing else ", which still ran then"
        which = f"{clean(job)} {index} in attempt {kept.attempt}, pod {clean(node.pod)}"
        yield f"Last lines of {which}{first}{runs}:"
        yield from (f"  | {line}" for line in _printed(node) or [_nothing(node)])
    if kept.left_out:
        yield f"Nothing is kept of {kept.left_out} further nodes."


def document(kept: Kept | str) -> dict[str, Any]:
    """The same as JSON values."""
    if isinstance(kept, str):
        return {"missing": clean(kept)}
    return {
        "attempt": kept.attempt,
        "nodes": [_node(place, kept) for place in _places(kept)],
        "leftOut": kept.left_out,
    }


def _node(place: str, kept: Kept) -> dict[str, Any]:
    node = kept.pods[place]
    job, index = split(place)
    return {
        "job": clean(job),
        "index": index,
        "pod": clean(node.pod),
        "container": clean(node.container),
        "failedFirst": place == kept.first,
        "ended": node.ended,
        "missing": clean(node.missing),
        "lines": _printed(node),
    }


def _places(kept: Kept) -> list[str]:
    return sorted(kept.pods, key=lambda place: (place == kept.first, *split(place)))


def split(place: str) -> tuple[str, int]:
    """The ReplicatedJob and the index of a place; 0 where somebody has written no number."""
    job, _, index = place.rpartition("-")
    return job, int(index) if index.isdecimal() and len(index) <= _DIGITS else 0


def _printed(node: Lines) -> list[str]:
    return [clean(line) for line in node.text.split("\n")[-_MOST:]] if node.text else []


def _nothing(node: Lines) -> str:
    return f"({clean(node.missing)})" if node.missing else "(it has printed nothing)"
