"""Runtimes of a stack that its cluster would refuse: tried in dry runs, before anything is sent.

Called by `rollout`, with the rights of the user. The API server calls the
admission policies and the operator's webhook, which tries the Jobs too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from trainyard_api import names, places
from trainyard_api.json_types import Json
from trainyard_kube.client import ApiError, Client, NotFoundError
from trainyard_kube.resources import CLUSTER_TRAINING_RUNTIMES
from trainyard_platform.catalog import stack_runtimes
from trainyard_platform.stack.settings import StackSettings

from ..files import stackfile
from . import connection

_DENIED: Final = ("denied the request: ", "denied request: ")
"""The API server's prefix of messages of a webhook and of an admission policy."""


def refusals(settings: StackSettings, connect: connection.Connect) -> list[str]:
    """A sentence for each runtime of the stack that the cluster would refuse.

    Empty on a cluster that does not know runtimes yet: nothing judges them there.

    Raises:
        PlatformError: A runtime is invalid.
        ApiError, CredentialsError: The cluster cannot be queried, for example with only read rights.
    """
    site, registry = places.site(), stackfile.artifacts(settings).registry
    runtimes = stack_runtimes.load(site.runtimes, settings, registry, beneath=site.beneath)
    manifests = [runtime.manifest for runtime in runtimes]
    return connection.ask(connect(), "preview", lambda client: refused(client, manifests))


async def refused(client: Client, manifests: Sequence[Json]) -> list[str]:
    """The sentences; raises the client's errors where there is neither a yes nor a no."""
    try:
        await client.get(CLUSTER_TRAINING_RUNTIMES.path(), params={"limit": "1"})
    except NotFoundError:
        return []
    sentences = await asyncio.gather(*(_refusal_of(client, manifest) for manifest in manifests))
    return [sentence for sentence in sentences if sentence]


async def _refusal_of(client: Client, manifest: Json) -> str:
    name = manifest["metadata"]["name"]
    try:
        await _sent(client, name, _without_exemption(manifest))
    except ApiError as error:
        if (reason := _refusal(error)) is None:
            raise
        return f"refused by the cluster: {names.CLUSTER_TRAINING_RUNTIME} {name}: {reason}"
    return ""


async def _sent(client: Client, name: str, manifest: Json) -> None:
    try:
        live = await client.get(CLUSTER_TRAINING_RUNTIMES.path(name=name))
    except NotFoundError:
        await client.create(CLUSTER_TRAINING_RUNTIMES.path(), manifest, dry_run=True)
        return
    metadata = {**manifest["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
    await client.replace(
        CLUSTER_TRAINING_RUNTIMES.path(name=name), {**manifest, "metadata": metadata}, dry_run=True
    )


def _without_exemption(manifest: Json) -> Json:
    """The manifest without the label that exempts a stack's runtimes (see `parts.catalog`)."""
    metadata = manifest["metadata"]
    labels = {
        label: value
        for label, value in metadata.get("labels", {}).items()
        if label != names.WEBHOOK_VALIDATION_LABEL
    }
    return {**manifest, "metadata": {**metadata, "labels": labels}}


def _refusal(error: ApiError) -> str | None:
    """Why it is refused; None where something else went wrong, such as a missing right."""
    for mark in _DENIED:
        if mark in error.message:
            return error.message.partition(mark)[2]
    return error.message if error.code == 422 else None
