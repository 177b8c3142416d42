"""How often the status of one TrainJob is written.

The counts of its pods change with every pod that starts, gets ready or ends,
and a write of them costs the API server as much as one that says something
new. So the first status and the one that finishes a TrainJob are written at
once, other conditions a second after the last write at the earliest, and a
change of counts alone is held for 2, 4, 8, then 16 seconds, and written as it
is then: a job of a thousand pods costs a handful of writes, and no count is
older than 16 seconds. A condition begins it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core import conditions
from ..core.model import Json
from ..watch.cache import Key

CONDITIONS = 1.0
"""Seconds from a write to the next one that changes conditions."""
COUNTS = 2.0
"""Seconds for which the first change of counts alone is held; doubled with each that is written."""
LONGEST = 16.0


@dataclass(slots=True)
class _Last:
    at: float
    hold: float = COUNTS
    changed: float | None = None
    """When counts became other than what was written."""


class Pace:
    """When the next status of each TrainJob is due. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[Key, _Last] = {}

    def wait(self, key: Key, status: Json) -> float:
        """Seconds until a status, given as the fields that change, may be written: 0 for now."""
        last, now = self._last.get(key), self._clock()
        if last is None or conditions.finished(conditions.of(status)):
            return 0.0
        if "conditions" in status:
            return max(0.0, last.at + CONDITIONS - now)
        if last.changed is None:
            last.changed = now
        return max(0.0, last.changed + last.hold - now)

    def written(self, key: Key, status: Json) -> None:
        """A status has been written now."""
        last = self._last.get(key)
        hold = COUNTS if last is None or "conditions" in status else min(2 * last.hold, LONGEST)
        self._last[key] = _Last(self._clock(), hold)

    def unchanged(self, key: Key) -> None:
        """There is nothing to write: counts that were held are as before again."""
        if (last := self._last.get(key)) is not None:
            last.changed = None

    def forget(self, key: Key) -> None:
        """The TrainJob is gone."""
        self._last.pop(key, None)
