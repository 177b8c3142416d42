"""JAX: what `jax.distributed.initialize` reads to find its peers (Trainer v2.3, plugin `JAX`).

Admission has no rules for it: a user may overrule every JAX_* variable.
"""

from __future__ import annotations

from typing import Final

from trainyard_api import fields, names
from trainyard_api.errors import FieldPath

from ..info import Info

_NODES: Final = FieldPath("spec.trainer.numNodes")


class JAX:
    """Sets the trainer's pod count, variables and port for JAX."""

    name = "jax"
    implements = frozenset({"mlPolicy.jax"})

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the JAX_* variables; without `spec.trainer` nothing is injected, as in Trainer v2.3."""
        pods = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        trainer = info.trainer
        if info.policy("jax") is None or pods is None or trainer is None:
            return info
        nodes = fields.integer(trainer.get("numNodes"), _NODES)
        count = pods.count if nodes is None else nodes
        info = info.with_count(pods.name, count)
        job = info.trainjob.name
        env = (
            {"name": "JAX_NUM_PROCESSES", "value": str(count)},
            {
                "name": "JAX_PROCESS_ID",
                "valueFrom": {"fieldRef": {"fieldPath": names.JOB_COMPLETION_INDEX_PATH}},
            },
            {
                "name": "JAX_COORDINATOR_ADDRESS",
                "value": f"{job}-{names.NODE}-0-0.{job}:{names.TRAINER_PORT}",
            },
        )
        return info.with_env(pods.name, names.NODE, env).with_port(pods.name, names.NODE, names.TRAINER_PORT)
