"""A live view of long work: what runs, for how long, which step failed, and how long it all will take.

On a terminal, a table that redraws itself; elsewhere (CI), a line when a step
starts, ends, or has been quiet for half a minute. Everything goes to stderr.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from .estimate import Part, Seen, about, seconds_left

_QUIET_SECONDS = 30.0


@dataclass
class _Step:
    name: str
    started: float
    part: str | None = None
    """The part of the expected work that it does."""
    watch: Callable[[], float | None] = lambda: None
    """How much of it is done, where that is known."""
    ended: float | None = None
    failed: bool = False
    reported: float = 0.0
    """When a line last told that it runs."""

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.started

    @property
    def so_far(self) -> str:
        """`12s`, or `43%, 12s`."""
        share = None if self.ended else self.watch()
        return ("" if share is None else f"{share:.0%}, ") + duration(self.seconds)

    @property
    def seen(self) -> Seen:
        """What is seen of the part that it does."""
        return Seen(self.started, self.ended, None if self.ended else self.watch())


def duration(seconds: float) -> str:
    """`4s`, `3m05s`: a duration for people."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


class Progress:
    """Shows steps while they run. Use as a context manager; steps may run in threads."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._steps: list[_Step] = []
        self._expected: tuple[Part, ...] = ()
        self._began = 0.0
        self._cores = len(os.sched_getaffinity(0))
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
        self.expect_nothing()
        if self._live:
            self._live.__exit__(kind, error, trace)

    def expect(self, parts: Iterable[Part]) -> float:
        """Show from now on how much is left of this work, and of what was expected before it.

        Returns:
            The seconds that are expected to be left.
        """
        now = time.monotonic()
        if not self._expected:
            self._began = now
        self._expected += tuple(parts)
        return self._left(now)

    def expect_nothing(self) -> None:
        """Stop showing how much is left: some of what was expected turned out to be there."""
        self._expected = ()

    @contextmanager
    def step(
        self, name: str, part: str | None = None, watch: Callable[[], float | None] = lambda: None
    ) -> Iterator[Callable[[float], None]]:
        """Show `name` as running until the block ends, and how it ended.

        The block may call what it gets with the share that is done, from 0 to 1.

        Args:
            name: What is done.
            part: The part of the expected work that it is.
            watch: Says the share that is done, where the block does not know it.
        """
        step = _Step(name, time.monotonic(), part, watch, reported=time.monotonic())
        with self._lock:
            self._steps.append(step)
        self._say(f"... {name}")

        def at(share: float) -> None:
            step.watch = lambda: share

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
                quiet = [s for s in self._steps if s.ended is None and now - s.reported > _QUIET_SECONDS]
            for step in quiet:
                step.reported = now
                self._say(f"... {step.name} (still running, {step.so_far})")
            if quiet and (share := self._share(now)) is not None:
                self._say(f"... {share:.0%} of all, {about(self._left(now))} left")

    def _left(self, now: float) -> float:
        with self._lock:
            seen = {step.part: step.seen for step in self._steps if step.part}
        return seconds_left(self._expected, seen, now, self._cores)

    def _share(self, now: float) -> float | None:
        """How much of the expected work is done; None where none is expected or left."""
        elapsed, left = now - self._began, self._left(now)
        return elapsed / (elapsed + left) if left else None

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        with self._lock:
            steps = list(self._steps)
        for step in steps:
            mark = "[red]failed" if step.failed else "[green]done" if step.ended else "[yellow]working"
            table.add_row(mark, step.name, step.so_far)
        now = time.monotonic()
        if (share := self._share(now)) is not None:
            bar = ProgressBar(total=1.0, completed=share, width=40)
            table.add_row(f"{share:.0%}", bar, f"{about(self._left(now))} left")
        return table
