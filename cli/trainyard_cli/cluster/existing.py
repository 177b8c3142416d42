"""Finds existing objects in a cluster: lists each kind once, as metadata.

Called by `rollout`, with what a stack would create; needs only read rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from trainyard_delivery.drift.verdicts import Ref
from trainyard_kube.client import METADATA_OF_ALL, ApiError, Client

from .drift_judge import Kinds
from .lists import undecoded


class Existing(NamedTuple):
    """Existing objects, and kinds that could not be listed, each with the reason."""

    refs: frozenset[Ref]
    unseen: Mapping[str, str]


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


async def look(client: Client, refs: Collection[Ref]) -> Existing:
    """Those of these objects that exist."""
    discovery, unseen = Kinds(client), dict[str, str]()

    async def listed(api_version: str, kind: str) -> frozenset[Ref]:
        try:
            resource = await discovery.resource(api_version, kind)
            if resource is None:
                return frozenset()
            decoder = msgspec.json.Decoder(_Object)
            objects = undecoded(client, resource, accept=METADATA_OF_ALL)
            metadata = [decoder.decode(raw).metadata async for raw in objects]
        except ApiError as error:
            unseen[f"which {kind} objects exist already"] = str(error)
            return frozenset()
        return frozenset(Ref(api_version, kind, each.namespace, each.name) for each in metadata)

    kinds = sorted({(ref.api_version, ref.kind) for ref in refs})
    answers = await asyncio.gather(*(listed(*kind) for kind in kinds))
    return Existing(frozenset(refs) & frozenset().union(*answers), unseen)
