"""Deletes the finished TrainJobs that `retention` says have stayed long enough.

Only where the Lease is held. Each is deleted as the very object that was
decided on: one that has changed since, for example to be kept, or was
recreated under its name, stays.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from trainyard_api.configuration import Retention
from trainyard_kube.client import ApiError, Client, ConflictError, NotFoundError, RetriableError
from trainyard_kube.resources import TRAINJOBS

from ..core import model
from ..core.decide import retention
from ..metrics import Metrics
from ..watch.cache import Cache, Key

logger = logging.getLogger(__name__)

INTERVAL: Final = 30.0
"""Seconds between two looks at the latest, when nothing is due earlier."""
SOONEST: Final = 1.0
REFUSED: Final = 600.0
"""Seconds until one whose deletion was refused is tried again."""


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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._cache = cache
        self._policy = policy
        self._metrics = metrics
        self._working = working
        self._now = now
        self._clock = clock
        self._again_at: dict[str, float] = {}
        """When those whose deletion was refused are tried again, by uid, on a monotonic clock."""

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
        due = {job.uid for job in decision.delete}
        self._again_at = {uid: at for uid, at in self._again_at.items() if uid in due}
        refused: list[str] = []
        pause = min(INTERVAL, decision.next_in or INTERVAL)
        for job in decision.delete:
            if not self._working():
                break
            if self._clock() < self._again_at.get(job.uid, 0.0):
                continue
            try:
                await self._delete(job)
            except ApiError as error:
                self._again_at[job.uid] = self._clock() + REFUSED
                refused.append(f"{Key.of(job)}: {error}")
                if isinstance(error, RetriableError):  # the next ones would most often be refused as well
                    pause = max(INTERVAL, error.retry_after or 0.0)
                    break
        if refused:
            # One line: without the right to delete, there are as many as have finished.
            logger.warning(
                "finished TrainJobs that could not be deleted: %d, such as %s", len(refused), refused[0]
            )
        return max(SOONEST, pause)

    async def _delete(self, job: model.TrainJob) -> None:
        key = Key.of(job)
        try:
            await self._client.delete(
                TRAINJOBS.path(job.namespace, job.name),
                uid=job.uid,
                resource_version=job.resource_version,
            )
        except (NotFoundError, ConflictError):
            return  # gone, changed, or recreated: the next look sees the current state
        self._metrics.retired.inc()
        logger.info("%s deleted: it was retained for long enough after it finished", key)
