"""The TrainJobs of a namespace, or of all, and where those wait that wait; needs only read rights.

Called by `trainyard jobs`. Of thousands of objects it decodes the few fields
that `trainyard_assist.jobs` reads. What the user may not see of the queues is
noted and does not end the look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from trainyard_api import names
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_assist import jobs
from trainyard_assist import queue_place as places
from trainyard_assist.queue_place import QueuePlace
from trainyard_assist.read import key, text
from trainyard_kube.client import ApiError, Client, ForbiddenError, NotFoundError, Resource
from trainyard_kube.resources import LOCAL_QUEUES, TRAINJOBS, VISIBLE_QUEUES, WORKLOADS

from .lists import undecoded
from .patience import in_time

OWN_ALONE: Final = (
    "places count only the jobs of this namespace: you are not allowed to see those of others in its queues"
)
MOST_QUEUES: Final = 64
"""The most LocalQueues to query Kueue about; in others the places are counted."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The jobs, in the order to print them, and what could not be seen, in words."""

    rows: list[jobs.Row]
    now: datetime
    """By the clock of the API server."""
    unseen: tuple[str, ...] = ()


class _Owner(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Labels(msgspec.Struct, omit_defaults=True):
    queue: str = msgspec.field(default="", name=names.QUEUE_LABEL)


class _Annotations(msgspec.Struct, omit_defaults=True):
    gates: str = msgspec.field(default="", name=names.QUEUE_GATES_ANNOTATION)


class _Meta(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str = ""
    creation_timestamp: str = ""
    labels: _Labels | None = None
    annotations: _Annotations | None = None
    owner_references: list[_Owner] | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    status: str = ""
    reason: str = ""
    last_transition_time: str = ""


class _Patch(msgspec.Struct):
    manager: str = ""


class _Trainer(msgspec.Struct, rename="camel", omit_defaults=True):
    num_nodes: int | None = None
    resources_per_node: dict[str, Any] | None = None


class _TrainJobSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    trainer: _Trainer | None = None
    runtime_patches: list[_Patch] | None = None


class _Ours(msgspec.Struct, omit_defaults=True):
    state: str = ""
    nodes: str = ""
    queue: str = ""


class _Counts(msgspec.Struct):
    name: str = ""
    ready: int = 0
    active: int = 0


class _Report(msgspec.Struct, rename="camel", omit_defaults=True):
    progress_percentage: int | None = None
    estimated_remaining_seconds: int | None = None
    last_updated_time: str = ""


class _TrainJobStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    conditions: list[_Condition] | None = None
    jobs_status: list[_Counts] | None = None
    trainer_status: _Report | None = None
    ours: _Ours | None = msgspec.field(default=None, name=names.STATUS_FIELD)


class _TrainJob(msgspec.Struct, omit_defaults=True):
    metadata: _Meta
    spec: _TrainJobSpec | None = None
    status: _TrainJobStatus | None = None


class _WorkloadSpec(msgspec.Struct, rename="camel"):
    queue_name: str = ""
    priority: int = 0
    active: bool = True


class _Assigned(msgspec.Struct, rename="camel"):
    resource_usage: dict[str, Any] | None = None


class _Admission(msgspec.Struct, rename="camel"):
    pod_set_assignments: list[_Assigned] | None = None


class _Asked(msgspec.Struct):
    resources: dict[str, Any] | None = None


class _WorkloadStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    conditions: list[_Condition] | None = None
    admission: _Admission | None = None
    resource_requests: list[_Asked] | None = None


class _Workload(msgspec.Struct, omit_defaults=True):
    metadata: _Meta
    spec: _WorkloadSpec | None = None
    status: _WorkloadStatus | None = None


class _LocalSpec(msgspec.Struct, rename="camel"):
    cluster_queue: str = ""


class _LocalQueue(msgspec.Struct):
    metadata: _Meta
    spec: _LocalSpec | None = None


async def look(client: Client, namespace: str | None, chosen: Callable[[jobs.Row], bool]) -> Seen:
    """The TrainJobs that are chosen, with their places in the queues.

    Args:
        client: The cluster.
        namespace: Whose jobs; None for all.
        chosen: Which of the rows are wanted. They do not have a place yet.

    Raises:
        UserError: The cluster has no TrainJobs, or the user may not see them.
        ApiError: The API server does not answer.
    """
    try:
        trainjobs = await _all(client, TRAINJOBS, _TrainJob, namespace)
    except NotFoundError as error:
        raise UserError(
            f"{client.credentials.source}: there is no TrainJob API: Trainyard is not installed"
        ) from error
    except ForbiddenError as error:
        elsewhere = "of all namespaces; name one of yours with -n" if namespace is None else f"of {namespace}"
        raise UserError(f"you are not allowed to list the TrainJobs {elsewhere}") from error
    pairs = [
        (trainjob, row)
        for trainjob, row in zip(trainjobs, map(jobs.row, trainjobs), strict=True)
        if chosen(row)
    ]
    workloads, where, unseen = await _queues(client, namespace, (row for _, row in pairs))
    return Seen(jobs.rows(pairs, workloads, where), client.time.now(), unseen)


async def _queues(
    client: Client, namespace: str | None, rows: Iterable[jobs.Row]
) -> tuple[list[Json], dict[jobs.Key, QueuePlace], tuple[str, ...]]:
    """The Workloads of these jobs and perhaps others, where those wait that wait, and what was not seen."""
    live = {(row.namespace, row.name): row for row in rows if not row.is_over}
    if not live:
        return [], {}, ()
    waits = any(row.waits for row in live.values())
    why = ""
    # A place counts those who wait in other namespaces too, of whom not everybody may know.
    for within in dict.fromkeys((None, namespace) if waits else (namespace,)):
        try:
            workloads, queues = await asyncio.gather(
                _all(client, WORKLOADS, _Workload, within), _all(client, LOCAL_QUEUES, _LocalQueue, within)
            )
        except NotFoundError:
            return [], {}, ()  # there is no Kueue
        except ApiError as error:
            why = "you are not allowed to list Workloads" if isinstance(error, ForbiddenError) else str(error)
            continue
        counted = places.counted_places(workloads, queues, partial=within is not None)
        waiting = [
            workload for job, workload in jobs.current(workloads).items() if job in live and live[job].waits
        ]
        behind = {key(queue): text(queue, "spec", "clusterQueue") for queue in queues}
        where = {**counted, **await reported(client, waiting, behind, counted)}
        partial = any(where[key(workload)].partial for workload in waiting if key(workload) in where)
        return workloads, where, (OWN_ALONE,) if partial else ()
    return [], {}, (f"places in queues are not known: {why}",) if waits else ()


async def reported(
    client: Client,
    waiting: Iterable[Json],
    behind: Mapping[jobs.Key, str],
    counted: Mapping[jobs.Key, QueuePlace],
) -> dict[jobs.Key, QueuePlace]:
    """The places as Kueue itself reports them, where the user may ask it."""
    named = dict.fromkeys((key(workload)[0], text(workload, "spec", "queueName")) for workload in waiting)
    local_queues = [queue for queue in named if behind.get(queue)][:MOST_QUEUES]
    answers = await asyncio.gather(*(_pending(client, *queue) for queue in local_queues))
    reported = {}
    for (namespace, queue), pending in zip(local_queues, answers, strict=True):
        for workload, place in places.reported_places(pending, behind[namespace, queue]).items():
            by_count = counted.get((namespace, workload))
            total = 0 if by_count is None or by_count.partial else by_count.total or 0
            # What was counted a moment before may be fewer.
            reported[namespace, workload] = replace(place, total=total if total >= place.position else None)
    return reported


async def _pending(client: Client, namespace: str, queue: str) -> Json:
    with suppress(ApiError):  # what is counted says nearly as much
        return await in_time(client.get(VISIBLE_QUEUES.path(namespace, queue, "pendingworkloads")))
    return {}


async def _all(client: Client, resource: Resource, kind: type[Any], namespace: str | None) -> list[Json]:
    """The objects of a kind, each with the fields that are read."""
    decoder = msgspec.json.Decoder(kind)
    return [_slim(raw, decoder) async for raw in undecoded(client, resource, namespace)]


def _slim(raw: msgspec.Raw, decoder: msgspec.json.Decoder[Any]) -> Json:
    try:
        slim: Json = msgspec.to_builtins(decoder.decode(raw))
    except msgspec.ValidationError:  # of another version than ours, and readers tolerate anything
        slim = msgspec.json.decode(raw, type=dict[str, Any])
    return slim
