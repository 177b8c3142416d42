"""Locks between threads and processes; a lock ends with its holder."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, holder: str) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs.

    Args:
        path: Created if missing; never removed, so that all waiters lock the same file.
        holder: Who else may hold it, for the message while waiting.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Waiting for {holder} to finish ...", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
