"""How often the status of one TrainJob is written.

The counts of its pods change with every pod that starts, gets ready or ends,
and a write of them costs the API server as much as one that says something
new. So a status that finishes a TrainJob is written at once, other conditions
a second after the last write, and counts alone after 2, 4, 8, then 16 seconds:
a job of a thousand pods costs a handful of writes while it starts, and no
count is older than 16 seconds. A condition, or a quiet time, begins it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import conditions
from .cache import Key
from .model import Json

CONDITIONS = 1.0
"""Seconds from a write to the next one that changes conditions."""
COUNTS = 2.0
"""Seconds from a write to the first one that changes counts alone; doubled by each that follows."""
LONGEST = 16.0
QUIET = 2 * LONGEST
"""Seconds without a write after which a TrainJob is no longer in motion."""


@dataclass(frozen=True, slots=True)
class _Last:
    at: float
    counts: float


class Pace:
    """When the next status of each TrainJob is due. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[Key, _Last] = {}

    def wait(self, key: Key, status: Json) -> float:
        """Seconds until a status, given as the fields that change, may be written: 0 for now."""
        last = self._last.get(key)
        if last is None or conditions.finished(conditions.of(status)):
            return 0.0
        pause = CONDITIONS if "conditions" in status else last.counts
        return max(0.0, last.at + pause - self._clock())

    def written(self, key: Key, status: Json) -> None:
        """A status has been written now."""
        last, now = self._last.get(key), self._clock()
        anew = last is None or "conditions" in status or now - last.at >= QUIET
        self._last[key] = _Last(now, COUNTS if anew or last is None else min(2 * last.counts, LONGEST))

    def forget(self, key: Key) -> None:
        """The TrainJob is gone."""
        self._last.pop(key, None)
