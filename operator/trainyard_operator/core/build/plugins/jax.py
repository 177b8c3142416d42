"""JAX: what `jax.distributed.initialize` reads to find its peers (Trainer v2.3, plugin `JAX`).

Admission has no rules for it: a user may overrule every JAX_* variable.
"""

from __future__ import annotations

from trainyard_api import names

from .. import templates
from ..info import Info


class JAX:
    """Sets the trainer's pod count, variables and port for JAX."""

    name = "jax"
    implements = frozenset({"mlPolicy.jax"})

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the JAX_* variables."""
        pods = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        if info.policy("jax") is None or pods is None or info.injects_nothing:
            return info
        pods = info.counted(pods)
        info = info.with_count(pods.name, pods.count)
        env = (
            {"name": "JAX_NUM_PROCESSES", "value": str(pods.count)},
            templates.rank("JAX_PROCESS_ID"),
            {
                "name": "JAX_COORDINATOR_ADDRESS",
                "value": f"{info.rendezvous(pods)}:{names.TRAINER_PORT}",
            },
        )
        return info.with_env(pods.name, env).with_port(pods.name)
