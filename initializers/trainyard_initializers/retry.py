"""Retry failures that may pass: exponential backoff with jitter, which respects Retry-After."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .failures import Corrupt, Failure

_log = logging.getLogger(__name__)
T = TypeVar("T")

_LONGEST_RETRY_AFTER = 300.0


@dataclass(frozen=True)
class Backoff:
    """How often and how fast to retry.

    Args:
        attempts: Attempts in a row without progress; by default they last about four minutes.
        corrupt: Attempts with content that does not match its checksum.
        first: Seconds before the second attempt, doubled each time.
        ceiling: The longest delay in seconds.
    """

    attempts: int = 10
    corrupt: int = 3
    first: float = 1.0
    ceiling: float = 60.0

    def delay(self, failures: int, retry_after: float | None) -> float:
        """Seconds to wait after this many failures in a row, the last with a Retry-After of `retry_after`."""
        longest = min(self.ceiling, self.first * 2.0 ** (failures - 1))
        jittered = random.uniform(longest / 2, longest)  # noqa: S311 - spreads load, guards nothing
        return max(jittered, min(retry_after or 0.0, _LONGEST_RETRY_AFTER))


def persist(
    backoff: Backoff,
    act: Callable[[], T],
    *,
    progress: Callable[[], int] = lambda: 0,
    stop: threading.Event | None = None,
) -> T:
    """Retry `act` until it succeeds, and return its result.

    Args:
        backoff: How often and how fast.
        act: Raises a passing `Failure` if a retry may help.
        progress: A count; if it has grown, the next failure counts as the first.
        stop: Once it is set, the next failure is the last.

    Raises:
        Failure: The last one, or the first that does not pass.
    """
    stop = stop or threading.Event()
    failures = corrupt = 0
    while True:
        before = progress()
        try:
            return act()
        except Failure as failure:
            if not failure.passing or stop.is_set():
                raise
            if isinstance(failure, Corrupt):
                corrupt += 1
            elif progress() > before:
                failures = 0
            failures += 1
            if failures >= backoff.attempts or corrupt >= backoff.corrupt:
                raise
            delay = backoff.delay(failures, failure.retry_after)
            _log.warning("%s; trying again in %.0f s", failure, delay)
        stop.wait(delay)
