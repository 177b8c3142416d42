"""The sweep finds what streams do not tell: deletions, the end of the first list, and their own death."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from tests.support import objects
from tests.support.fake_api import FakeApi, eventually, run
from trainyard_kube.client import Resource
from trainyard_operator.watch.sweep import Sweep

JOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")


class Seen:
    """A kind as a cache would hold it."""

    resource = JOBS

    def __init__(self) -> None:
        self.held: dict[Hashable, int] = {}
        self.gone: list[Hashable] = []

    def key(self, namespace: str | None, name: str) -> Hashable:
        return f"{namespace}/{name}"

    def versions(self) -> dict[Hashable, int]:
        return self.held

    def version(self, key: Hashable) -> int:
        return self.held.get(key, -1)

    def vanished(self, key: Hashable, at: str) -> None:
        del self.held[key]
        self.gone.append(key)


class Scene:
    def __init__(self) -> None:
        self.api = FakeApi()
        self.seen = Seen()
        self.late: list[str] = []
        self.sweep: Sweep
        self._clock: Callable[[], float] = lambda: 0.0

    def clock(self) -> float:
        return self._clock()

    def time_flies(self) -> None:
        """Each look at the clock comes after longer than anybody waits."""
        self._clock = itertools.count(step=1000.0).__next__

    def put(self, name: str) -> int:
        stored = self.api.put(f"{objects.JOBS}/{name}", objects.trainjob(name))
        return int(stored["metadata"]["resourceVersion"])


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    found = Scene()
    async with found.api.client() as client:
        found.sweep = Sweep(client, (found.seen,), late=found.late.append, clock=found.clock)
        yield found


def test_what_no_list_shows_is_dropped() -> None:
    async def test() -> None:
        async with scene() as s:
            s.seen.held = {"team/kept": s.put("kept"), "team/ghost": 3}
            await s.sweep.once()
            assert (s.seen.gone, s.sweep.synced) == (["team/ghost"], True)

    run(test)


def test_the_cache_is_complete_once_it_has_held_what_was_listed() -> None:
    async def test() -> None:
        async with scene() as s:
            version = s.put("tj")
            sweeping = asyncio.create_task(s.sweep.once())
            await asyncio.sleep(0.05)
            assert not s.sweep.synced
            s.seen.held["team/tj"] = version
            await sweeping
            assert (s.sweep.synced, s.late) == (True, [])

    run(test)


def test_a_stream_that_delivers_nothing_is_late() -> None:
    async def test() -> None:
        async with scene() as s:
            s.time_flies()
            s.put("tj")
            await s.sweep.once()
            assert (s.sweep.synced, s.late) == (False, ["trainjobs"])

    run(test)


def test_a_stale_view_is_as_late_as_a_missing_one() -> None:
    async def test() -> None:
        async with scene() as s:
            s.time_flies()
            s.seen.held["team/tj"] = s.put("tj")
            s.put("tj")
            await s.sweep.once()
            assert s.late == ["trainjobs"]

    run(test)


def test_what_was_deleted_after_the_list_is_nobodys_delay() -> None:
    async def test() -> None:
        async with scene() as s:
            s.put("tj")
            sweeping = asyncio.create_task(s.sweep.once())
            await asyncio.sleep(0.05)
            s.api.remove(f"{objects.JOBS}/tj")
            s.time_flies()
            await sweeping
            assert (s.sweep.synced, s.late) == (True, [])

    run(test)


def test_an_api_server_without_the_crd_has_answered() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.missing.add("/apis/trainer.kubeflow.org")
            s.sweep.heard = float("-inf")
            task = asyncio.create_task(s.sweep.run())
            await eventually(lambda: s.sweep.heard > float("-inf"))
            assert not s.sweep.synced
            task.cancel()

    run(test)


def test_it_sweeps_when_told_to() -> None:
    async def test() -> None:
        async with scene() as s:
            task = asyncio.create_task(s.sweep.run())
            await asyncio.sleep(0.05)
            lists = len(s.api.requests)
            s.sweep.soon()
            await eventually(lambda: len(s.api.requests) > lists)
            task.cancel()

    run(test)


def test_versions_that_go_back_are_noticed_for_every_later_event_would_be_refused() -> None:
    async def test() -> None:
        async with scene() as s:
            s.seen.held = {"team/tj": s.put("tj")}
            await s.sweep.once()
            assert s.sweep.reverted == ""
            s.api.restore(version=5)
            s.put("tj")
            await s.sweep.once()
            assert s.sweep.reverted == (
                "trainjobs are at version 6, but have been at 101: etcd was restored from a backup"
            )

    run(test)


def test_versions_that_go_back_are_noticed_where_there_are_no_objects() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.sweep.once()
            s.api.restore(version=5)
            await s.sweep.once()
            assert s.sweep.reverted != ""

    run(test)
