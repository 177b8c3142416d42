"""The nodes of a cluster as pools, and what pods use of them; needs only read rights.

Called by `trainyard nodes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_assist.nodes import NO_POOL, Pool, pools
from trainyard_kube.client import Client, ForbiddenError, NotFoundError, Resource
from trainyard_kube.resources import NODES, PODS, RESOURCE_FLAVORS

from .lists import everything

_NOT_ENDED: Final = {"fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}

_NO_PODS: Final = "use: you are not allowed to list the pods of all namespaces"
_NO_FLAVORS: Final = (
    f"pools of nodes without the label {names.POOL_LABEL}: you are not allowed to list ResourceFlavors"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The pools, and what could not be seen, in words."""

    pools: list[Pool]
    now: datetime
    """By the clock of the API server."""
    unseen: tuple[str, ...] = ()
    with_use: bool = True
    """Whether it is known what pods use."""


async def look(client: Client) -> Seen | None:
    """The pools; None if the user may not see nodes.

    Raises:
        ApiError: The API server does not answer.
    """
    nodes, pods, flavors = await asyncio.gather(
        _tried(client, NODES), _tried(client, PODS, _NOT_ENDED), _tried(client, RESOURCE_FLAVORS)
    )
    if nodes is None:
        return None
    its_pools = pools(nodes, pods, flavors or ())
    unseen = [] if pods is not None else [_NO_PODS]
    if flavors is None and any(pool.name == NO_POOL for pool in its_pools):
        unseen.append(_NO_FLAVORS)
    return Seen(its_pools, client.time.now(), tuple(unseen), with_use=pods is not None)


async def _tried(
    client: Client, resource: Resource, params: Mapping[str, str] | None = None
) -> list[Json] | None:
    """All objects of a kind, none if the cluster does not know it; None if the user may not see them."""
    try:
        return [json async for json in everything(client, resource, params=params)]
    except NotFoundError:
        return []
    except ForbiddenError:
        return None
