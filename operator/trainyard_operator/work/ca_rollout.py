"""Brings a renewed authority of the status server to running training processes.

`reconcile` does not change a running JobSet's companions, so a job that runs for
longer than an authority would end up trusting nobody, and its reports of
progress would fail. This module updates the one ConfigMap with the
authorities; the kubelet updates it in the running pods that mount it.

Looks only after the authorities have changed, and once when this replica
begins to lead, for another may have led when they did. Only metadata is read:
a digest among it tells what the ConfigMap holds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from trainyard_kube.client import ApiError

from ..core import model
from ..core.build import info
from ..core.build.plugins import trainjobstatus
from ..core.decide import child_annotations, reconcile
from ..core.status import conditions
from ..watch.cache import Cache, Key
from .apply import Applier, RefusedError
from .companions import Companions
from .memory import Memories
from .queue import RetryError

logger = logging.getLogger(__name__)

INTERVAL: Final = 10.0
AGAIN: Final = 60.0
"""Seconds until a second look: a job may be built with the old authorities just now, or not be writable."""


class Authorities:
    """Keeps the ConfigMaps of running jobs up to date. `run` is its task.

    Args:
        applier: Writes, guarded by uid and resourceVersion.
        settings: What manifests depend on, as it is now; the authorities are in it.
        working: Whether this replica's workers run.
        leading: Checked before each write: a process that stood still may no longer lead.
    """

    def __init__(
        self,
        cache: Cache,
        memories: Memories,
        companions: Companions,
        applier: Applier,
        *,
        settings: Callable[[], info.Settings],
        working: Callable[[], bool],
        leading: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._memories = memories
        self._companions = companions
        self._applier = applier
        self._settings = settings
        self._working = working
        self._leading = leading
        self._clock = clock
        self._known = ""
        """The authorities that the last look was for."""
        self._due: float | None = None
        """When the next look is due; None while there is nothing to look for."""

    def begin_to_lead(self) -> None:
        """Look at each job that runs, once."""
        self._known = ""

    async def run(self) -> None:
        """Look whenever that is due, until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(INTERVAL)

    async def step(self) -> None:
        """Bring the new authorities, if there are any, to all jobs that run."""
        authorities = self._settings().status_server_ca
        if not authorities or not self._working():
            return
        now = self._clock()
        changed = authorities != self._known
        if not changed and (self._due is None or now < self._due):
            return
        self._known = authorities
        complete = True
        for trainjob in list(self._cache.trainjobs.values()):
            if not self._working() or self._known != authorities:
                return  # started again
            if self._needs_authorities(trainjob) and self._memories.of(trainjob).authorities != authorities:
                complete &= await self._update_config_map(trainjob, authorities)
        self._due = None if complete and not changed else now + AGAIN

    def _needs_authorities(self, trainjob: model.TrainJob) -> bool:
        """Whether the TrainJob runs and was built with the gate on."""
        over = trainjob.deleting or conditions.finished(conditions.of(trainjob.status))
        seen = self._cache.jobsets.get(Key.of(trainjob))
        if over or seen is None or not reconcile.is_managed(trainjob):
            return False
        gates = child_annotations.as_begun(self._settings(), seen.jobset).feature_gates
        runs = seen.jobset.owner_uid == trainjob.uid and not seen.jobset.suspend
        return runs and trainjobstatus.GATE in gates

    async def _update_config_map(self, trainjob: model.TrainJob, authorities: str) -> bool:
        """Update the TrainJob's ConfigMap if it has others; False if that has to be tried again."""
        key, memory = Key.of(trainjob), self._memories.of(trainjob)
        manifest = child_annotations.labelled(trainjobstatus.config_map(trainjob, authorities), trainjob)
        identity = model.Identity(manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"])
        try:
            look = await self._companions.find(trainjob.namespace, (identity,), {})
            if look.rejection is not None:
                raise RefusedError(look.rejection)
            for companion in map(memory.complete, look.companions):
                if companion.owner_uid != trainjob.uid or companion.deleted:
                    continue  # another's, or gone with its TrainJob in a moment
                if child_annotations.digest(companion.annotations) == child_annotations.digest(
                    manifest["metadata"]["annotations"]
                ):
                    continue
                if not self._leading():
                    return False
                update = model.Update(manifest, companion.uid, companion.resource_version)
                memory.wrote(update, await self._applier.write(key, update))
        except (RefusedError, RetryError, ApiError) as error:
            logger.warning("%s: its pods do not have the new authorities yet: %s", key, error)
            return False
        memory.authorities = authorities
        return True
