"""Progress as occasional log lines: `kubectl logs` cannot redraw a bar."""

from __future__ import annotations

import logging
import threading
import time

_log = logging.getLogger(__name__)


class Progress:
    """Counts what arrives, from any thread.

    Args:
        files: How many are expected.
        size: Bytes that are expected.
        every: Seconds between two lines.
    """

    def __init__(self, files: int, size: int, every: float = 10.0) -> None:
        self._files, self._size, self._every = files, size, every
        self._lock = threading.Lock()
        self._started = self._said = time.monotonic()
        self._files_done = self._done = self._fetched = 0

    def here(self, size: int) -> None:
        """Count bytes that need not be fetched or (if negative) must be fetched again."""
        with self._lock:
            self._done += size

    def arrived(self, size: int) -> None:
        """Count fetched bytes."""
        with self._lock:
            self._done += size
            self._fetched += size
            now = time.monotonic()
            if now - self._said >= self._every:
                self._said = now
                _log.info("%s", self.line())

    def finished(self) -> None:
        """Count a complete file."""
        with self._lock:
            self._files_done += 1

    def line(self) -> str:
        """The progress in one line."""
        seconds = max(time.monotonic() - self._started, 0.001)
        speed = self._fetched / seconds
        left = f", about {(self._size - self._done) / speed:.0f} s left" if speed else ""
        percent = 100 * self._done // self._size if self._size else 100
        return (
            f"{human(self._done)} of {human(self._size)} ({percent} %), "
            f"{self._files_done} of {self._files} files, {human(speed)}/s{left}"
        )


def human(size: float) -> str:
    """A number of bytes for people: `3.4 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
