"""PaddlePaddle: what `paddle.distributed.init_parallel_env` reads to find its peers (ADR 41).

Trainer v2.3 has no such plugin.
"""

from __future__ import annotations

from typing import Final

from .. import resources, templates
from ..info import Info
from . import peers

_RANK: Final = "PADDLE_TRAINER_ID"
_MASTER: Final = "PADDLE_MASTER"
"""Who sets it starts `paddle.distributed.launch`, which sets the others, and takes ours for addresses."""


class Paddle:
    """Sets the variables PADDLE_* and the port of each node."""

    name = "paddle"
    implements: frozenset[str] = frozenset()

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the variables PADDLE_*, but those that are set already.

        A single node needs none, nor does a job with a PADDLE_MASTER of its own.

        Raises `InvalidFieldError` for nodes that have no addresses, or too many.
        """
        pods = peers.trainers(info, self.name)
        if pods is None or pods.count == 1 or peers.sets(info.container(pods.name), _MASTER):
            return info
        hosts = peers.addresses(info, pods)[pods.name]
        env = [
            templates.rank(_RANK),
            {"name": "PADDLE_TRAINERS_NUM", "value": str(pods.count)},
            {"name": "PADDLE_TRAINER_ENDPOINTS", "value": ",".join(hosts)},
            {"name": "PADDLE_CURRENT_ENDPOINT", "value": peers.address_of(hosts[0], _RANK)},
            {"name": _MASTER, "value": hosts[0]},
        ]
        if resources.gpu_count(resources.per_node(info)) == 0:
            env.append({"name": "PADDLE_DISTRI_BACKEND", "value": "gloo"})
        return peers.with_missing(info, pods, env)
