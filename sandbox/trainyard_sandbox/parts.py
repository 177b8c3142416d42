"""The optional parts of a sandbox: `up` adds those that its user names.

`toolchain.yaml` and `images.yaml` say which of their entries are of a part;
`pulumi` leaves out of the stack what is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

PARTS: Final[Mapping[str, str]] = {
    "volcano": "the gang scheduler",
    "coscheduling": "the other gang scheduler, of scheduler-plugins",
    "mpi": "the image of the runtimes for MPI and MLX",
    "deepspeed": "the image of the runtime for DeepSpeed",
    "jax-xgboost": "the image of the runtimes for JAX and XGBoost",
    "tensorflow": "the image of the runtimes for TensorFlow",
    "paddle": "the image of the runtime for PaddlePaddle",
    "lightgbm": "the image of the runtime for LightGBM",
    "initializers": "the image that fetches datasets and models",
    "data-cache": "LeaderWorkerSet, and the image that holds a table in memory",
    "trainers": "the image that post-trains language models",
}
"""What each is, by name."""
ALL: Final = "all"
"""Stands for all of them."""


def named(names: Iterable[str]) -> tuple[str, ...]:
    """The parts of these names, in their order, each once.

    Raises:
        ValueError: There is no part of that name; the message lists the parts.
    """
    chosen = set(names)
    if unknown := sorted(chosen - {*PARTS, ALL}):
        raise ValueError(f"{unknown[0]!r}: there are {', '.join([*PARTS, ALL])}")
    return tuple(part for part in PARTS if part in chosen or ALL in chosen)


def lacking(parts: Iterable[str]) -> tuple[str, ...]:
    """The parts that are not among these."""
    held = set(parts)
    return tuple(part for part in PARTS if part not in held)
