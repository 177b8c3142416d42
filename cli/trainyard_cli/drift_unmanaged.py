"""What a cluster has beside a stack that may reach into it: with rights to read alone.

Called by `drift`. What counts is `trainyard_platform.drift.unmanaged`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trainyard_operator.kube.client import ApiError, Client, Resource
from trainyard_platform.drift.settings import Drift
from trainyard_platform.drift.unmanaged import LISTED, Unmanaged, unmanaged

from .drift_judge import Kinds

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Beside:
    """What reaches into the stack, and which kinds could not be seen, each with why."""

    unmanaged: Sequence[Unmanaged] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)


async def look(client: Client, git: Sequence[Json], settings: Drift) -> Beside:
    """List what may reach into the stack, and say what does and is not known to."""
    kinds = Kinds(client)
    unseen: dict[str, str] = {}

    async def listed(api_version: str, kind: str) -> list[dict[str, Any]]:
        try:
            resource = await kinds.resource(api_version, kind)
            return [] if resource is None else [one async for one in _all(client, resource)]
        except ApiError as error:
            unseen[kind] = str(error)
            return []

    there = await asyncio.gather(*(listed(*each) for each in LISTED))
    return Beside(unmanaged(git, [one for found in there for one in found], settings.known), unseen)


async def _all(client: Client, resource: Resource) -> AsyncIterator[dict[str, Any]]:
    """The objects of a kind in all namespaces; a list's items do not say their kind themselves."""
    async for page in client.list(resource.path()):
        for raw in page.items or ():
            found = msgspec.json.decode(raw, type=dict[str, Any])
            yield {**found, "apiVersion": resource.api_version, "kind": resource.kind}
