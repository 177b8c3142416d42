"""Whose clock counts: the API server's, by which it dates what it creates."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support import objects
from tests.support.fake_api import FakeApi, run
from trainyard_kube.server_clock import ServerClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DATE = "Thu, 01 Jan 2026 12:00:00 GMT"


class Machine:
    """A machine whose clock is `off` seconds ahead."""

    def __init__(self, off: float) -> None:
        self.off = off
        self.second = 0.0
        self.clock = ServerClock(self.local, lambda: self.second)

    def local(self) -> datetime:
        return NOON + timedelta(seconds=self.second + self.off)

    @property
    def seen(self) -> float:
        """Seconds since noon, as it is told."""
        return (self.clock.now() - NOON).total_seconds()


@pytest.mark.parametrize(("off", "seen"), [(0.25, 5.25), (-1.5, 3.5), (3600, 5.0), (-3600, 5.0), (2.5, 5.0)])
def test_a_clock_that_is_wrong_is_not_believed_and_one_that_is_right_is_more_exact(
    off: float, seen: float
) -> None:
    machine = Machine(off)
    machine.clock.heard(DATE)
    machine.second = 5.0
    assert machine.seen == seen


@pytest.mark.parametrize("zone", ["GMT", "-0000", "+0000", ""])
def test_a_date_may_name_its_zone_in_any_way(zone: str) -> None:
    machine = Machine(3600)
    machine.clock.heard(DATE.replace("GMT", zone))
    assert machine.seen == 0.0


def test_a_clock_that_jumps_after_the_last_answer_is_not_believed_either() -> None:
    machine = Machine(0)
    machine.clock.heard(DATE)
    machine.second, machine.off = 30.0, 3600.0
    assert machine.seen == 30.0


@pytest.mark.parametrize("dates", [[], [""], ["no date"]])
def test_before_an_answer_with_a_date_there_is_nothing_but_the_machines_own(dates: list[str]) -> None:
    machine = Machine(3600)
    for date in dates:
        machine.clock.heard(date)
    assert machine.seen == 3600


def test_a_date_that_is_missing_in_one_answer_is_remembered_from_the_last() -> None:
    machine = Machine(3600)
    machine.clock.heard(DATE)
    machine.clock.heard("")
    assert machine.seen == 0


def test_the_client_hears_the_date_of_each_answer() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        async with api.client() as client:
            client.time = ServerClock(lambda: NOON)
            assert client.time.now() == NOON
            await client.get(f"{objects.RUNTIMES}/rt")
            assert abs((client.time.now() - datetime.now(UTC)).total_seconds()) < 600

    run(test)
