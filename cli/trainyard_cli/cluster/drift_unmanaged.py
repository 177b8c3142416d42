"""Reads foreign objects that may affect a stack; needs only read rights.

Called by `drift`. `trainyard_delivery.drift.unmanaged` decides what counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard_api.json_types import Json
from trainyard_delivery.drift.unmanaged import LISTED, OLDER, Unmanaged, unmanaged
from trainyard_kube.client import ApiError, Client
from trainyard_platform.stack.drift import Drift

from .drift_judge import Kinds
from .lists import everything


@dataclass(frozen=True, slots=True)
class Beside:
    """Foreign objects that affect the stack, and kinds that could not be listed, with the reason."""

    unmanaged: Sequence[Unmanaged] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)


async def look(client: Client, git: Sequence[Json], settings: Drift) -> Beside:
    """List what may reach into the stack, and return what does without being known."""
    kinds = Kinds(client)
    unseen: dict[str, str] = {}

    async def listed(api_version: str, kind: str) -> list[dict[str, Any]]:
        try:
            resource = await kinds.resource(api_version, kind)
            if resource is None and kind in OLDER:
                resource = await kinds.resource(OLDER[kind], kind)
            return [] if resource is None else [one async for one in everything(client, resource)]
        except ApiError as error:
            unseen[kind] = str(error)
            return []

    lists = await asyncio.gather(*(listed(*each) for each in LISTED))
    there = [manifest for manifests in lists for manifest in manifests]
    return Beside(unmanaged(git, there, settings.known), unseen)
