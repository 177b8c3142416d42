"""Controllers that a stack would create, and that the cluster already has from somebody else.

Called by `rollout` after its preview. Queries the cluster, with only read rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from trainyard_delivery import foreign
from trainyard_delivery.drift.verdicts import Ref
from trainyard_kube.client import METADATA, Client, NotFoundError
from trainyard_kube.resources import DEPLOYMENTS, NAMESPACES

_RESOURCES: Final = {"Deployment": DEPLOYMENTS, "Namespace": NAMESPACES}


async def refusals(client: Client, refs: Collection[Ref]) -> list[str]:
    """A sentence for each namespace in which somebody else has such objects."""

    async def owner(ref: Ref) -> str:
        path = _RESOURCES[ref.kind].path(ref.namespace or None, ref.name)
        try:
            return foreign.owner(await client.get(path, accept=METADATA))
        except NotFoundError:
            return ""

    owners = await asyncio.gather(*map(owner, refs))
    return list(foreign.refusals({ref: by for ref, by in zip(refs, owners, strict=True) if by}))
