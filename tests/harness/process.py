"""A phase as a process: what it prints is shown and its end kept; it ends whole, within its limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KEPT = 15
"""Of the lines that it printed."""
GRACE = 180.0
"""Seconds in which what is told to end may take its sandboxes down."""


@dataclass(frozen=True)
class Ended:
    """How a process ended; see `verdict.Phase`."""

    code: int
    seconds: float
    last: Sequence[str]
    limit: float | None


def run(
    command: Sequence[str], folder: Path, limit: float, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a command in a folder and a session of its own.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        limit: Seconds until it is told to end, as by Ctrl-C, and after `GRACE` more killed.
        environment: Variables besides those of this process.

    Raises:
        KeyboardInterrupt: When this process is told to end; the other has ended by then.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    last: deque[str] = deque(maxlen=KEPT)
    reader = threading.Thread(target=_show, args=(process, last), daemon=True)
    reader.start()
    late: float | None = None
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        late = limit
    finally:  # on Ctrl-C too
        _end(process)
        # What it left running in another group may hold its output open.
        reader.join(10)
    return Ended(process.returncode, time.monotonic() - started, list(last), late)


def _show(process: subprocess.Popen[str], last: deque[str]) -> None:
    for line in process.stdout or ():
        sys.stdout.write(line)
        sys.stdout.flush()
        last.append(line.rstrip("\n"))


def _end(process: subprocess.Popen[str]) -> None:
    """Have it end, and with it what it has left in its group; who has left that is for `leftovers`."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
