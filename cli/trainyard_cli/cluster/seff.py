"""Reads what the pods of a TrainJob ask for and what they use, with the rights of its user.

Called by `trainyard seff`. What measures pods is the API `metrics.k8s.io`, which
metrics-server or an adapter of Prometheus serves; not every cluster has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trainyard_api import names
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_assist import jobs
from trainyard_assist.read import text
from trainyard_kube.client import ApiError, Client, ForbiddenError, NotFoundError, UnauthorizedError
from trainyard_kube.resources import JOBSETS, POD_METRICS, PODS, TRAINJOBS

from .job_names import not_found
from .lists import everything
from .patience import in_time

NOBODY: Final = f"nothing measures the pods of this cluster: it has no {names.METRICS_GROUP} (metrics-server)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The objects of a TrainJob, as the API server returns them."""

    trainjob: Json
    jobset: Json | None
    pods: Sequence[Json]
    metrics: Sequence[Json]
    now: datetime
    """By the clock of the API server."""
    unmeasured: str = ""
    """Why there are no metrics at all."""
    options: tuple[str, ...] = ()
    """The options of commands that lead to its cluster."""


async def look(client: Client, namespace: str, job: str) -> Seen:
    """The TrainJob with its pods, and their metrics while it runs.

    Raises:
        UserError: There is no such TrainJob, or the user may not see its pods.
        ApiError: The API server does not answer.
    """
    try:
        trainjob = await in_time(client.get(TRAINJOBS.path(namespace, job)))
    except NotFoundError as error:
        raise await not_found(client, namespace, job, error) from error
    own = {"labelSelector": f"{names.JOBSET_NAME_LABEL}={job}"}
    is_over = jobs.row(trainjob).is_over
    jobset, pods, metrics = await asyncio.gather(
        _jobset(client, namespace, job),
        _pods(client, namespace, own),
        _nothing() if is_over else _metrics(client, namespace, own),
    )
    listed, reason = metrics
    return Seen(
        trainjob=trainjob,
        jobset=jobset,
        pods=[pod for pod in pods if _created(pod) >= _created(trainjob)],  # older ones are of another
        metrics=listed,
        now=client.time.now(),
        unmeasured=reason,
        options=client.credentials.options,
    )


def _created(of: Json) -> str:
    return text(of, "metadata", "creationTimestamp")


async def _jobset(client: Client, namespace: str, job: str) -> Json | None:
    """None if there is none, or the user may not see it: the pods say as much while they are there."""
    try:
        return await in_time(client.get(JOBSETS.path(namespace, job)))
    except UnauthorizedError:
        raise
    except ApiError:
        return None


async def _pods(client: Client, namespace: str, own: Mapping[str, str]) -> Sequence[Json]:
    try:
        return [pod async for pod in everything(client, PODS, namespace, params=own)]
    except ForbiddenError as error:
        raise UserError(f"you are not allowed to list pods in namespace {namespace}") from error


async def _nothing() -> tuple[Sequence[Json], str]:
    return (), ""


async def _metrics(client: Client, namespace: str, own: Mapping[str, str]) -> tuple[Sequence[Json], str]:
    """The metrics of the pods, or why there are none."""
    try:
        listed = everything(client, POD_METRICS, namespace, params=own)
        return [metrics async for metrics in listed], ""
    except UnauthorizedError:
        raise
    except NotFoundError:
        return (), NOBODY
    except ForbiddenError:
        return (), f"you are not allowed to list {POD_METRICS.full_name} in namespace {namespace}"
    except ApiError as error:
        return (), f"{names.METRICS_GROUP} does not answer: {error}"
