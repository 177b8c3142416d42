"""Compares the cache with what the API server lists, and says what differs.

Kopf reports no deletion that happened while a stream was down, and cannot say
when its first list is complete. A sweep drops what has vanished, tells when
the cache has caught up, and finds streams that are silently dead. It lists
only metadata, in pages.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

import msgspec

from trainyard_kube.client import METADATA_OF_ALL, ApiError, Client, NotFoundError, Resource

from .cache import version

logger = logging.getLogger(__name__)

INTERVAL = 60.0
"""Seconds between sweeps, with some jitter."""
PATIENCE = 20.0
"""Seconds in which a stream must deliver what a list already shows."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str | None = None


class _Listed(msgspec.Struct):
    metadata: _Meta


class Swept(Protocol):
    """One kind as the cache holds it."""

    @property
    def resource(self) -> Resource:
        """What to list."""

    def key(self, namespace: str | None, name: str) -> Hashable:
        """The key of an object."""

    def versions(self) -> Mapping[Hashable, int]:
        """The version of each object that has been seen, readable or not."""

    def version(self, key: Hashable) -> int:
        """The version that one object was seen at; -1 if it was not."""

    def vanished(self, key: Hashable, at: str) -> None:
        """The object is in no list of this version."""


class Sweep:
    """Sweeps kinds forever. `run` is its task.

    `late` is called with the plural of a kind whose stream is behind for more
    than `PATIENCE`; `beating` is when the task last got a turn.
    """

    def __init__(
        self,
        client: Client,
        kinds: tuple[Swept, ...],
        *,
        late: Callable[[str], None],
        interval: float = INTERVAL,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.synced = False
        """True once the cache has held everything that a list showed."""
        self.reverted = ""
        """What shows that etcd was restored from a backup; empty as long as nothing does."""
        self.beat = clock()
        """When a sweep last made progress."""
        self.heard = self.beat
        """When the API server last answered a list."""
        self._client = client
        self._kinds = kinds
        self._late = late
        self._interval = interval
        self._patience = patience
        self._clock = clock
        self._highest: dict[str, int] = {}
        self._soon = asyncio.Event()

    def soon(self) -> None:
        """Do not wait for the interval."""
        self._soon.set()

    async def run(self) -> None:
        """Sweep at intervals, or when told to, until cancelled."""
        while True:
            self._soon.clear()
            self.beat = self._clock()
            try:
                await self.once()
                wait = self._interval
            except ApiError as error:
                if isinstance(
                    error, NotFoundError
                ):  # an answer: the CRD is not there, and a restart brings none
                    self.heard = self._clock()
                logger.info("sweep: %s", error)
                wait = 2.0 if not self.synced else self._interval / 4
            try:
                async with asyncio.timeout(wait * random.uniform(0.8, 1.2)):  # noqa: S311 - spread
                    await self._soon.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(0.2)  # several causes at once make one sweep

    async def once(self) -> None:
        """Compare everything now, and wait for the cache to catch up with it."""
        late = []
        for kind in self._kinds:
            behind = await self._compare(kind)
            if behind and not await self._caught_up(kind, behind):
                # Deleted since it was listed, or never delivered: a second list tells.
                again = await self._compare(kind)
                if any(kind.version(key) < version for key, version in behind.items() if key in again):
                    late.append(kind.resource.plural)
        for plural in late:
            self._late(plural)
        if not late:
            self.synced = True

    async def _caught_up(self, kind: Swept, behind: Mapping[Hashable, int]) -> bool:
        end = self._clock() + self._patience
        while any(kind.version(key) < version for key, version in behind.items()):
            if self._clock() >= end:
                return False
            await asyncio.sleep(0.1)
        return True

    async def _compare(self, kind: Swept) -> dict[Hashable, int]:
        versions = dict(kind.versions())
        listed: dict[Hashable, int] = {}
        at = ""
        async for page in self._client.list(kind.resource.path(), accept=METADATA_OF_ALL):
            self.beat = self.heard = self._clock()
            at = page.metadata.resource_version
            for raw in page.items or ():
                meta = msgspec.json.decode(raw, type=_Listed).metadata
                listed[kind.key(meta.namespace, meta.name)] = int(meta.resource_version)
        self._compare_versions(kind.resource.plural, version(at), versions)
        for key in versions.keys() - listed.keys():
            kind.vanished(key, at)
        return {key: version for key, version in listed.items() if versions.get(key, -1) < version}

    def _compare_versions(self, plural: str, at: int, versions: Mapping[Hashable, int]) -> None:
        """Versions only grow, and the cache refuses lower ones: after a restore it would miss events."""
        highest = max(self._highest.get(plural, 0), *versions.values(), 0)
        self._highest[plural] = max(at, highest)
        if at < highest and not self.reverted:
            self.reverted = (
                f"{plural} are at version {at}, but have been at {highest}: etcd was restored from a backup"
            )
            logger.error("%s; this process must be restarted", self.reverted)
