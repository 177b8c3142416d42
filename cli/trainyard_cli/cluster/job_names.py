"""The names of TrainJobs, runtimes and queues, for a shell's completion and for who has mistyped one."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import typer

from trainyard_api import similar
from trainyard_api.errors import UserError
from trainyard_api.object_names import is_name
from trainyard_api.printable import clean
from trainyard_kube.client import ApiError, Client, NotFoundError, Resource
from trainyard_kube.resources import LOCAL_QUEUES, RUNTIMES, TRAINJOBS

from . import connection
from .lists import names_of

_PATIENCE: Final = 2.0
"""Seconds that a shell waits, also for an exec plugin, which then asks nobody for a login."""


async def names_in(client: Client, namespace: str, resource: Resource = TRAINJOBS) -> list[str]:
    """The names of a namespace's TrainJobs, or other objects. Raises the client's errors."""
    return sorted([name async for _, name in names_of(client, resource, namespace)])


async def not_found(client: Client, namespace: str, job: str, error: NotFoundError) -> UserError:
    """The error that there is no such TrainJob, with the nearest name."""
    if error.resource_missing:
        return UserError(clean(f"TrainJob {job} is not found: the cluster has no TrainJob API"))
    try:
        hint = similar.hint(job, await names_in(client, namespace))
    except ApiError:
        hint = ""
    return UserError(clean(f"TrainJob {job} is not found: namespace {namespace} has none of this name{hint}"))


def completed(context: typer.Context, incomplete: str) -> list[str]:
    """The names that begin so, in the namespace that the command line has so far; none if nobody answers."""
    return _completed(context, incomplete, TRAINJOBS)


def completed_runtimes(context: typer.Context, incomplete: str) -> list[str]:
    """The same of runtimes, those of the namespace and of all."""
    return _completed(context, incomplete, *RUNTIMES.values())


def completed_queues(context: typer.Context, incomplete: str) -> list[str]:
    """The same of LocalQueues."""
    return _completed(context, incomplete, LOCAL_QUEUES)


def _completed(context: typer.Context, incomplete: str, *resources: Resource) -> list[str]:
    options, until = context.params, time.monotonic() + _PATIENCE
    try:
        credentials = connection.load_or_sandbox(options.get("kubeconfig"), options.get("context"), until)
        namespace = options.get("namespace") or credentials.namespace
        if not is_name(namespace):
            return []

        async def answer(client: Client) -> list[str]:
            async with asyncio.timeout(until - time.monotonic()):
                return [name for kind in resources for name in await names_in(client, namespace, kind)]

        names = connection.ask(credentials, "completion", answer)
    except (UserError, TimeoutError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]
