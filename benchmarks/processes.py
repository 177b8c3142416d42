"""What a process has used, as the kernel counts it."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import BenchmarkError

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(stat: str) -> float:
    """Seconds of CPU in the text of `/proc/<pid>/stat`, all threads together."""
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident(status: str, field: str = "VmRSS") -> float:
    """MiB in the text of `/proc/<pid>/status`: now (`VmRSS`), or at most so far (`VmHWM`).

    Raises `BenchmarkError` if it has none: a process that has ended and that nobody has waited for.
    """
    for line in status.splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise BenchmarkError("a process that is measured has ended")


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used so far. Raises `BenchmarkError` if it has ended."""
    return cpu_seconds(_text(pid, "stat"))


def memory(pid: int) -> float:
    """MiB of memory that a process has now. Raises `BenchmarkError` if it has ended."""
    return resident(_text(pid, "status"))


def peak(pid: int) -> float:
    """MiB of memory that a process has had at most so far. Raises `BenchmarkError` if it has ended."""
    return resident(_text(pid, "status"), "VmHWM")


def _text(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise BenchmarkError(f"process {pid}, which is measured, has ended") from error
