"""PlainML: pod count and variables for runtimes whose framework needs nothing else.

Runs where no framework's own plugin sets them: for torch, mpi and jax it does
nothing, for xgboost and for runtimes without an mlPolicy it does (Trainer
v2.3, plugin `PlainML`).
"""

from __future__ import annotations

from typing import Final

from trainyard_api import fields, names
from trainyard_api.errors import FieldPath

from .. import templates
from ..info import Info

_TRAINER: Final = FieldPath("spec.trainer")
_OWN_DUTY: Final = ("torch", "mpi", "jax")
"""The frameworks whose plugins set the pod count and the variables themselves."""


class PlainML:
    """Sets the trainer's pod count and variables from `spec.trainer`."""

    name = "plainml"
    implements: frozenset[str] = frozenset()

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the pod count and the variables that the TrainJob sets."""
        pods = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        trainer = info.trainer
        if trainer is None or pods is None or any(info.policy(name) is not None for name in _OWN_DUTY):
            return info
        nodes = fields.integer(trainer.get("numNodes"), _TRAINER.child("numNodes"))
        if nodes is not None:
            info = info.with_count(pods.name, nodes)
        env = templates.environment(trainer.get("env"), _TRAINER.child("env"))
        return info.with_env(pods.name, names.NODE, env)
