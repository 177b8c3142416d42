"""How a container failed, as its termination message records it: docs/adr/0022.

The catalog's containers that run Python leave a line before the traceback that
says who failed, when and how;
`trainyard_platform.catalog.in_pods.sitecustomize` writes it. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_FIRST: Final = re.compile(
    r"(?:rank (?P<rank>\d{1,9}) )?(?P<did>failed|lost others)"
    r" at (?P<at>[\dT:.-]{19,26}\+00:00) with exit code (?P<code>\d{1,3})"
)
EXIT_CODES: Final = (1, 42)
"""Of a container that left such a line; with any other exit code, an earlier program left it."""
_SHORT: Final = 300
"""Characters of a line, and of a place."""
_FRAME: Final = re.compile(r'  File "(?P<file>[^"<]+)", line (?P<line>\d{1,9})')
_LIBRARY: Final = re.compile(r"/(?:site|dist)-packages/|/lib/python3")


@dataclass(frozen=True, slots=True)
class LastWords:
    """How a program ended."""

    at: datetime
    exit_code: int
    lost_others: bool
    """It failed as a consequence of another."""
    said: str
    """The traceback."""
    rank: int | None = None
    """The process's, among all that torchrun started; None if there are no ranks."""


def of(exit_code: int, message: str) -> LastWords | None:
    """What the message of a container with that exit code tells; None if it has no such line."""
    if exit_code not in EXIT_CODES:
        return None
    first, _, said = message.partition("\n")
    found = _FIRST.fullmatch(first)
    if found is None:
        return None
    try:
        at = datetime.fromisoformat(found["at"])
    except ValueError:
        return None
    rank = None if found["rank"] is None else int(found["rank"])
    return LastWords(at, int(found["code"]), found["did"] != "failed", said, rank)


def short(said: str) -> str:
    """The last line, with the last place in the user's code that a traceback names; empty if none."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not lines:
        return ""
    frames = [frame for frame in _FRAME.finditer(said) if not _LIBRARY.search(frame["file"])]
    place = f" ({frames[-1]['file']}:{frames[-1]['line']})" if frames else ""
    return lines[-1][:_SHORT] + place[-_SHORT:]
