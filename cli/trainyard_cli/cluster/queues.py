"""The LocalQueues of a namespace with the quota behind them, and who waits; needs only read rights.

Called by `trainyard queue`, by `trainyard nodes` where nodes cannot be seen, and
by `run` for a job that is not sent yet. What the user may not see is noted and does not end the look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from trainyard_api import names, similar
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.object_names import is_name
from trainyard_api.printable import clean
from trainyard_assist import queue_place as places
from trainyard_assist import quota
from trainyard_assist.jobs import Key
from trainyard_assist.queue_place import QueuePlace
from trainyard_assist.queues import Door, doors
from trainyard_assist.read import key, name, objects, text, texts
from trainyard_kube.client import ApiError, Client, ForbiddenError, NotFoundError, Resource
from trainyard_kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    RULES_REVIEWS,
    WORKLOADS,
)

from . import jobs
from .lists import everything
from .patience import in_time

MOST: Final = 256
"""The most objects of a kind that are requested one by one."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The LocalQueues, and what could not be seen, in words."""

    doors: list[Door]
    now: datetime
    """By the clock of the API server."""
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Quota:
    """The quota that can be seen."""

    cluster_queues: Sequence[Json]
    cohorts: Sequence[Json]
    unseen: tuple[str, ...] = ()
    whole: bool = True
    """Whether these are all that share it."""


async def look(client: Client, namespace: str, queue: str | None = None) -> Seen:
    """The LocalQueues of a namespace, or the one of this name.

    Raises:
        UserError: There is none of this name, the cluster has no queues, or the user may not see them.
        ApiError: The API server does not answer.
    """
    own = await _local_queues(client, namespace)
    if queue is not None:
        of_name = [door for door in own if name(door) == queue]
        if not of_name:
            hint = similar.hint(queue, [name(door) for door in own])
            raise UserError(clean(f"LocalQueue {queue} is not found: namespace {namespace} has none{hint}"))
        own = of_name
    there = await _there(client, namespace, own)
    workloads = there.workloads or ()
    where = await _places(client, own, workloads, there.all_doors, partial=there.partial)
    unseen = list(there.unseen)
    if there.workloads is None:
        unseen.append("the jobs that wait: you are not allowed to list Workloads")
    waits = {text(workload, "spec", "queueName") for workload in workloads if places.waits(workload)}
    if any(place.partial for place in where.values()) and waits & {name(door) for door in own}:
        unseen.append(jobs.OWN_ALONE)
    return Seen(doors(own, there.workloads, there.state, where), client.time.now(), tuple(unseen))


async def forecast(client: Client, local_queue: Json, jobset: Json, job: str, priority: int) -> quota.Verdict:
    """The forecast for a job that would be sent now.

    Args:
        client: Whose rights are used.
        local_queue: The queue that it would go into.
        jobset: What its pods are.
        job: Its name, in words.
        priority: Its number.

    Raises:
        ValueError: An amount is no quantity.
        ApiError: The API server does not answer, or has no queues.
    """
    namespace = text(local_queue, "metadata", "namespace")
    there, defaults = await asyncio.gather(
        _there(client, namespace, [local_queue]), _defaults(client, namespace)
    )
    new = quota.Job(
        name=job,
        queue=text(local_queue, "spec", "clusterQueue"),
        pods=quota.pod_sets_of(jobset, defaults or {}),
        priority=priority,
        closed=quota.closed(local_queue),
    )
    verdict = quota.forecast(there.state, new)
    return replace(verdict, sure=verdict.sure and defaults is not None)


@dataclass(frozen=True, slots=True)
class _There:
    """The visible queues, their quota, its holders and the waiting jobs."""

    workloads: list[Json] | None
    """None if the user may not list them."""
    all_doors: list[Json]
    partial: bool
    """Whether these two are only those of the namespace."""
    unseen: tuple[str, ...]
    """What of the quota could not be seen, in words."""
    state: quota.State


async def _there(client: Client, namespace: str, own: Iterable[Json]) -> _There:
    behind = {text(door, "spec", "clusterQueue") for door in own} - {""}
    (workloads, all_doors, partial), quotas = await asyncio.gather(
        _workloads(client, namespace), _quotas(client, namespace, behind)
    )
    flavors = await _flavors(client, [queue for queue in quotas.cluster_queues if name(queue) in behind])
    state = quota.state(
        cluster_queues=quotas.cluster_queues,
        cohorts=quotas.cohorts,
        flavors=flavors,
        local_queues=all_doors,
        workloads=workloads or (),
        whole=quotas.whole,
    )
    return _There(workloads, all_doors, partial, quotas.unseen, state)


async def _defaults(client: Client, namespace: str) -> Mapping[str, str] | None:
    """Default requests of the namespace's containers; None if the user may not see them."""
    try:
        ranges = await _all(client, LIMIT_RANGES, namespace)
    except ForbiddenError:
        return None
    limits = [limit for limit_range in ranges for limit in objects(limit_range, "spec", "limits")]
    return {
        resource: amount
        for limit in limits
        if text(limit, "type") == "Container"
        for resource, amount in texts(limit, "defaultRequest").items()
    }


async def _local_queues(client: Client, namespace: str) -> list[Json]:
    try:
        return await _all(client, LOCAL_QUEUES, namespace)
    except NotFoundError as error:
        source = client.credentials.source
        raise UserError(f"{source}: there is no LocalQueue API: Kueue is not installed") from error
    except ForbiddenError as error:
        raise UserError(f"you are not allowed to list the LocalQueues of {namespace}") from error


async def _workloads(client: Client, namespace: str) -> tuple[list[Json] | None, list[Json], bool]:
    """All Workloads and LocalQueues; else those of the namespace, and that it is only these."""
    for within in (None, namespace):
        try:
            workloads, all_doors = await asyncio.gather(
                _all(client, WORKLOADS, within), _all(client, LOCAL_QUEUES, within)
            )
        except ForbiddenError:
            continue
        return workloads, all_doors, within is not None
    return None, [], True


async def _places(
    client: Client,
    own: Iterable[Json],
    workloads: Sequence[Json],
    all_doors: Sequence[Json],
    *,
    partial: bool,
) -> Mapping[Key, QueuePlace]:
    """The places of Workloads: Kueue's own, or else counted."""
    counted = places.counted_places(workloads, all_doors, partial=partial)
    behind = {key(door): text(door, "spec", "clusterQueue") for door in own}
    waiting = [workload for workload in workloads if places.waits(workload)]
    return {**counted, **await jobs.reported(client, waiting, behind, counted)}


async def _quotas(client: Client, namespace: str, behind: Collection[str]) -> _Quota:
    """The quota of these ClusterQueues, and of those that share it with them."""
    try:
        cluster_queues, cohorts = await asyncio.gather(_all(client, CLUSTER_QUEUES), _all(client, COHORTS))
        return _Quota(cluster_queues, cohorts)
    except ForbiddenError:
        pass
    queues, allowed = await _readable(client, namespace)
    cluster_queues, cohorts = await asyncio.gather(
        _each(client, CLUSTER_QUEUES, {*behind, *queues[:MOST]}), _each(client, COHORTS, allowed[:MOST])
    )
    there = {name(queue): queue for queue in cluster_queues}
    unseen = [
        f"the quota of ClusterQueue {queue}: you are not allowed to see it"
        for queue in sorted(behind - there.keys())
    ]
    # Who may see a cohort may see all its queues, if the rights are the stack's.
    cohorts_of_own = {text(there[queue], "spec", "cohortName") for queue in behind & there.keys()} - {""}
    hidden = sorted(cohorts_of_own - {name(cohort) for cohort in cohorts})
    unseen += [f"what cohort {cohort} lends: you are not allowed to see it" for cohort in hidden]
    too_many = max(len(queues), len(allowed)) > MOST
    if too_many:
        unseen.append(f"what the cohort lends: more than {MOST} queues or cohorts share the quota")
    return _Quota(cluster_queues, cohorts, tuple(unseen), whole=not hidden and not too_many)


async def _readable(client: Client, namespace: str) -> tuple[list[str], list[str]]:
    """The ClusterQueues and Cohorts that the user may get by name, as the API server says."""
    question = {
        "apiVersion": RULES_REVIEWS.api_version,
        "kind": RULES_REVIEWS.kind,
        "spec": {"namespace": namespace},
    }
    rules: list[Json] = []
    with suppress(ApiError):  # the own ClusterQueue is asked for in any case
        review = await in_time(client.create(RULES_REVIEWS.path(), question))
        rules = objects(review, "status", "resourceRules")
    return _named(rules, CLUSTER_QUEUES), _named(rules, COHORTS)


def _named(rules: Iterable[Json], resource: Resource) -> list[str]:
    listed = {
        named
        for rule in rules
        if names.KUEUE_GROUP in (rule.get("apiGroups") or ())
        and resource.plural in (rule.get("resources") or ())
        and "get" in (rule.get("verbs") or ())
        for named in rule.get("resourceNames") or ()
    }
    return sorted(listed)


async def _each(client: Client, resource: Resource, named: Iterable[str]) -> list[Json]:
    """The objects with these names that the user may see."""

    async def tried(of: str) -> Json | None:
        try:
            return await in_time(client.get(resource.path(name=of)))
        except (ForbiddenError, NotFoundError):
            return None

    answers = await asyncio.gather(*(tried(of) for of in sorted(named) if is_name(of)))
    return [answer for answer in answers if answer is not None]


async def _flavors(client: Client, cluster_queues: Iterable[Json]) -> list[Json]:
    """The ResourceFlavors, or those of these ClusterQueues; who may see none, of whom any holds any pod."""
    try:
        return await _all(client, RESOURCE_FLAVORS)
    except (ForbiddenError, NotFoundError):
        pass
    named = {
        text(flavor, "name")
        for queue in cluster_queues
        for group in objects(queue, "spec", "resourceGroups")
        for flavor in objects(group, "flavors")
    }
    return await _each(client, RESOURCE_FLAVORS, sorted(named)[:MOST])


async def _all(client: Client, resource: Resource, namespace: str | None = None) -> list[Json]:
    return [json async for json in everything(client, resource, namespace)]
