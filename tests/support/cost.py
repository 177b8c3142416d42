"""What a piece of work costs: CPU time, so that other work on the machine does not count, and memory."""

import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import Final

SECONDS: Final = 0.6
"""CPU time that fails a test: three times the 200 ms that the operator's event loop can bear, because
machines have slow minutes. What the tests are there to find takes many times as long."""
BYTES: Final = 20 << 20
"""Memory that a replica of 256 MiB can spare for one answer."""

_USUAL: Final = 0.006
"""CPU time of `_known_work` on a core of 2026."""


def cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU time on a core of 2026, the least of three times if one is near the bound."""
    first = _seconds(work)
    least = first if first < SECONDS / 2 else min(first, _seconds(work), _seconds(work))
    return least / _slowness()


def peak(work: Callable[[], object]) -> int:
    """Bytes that it holds at most, beside what was there before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@cache
def _slowness() -> float:
    """How much slower this core is; a quicker one counts as usual."""
    return max(1.0, min(_seconds(_known_work) for _ in range(5)) / _USUAL)


def _known_work() -> int:
    return sum(len(str(number)) for number in range(60_000))
