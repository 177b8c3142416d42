"""Finds existing objects in a cluster: lists each kind once, as metadata.

Called by `rollout`, with what a stack would create; needs only read rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

from trainyard_delivery.drift.verdicts import Ref
from trainyard_kube.client import ApiError, Client

from .drift_judge import Kinds
from .lists import names_of


class Existing(NamedTuple):
    """Existing objects, and kinds that could not be listed, each with the reason."""

    refs: frozenset[Ref]
    unseen: Mapping[str, str]


async def look(client: Client, refs: Collection[Ref]) -> Existing:
    """Those of these objects that exist."""
    discovery, unseen = Kinds(client), dict[str, str]()

    async def listed(api_version: str, kind: str) -> frozenset[Ref]:
        try:
            resource = await discovery.resource(api_version, kind)
            if resource is None:
                return frozenset()
            return frozenset([Ref(api_version, kind, *of) async for of in names_of(client, resource)])
        except ApiError as error:
            unseen[f"which {kind} objects exist already"] = str(error)
            return frozenset()

    kinds = sorted({(ref.api_version, ref.kind) for ref in refs})
    answers = await asyncio.gather(*(listed(*kind) for kind in kinds))
    return Existing(frozenset(refs) & frozenset().union(*answers), unseen)
