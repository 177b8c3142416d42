"""The API server's time, which is also the time of new objects.

Kept by `client` from the answers to its requests. Deadlines and retention are
counted from a server's dates, so a node whose clock is wrong must not end jobs
early, nor let them run on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

TOLERATED = 2.0
"""Seconds by which this machine's clock may differ and still be used: an answer counts whole seconds."""


class ServerClock:
    """`local` is this machine's clock, `steady` counts seconds and never jumps."""

    def __init__(
        self,
        local: Callable[[], datetime] = lambda: datetime.now(UTC),
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._local = local
        self._steady = steady
        self._heard: tuple[str, float] = ("", 0.0)

    def heard(self, date: str) -> None:
        """An answer came just now, with this Date header; empty if it had none."""
        if date:
            self._heard = (date, self._steady())

    def now(self) -> datetime:
        """The server's time; this machine's if it is close enough, or no answer has come."""
        local = self._local()
        date, at = self._heard
        try:
            server = parsedate_to_datetime(date) + timedelta(seconds=self._steady() - at)
        except ValueError:
            return local
        if server.tzinfo is None:  # a date that ends in -0000, which is UTC too
            server = server.replace(tzinfo=UTC)
        return local if abs((local - server).total_seconds()) <= TOLERATED else server
