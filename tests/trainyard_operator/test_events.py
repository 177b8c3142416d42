"""Events: one object for each thing said about a TrainJob, counted when it is said again."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support import objects
from tests.support.fake_api import FakeApi, run, status
from trainyard_kube.client import Client
from trainyard_operator.core.model import EventNote, TrainJob
from trainyard_operator.work.events import Events, event_name

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = TrainJob("team", "tj", "job-uid", "7", NOW, {})
NOTE = EventNote("Warning", "RuntimeNotFound", "there is none")
PATH = f"{objects.EVENTS}/{event_name(JOB, NOTE)}"


def events(client: Client, now: list[float]) -> Events:
    return Events(client, clock=lambda: now[0], now=lambda: NOW)


def test_an_event_names_its_trainjob_and_carries_the_times_that_clients_read() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            await events(client, [0.0]).post(JOB, NOTE)
        event = api.objects[PATH]
        assert event["involvedObject"] == {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "namespace": "team",
            "name": "tj",
            "uid": "job-uid",
            "resourceVersion": "7",
        }
        assert event["source"] == {"component": "trainyard-operator"}
        assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T12:00:00Z"
        said = {name: event[name] for name in ("type", "reason", "message", "count")}
        assert said == {
            "type": "Warning",
            "reason": "RuntimeNotFound",
            "message": "there is none",
            "count": 1,
        }

    run(test)


def test_what_is_said_again_is_counted_once_a_minute() -> None:
    async def test() -> None:
        api = FakeApi()
        now = [0.0]
        async with api.client() as client:
            poster = events(client, now)
            for second in (0, 1, 2, 61):
                now[0] = 1000.0 + second
                await poster.post(JOB, NOTE)
        assert [method for method, _ in api.requests] == ["POST", "PATCH"]
        assert api.objects[PATH]["count"] == 4

    run(test)


def test_after_a_restart_the_same_event_goes_on_counting() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            await events(client, [0.0]).post(JOB, NOTE)
            await events(client, [0.0]).post(JOB, NOTE)
        assert len(api.objects) == 1
        assert api.objects[PATH]["count"] == 2

    run(test)


def test_an_event_that_has_expired_is_said_anew() -> None:
    async def test() -> None:
        api = FakeApi()
        now = [0.0]
        async with api.client() as client:
            poster = events(client, now)
            await poster.post(JOB, NOTE)
            api.remove(PATH)
            now[0] = 100.0
            await poster.post(JOB, NOTE)
        assert api.objects[PATH]["count"] == 1

    run(test)


def test_different_things_and_different_incarnations_are_different_events() -> None:
    other = TrainJob("team", "tj", "next-uid", "9", NOW, {})
    names = {
        event_name(JOB, NOTE),
        event_name(other, NOTE),
        event_name(JOB, EventNote("Warning", "RuntimeNotFound", "x")),
    }
    assert len(names) == 3


def test_no_failure_to_say_something_is_the_callers() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            api.refuse_next("POST", "/events", status(403, "Forbidden", "exceeded quota"))
            await events(client, [0.0]).post(JOB, NOTE)
        assert api.objects == {}

    run(test)


def test_a_long_message_is_cut_to_what_the_api_server_takes() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            await events(client, [0.0]).post(JOB, EventNote("Warning", "Long", "x" * 5000))
            await events(client, [0.0]).post(JOB, EventNote("Warning", "Long", "y" * 1024))
        cut, whole = (event["message"] for event in api.objects.values())
        assert cut == "x" * 1020 + " ..."
        assert whole == "y" * 1024

    run(test)
