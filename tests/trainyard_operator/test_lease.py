"""Leader election: one replica works, another takes over in time, none beside upstream's controller."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support import objects
from tests.support.fake_api import FakeApi, eventually, run, status
from trainyard_kube.client import Client
from trainyard_operator.work.lease import Elector, Timing, Upstream

LEASE = f"{objects.SYSTEM_LEASES}/trainyard-operator"
UPSTREAM = "/apis/coordination.k8s.io/v1/namespaces/kubeflow-system/leases/trainer.kubeflow.org"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Replica:
    def __init__(self, client: Client, name: str, timing: Timing | None = None) -> None:
        self.now = 0.0
        self.allowed = True
        self.history: list[str] = []
        self.elector = Elector(
            client,
            "trainyard-system",
            name,
            started=self._started,
            stopped=self._stopped,
            allowed=lambda: self.allowed,
            timing=timing,
            clock=lambda: self.now,
            now=lambda: NOON + timedelta(seconds=self.now),
        )

    async def _started(self) -> None:
        self.history.append("started")

    async def _stopped(self) -> None:
        self.history.append("stopped")
        self.safe_while_stopped = self.elector.safe

    async def at(self, second: float) -> bool:
        self.now = second
        await self.elector.step()
        return self.elector.leading


def test_the_first_replica_leads_and_a_second_one_waits() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one, two = Replica(client, "one"), Replica(client, "two")
            assert await one.at(0)
            assert not await two.at(0)
            assert await one.at(2)
            assert not await two.at(14)
            assert await one.at(15)
            assert not await two.at(20), "it has been renewed meanwhile"
            assert (one.history, two.history) == (["started"], [])
        assert api.objects[LEASE]["spec"] == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "acquireTime": "2026-01-01T12:00:00.000000Z",
            "renewTime": "2026-01-01T12:00:15.000000Z",
        }

    run(test)


def test_a_lease_that_is_not_renewed_is_taken_over() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one, two = Replica(client, "one"), Replica(client, "two")
            await one.at(0)
            assert not await two.at(0)
            assert not await two.at(14.9)
            assert await two.at(15)
            assert api.objects[LEASE]["spec"] == {
                "holderIdentity": "two",
                "leaseDurationSeconds": 15,
                "leaseTransitions": 1,
                "acquireTime": "2026-01-01T12:00:15.000000Z",
                "renewTime": "2026-01-01T12:00:15.000000Z",
            }
            assert not await one.at(16), "it wakes up and sees who holds the Lease"
            assert one.history == ["started", "stopped"]

    run(test)


def test_the_clocks_of_other_machines_do_not_matter() -> None:
    async def test() -> None:
        api = FakeApi()
        held = {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": "1999-01-01T00:00:00Z"}
        api.put(LEASE, {"spec": held})
        async with api.client() as client:
            assert not await Replica(client, "two").at(0)

    run(test)


def test_a_released_lease_is_taken_at_once() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one, two = Replica(client, "one"), Replica(client, "two")
            await one.at(0)
            one.now = 1.0
            await one.elector.release()
            assert one.history == ["started", "stopped"]
            assert api.objects[LEASE]["spec"] == {
                "holderIdentity": "",
                "leaseDurationSeconds": 1,
                "leaseTransitions": 0,
                "acquireTime": "2026-01-01T12:00:00.000000Z",
                "renewTime": "2026-01-01T12:00:01.000000Z",
            }
            assert await two.at(1.5)

    run(test)


def test_a_leader_that_cannot_renew_stops_before_anybody_else_can_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one = Replica(client, "one")
            await one.at(0)
            for second in (2, 4, 6, 8, 10):
                api.refuse_next("GET", "/trainyard-operator", status(503, "ServiceUnavailable"))
                assert await one.at(second) == (second < 10)
            assert "ServiceUnavailable" in one.elector.problem
            assert await one.at(12)
            assert one.history == ["started", "stopped", "started"]
            (said,) = (record.getMessage() for record in caplog.records)
            assert said.startswith("lease trainyard-system/trainyard-operator: ")
            assert one.elector.problem == ""

    run(test)


class Slow(Client):
    """Its answers take as long as `takes` says, in seconds."""

    takes = 0.0

    async def get(self, path: str, **options: Any) -> Any:
        await asyncio.sleep(self.takes)
        return await super().get(path, **options)


def test_a_leader_waits_for_no_answer_that_would_come_after_its_deadline() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, Slow(client.credentials) as slow:
            one = Replica(slow, "one")
            await one.at(100)
            slow.takes = 0.1
            await one.at(102)
            assert one.elector.problem == ""
            slow.takes = 2.0
            await one.at(111.9)
            assert one.elector.problem == "no answer in time to renew it"
            assert api.requests.count(("PUT", LEASE)) == 1

    run(test)


def test_of_two_takers_the_api_server_lets_one_win() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one = Replica(client, "one")
            api.refuse_next("GET", "/trainyard-operator", status(503, "ServiceUnavailable"))
            assert not await one.at(0)
            assert one.elector.problem
            api.refuse_next("POST", "/leases", status(409, "AlreadyExists"))
            assert not await one.at(2)
            assert one.elector.problem == "", "somebody else was faster, and nothing is wrong"
            assert await one.at(4)

    run(test)


def test_a_replica_that_must_not_work_gives_the_lease_up() -> None:
    async def test() -> None:
        async with FakeApi().client() as client:
            one, two = Replica(client, "one"), Replica(client, "two")
            await one.at(0)
            one.allowed = False
            assert not await one.at(2)
            assert await two.at(2)

    run(test)


def upstream(client: Client, second: list[float]) -> Upstream:
    return Upstream(client, clock=lambda: second[0])


def held(renewed: float, holder: str = "up") -> dict[str, Any]:
    stamp = (NOON + timedelta(seconds=renewed)).isoformat().replace("+00:00", "Z")
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": stamp}}


def test_without_upstreams_lease_nothing_speaks_against_working() -> None:
    async def test() -> None:
        async with FakeApi().client() as client:
            watch = upstream(client, [0.0])
            assert not watch.absent, "before the first look nothing is known"
            await watch.step()
            assert watch.absent

    run(test)


@pytest.mark.parametrize("clock", [-9000, 0, 9000])
def test_beside_a_living_controller_of_upstream_we_are_passive_whatever_its_clock_says(
    clock: float, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def test() -> None:
        api = FakeApi()
        api.put(UPSTREAM, held(renewed=clock))
        second = [1000.0]
        async with api.client() as client:
            watch = upstream(client, second)
            await watch.step()
            assert not watch.absent, "it may have renewed it just now"
            api.put(UPSTREAM, held(renewed=clock + 10))
            second[0] = 1014.0
            await watch.step()
            assert not watch.absent
            second[0] = 1028.9
            await watch.step()
            assert not watch.absent
            second[0] = 1029.0
            await watch.step()
            assert watch.absent, "nobody has renewed it"

    run(test)
    lease = "up holds Lease kubeflow-system/trainer.kubeflow.org"
    assert [record.getMessage() for record in caplog.records] == [
        f"passive: not yet known whether Kubeflow Trainer's controller runs: {lease}; waiting for a renewal",
        f"passive: Kubeflow Trainer's controller is alive: {lease}; scale it down first",
        "no living controller of Kubeflow Trainer in namespace kubeflow-system",
    ]


def test_a_lease_that_upstream_has_left_behind_holds_us_up_for_as_long_as_it_lasts() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(UPSTREAM, held(renewed=-9000))
        second = [0.0]
        async with api.client() as client:
            watch = upstream(client, second)
            for second[0], is_absent in ((0.0, False), (14.9, False), (15.0, True)):
                await watch.step()
                assert watch.absent == is_absent

    run(test)


def test_a_released_lease_of_upstream_does_not_count() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(UPSTREAM, held(renewed=0, holder=""))
        async with api.client() as client:
            watch = upstream(client, [0.0])
            await watch.step()
            assert watch.absent

    run(test)


def test_an_unanswered_look_changes_nothing() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            watch = upstream(client, [0.0])
            api.refuse_next("GET", "/trainer.kubeflow.org", status(403, "Forbidden", "no access"))
            await watch.step()
            assert "no access" in watch.reason
            await watch.step()
            api.refuse_next("GET", "/trainer.kubeflow.org", status(503, "ServiceUnavailable"))
            await watch.step()
            assert watch.absent

    run(test)


def test_one_that_stood_still_knows_at_once_that_another_may_lead() -> None:
    async def test() -> None:
        async with FakeApi().client() as client:
            one = Replica(client, "one")
            assert not one.elector.safe
            await one.at(0)
            one.now = 9.9
            assert (one.elector.leading, one.elector.safe) == (True, True)
            one.now = 10
            assert (one.elector.leading, one.elector.safe) == (True, False)

    run(test)


def test_a_lease_that_another_has_taken_is_not_released() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one, two = Replica(client, "one"), Replica(client, "two")
            await one.at(0)
            await two.at(0)
            assert await two.at(15)
            held = api.objects[LEASE]
            await one.elector.release()
            assert (one.history, api.objects[LEASE]) == (["started", "stopped"], held)

    run(test)


def test_what_is_under_way_may_be_written_while_the_lease_is_released_but_not_once_it_is_forbidden() -> None:
    async def test() -> None:
        async with FakeApi().client() as client:
            for allowed, was_safe in ((True, True), (False, False)):
                one = Replica(client, "one")
                await one.at(0)
                assert one.elector.safe
                one.allowed = allowed
                await (one.elector.release() if allowed else one.elector.step())
                assert (one.safe_while_stopped, one.elector.safe) == (was_safe, False)

    run(test)


def test_one_that_does_not_lead_has_nothing_to_release() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            one = Replica(client, "one")
            await one.elector.release()
            assert (one.history, api.requests) == ([], [])

    run(test)


def test_the_lease_is_renewed_and_upstreams_is_looked_at_again_and_again() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            elector = Replica(client, "one", timing=Timing(retry=0.001)).elector
            watch = Upstream(client, interval=0.001)
            tasks = [asyncio.create_task(elector.run()), asyncio.create_task(watch.run())]
            await eventually(
                lambda: api.requests.count(("PUT", LEASE)) > 1 and api.requests.count(("GET", UPSTREAM)) > 1
            )
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert (elector.leading, watch.absent) == (True, True)

    run(test)
