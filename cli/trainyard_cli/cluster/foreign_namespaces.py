"""Tenants of a stack whose namespaces belong to another tool: found before anything is sent.

Called by `rollout`. Queries the cluster, with only read rights.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainyard_kube.client import Client, NotFoundError
from trainyard_kube.resources import NAMESPACES
from trainyard_platform.parts.tenants import owners as namespace_owners

from ..files import stackfile
from . import connection


def refusals(stack: str, kubeconfig: str | None, context: str | None) -> list[str]:
    """A sentence for each tenant that may not have its namespace; queries nothing without tenants.

    Raises:
        PlatformError: The stack file is invalid.
        ApiError, CredentialsError: The cluster cannot be queried.
    """
    settings = stackfile.read_as_pulumi(stack)
    if not settings.tenants:
        return []
    credentials = connection.of_stack(settings.cluster, kubeconfig, context)
    return connection.ask(credentials, "preview", lambda client: refused(client, settings.tenants))


async def refused(client: Client, tenants: Iterable[str]) -> list[str]:
    """Refusals for the namespaces of these tenants; a namespace that does not exist is created."""
    sentences = []
    for name in tenants:
        try:
            namespace = await client.get(NAMESPACES.path(name=name))
        except NotFoundError:
            continue
        if by := namespace_owners.owner(namespace):
            sentences.append(namespace_owners.refusal(name, by))
    return sentences
