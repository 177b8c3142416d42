"""Prints the lines of several ranks as one log, each with the mark of its rank.

Used by `logs`, and by `run --local`; `can_draw` by other commands too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TextIO

from trainyard_assist.logs import Place

_COLOURS: Final = (36, 33, 32, 35, 34, 31)
"""Colors of the marks of ranks, in turn, as SGR codes."""
_DUMB: Final = ("dumb", "unknown")
"""Values of TERM, such as that of a shell in Emacs."""


def can_draw(out: TextIO) -> bool:
    """Whether it is a terminal with colors and a cursor that can be moved: some have neither."""
    return out.isatty() and os.environ.get("TERM", "").lower() not in _DUMB


class Marked(Protocol):
    """Whose lines they are."""

    @property
    def place(self) -> Place:
        """Which rank it is."""

    @property
    def label(self) -> str:
        """What its lines are marked with."""


class Printer:
    """Prints lines with the mark of their rank, in its colour on a terminal."""

    def __init__(self, out: TextIO, grep: str, *, marked: bool) -> None:
        self._out = out
        self._grep = grep
        self._marked = marked
        self._colourful = can_draw(out) and not os.environ.get("NO_COLOR")
        self._width = 0
        self._marks: dict[Marked, str] = {}

    def show(self, lines: Sequence[tuple[str, Marked, str]]) -> None:
        """Print these at once: when, whose, and what."""
        for source in {source: None for _, source, _ in lines}:
            self._width = max(self._width, len(source.label))
        self._marks = {}
        self._out.write(
            "".join(f"{self._mark(source)}{line}\n" for _, source, line in lines if self._grep in line)
        )
        self._out.flush()

    def print(self, lines: Iterable[str]) -> None:
        """Print lines that have no rank."""
        self._out.writelines(f"{line}\n" for line in lines if self._grep in line)

    def _mark(self, source: Marked) -> str:
        if not self._marked:
            return ""
        if source not in self._marks:
            mark = f"{source.label:>{self._width}} |"
            colour = _COLOURS[source.place.index % len(_COLOURS)]
            self._marks[source] = f"\x1b[{colour}m{mark}\x1b[0m " if self._colourful else f"{mark} "
        return self._marks[source]
