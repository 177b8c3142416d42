"""A live view of long work: what runs, for how long, and which step failed.

On a terminal, a table that redraws itself; elsewhere (CI), a line when a step
starts, ends, or has been quiet for half a minute. Everything goes to stderr.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

_QUIET_SECONDS = 30.0


@dataclass
class _Step:
    name: str
    started: float
    ended: float | None = None
    failed: bool = False
    share: float | None = None
    """How much of it is done, where that is known."""
    said: float = field(default=0.0)

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.started

    @property
    def so_far(self) -> str:
        """`12s`, or `43%, 12s`."""
        share = "" if self.share is None or self.ended else f"{self.share:.0%}, "
        return share + duration(self.seconds)


def duration(seconds: float) -> str:
    """`4s`, `3m05s`: a duration for people."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


class Progress:
    """Shows steps while they run. Use as a context manager; steps may run in threads."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._steps: list[_Step] = []
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._stop = threading.Event()
        self._heartbeat: threading.Thread | None = None

    def __enter__(self) -> Progress:
        """Start drawing."""
        if self.console.is_terminal:
            self._live = Live(console=self.console, get_renderable=self._table, refresh_per_second=4)
            self._live.__enter__()
        else:
            self._heartbeat = threading.Thread(target=self._beat, daemon=True)
            self._heartbeat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing; what was drawn stays."""
        self._stop.set()
        if self._live:
            self._live.__exit__(kind, error, trace)

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[float], None]]:
        """Show `name` as running until the block ends, and how it ended.

        The block may call what it gets with the share that is done, from 0 to 1.
        """
        step = _Step(name, time.monotonic(), said=time.monotonic())
        with self._lock:
            self._steps.append(step)
        self._say(f"... {name}")

        def at(share: float) -> None:
            step.share = share

        try:
            yield at
        except BaseException:
            step.failed = True
            raise
        finally:
            step.ended = time.monotonic()
            self._say(f"{'FAILED' if step.failed else 'ok '} {name} ({duration(step.seconds)})")

    def _say(self, line: str) -> None:
        if self._live is None:
            self.console.print(line, soft_wrap=True)

    def _beat(self) -> None:
        while not self._stop.wait(1):
            now = time.monotonic()
            with self._lock:
                quiet = [s for s in self._steps if s.ended is None and now - s.said > _QUIET_SECONDS]
            for step in quiet:
                step.said = now
                self._say(f"... {step.name} (still running, {step.so_far})")

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        with self._lock:
            steps = list(self._steps)
        for step in steps:
            mark = "[red]failed" if step.failed else "[green]done" if step.ended else "[yellow]working"
            table.add_row(mark, step.name, step.so_far)
        return table
