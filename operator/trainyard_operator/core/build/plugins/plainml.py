"""PlainML: pod count and variables for runtimes whose framework needs nothing else.

Runs where no framework's own plugin sets them: for torch, mpi and jax it does
nothing, for xgboost and for runtimes without an mlPolicy it does (Trainer
v2.3, plugin `PlainML`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard_api import names
from trainyard_api.errors import FieldPath

from ..info import Info

_OWN_DUTY: Final = ("torch", "mpi", "jax")
"""The frameworks whose plugins set the pod count and the variables themselves."""
_PROCESSES: Final = FieldPath("spec.trainer.numProcPerNode")
_WITH_LAUNCHER: Final = ("torch", "mpi")
"""The frameworks whose own launcher starts the processes of a node."""


class PlainML:
    """Sets the trainer's pod count and variables from `spec.trainer`."""

    name = "plainml"
    implements: frozenset[str] = frozenset()

    def warnings(self, info: Info) -> Sequence[str]:
        """A warning about several processes on a node, where nothing starts them."""
        number = info.processes
        if number is None or number < 2 or any(info.policy(name) is not None for name in _WITH_LAUNCHER):
            return ()
        return (
            f"{_PROCESSES}: {number} has no effect, since {info.runtime.name} has neither mlPolicy.torch nor "
            "mlPolicy.mpi: its command starts once on each node",
        )

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the pod count and the variables that the TrainJob sets."""
        pods = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        if pods is None or any(info.policy(name) is not None for name in _OWN_DUTY):
            return info
        info = info.with_count(pods.name, info.counted(pods).count)
        return info.with_env(pods.name, info.env)
