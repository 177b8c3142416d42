"""The frameworks that Trainyard knows, each with the ML policy that starts it; a stack may know more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KNOWN: Final[Mapping[str, str | None]] = {
    "deepspeed": "mpi",
    "horovod": "mpi",
    "jax": "jax",
    "lightgbm": None,
    "mlx": "mpi",
    "mpi": "mpi",
    "paddle": None,
    "plain": None,
    "tensorflow": None,
    "torch": "torch",
    "torchtune": "torch",
    "trl": "torch",
    "xgboost": "xgboost",
}
"""None where a job needs only the number of nodes."""
