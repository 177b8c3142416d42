"""Tenants of a stack whose namespaces are another tool's: looked up before anything is sent.

Called by `rollout`. Asks the cluster with rights only to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from trainyard_operator.kube.client import Client, NotFoundError
from trainyard_operator.kube.resources import NAMESPACES
from trainyard_platform.parts.tenants import owners as namespace_owners

from ..files import stackfile
from . import connection


def refusals(stack: str, kubeconfig: str | None, context: str | None) -> list[str]:
    """A sentence for each tenant that may not have its namespace; nothing is asked without tenants.

    Raises:
        PlatformError: The stack file is wrong.
        ApiError, CredentialsError: The cluster cannot be asked.
    """
    settings = stackfile.read_as_pulumi(stack)
    if not settings.tenants:
        return []
    credentials = connection.of_stack(settings.cluster, kubeconfig, context)

    async def asked() -> list[str]:
        async with connection.client(credentials, "preview") as client:
            return await refused(client, settings.tenants)

    return asyncio.run(asked())


async def refused(client: Client, tenants: Iterable[str]) -> list[str]:
    """The same of tenants by name; those that have no namespace yet get one of their own."""
    found = []
    for name in tenants:
        try:
            namespace = await client.get(NAMESPACES.path(name=name))
        except NotFoundError:
            continue
        if by := namespace_owners.owner(namespace):
            found.append(namespace_owners.refusal(name, by))
    return found
