"""Deletes the finished TrainJobs that `retention` says have stayed long enough.

Only where the Lease is held. Each is deleted as the very object that was
decided on: one that has changed since, for example to be kept, or was
recreated under its name, stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from trainyard_api.configuration import Retention
from trainyard_kube.client import ApiError, Client, ConflictError, NotFoundError
from trainyard_kube.resources import TRAINJOBS

from ..core import model
from ..core.decide import retention
from ..metrics import Metrics
from ..watch.cache import Cache, Key

logger = logging.getLogger(__name__)

INTERVAL: Final = 30.0
"""Seconds between two looks at the latest, when nothing is due earlier."""
SOONEST: Final = 1.0


class Reaper:
    """`working` says whether this replica's workers run."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        policy: Retention,
        metrics: Metrics,
        *,
        working: Callable[[], bool],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._cache = cache
        self._policy = policy
        self._metrics = metrics
        self._working = working
        self._now = now

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            pause = await self.step()
            await asyncio.sleep(pause)

    async def step(self) -> float:
        """Delete what is due; returns the seconds until the next look."""
        if not self._working():
            return SOONEST
        decision = retention.decide(list(self._cache.trainjobs.values()), self._policy, self._now())
        for job in decision.delete:
            if not self._working():
                break
            await self._delete(job)
        return max(SOONEST, min(INTERVAL, decision.next_in or INTERVAL))

    async def _delete(self, job: model.TrainJob) -> None:
        key = Key(job.namespace, job.name)
        try:
            await self._client.delete(
                TRAINJOBS.path(job.namespace, job.name),
                uid=job.uid,
                resource_version=job.resource_version,
            )
        except (NotFoundError, ConflictError):
            return  # gone, changed, or recreated: the next look sees the current state
        except ApiError as error:
            logger.warning("%s could not be deleted: %s", key, error)
            return
        self._metrics.retired.inc()
        logger.info("%s deleted: it was retained for long enough after it finished", key)
