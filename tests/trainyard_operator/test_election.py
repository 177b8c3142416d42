"""The Lease is kept whatever else the process does, and given back when the process ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tests.support import objects
from tests.support.fake_api import FakeApi, eventually, run
from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials
from trainyard_kube.server_clock import ServerClock
from trainyard_operator.work.election import Election
from trainyard_operator.work.lease import Timing

LEASE = f"{objects.SYSTEM_LEASES}/trainyard-operator"
QUICK = Timing(duration=3.0, renew_deadline=2.4, retry=0.1)


@contextmanager
def served_elsewhere(api: FakeApi) -> Iterator[Credentials]:
    """The API server in a loop of its own, which answers while the test's loop is held."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    client = api.client()
    try:
        yield asyncio.run_coroutine_threadsafe(client.__aenter__(), loop).result(10).credentials
    finally:
        asyncio.run_coroutine_threadsafe(client.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Replica:
    def __init__(self, credentials: Credentials, time: ServerClock | None = None) -> None:
        self.history: list[tuple[str, str]] = []
        client = Client(credentials)
        client.time = time or client.time
        self.election = Election(
            client,
            "trainyard-system",
            "one",
            started=self._started,
            stopped=self._stopped,
            timing=QUICK,
        )
        self.elector = self.election.elector

    async def _started(self) -> None:
        self.history.append(("started", threading.current_thread().name))

    async def _stopped(self) -> None:
        self.history.append(("stopped", threading.current_thread().name))


@pytest.mark.long
def test_the_lease_is_kept_while_the_main_loop_is_held_for_longer_than_it_lasts() -> None:
    async def test() -> None:
        api = FakeApi()
        with served_elsewhere(api) as credentials:
            replica = Replica(credentials)
            task = asyncio.create_task(replica.election.run())
            await eventually(lambda: bool(replica.history))
            began = api.objects[LEASE]["spec"]["renewTime"]
            time.sleep(4)  # noqa: ASYNC251 - this is what is tried
            assert (replica.elector.leading, replica.elector.safe) == (True, True)
            assert api.objects[LEASE]["spec"]["renewTime"] > began
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            main = threading.current_thread().name
            assert replica.history == [("started", main), ("stopped", main)]

    run(test)


class Slow(Replica):
    """It holds the main loop as soon as it hears that it leads."""

    async def _started(self) -> None:
        time.sleep(4)  # noqa: ASYNC251 - this is what is tried
        self.renewed = self.elector.safe
        await super()._started()


def test_a_main_loop_that_is_held_when_the_work_is_to_begin_costs_no_renewal() -> None:
    async def test() -> None:
        api = FakeApi()
        with served_elsewhere(api) as credentials:
            replica = Slow(credentials)
            task = asyncio.create_task(replica.election.run())
            await eventually(lambda: bool(replica.history))
            assert replica.renewed
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(test)


def test_the_lease_is_released_when_the_election_is_cancelled() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            replica = Replica(client.credentials)
            task = asyncio.create_task(replica.election.run())
            await eventually(lambda: bool(replica.history))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert api.objects[LEASE]["spec"]["holderIdentity"] == ""
            assert not replica.elector.safe
            await eventually(lambda: "lease" not in {thread.name for thread in threading.enumerate()})

    run(test)


def test_the_lease_has_the_api_servers_time_even_if_the_nodes_clock_is_wrong() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            replica = Replica(client.credentials, ServerClock(lambda: datetime(2001, 1, 1, tzinfo=UTC)))
            task = asyncio.create_task(replica.election.run())
            await eventually(lambda: bool(replica.history))
            renewed = datetime.fromisoformat(api.objects[LEASE]["spec"]["renewTime"])
            assert abs(datetime.now(UTC) - renewed) < timedelta(minutes=5)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(test)


def test_an_election_that_fails_says_so_and_can_be_run_again() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            replica = Replica(client.credentials)
            api.put(LEASE, {"spec": {"leaseDurationSeconds": "long"}})
            (failure,) = await asyncio.gather(replica.election.run(), return_exceptions=True)
            assert isinstance(failure, ValueError)
            api.remove(LEASE)
            task = asyncio.create_task(replica.election.run())
            await eventually(lambda: bool(replica.history))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(test)


class Cancelled(Replica):
    """What it is to stop is cancelled, as by the end of the process."""

    async def _stopped(self) -> None:
        raise asyncio.CancelledError


def test_an_election_whose_callback_is_cancelled_fails_and_does_not_wait_for_ever() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            replica = Cancelled(client.credentials)
            task = asyncio.create_task(replica.election.run())
            await eventually(lambda: bool(replica.history))
            api.put(LEASE, {"spec": {"holderIdentity": "two", "leaseDurationSeconds": 3}})
            (failure,) = await asyncio.gather(task, return_exceptions=True)
            assert (type(failure), str(failure)) == (
                RuntimeError,
                "the election has ended: CancelledError()",
            )

    run(test, timeout=30.0)


class Failing(Replica):
    async def _stopped(self) -> None:
        raise ValueError("no")


def test_an_election_that_is_cancelled_stays_cancelled_whatever_fails_meanwhile() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            replica = Failing(client.credentials)
            task = asyncio.create_task(replica.election.run())
            await eventually(lambda: bool(replica.history))
            task.cancel()
            (failure,) = await asyncio.gather(task, return_exceptions=True)
            assert type(failure) is asyncio.CancelledError

    run(test)
