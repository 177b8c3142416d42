"""Try again what may pass: exponential backoff with jitter, and with respect for Retry-After."""

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
    """How often and how fast.

    Arguments:
        attempts: In a row without any progress; about four minutes by default.
        corrupt: Of content that does not fit its checksum.
        first: Seconds before the second attempt, doubled each time.
        ceiling: Seconds, at most.
    """

    attempts: int = 10
    corrupt: int = 3
    first: float = 1.0
    ceiling: float = 60.0

    def delay(self, failures: int, retry_after: float | None) -> float:
        """Seconds to wait after so many failures in a row, the last one asking for `retry_after`."""
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
    """What `act` returns, however often it takes.

    Arguments:
        backoff: How often and how fast.
        act: Raises a passing `Failure` when trying again may help.
        progress: A count; a failure after it has grown starts the attempts anew.
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
