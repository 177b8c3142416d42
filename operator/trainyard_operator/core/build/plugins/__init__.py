"""The plugins, in the order in which they run.

A new framework is one module in this package and one line in `ALL`. JobSet
comes last, so that the other children of a TrainJob exist before its pods.
"""

from __future__ import annotations

from typing import Final

from ..framework import Framework
from .coscheduling import CoScheduling
from .jax import JAX
from .jobset import JobSetPlugin
from .lightgbm import LightGBM
from .mpi import MPI
from .paddle import Paddle
from .plainml import PlainML
from .tensorflow import TensorFlow
from .torch import Torch
from .torchtune import TorchTune
from .trainjobstatus import TrainJobStatusPlugin
from .volcano import Volcano
from .xgboost import XGBoost

ALL: Final = Framework(
    (
        PlainML(),
        Torch(),
        TorchTune(),
        JAX(),
        XGBoost(),
        MPI(),
        TensorFlow(),
        Paddle(),
        LightGBM(),
        TrainJobStatusPlugin(),
        CoScheduling(),
        Volcano(),
        JobSetPlugin(),
    )
)
"""What is rendered, validated and carried out. Plugins of a feature gate do nothing while it is off."""
