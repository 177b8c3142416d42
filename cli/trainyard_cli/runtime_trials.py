"""Whether a cluster would take the runtimes that a stack is to get: asked in dry runs.

Called by `rollout`, with the rights of the user. The API server asks the
admission policies and the operator's webhook, which has it judge the Jobs too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainyard_api import names
from trainyard_operator.kube.client import ApiError, Client, NotFoundError
from trainyard_operator.kube.credentials import CredentialsError

from . import connection
from .runtimes_diff import RUNTIMES

_DENIED: Final = ("denied the request: ", "denied request: ")
"""What the API server writes before the words of a webhook, and of an admission policy."""

Manifest = Mapping[str, Any]


def ask(
    manifests: Sequence[Manifest], kubeconfig: str | None, context: str | None
) -> tuple[list[str], Mapping[str, str]]:
    """A sentence for each runtime that the cluster would refuse; and what could not be asked, with why."""
    if not manifests:
        return [], {}

    async def asked() -> list[str]:
        async with connection.client(connection.load(kubeconfig, context), "preview") as client:
            return await refused(client, manifests)

    try:
        return asyncio.run(asked()), {}
    except (CredentialsError, ApiError) as error:
        return [], {"whether the cluster would take the runtimes": str(error)}


async def refused(client: Client, manifests: Sequence[Manifest]) -> list[str]:
    """The sentences; raises the client's errors where nobody has said yes or no."""
    found = []
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        try:
            await _sent(client, name, manifest)
        except ApiError as error:
            if (said := _refusal(error)) is None:
                raise
            found.append(f"refused by the cluster: {names.CLUSTER_TRAINING_RUNTIME} {name}: {said}")
    return found


async def _sent(client: Client, name: str, manifest: Manifest) -> None:
    try:
        live = await client.get(RUNTIMES.path(name=name))
    except NotFoundError:
        await client.create(RUNTIMES.path(), manifest, dry_run=True)
        return
    metadata = {**manifest["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
    await client.replace(RUNTIMES.path(name=name), {**manifest, "metadata": metadata}, dry_run=True)


def _refusal(error: ApiError) -> str | None:
    """Why it is refused; None where it is something else that went wrong, such as a missing right."""
    for mark in _DENIED:
        if mark in error.message:
            return error.message.partition(mark)[2]
    return error.message if error.code == 422 else None
