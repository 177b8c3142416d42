"""Controllers that a stack would create, and that the cluster already has from somebody else.

Called by `rollout` after its preview. Queries the cluster, with only read rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from trainyard_api.json_types import Json
from trainyard_delivery import foreign
from trainyard_delivery.drift.verdicts import Ref
from trainyard_kube.client import METADATA, Client, NotFoundError
from trainyard_kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS

_RESOURCES: Final = {
    resource.kind: resource for resource in (DEPLOYMENTS, NAMESPACES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
}


async def refusals(client: Client, refs: Collection[Ref], stack: str) -> list[str]:
    """A sentence if the platform is another stack's, and for each namespace with objects of somebody else."""

    async def live(ref: Ref) -> Json | None:
        path = _RESOURCES[ref.kind].path(ref.namespace or None, ref.name)
        try:
            return await client.get(path, accept=METADATA)
        except NotFoundError:
            return None

    lives = zip(refs, await asyncio.gather(*map(live, refs)), strict=True)
    there = {ref: metadata for ref, metadata in lives if metadata is not None}
    owners = {ref: by for ref, metadata in there.items() if (by := foreign.owner(metadata))}
    return [*foreign.of_another_stack(there, stack), *foreign.refusals(owners)]
