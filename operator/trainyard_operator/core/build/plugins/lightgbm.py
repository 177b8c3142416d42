"""LightGBM: its parameters `machines`, `num_machines` and `local_listen_port`, as variables (ADR 41).

LightGBM itself reads no variables: the script hands them on. Trainer v2.3 has no such plugin.
"""

from __future__ import annotations

from trainyard_api import names

from .. import templates
from ..info import Info
from . import peers


class LightGBM:
    """Sets the variables LIGHTGBM_* and the port of each node."""

    name = "lightgbm"
    implements: frozenset[str] = frozenset()

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the variables LIGHTGBM_*, except those that are already set; a single node needs none.

        Raises `InvalidFieldError` for nodes that have no addresses, or too many.
        """
        pods = peers.trainers(info, self.name)
        if pods is None or pods.count == 1:
            return info
        env = [
            templates.rank("LIGHTGBM_RANK"),
            {"name": "LIGHTGBM_MACHINES", "value": ",".join(peers.addresses(info, pods)[pods.name])},
            {"name": "LIGHTGBM_NUM_MACHINES", "value": str(pods.count)},
            {"name": "LIGHTGBM_LOCAL_LISTEN_PORT", "value": str(names.TRAINER_PORT)},
        ]
        return peers.with_missing(info, pods, env)
