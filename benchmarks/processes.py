"""What a process has used, as the kernel counts it."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(stat: str) -> float:
    """Seconds of CPU in the text of `/proc/<pid>/stat`, all threads together."""
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident(status: str, field: str = "VmRSS") -> float:
    """MiB in the text of `/proc/<pid>/status`: now (`VmRSS`), or at most so far (`VmHWM`)."""
    (line,) = (line for line in status.splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used so far."""
    return cpu_seconds(Path(f"/proc/{pid}/stat").read_text())


def memory(pid: int) -> float:
    """MiB of memory that a process has now."""
    return resident(Path(f"/proc/{pid}/status").read_text())


def peak(pid: int) -> float:
    """MiB of memory that a process has had at most so far."""
    return resident(Path(f"/proc/{pid}/status").read_text(), "VmHWM")


def load() -> float:
    """How many processes the machine has been busy with in the last minute."""
    return os.getloadavg()[0]


def cores() -> set[int]:
    """The cores that this process, and so all that it starts, may run on."""
    return os.sched_getaffinity(0)
