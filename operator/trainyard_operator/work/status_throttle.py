"""How often the status of one TrainJob is written.

The counts of its pods change with every pod that starts, gets ready or ends,
and a write of them costs the API server as much as one that says something
new. So the first status and the one that finishes a TrainJob are written at
once, other conditions a second after the last write at the earliest, and a
change of only counts is held for 2, 4, 8, then 10 seconds, and written as it
is then: a job of a thousand pods costs a handful of writes, and no count is
older than 10 seconds. A condition resets the delay.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.model import Json
from ..core.status import conditions

CONDITIONS = 1.0
"""Seconds from a write to the next one that changes conditions."""
COUNTS = 2.0
"""Seconds for which the first change of only counts is held; doubled with each that is written."""
LONGEST = 10.0


@dataclass(slots=True)
class Pace:
    """When the next status of one TrainJob is due. Times are in seconds of one monotonic clock."""

    written_at: float | None = None
    hold: float = COUNTS
    changed_at: float | None = None
    """When counts began to differ from what was written."""

    def wait(self, status: Json, now: float) -> float:
        """Seconds until a status, given as the fields that change, may be written: 0 for now."""
        if self.written_at is None or conditions.finished(conditions.of(status)):
            return 0.0
        if "conditions" in status:
            return max(0.0, self.written_at + CONDITIONS - now)
        if self.changed_at is None:
            self.changed_at = now
        return max(0.0, self.changed_at + self.hold - now)

    def written(self, status: Json, now: float) -> None:
        """A status has been written now."""
        afresh = self.written_at is None or "conditions" in status
        self.hold = COUNTS if afresh else min(2 * self.hold, LONGEST)
        self.written_at = now
        self.changed_at = None

    def unchanged(self) -> None:
        """There is nothing to write: the counts that were held have changed back."""
        self.changed_at = None
