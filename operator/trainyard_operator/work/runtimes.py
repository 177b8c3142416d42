"""Where runtimes and their revisions are found, kept and collected.

`revisions` says what a revision is and which one belongs to a job; this module
provides what that needs: the live runtimes and recorded revisions of the
cache, a look at the API server before something is called missing, and the
snapshots that Kubeflow Trainer's controller left behind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Hashable
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from trainyard_api import names
from trainyard_kube.client import ApiError, Client, ConflictError, NotFoundError
from trainyard_kube.resources import CONFIGMAPS, REVISIONS, RUNTIMES

from ..core import model
from ..core.decide import revisions
from ..core.decide.views import (
    Revision,
    RuntimeKey,
    VersionedRuntime,
    key_of,
    packed,
    revision_of,
    runtime_key,
    runtime_of,
    time_of,
)
from ..core.packed import Packed
from ..core.status import conditions
from ..watch.cache import Cache
from ..watch.informer import State
from .apply import MANAGER
from .memory import Memories, Snapshot

logger = logging.getLogger(__name__)

UNREFERENCED = 24 * 3600.0
"""Seconds without a reference after which a revision is collected."""
KEPT = 20
"""Unreferenced revisions of one runtime that are kept for that time: the newest ones."""
IN_USE = 60.0
"""Seconds for which a revision that was recorded or chosen stays: its JobSet may be about to be created."""


class Runtimes:
    """Finds the runtime of a job. `namespace` is the operator's, where revisions are kept."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        namespace: str,
        memories: Memories,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._cache = cache
        self._namespace = namespace
        self._memories = memories
        self._clock = clock
        self._reading = asyncio.Lock()

    async def choose(
        self,
        trainjob: model.TrainJob,
        jobset: model.JobSet | None,
        *,
        counts_live: bool = False,
        may_look: Callable[[RuntimeKey], bool] = lambda _: True,
    ) -> revisions.Chosen:
        """The runtime to build this job from, or why there is none.

        `counts_live` says whether that is the live one if there is one; `may_look` whether the API server may
        be queried for a runtime that the cache lacks.
        """
        if not revisions.supported(trainjob):
            return revisions.choose(trainjob, jobset, None, ())
        reference = runtime_key(trainjob)
        ours = jobset is not None and jobset.owner_uid == trainjob.uid
        snapshot = None
        live = self._cache.runtimes.get(reference)
        kept = False
        if jobset is not None and ours:
            revision = jobset.annotations.get(names.RUNTIME_REVISION_ANNOTATION)
            if revision is None:
                snapshot = await self._snapshot(trainjob)
                kept = snapshot is not None
            else:
                if revision not in self._cache.revisions:
                    await self._find_revision(revision)
                kept = revision in self._cache.revisions
        if live is None and not kept and may_look(reference):
            # Often created together with the job: look before calling it missing.
            live = await self._find_runtime(reference)
        recorded = self._cache.recorded(reference)
        chosen = revisions.choose(
            trainjob,
            jobset,
            None if live is None else live.runtime,
            recorded,
            snapshot,
            counts_live=counts_live,
        )
        if not isinstance(chosen.runtime, model.Runtime) or chosen.runtime.revision is None:
            return chosen
        if chosen.runtime.revision == self._cache.collected:
            async with self._cache.recording:  # whether it is still there is known only then
                pass
            return await self.choose(trainjob, jobset, counts_live=counts_live, may_look=may_look)
        self._cache.revisions_used[chosen.runtime.revision] = self._clock()
        content = await self._content(chosen.runtime, chosen.runtime.revision)
        if content is None:  # gone since it was seen
            self._cache.revisions.remove(chosen.runtime.revision)
            return await self.choose(trainjob, jobset, counts_live=counts_live, may_look=may_look)
        return revisions.Chosen(replace(chosen.runtime, spec=content), chosen.lost, chosen.renewed)

    async def _content(self, runtime: model.Runtime, name: str) -> model.Json | None:
        """What a revision keeps: from the cache, or from the API server if the cache has dropped it."""
        if not isinstance(runtime.spec, Packed):
            return runtime.spec
        if (held := runtime.spec.held()) is not None:
            self._cache.contents.use(name, runtime.spec)
            return held
        try:
            manifest = await self._client.get(REVISIONS.path(self._namespace, name))
        except NotFoundError:
            return None
        kept = revision_of(manifest).runtime
        if kept is None or not isinstance(kept.spec, Packed):
            return None
        held = kept.spec.held()
        seen = self._cache.revisions.get(name)
        if seen is not None and seen.runtime is not None:
            self._cache.revisions.keep(name, replace(seen, runtime=kept))
        return held

    def named_in(self, namespace: str) -> int:
        """How many revisions of a namespace's own runtimes its JobSets name."""
        named = {
            seen.jobset.annotations.get(names.RUNTIME_REVISION_ANNOTATION, "")
            for seen in self._cache.jobsets.values()
            if seen.jobset.namespace == namespace
        }
        records = [revision for name in named if (revision := self._cache.revisions.get(name)) is not None]
        return sum(
            1 for record in records if record.runtime is not None and record.runtime.namespace == namespace
        )

    async def _find_runtime(self, reference: RuntimeKey) -> VersionedRuntime | None:
        if not reference.name:
            return None
        try:
            path = RUNTIMES[reference.kind].path(reference.namespace, reference.name)
            runtime = runtime_of(await self._client.get(path), reference.kind)
        except NotFoundError:
            return None
        self._cache.runtimes.answered(reference, runtime)
        return runtime

    async def _find_revision(self, name: str) -> None:
        try:
            manifest = await self._client.get(REVISIONS.path(self._namespace, name))
        except NotFoundError:
            return
        # The name comes from an annotation, and this namespace has ControllerRevisions of others.
        if revisions.read(manifest) is not None:
            self._cache.revisions.answered(name, revision_of(manifest))

    async def _snapshot(self, trainjob: model.TrainJob) -> model.Runtime | None:
        """What Trainer kept for the job; read once, for it never changes."""
        memory = self._memories.of(trainjob)
        if memory.snapshot is None:
            path = CONFIGMAPS.path(trainjob.namespace, trainjob.name + revisions.SNAPSHOT_SUFFIX)
            try:
                config_map = await self._client.get(path)
                async with self._reading:  # one at a time: parsed YAML takes much memory
                    runtime = await asyncio.to_thread(revisions.read_snapshot, config_map, trainjob)
            except NotFoundError:
                runtime = None
            memory.snapshot = Snapshot(None if runtime is None else packed(runtime))
        return memory.snapshot.runtime


class RevisionSink:
    """Puts ControllerRevisions into the cache (see `informer.Informed`)."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def decode(self, raw: msgspec.Raw | bytes) -> tuple[str, Revision]:
        """See `Informed`."""
        revision = revision_of(msgspec.json.decode(raw))
        if revision.runtime is not None and isinstance(content := revision.runtime.spec, Packed):
            self._cache.contents.use(revision.name, content)  # a list of many is never whole in memory
        return revision.name, revision

    def key(self, namespace: str, name: str) -> str:
        """See `Informed`."""
        return name

    def upsert(self, key: str, value: Revision) -> None:
        """See `Informed`."""
        self._cache.revisions.observe(key, value)

    def remove(self, key: str, uid: str, resource_version: str) -> None:
        """See `Informed`."""
        self._cache.revisions.remove(key, uid=uid, resource_version=resource_version)

    def replace(self, objects: dict[str, Revision], at: int) -> None:
        """See `Informed`."""
        self._cache.revisions.replace(objects, at)

    def progress(self, at: int) -> None:
        """See `Informed`."""
        self._cache.revisions.seen = max(self._cache.revisions.seen, at)

    def changed(self, state: State) -> None:
        """See `Informed`."""


class Collector:
    """Deletes revisions that nothing has named for a day, and those beyond `KEPT` at once.

    A user who may edit a runtime can create a revision with each edit; the limit bounds their use of etcd
    and of every replica's memory.

    Since when nothing names a revision is noted on the revision itself, so
    that the day does not restart with each leader. `working` says whether this
    replica may write, and is checked before each write. `now` is the API
    server's time, `clock` the one by which `Cache.revisions_used` is kept.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        namespace: str,
        working: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._cache = cache
        self._namespace = namespace
        self._working = working
        self._clock = clock
        self._now = now
        self._noted: dict[str, datetime | None] = {}
        """Since when nothing names those on which that could not be noted."""

    async def collect(self) -> int:
        """Delete what is unreferenced for `UNREFERENCED` seconds or above `KEPT`; returns how many.

        Must be called only while the JobSets of the cache are complete.
        """
        used = self._cache.revisions_used
        for name in [name for name, at in used.items() if self._clock() - at >= UNREFERENCED]:
            del used[name]
        if not self._working():
            return 0
        named = self._named()
        surplus = self._surplus(named)
        deleted = 0
        for revision in list(self._cache.revisions.values()):
            if not self._working():
                break
            noted = _moment(revision.unreferenced_since) or self._noted.get(revision.name)
            if revision.name in surplus and not self._in_use(revision):
                deleted += await self._delete(revision)
            elif revision.name in named or revision.name in used:  # it may be chosen while others are deleted
                self._noted.pop(revision.name, None)
                if revision.unreferenced_since is not None:
                    await self._note(revision, None)
            elif noted is None:
                await self._note(revision, self._now())
            elif (self._now() - max(noted, revision.created)).total_seconds() >= UNREFERENCED:
                deleted += await self._delete(revision)
        return deleted

    def _named(self) -> set[str | None]:
        """The names of the revisions that JobSets name now."""
        return {
            seen.jobset.annotations.get(names.RUNTIME_REVISION_ANNOTATION)
            for seen in self._cache.jobsets.values()
        }

    def _surplus(self, named: Container[str | None]) -> set[str]:
        """The names of the revisions that no JobSet names and that are not among the newest `KEPT`."""
        groups: dict[Hashable, list[Revision]] = {}
        for revision in self._cache.revisions.values():
            if revision.runtime is not None and revision.name not in named:
                groups.setdefault(self._group(revision.runtime), []).append(revision)
        return {
            revision.name
            for group in groups.values()
            for revision in sorted(group, key=_age)[: max(0, len(group) - KEPT)]
        }

    def _group(self, runtime: model.Runtime) -> Hashable:
        """What revisions are counted by: a runtime, or all runtimes of a namespace that are gone.

        Otherwise a runtime that is recreated, with a new uid, would start a new count.
        """
        live = self._cache.runtimes.get(key_of(runtime))
        return runtime.uid if live is not None and live.uid == runtime.uid else (runtime.namespace,)

    def _in_use(self, revision: Revision) -> bool:
        used = self._cache.revisions_used.get(revision.name)
        if used is not None and self._clock() - used < IN_USE:
            return True
        return (self._now() - revision.created).total_seconds() < IN_USE

    async def _note(self, revision: Revision, since: datetime | None) -> None:
        """Note, or remove, since when nothing names this very version of the revision."""
        timestamp = None if since is None else conditions.timestamp(since)
        metadata = {
            "resourceVersion": revision.resource_version,
            "annotations": {names.UNREFERENCED_SINCE_ANNOTATION: timestamp},
        }
        path = REVISIONS.path(self._namespace, revision.name)
        try:
            live = await self._client.patch(path, {"metadata": metadata}, manager=MANAGER)
        except (NotFoundError, ConflictError):
            return  # it has changed: the next round sees the current state
        except ApiError as error:
            # Of one that was stored without Kubernetes' escapes no metadata can be changed (see `encoded`).
            log = logger.debug if revision.name in self._noted else logger.warning
            log("revision %s could not be marked: %s", revision.name, error)
            self._noted[revision.name] = since
            return
        self._cache.revisions.answered(revision.name, revision_of(live))

    async def _delete(self, revision: Revision) -> int:
        async with self._cache.recording:
            if revision.name in self._named() or self._in_use(revision):  # since the round began
                return 0
            self._cache.collected = revision.name
            try:
                await self._client.delete(
                    REVISIONS.path(self._namespace, revision.name),
                    uid=revision.uid,
                    resource_version=revision.resource_version,
                )
            except (NotFoundError, ConflictError):
                return 0
            except ApiError as error:
                logger.warning("revision %s could not be collected: %s", revision.name, error)
                return 0
            else:
                self._cache.revisions.remove(revision.name, uid=revision.uid)
            finally:
                self._cache.collected = None
        self._cache.revisions_used.pop(revision.name, None)
        self._noted.pop(revision.name, None)
        logger.info("revision %s collected: no JobSet names it", revision.name)
        return 1


def _age(revision: Revision) -> tuple[datetime, str]:
    """Sorts the oldest first, and those of one second the same way each time."""
    return revision.created, revision.name


def _moment(text: str | None) -> datetime | None:
    """The time that a revision is marked with; None for what is not a time."""
    try:
        return None if text is None else time_of(text)
    except ValueError:
        return None
