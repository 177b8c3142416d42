"""How long tests wait, in one place: `eventually` and its limits.

A limit is at least five times what a quiet machine takes: where what is waited
for comes, a long one costs nothing. Where the machine is slow or busy it is
longer by a factor, that of fixed work, which is timed when a process first
waits, and again when a limit is met. No test asserts an upper time; how fast
something is, benchmarks say.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

_SLOWEST: Final = 10.0
"""With more there is something else wrong than that the machine is busy."""
_QUIET_SECONDS: Final = 1.0
"""What the fixed work takes where nothing else runs, on two cores of 2020."""
_BLOCK: Final = bytes(1 << 20)


@dataclass(frozen=True)
class Limit:
    """Seconds after which, on a quiet machine, what is waited for will never come."""

    seconds: float

    @property
    def now(self) -> float:
        """Seconds, for the machine as it is."""
        return self.seconds * slowness()

    def __str__(self) -> str:
        """As kubectl's `--timeout` has it, for the machine as it is."""
        return f"{self.now:.0f}s"


SOON: Final = Limit(120)
"""What runs answers, and does what it does at once (quiet: up to 15 s)."""
STARTED: Final = Limit(300)
"""Pods run, a controller is rolled out, a job of seconds is complete (quiet: up to 40 s)."""
NOTICED: Final = Limit(600)
"""Something is seen to that goes by a timer, as a lost node or a stream that is dead (quiet: up to 2 min)."""
LEARNED: Final = Limit(900)
"""A training has come to its end (quiet: up to 2 min)."""

_measured: list[float] = []


def slowness(*, anew: bool = False) -> float:
    """How many times longer than on a quiet machine fixed work takes: 1 or more."""
    if anew or not _measured:
        _measured[:] = [min(_SLOWEST, max(1.0, _work() / _QUIET_SECONDS))]
    return _measured[0]


def _work() -> float:
    """Seconds for computing, and for writes of which each is on the disk before the next."""
    started = time.perf_counter()
    for _ in range(1900):
        hashlib.sha256(_BLOCK)
    with tempfile.TemporaryFile() as file:
        for _ in range(20):
            file.write(_BLOCK[:4096])
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - started


def looks(within: Limit = SOON, pause: Callable[[], object] = lambda: time.sleep(0.3)) -> Iterator[float]:
    """Yields as long as it is worth to look once more: the seconds that have passed since the first look.

    Args:
        within: What is waited for comes within this, on a quiet machine.
        pause: Called between two looks.
    """
    started, factor = time.monotonic(), slowness()
    while True:
        passed = time.monotonic() - started
        yield passed
        # After the limit there is one look more: nothing may have run, this process included.
        if passed > within.seconds * factor:
            factor = slowness(anew=True)
            if passed > within.seconds * factor:
                return
        pause()


def eventually(
    what: str,
    ask: Callable[[], Any],
    *,
    within: Limit = SOON,
    pause: Callable[[], object] = lambda: time.sleep(0.3),
    state: Callable[[], str] | None = None,
) -> Any:
    """What `ask` answers as soon as that is something.

    Args:
        what: What is waited for, as a sentence.
        ask: Looks whether it is there. An error counts as a no: what is not there yet is missed in many ways.
        within: See `looks`.
        pause: See `looks`.
        state: Says in the end how things are; without it, what `ask` answered or raised last.

    Raises:
        AssertionError: If it does not come: what that was, and what there was at last.
    """
    last: Any = None
    started = time.monotonic()
    for _ in looks(within, pause):
        try:
            if last := ask():
                return last
        except Exception as error:  # not what ends a test, as pytest.fail does
            last = error
    why = last if isinstance(last, Exception) else None
    shown = f"{type(why).__name__}: {why}" if why and not isinstance(why, AssertionError) else last
    waited = f"not within {time.monotonic() - started:.0f} s, {slowness():.1f} times the usual patience"
    raise AssertionError(f"{waited}: {what}\nat last: {state() if state else shown}") from why


def nothing_comes(seconds: float) -> None:
    """Sleep for a fixed time, to be sure that nothing happens in it: weaker on a slow machine, never red."""
    time.sleep(seconds)
