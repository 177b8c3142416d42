"""Kueue's queues and their quota, and what Kueue says of a JobSet that waits.

Called by admission and by the controller. Nothing is watched: all queues are
read together when somebody asks for them, and serve everybody for a minute.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from trainyard_api import capacity, names, quantity
from trainyard_kube.client import ApiError, Client, Resource, RetriableError
from trainyard_kube.resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS

from ..core import model
from ..core.build import info
from ..core.build.framework import Framework
from ..core.decide import causes, quota

logger = logging.getLogger(__name__)

AGE: Final = 60.0
"""Seconds for which what was read is good enough."""
AGE_OF_ABSENCE: Final = 10.0
"""Seconds for which a queue that was not there counts as missing: it may just have been created."""
_RESERVED: Final = "QuotaReserved"


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""


class _Resource(msgspec.Struct, rename="camel"):
    name: str
    nominal_quota: str | int = "0"
    borrowing_limit: str | int | None = None
    lending_limit: str | int | None = None


class _Flavor(msgspec.Struct):
    name: str
    resources: tuple[_Resource, ...] = ()


class _Group(msgspec.Struct, rename="camel"):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[_Flavor, ...] = ()


class _PoolSpec(msgspec.Struct, rename="camel"):
    cohort_name: str = ""
    parent_name: str = ""
    resource_groups: tuple[_Group, ...] = ()


class _Pool(msgspec.Struct):
    metadata: _Meta
    spec: _PoolSpec = msgspec.field(default_factory=_PoolSpec)


class _LocalSpec(msgspec.Struct, rename="camel"):
    cluster_queue: str = ""


class _Local(msgspec.Struct):
    metadata: _Meta
    spec: _LocalSpec = msgspec.field(default_factory=_LocalSpec)


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _WorkloadStatus(msgspec.Struct):
    conditions: tuple[_Condition, ...] = ()


class _Workload(msgspec.Struct):
    status: _WorkloadStatus = msgspec.field(default_factory=_WorkloadStatus)


class Queues:
    """Reads what Kueue has in the cluster."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._lock = asyncio.Lock()
        self._at: float | None = None
        self._read: capacity.Queues | None = None
        self._again_at = float("-inf")

    async def all(self, namespace: str, name: str) -> capacity.Queues | None:
        """All queues of the cluster, read lately, or just now if this LocalQueue is not among them.

        None if they cannot be read: callers then report nothing about them. A job that names no queue
        (an empty name) has nothing read again: most namespaces without a default queue never get one.
        """
        async with self._lock:
            there = not name or (self._read is not None and (namespace, name) in self._read.local)
            age = AGE if there or self._read is None else AGE_OF_ABSENCE
            if self._at is not None and self._clock() - self._at < age:
                return self._read
            at = self._clock()
            if at < self._again_at:
                return None
            try:
                queues = await self._all()
            except RetriableError as error:
                self._again_at = at + max(AGE_OF_ABSENCE, error.retry_after or 0.0)
                logger.info("Kueue's queues cannot be read now: %s", error)
                return None
            except (ApiError, msgspec.ValidationError, ValueError) as error:
                logger.info("Kueue's queues cannot be read: %s", error)
                queues = None
            # Only now: a caller with little time may be cancelled while they are read.
            self._at, self._read = at, queues
            return queues

    async def _all(self) -> capacity.Queues:
        local = await self._list(LOCAL_QUEUES, _Local)
        return capacity.Queues(
            {(queue.metadata.namespace, queue.metadata.name): queue.spec.cluster_queue for queue in local},
            [_pool(queue) for queue in await self._list(CLUSTER_QUEUES, _Pool)],
            [_pool(queue) for queue in await self._list(COHORTS, _Pool)],
        )

    async def _list(
        self, resource: Resource, of: type[Any], namespace: str | None = None, **params: str
    ) -> list[Any]:
        decoder = msgspec.json.Decoder(of)
        objects: list[Any] = []
        async for page in self._client.list(resource.path(namespace), params=params):
            objects += [decoder.decode(raw) for raw in page.items or ()]
        return objects

    async def hopeless(
        self, observed: model.Observed, jobset: model.JobSet, settings: info.Settings, using: Framework
    ) -> tuple[model.Cause, ...] | None:
        """Why the queue of a JobSet that waits will never admit it, with Kueue's words; empty if it may.

        None if the queues cannot be read.
        Kueue's words are read once, and only of a JobSet that the queue's quota can never hold.
        """
        standing = causes.standing(observed.trainjob, quota.REASONS)
        queues = await self.all(jobset.namespace, jobset.queue)
        if queues is None:
            return None
        cause = quota.hopeless(observed, jobset, queues, settings, using)
        if cause is None:
            return ()
        if standing is not None and causes.has_words_of_kueue(standing, cause):
            return (standing,)
        confirmed = quota.confirmed(cause, *await self._said(jobset))
        return () if confirmed is None else (confirmed,)

    async def _said(self, jobset: model.JobSet) -> tuple[str, str]:
        """Reason and message with which Kueue has not given the JobSet quota; empty if it says nothing."""
        mine = f"{names.JOB_UID_LABEL}={jobset.uid}"
        try:
            workloads = await self._list(WORKLOADS, _Workload, jobset.namespace, labelSelector=mine)
        except ApiError as error:
            logger.info("the Workload of JobSet %s cannot be read: %s", jobset.name, error)
            return "", ""
        for workload in workloads:
            for condition in workload.status.conditions:
                if (condition.type, condition.status) == (_RESERVED, "False"):
                    return condition.reason, condition.message
        return "", ""


def _pool(pool: _Pool) -> capacity.Pool:
    groups = pool.spec.resource_groups
    return capacity.Pool(
        pool.metadata.name,
        {
            (flavor.name, resource.name): capacity.Quota(
                quantity.parse(resource.nominal_quota).nano,
                _limit(resource.borrowing_limit),
                _limit(resource.lending_limit),
            )
            for group in groups
            for flavor in group.flavors
            for resource in flavor.resources
        },
        [
            capacity.Group(group.covered_resources, [flavor.name for flavor in group.flavors])
            for group in groups
        ],
        pool.spec.cohort_name or pool.spec.parent_name,
    )


def _limit(value: str | int | None) -> int | None:
    return None if value is None else quantity.parse(value).nano
