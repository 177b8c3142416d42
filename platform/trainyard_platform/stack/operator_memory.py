"""Memory of a replica of the operator: for itself, and for the objects that tenants may create.

Each replica caches every TrainJob and TrainingRuntime. A tenant's quota limits their number, and
admission limits their size. The numbers are measured: tests/trainyard_operator/test_packed.py.
"""

from __future__ import annotations

from typing import Final

BASE: Final = 75
"""MiB that a replica needs to work."""
REVISIONS: Final = 32
"""MiB of its cache of runtime revisions, at most."""
OBJECTS_PER_MIB: Final = 4
"""TrainJobs and TrainingRuntimes of the largest size that fit into a MiB."""
LEAST: Final = 256
"""MiB that a replica gets by default, and requests."""
MIB: Final = 1024 * 1024
_STEP: Final = 128


def needed(objects: int) -> int:
    """MiB of a replica with this many TrainJobs and TrainingRuntimes of the largest size."""
    return BASE + REVISIONS + -(-objects // OBJECTS_PER_MIB)


def limit(objects: int) -> int:
    """Default memory limit of a replica, in MiB."""
    return max(LEAST, -(-needed(objects) // _STEP) * _STEP)
