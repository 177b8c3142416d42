"""Pulumi's progress: on a terminal that can draw it a bar, elsewhere a line every half minute."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

_QUIET_SECONDS: Final = 30.0


class Progress:
    """Shows the current step and the progress. Use as a context manager."""

    def __init__(self, file: TextIO) -> None:
        self._console = Console(file=file, highlight=False, markup=False)
        self._draws = self._console.is_terminal and not self._console.is_dumb_terminal
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._draws,
        )
        self._task = self._bar.add_task("", total=None)
        self._begun = self._told = time.monotonic()
        self._doing = ""
        self._done, self._total = 0, 0

    def __enter__(self) -> Self:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._bar.stop()

    def begin(self, doing: str, total: int = 0) -> None:
        """Begin a new part of the work: what it does, and its number of objects; 0 if unknown."""
        self._doing, self._done, self._total = doing, 0, total
        self._begun = self._told = time.monotonic()
        self._bar.reset(self._task, description=doing, total=total or None)
        if not self._draws:
            self._console.print(f"{doing} ...", soft_wrap=True)

    def at(self, done: int, latest: str) -> None:
        """Show how many are done, and the latest one."""
        self._done = done
        self._bar.update(self._task, completed=done, description=f"{self._doing}: {latest}")
        now = time.monotonic()
        if not self._draws and now - self._told >= _QUIET_SECONDS:
            self._told = now
            of = f" of {self._total}" if self._total else ""
            self._console.print(
                f"... {round(now - self._begun)} s, {done}{of} objects, {latest}", soft_wrap=True
            )

    def say(self, line: str) -> None:
        """Print a line that stays, above the bar."""
        self._console.print(line, soft_wrap=True)
