"""Runs processes together: the first that fails ends the others, and nothing stays behind.

Called by `run` of this package. One thread waits for output, ends and signals.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainyard_api.errors import UserError
from trainyard_assist.local.model import Plan, Process
from trainyard_assist.logs import Output, Place
from trainyard_sandbox import isolation

from .descendants import LINUX, adopted, children, descendants
from .signals import Signals

GRACE: Final = 10.0
"""Seconds between SIGTERM and SIGKILL."""
_KILLED: Final = 5.0
"""Seconds in which what was killed has to be gone, and its output read."""
_AGAIN: Final = 0.01
"""Seconds between two looks for what is left."""
_CHUNK: Final = 64 * 1024

Show = Callable[[Sequence[tuple[str, Process, str]]], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended."""

    code: int
    """As a shell would have it: 0, that of the first process that failed, or 128 and the signal."""
    failed: Process | None = None
    """The process that failed first."""
    left: tuple[int, ...] = ()
    """Processes that even SIGKILL did not end."""


def run(plan: Plan, folder: Path, shell: Mapping[str, str], show: Show, grace: float = GRACE) -> Outcome:
    """Run the processes of a plan until it is complete, one of them fails, or a signal ends them.

    Args:
        plan: What to run.
        folder: Where.
        shell: Variables that each of them has besides its own.
        show: Prints lines, each after an empty time and whose it is.
        grace: Seconds in which they may end before they are killed.

    Raises:
        UserError: One of them does not start; those that have are ended.
    """
    with Signals() as signals, adopted():
        together = _Together(plan, show, grace, signals)
        try:
            together.start(folder, shell)
            outcome = together.watch()
        finally:
            left = together.kill()
    return Outcome(outcome.code, outcome.failed, tuple(sorted(left)))


class _Together:
    def __init__(self, plan: Plan, show: Show, grace: float, signals: Signals) -> None:
        self._plan = plan
        self._show = show
        self._grace = grace
        self._signals = signals
        self._before = children()
        self._running: dict[Place, tuple[Process, subprocess.Popen[bytes]]] = {}
        self._succeeded: set[Place] = set()
        self._outcome: Outcome | None = None
        self._kill_at: float | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(signals, selectors.EVENT_READ)

    def start(self, folder: Path, shell: Mapping[str, str]) -> None:
        """Start them, unless a signal comes before all have started."""
        for process in self._plan.processes:
            self._stop()
            if self._outcome is not None:
                return
            try:
                child = subprocess.Popen(
                    process.command,
                    cwd=folder,
                    env={**shell, **process.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    bufsize=0,
                    start_new_session=True,
                    preexec_fn=_end_with_parent if LINUX else None,  # noqa: PLW1509 - there are no threads
                )
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                reason = getattr(error, "strerror", None) or error
                raise UserError(f"{process.command[0]} could not be started: {reason}") from error
            self._running[process.place] = (process, child)
            if child.stdout is not None:
                self._selector.register(child.stdout, selectors.EVENT_READ, (process, child.stdout, Output()))

    def watch(self) -> Outcome:
        """Print what they print until all of them have ended."""
        while self._running:
            wait = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
            self._print(wait)
            self._stop()
            self._take_note()
            if self._kill_at is not None and self._running and time.monotonic() >= self._kill_at:
                break
        return self._outcome or Outcome(0)

    def kill(self) -> set[int]:
        """Kill what is left of them, print the rest of their output, and return what does not end."""
        until = time.monotonic() + _KILLED
        killed: set[int] = set()
        ranks = {child.pid for _, child in self._running.values()}
        while time.monotonic() < until:
            left = descendants(self._before)
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            killed |= left
            for pid in killed - ranks:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            self._take_note()
            if not left and not self._running:
                break
            time.sleep(_AGAIN)
        while len(self._selector.get_map()) > 1 and time.monotonic() < until:
            self._print(max(0.0, until - time.monotonic()))
        self._selector.close()
        return descendants(self._before)

    def _print(self, wait: float | None) -> None:
        """Print what has come; wait for it if nothing has."""
        lines: list[tuple[str, Process, str]] = []
        for key, _ in self._selector.select(wait):
            if key.data is None:
                continue
            process, stream, output = key.data
            chunk = os.read(key.fd, _CHUNK)
            texts = output.feed(chunk) if chunk else output.end()
            lines += [("", process, text) for text in texts]
            if not chunk:
                self._selector.unregister(stream)
                stream.close()
        if lines:
            self._show(lines)

    def _stop(self) -> None:
        """End them at the first signal, and kill them at the second."""
        for number in self._signals.received():
            if self._outcome is None:
                self._end(Outcome(128 + number))
            else:
                self._kill_at = time.monotonic()

    def _take_note(self) -> None:
        """See which of them have ended, and what comes of it."""
        for process, child in list(self._running.values()):
            code = child.poll()
            if code is None:
                continue
            del self._running[process.place]
            # What a container leaves running ends with it, too.
            _signal(child, signal.SIGKILL)
            if code == 0:
                self._succeeded.add(process.place)
            if self._outcome is not None:
                continue
            if code:
                self._end(Outcome(code if code > 0 else 128 - code, process))
            elif self._plan.is_complete(self._succeeded):
                self._end(Outcome(0))

    def _end(self, outcome: Outcome) -> None:
        """Tell those that still run to end."""
        self._outcome = outcome
        self._kill_at = time.monotonic() + self._grace
        for _, child in self._running.values():
            _signal(child, signal.SIGTERM)


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to the group of a process, as far as there is one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _end_with_parent() -> None:
    isolation.die_with_parent(signal.SIGTERM)
