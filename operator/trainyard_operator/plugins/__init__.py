"""The plugins, in the order in which they run.

A new framework is one module in this package and one line in `ALL`. JobSet
comes last, so that the other children of a TrainJob exist before its pods.
"""

from __future__ import annotations

from typing import Final

from ..framework import Plugin
from .jax import JAX
from .jobset import JobSetPlugin
from .plainml import PlainML
from .torch import Torch
from .torchtune import TorchTune
from .xgboost import XGBoost

ALL: Final[tuple[Plugin, ...]] = (
    PlainML(),
    Torch(),
    TorchTune(),
    JAX(),
    XGBoost(),
    JobSetPlugin(),
)
