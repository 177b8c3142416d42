"""What a piece of work costs: CPU time, so that other work on the machine does not count, and memory."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Final

SECONDS: Final = 0.2
"""CPU time that the operator's event loop can bear."""
BYTES: Final = 20 << 20
"""Memory that a replica of 256 MiB can spare for one answer."""


def cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU time."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def peak(work: Callable[[], object]) -> int:
    """Bytes that it holds at most, beside what was there before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
