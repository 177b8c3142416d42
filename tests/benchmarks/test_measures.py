"""What is measured begins when the controller is at rest, and ends when all is done."""

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.audit import Call
from benchmarks.bench import NOBODY, OURS, Bench
from benchmarks.driver import AGENT, Driver
from benchmarks.errors import BenchmarkError

from benchmarks import driver as driver_module
from benchmarks import measures

OPERATOR = "trainyard-operator/1"
BUSY = 0.3
"""Seconds for which the controller goes on writing after the first status of a TrainJob."""


class Cluster:
    """An API server with a controller that writes each status at once, and applies the JobSet again later."""

    def __init__(self) -> None:
        self.tail = SimpleNamespace(calls=[], heard=None, reset=self._mark)
        self.left_at_marks: list[int] = []
        """How many TrainJobs the controller was still busy with at each mark."""
        client: Any = SimpleNamespace(create=self._create, patch=self._patch)
        tail: Any = self.tail
        self.driver = Driver(client, tail, OURS.agent, OURS.queue_holds)
        self._work: set[asyncio.Task[None]] = set()

    @property
    def bench(self) -> Bench:
        plane: Any = SimpleNamespace(tail=self.tail, cpu=lambda component: 0.0)
        controller: Any = SimpleNamespace(cpu=0.0, memory=1.0)
        return Bench(OURS, plane, self.driver, controller)

    def _mark(self) -> None:
        self.left_at_marks.append(len(self._work))
        self.tail.calls.clear()

    async def _create(self, path: str, manifest: Any) -> None:
        name = manifest["metadata"]["name"]
        self._call("create", "trainjobs", name, AGENT)
        self._do(self._new(name))

    async def _patch(self, path: str, body: Any) -> None:
        name = path.split("/")[-2]
        self._call("patch", "jobsets/status", name, AGENT)
        self._do(self._changed(name))

    def _do(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _new(self, name: str) -> None:
        self._call("create", "jobsets", name, OPERATOR)
        self._call("patch", "trainjobs/status", name, OPERATOR)
        await asyncio.sleep(BUSY)
        self._call("patch", "jobsets", name, OPERATOR)

    async def _changed(self, name: str) -> None:
        await asyncio.sleep(BUSY)
        self._call("patch", "trainjobs/status", name, OPERATOR)

    def _call(
        self, verb: str, resource: str, name: str, agent: str, *, received: float | None = None
    ) -> None:
        now = time.time()
        code = 201 if verb == "create" else 200
        call = Call(verb, resource, "default", name, agent, code, received or now, now)
        self.tail.calls.append(call)
        self.tail.heard(call)


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "_QUIET_SECONDS", 2 * BUSY)


@pytest.mark.usefixtures("impatience")
@pytest.mark.parametrize(
    ("measure", "much"),
    [
        (measures.burst, {"sizes": (4, 6)}),
        pytest.param(measures.fairness, {"jobs": 2, "nodes": 10}, marks=pytest.mark.long),
        pytest.param(measures.steady, {"rates": (20, 40), "seconds": 0.1}, marks=pytest.mark.long),
    ],
    ids=["burst", "fairness", "steady"],
)
def test_a_measurement_begins_when_the_controller_has_worked_off_what_was_before(measure, much) -> None:
    cluster = Cluster()

    async def measured() -> None:
        await cluster.bench.warm_up()
        await measure(cluster.bench, **much)

    asyncio.run(measured())
    # The giant alone: it is what the small ones are measured beside.
    assert cluster.left_at_marks == [0, 1 if measure is measures.fairness else 0]


@pytest.mark.usefixtures("impatience")
def test_a_controller_that_never_stops_writing_gives_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "_QUIET_WITHIN", 0.1)
    driver = Cluster().driver
    driver.written = time.time() + 60
    with pytest.raises(BenchmarkError, match=r"the controller still writes after 0 s"):
        asyncio.run(driver.quiet())


@pytest.mark.usefixtures("impatience")
def test_what_arrives_at_a_rate_is_measured_until_each_end_is_in_a_status() -> None:
    cluster = Cluster()
    figures = asyncio.run(measures.steady(cluster.bench, rates=[40], seconds=0.1))
    least = figures["40/s: JobSet change to status, p50, ms"]
    assert least >= BUSY * 1000
    told = [call for call in cluster.tail.calls if call.resource == "trainjobs/status"]
    assert len(told) == 2 * 4


class Hasty(Cluster):
    """One whose controller once writes a status before the API server has answered who made the change."""

    async def _patch(self, path: str, body: Any) -> None:
        name, received = path.split("/")[-2], time.time()
        if not name.endswith("-0"):
            await super()._patch(path, body)
            return
        self._call("patch", "trainjobs/status", name, OPERATOR)
        await asyncio.sleep(0.01)
        self._call("patch", "jobsets/status", name, AGENT, received=received)


@pytest.mark.usefixtures("impatience")
def test_a_status_that_is_written_before_the_change_is_answered_is_one_since_the_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver_module, "_PATIENCE", 1.0)
    asyncio.run(measures.steady(Hasty().bench, rates=[40], seconds=0.1))


def test_what_was_raised_for_a_jobset_ends_the_measurement() -> None:
    cluster = Cluster()

    async def fail(name: str) -> None:
        raise BenchmarkError(f"{name} is refused")

    async def measured() -> None:
        cluster.driver.on_jobset = fail
        await cluster.driver.submit(["a"])
        await cluster.driver.until("done", lambda: 0, 1)

    with pytest.raises(BenchmarkError, match="a is refused"):
        asyncio.run(measured())


def test_without_an_operator_lives_begin_while_trainjobs_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_SETTLED", 0.0)
    cluster = Cluster()
    bench = replace(cluster.bench, side=NOBODY, controller=None)
    asyncio.run(measures.life(bench, jobs=4, rate=20, seconds=0.01))
    writes = [call.resource for call in cluster.tail.calls if call.agent == AGENT]
    assert "jobsets/status" in writes[:3]
