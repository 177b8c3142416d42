"""Tenants of a stack whose namespaces belong to another tool: found before anything is sent.

Called by `rollout`. Queries the cluster, with only read rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from trainyard_kube.client import Client, NotFoundError
from trainyard_kube.resources import NAMESPACES
from trainyard_platform.parts.tenants import owners as namespace_owners
from trainyard_platform.stack.settings import StackSettings

from . import connection


def refusals(settings: StackSettings, connect: connection.Connect) -> list[str]:
    """A sentence for each tenant that may not have its namespace; queries nothing without tenants.

    Raises:
        ApiError, CredentialsError: The cluster cannot be queried.
    """
    if not settings.tenants:
        return []
    return connection.ask(connect(), "preview", lambda client: refused(client, settings.tenants))


async def refused(client: Client, tenants: Iterable[str]) -> list[str]:
    """Refusals for the namespaces of these tenants; a namespace that does not exist is created."""
    sentences = await asyncio.gather(*(_refusal(client, name) for name in tenants))
    return [sentence for sentence in sentences if sentence]


async def _refusal(client: Client, name: str) -> str:
    try:
        namespace = await client.get(NAMESPACES.path(name=name))
    except NotFoundError:
        return ""
    by = namespace_owners.owner(namespace)
    return namespace_owners.refusal(name, by) if by else ""
