"""Memory of a replica of the operator: what it needs itself, and what tenants may make it hold.

Each replica holds every TrainJob and TrainingRuntime; a tenant's quota bounds how many there are, and
admission how large one is. The numbers are measured: tests/trainyard_operator/test_packed.py.
"""

from __future__ import annotations

from typing import Final

BASE: Final = 75
"""MiB that a replica needs to work."""
REVISIONS: Final = 32
"""MiB of contents of revisions that it keeps at most, however many there are."""
OBJECTS_PER_MIB: Final = 4
"""TrainJobs and TrainingRuntimes of the largest size that fit into a MiB."""
LEAST: Final = 256
"""MiB that a replica gets by default, and requests."""
MIB: Final = 1024 * 1024
_STEP: Final = 128


def needed(objects: int) -> int:
    """MiB of a replica that holds so many TrainJobs and TrainingRuntimes of the largest size."""
    return BASE + REVISIONS + -(-objects // OBJECTS_PER_MIB)


def limit(objects: int) -> int:
    """MiB that a replica may use, if the stack file does not say it."""
    return max(LEAST, -(-needed(objects) // _STEP) * _STEP)
