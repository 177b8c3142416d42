"""Which finished TrainJobs are deleted, and how."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from tests.support import objects
from tests.support.fake_api import FakeApi, eventually, run, status
from trainyard_api.configuration import Retention
from trainyard_operator.core.decide import retention
from trainyard_operator.core.decide.views import trainjob_of
from trainyard_operator.core.model import TrainJob
from trainyard_operator.metrics import Metrics
from trainyard_operator.watch.cache import Cache, Key
from trainyard_operator.work.reaper import INTERVAL, REFUSED, SOONEST, Reaper

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
HOUR = 3600.0


def ended(hours_ago: float, kind: str = "Complete") -> dict[str, Any]:
    at = (NOW - timedelta(hours=hours_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": at}]}


def job(name: str, status: Any = None, namespace: str = "team", **others: Any) -> TrainJob:
    others = {"spec": {}, "annotations": {}, **others}
    return TrainJob(namespace, name, f"{name}-uid", "1", NOW, status=status or {}, **others)


def marked(text: str) -> dict[str, str]:
    return {"trainyard.dev/retention": text}


def deleted(*jobs: TrainJob, **policy: Any) -> list[str]:
    return [found.name for found in retention.decide(jobs, Retention(**policy), NOW).delete]


def test_a_finished_job_goes_when_its_time_has_come_and_a_failed_one_too():
    jobs = (job("old", ended(25)), job("failed", ended(30, "Failed")), job("young", ended(23)), job("runs"))
    assert deleted(*jobs, after_finished="24h") == ["failed", "old"]


def test_without_a_setting_and_an_annotation_all_stay():
    assert deleted(job("old", ended(10_000))) == []


def test_of_each_namespace_the_latest_stay():
    jobs = [job(f"{where}-{age}", ended(age), where) for where in ("a", "b") for age in (1, 2, 3)]
    assert deleted(*jobs, max_finished_per_namespace=2) == ["a-3", "b-3"]
    assert deleted(*jobs, max_finished_per_namespace=0) == ["a-3", "b-3", "a-2", "b-2", "a-1", "b-1"]


def test_jobs_that_ended_together_go_in_one_order_whatever_order_they_are_seen_in():
    jobs = [job(name, ended(1)) for name in "abc"]
    assert deleted(*jobs, max_finished_per_namespace=1) == ["a", "b"]
    assert deleted(*reversed(jobs), max_finished_per_namespace=1) == ["a", "b"]


@pytest.mark.parametrize(
    ("annotation", "gone"),
    [("keep", False), ("1h", True), ("48h", False), ("0s", True), ("for ever", False), ("", False)],
)
def test_the_annotation_of_a_job_goes_before_the_settings(annotation: str, gone: bool):
    told = job("told", ended(30), annotations=marked(annotation))
    assert deleted(told, after_finished="24h", max_finished_per_namespace=0) == ["told"] * gone


def test_a_job_with_an_annotation_takes_no_others_place():
    jobs = (job("kept", ended(1), annotations=marked("keep")), job("other", ended(2)))
    assert deleted(*jobs, max_finished_per_namespace=1) == []


@pytest.mark.parametrize(
    "others",
    [
        {"deleting": True},
        {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}},
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        {"status": {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "soon"}]}},
        {"status": {"conditions": [{"type": "Complete", "status": "False"}]}},
        {"status": {"conditions": [{"type": "Blocked", "status": "True"}]}},
    ],
)
def test_others_are_left_alone(others: dict[str, Any]):
    found = job("left", **{"status": ended(30), **others})
    assert deleted(found, after_finished="1s", max_finished_per_namespace=0) == []


def test_the_next_look_is_when_the_next_one_is_due():
    jobs = (job("one", ended(20)), job("two", ended(23)), job("due", ended(25)))
    assert retention.decide(jobs, Retention(after_finished=86400.0), NOW).next_in == HOUR
    assert retention.decide((), Retention(after_finished=86400.0), NOW).next_in is None


class Scene:
    def __init__(self, api: FakeApi, client: Any, **policy: Any) -> None:
        self.api = api
        self.cache = Cache()
        self.leads = True
        self.now = NOW
        self.second = 0.0
        self.metrics = Metrics()
        self.reaper = Reaper(
            client,
            self.cache,
            Retention(**policy),
            self.metrics,
            working=lambda: self.leads,
            now=lambda: self.now,
            clock=lambda: self.second,
        )

    def add(self, name: str, **parts: Any) -> str:
        path = f"{objects.JOBS}/{name}"
        job = trainjob_of(self.api.put(path, {**objects.trainjob(name), **parts}))
        self.cache.trainjobs.observe(Key.of(job), job)
        return path


def test_it_deletes_the_very_object_that_was_decided_on_and_counts_it() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            s = Scene(api, client, after_finished="24h")
            old, young = s.add("old", status=ended(25)), s.add("young", status=ended(23.999))
            seen = api.objects[old]["metadata"]
            assert await s.reaper.step() == pytest.approx(3.6, abs=1)
            assert (old in api.objects, young in api.objects) == (False, True)
            assert api.bodies[-1]["preconditions"] == {
                "uid": seen["uid"],
                "resourceVersion": seen["resourceVersion"],
            }
            assert "trainyard_trainjobs_retired_total 1.0" in s.metrics.render().decode()

    run(test)


def test_a_job_that_was_made_anew_meanwhile_stays() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            s = Scene(api, client, after_finished="1h")
            path = s.add("tj", status=ended(2))
            api.remove(path)
            api.put(path, objects.trainjob())
            assert await s.reaper.step() == INTERVAL
            assert path in api.objects

    run(test)


def test_a_refusal_hurts_no_other_job() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            s = Scene(api, client, after_finished="1h")
            held, other = s.add("held", status=ended(3)), s.add("other", status=ended(2))
            api.refuse_next("DELETE", "/held", status(403, "Forbidden", "no"))
            await s.reaper.step()
            assert (held in api.objects, other in api.objects) == (True, False)

    run(test)


def test_what_is_refused_is_not_tried_at_each_look_and_costs_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            s = Scene(api, client, after_finished="1h")
            for name in ("one", "two"):
                s.add(name, status=ended(2))
                api.refuse_next("DELETE", f"/{name}", status(403, "Forbidden", "no"))
            for _ in range(3):
                assert await s.reaper.step() == INTERVAL
            assert len(api.writes()) == 2
            s.second += REFUSED
            await s.reaper.step()
            assert len(api.writes()) == 4

    run(test)
    (message,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert message.startswith("finished TrainJobs that could not be deleted: 2, such as team/one: ")


def test_an_overloaded_api_server_has_as_long_a_pause_as_it_asks_for() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            s = Scene(api, client, after_finished="1h")
            first, other = s.add("first", status=ended(3)), s.add("other", status=ended(2))
            api.refuse_next("DELETE", "/first", status(429, "TooManyRequests"), {"Retry-After": "50"})
            assert await s.reaper.step() == 50.0
            assert api.writes() == [("DELETE", first)]
            await s.reaper.step()
            assert (first in api.objects, other in api.objects) == (True, False), "it holds up no other"

    run(test)


def test_only_the_leader_deletes() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            s = Scene(api, client, after_finished="1h")
            s.add("tj", status=ended(2))
            s.leads = False
            assert await s.reaper.step() == SOONEST
            assert api.writes() == []
            s.leads = True
            await s.reaper.step()
            assert len(api.writes()) == 1

    run(test)


def test_whoever_loses_the_lease_meanwhile_deletes_no_more() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            s = Scene(api, client, after_finished="1h")
            first, second = s.add("first", status=ended(3)), s.add("second", status=ended(2))

            def answers(request: web.Request) -> bool:
                s.leads = False
                return True

            api.accepts = answers
            await s.reaper.step()
            assert (first in api.objects, second in api.objects) == (False, True)

    run(test)


def test_one_that_somebody_has_deleted_already_is_not_counted() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            s = Scene(api, client, after_finished="1h")
            api.remove(s.add("tj", status=ended(2)))
            await s.reaper.step()
            assert "trainyard_trainjobs_retired_total 0.0" in s.metrics.render().decode()

    run(test)


def test_it_looks_by_itself_until_it_is_cancelled() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            s = Scene(api, client, after_finished="1h")
            path = s.add("tj", status=ended(2))
            task = asyncio.create_task(s.reaper.run())
            await eventually(lambda: path not in api.objects)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(test)
