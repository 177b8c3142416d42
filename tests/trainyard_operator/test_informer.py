"""The informer: its store equals what the server holds, whatever happens to the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.support import objects
from tests.support.fake_api import FakeApi, eventually, run, status
from trainyard_kube.resources import JOBSETS
from trainyard_operator.core.decide.views import jobset_of
from trainyard_operator.core.model import Condition, JobSet, ReplicatedJobStatus, TrainJob
from trainyard_operator.watch import informer as informer_module
from trainyard_operator.watch.cache import Cache, Key
from trainyard_operator.watch.informer import Informer, JobSetSink, State

KEY = Key("team", "tj")


class Followed:
    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.cache = Cache()
        self.touched: list[Key] = []
        self.states: list[State] = []
        self.wanted: set[Key] = set()
        self.informer: Informer[Key, Any]

    def names(self) -> set[str]:
        return {key.name for key in self.cache.jobsets}


@asynccontextmanager
async def following(api: FakeApi, **options: Any) -> AsyncIterator[Followed]:
    followed = Followed(api)
    followed.cache.wake = followed.touched.append
    sink = JobSetSink(
        followed.cache.jobsets,
        has_trainjob=followed.wanted.__contains__,
        changed=followed.states.append,
    )
    async with api.client() as client:
        followed.informer = Informer(client, JOBSETS, sink, **options)
        task = asyncio.create_task(followed.informer.run())
        try:
            yield followed
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_module, "FIRST_RETRY", 0.01)
    monkeypatch.setattr(informer_module, "MISSING_RETRY", 0.01)


def test_it_holds_what_there_is_and_follows_what_comes() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.JOBSETS}/a", objects.jobset("a"))
        async with following(api) as found:
            await eventually(lambda: found.states == [State.SYNCED])
            assert found.names() == {"a"}
            api.put(f"{objects.JOBSETS}/b", objects.jobset("b"))
            await eventually(lambda: found.names() == {"a", "b"})
            api.remove(f"{objects.JOBSETS}/a")
            await eventually(lambda: found.names() == {"b"})
            assert [key.name for key in found.touched] == ["a", "b", "a", "a"], "its last state, and its end"

    run(test)


def test_a_stream_that_the_server_ends_is_resumed_without_a_new_list() -> None:
    async def test() -> None:
        api = FakeApi()
        async with following(api) as found:
            await eventually(lambda: found.states == [State.SYNCED])
            api.hang_up()
            await eventually(lambda: len(api.requests) >= 2)
            api.put(f"{objects.JOBSETS}/a", objects.jobset("a"))
            await eventually(lambda: found.names() == {"a"})
            assert found.informer.restarts == 0

    run(test)


@pytest.mark.parametrize("watch_list", [True, False], ids=["streamed", "paged"])
def test_what_vanished_while_nobody_watched_is_dropped_by_the_relist(watch_list: bool) -> None:
    async def test() -> None:
        api = FakeApi()
        api.watch_list = watch_list
        api.page_size = 2
        for name in ("a", "b", "c"):
            api.put(f"{objects.JOBSETS}/{name}", objects.jobset(name))
        async with following(api) as found:
            await eventually(lambda: found.names() == {"a", "b", "c"} and api.watched(objects.ALL_JOBSETS))
            api.remove(f"{objects.JOBSETS}/b", silently=True)
            gone = {"type": "ERROR", "object": status(410, "Expired", "too old resource version")}
            api.say(objects.ALL_JOBSETS, gone)
            await eventually(lambda: found.names() == {"a", "c"})
            assert found.touched[-1].name == "b"

    run(test)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "ERROR", "object": status(500, "InternalError")},
        {"type": "ERROR", "object": status(429, "TooManyRequests")},
        {"type": "ADDED", "object": "nonsense"},
        {"nonsense": True},
        {"type": "NEWS", "object": {}},
    ],
    ids=["error 500", "error 429", "no object", "no event", "unknown type"],
)
def test_no_event_stops_it(event: dict[str, Any]) -> None:
    async def test() -> None:
        api = FakeApi()
        async with following(api) as found:
            await eventually(lambda: found.states == [State.SYNCED])
            api.say(objects.ALL_JOBSETS, event)
            await asyncio.sleep(0.05)
            await eventually(lambda: bool(api._streams))
            api.put(f"{objects.JOBSETS}/a", objects.jobset("a"))
            await eventually(lambda: found.names() == {"a"})

    run(test)


def test_an_object_that_cannot_be_read_hides_no_other() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.JOBSETS}/bad", {**objects.jobset("bad"), "spec": {"suspend": "perhaps"}})
        api.put(f"{objects.JOBSETS}/good", objects.jobset("good"))
        async with following(api) as found:
            await eventually(lambda: found.states == [State.SYNCED])
            assert found.names() == {"good"}
            assert found.informer.unreadable == {Key("team", "bad")}

    run(test)


@pytest.mark.parametrize("watch_list", [True, False], ids=["streamed", "paged"])
def test_what_cannot_be_read_is_known_until_it_can_be_read_or_is_gone(watch_list: bool) -> None:
    def bad(name: str) -> dict[str, Any]:
        return {**objects.jobset(name), "spec": {"suspend": "perhaps"}}

    async def test() -> None:
        api = FakeApi()
        api.watch_list = watch_list
        names = ("repaired", "deleted", "vanished", "stays")
        for name in names:
            api.put(f"{objects.JOBSETS}/{name}", bad(name))
        async with following(api) as followed:

            def unreadable() -> set[str]:
                return {key.name for key in followed.informer.unreadable}

            await eventually(lambda: unreadable() == set(names) and api.watched(objects.ALL_JOBSETS))
            api.put(f"{objects.JOBSETS}/stays", bad("stays"))
            api.put(f"{objects.JOBSETS}/repaired", objects.jobset("repaired"))
            api.remove(f"{objects.JOBSETS}/deleted")
            await eventually(lambda: unreadable() == {"vanished", "stays"})
            api.remove(f"{objects.JOBSETS}/vanished", silently=True)
            gone = {"type": "ERROR", "object": status(410, "Expired", "too old resource version")}
            api.say(objects.ALL_JOBSETS, gone)
            await eventually(lambda: unreadable() == {"stays"})
            api.missing.add("/apis/jobset.x-k8s.io")
            api.hang_up()
            await eventually(lambda: unreadable() == set())

    run(test)


def test_no_error_at_an_object_hides_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may create one must not stop what waits for all."""

    def decode(sink: JobSetSink, raw: msgspec.Raw | bytes) -> Any:
        key, value = decode_as_ever(sink, raw)
        if key.name == "bad":
            raise OverflowError("date value out of range")
        return key, value

    decode_as_ever = JobSetSink.decode
    monkeypatch.setattr(JobSetSink, "decode", decode)

    async def test() -> None:
        api = FakeApi()
        for name in ("bad", "good"):
            api.put(f"{objects.JOBSETS}/{name}", objects.jobset(name))
        async with following(api) as followed:
            await eventually(lambda: followed.states == [State.SYNCED])
            api.put(f"{objects.JOBSETS}/bad", objects.jobset("bad"))
            api.put(f"{objects.JOBSETS}/later", objects.jobset("later"))
            await eventually(lambda: followed.names() == {"good", "later"})
            assert (followed.informer.unreadable, followed.informer.restarts) == ({Key("team", "bad")}, 0)

    run(test)


def test_an_unexpected_error_is_a_problem_that_others_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader waits for what is failed no longer than until there is a problem."""

    def replace(*_: Any) -> None:
        raise OverflowError("date value out of range")

    monkeypatch.setattr(JobSetSink, "replace", replace)

    async def test() -> None:
        async with following(FakeApi()) as followed:
            await eventually(lambda: followed.informer.problem == "OverflowError('date value out of range')")

    run(test)


def test_a_silent_stream_is_opened_again() -> None:
    async def test() -> None:
        api = FakeApi()
        async with following(api, inactivity=0.05) as found:
            await eventually(lambda: len(api.requests) >= 3)
            assert found.informer.restarts >= 2
            assert found.states == [State.SYNCED]

    run(test)


def test_without_the_crd_there_are_no_jobsets_and_with_it_they_are_read() -> None:
    async def test() -> None:
        api = FakeApi()
        api.missing.add("/apis/jobset.x-k8s.io")
        async with following(api) as found:
            await eventually(lambda: found.states == [State.MISSING])
            api.put(f"{objects.JOBSETS}/a", objects.jobset("a"))
            api.missing.clear()
            await eventually(lambda: found.states == [State.MISSING, State.SYNCED])
            assert found.names() == {"a"}
            api.missing.add("/apis/jobset.x-k8s.io")
            api.hang_up()
            await eventually(lambda: found.states[-1] is State.MISSING)
            assert found.names() == set()

    run(test)


def test_a_404_that_discovery_denies_empties_nothing() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.JOBSETS}/a", objects.jobset("a"))
        async with following(api) as found:
            await eventually(lambda: found.names() == {"a"})
            api.refuse_next("GET", "/jobsets", status(404, "NotFound"))
            api.hang_up()
            await eventually(lambda: found.informer.restarts >= 1)
            assert found.names() == {"a"}
            assert found.states == [State.SYNCED]

    run(test)


def test_jobsets_of_others_are_kept_only_where_a_trainjob_wants_the_name() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.JOBSETS}/foreign", objects.jobset("foreign", owner=None))
        async with following(api) as found:
            await eventually(lambda: found.states == [State.SYNCED])
            assert found.names() == set()
            found.wanted.add(KEY)
            api.put(f"{objects.JOBSETS}/tj", objects.jobset("tj", owner=None))
            await eventually(lambda: found.names() == {"tj"})

    run(test)


def test_a_jobset_is_kept_as_what_a_decision_needs() -> None:
    raw = objects.jobset(
        status={
            "conditions": [
                {
                    "type": "Completed",
                    "status": "True",
                    "reason": "AllJobsCompleted",
                    "message": "done",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "observedGeneration": 2,
                }
            ],
            "replicatedJobsStatus": [{"name": "node", "ready": 0, "succeeded": 1, "failed": 0}],
        }
    )
    raw["metadata"] |= {
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"trainyard.dev/runtime-revision": "r", "other": "x"},
    }
    assert jobset_of(msgspec.json.encode(raw)).jobset == JobSet(
        namespace="team",
        name="tj",
        uid="u",
        resource_version="7",
        owner_uid="job-uid",
        suspend=False,
        of_namesake=True,
        generation=3,
        annotations={"trainyard.dev/runtime-revision": "r"},
        conditions=(Condition("Completed", "True", "AllJobsCompleted", "done", "2026-01-01T00:00:00Z", 2),),
        replicated_jobs_status=(ReplicatedJobStatus("node", succeeded=1),),
        created=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_of_a_jobset_it_is_known_how_many_pods_it_has_beside_its_initializers() -> None:
    def of(name: str, replicas: int, **job: int) -> dict[str, Any]:
        return {"name": name, "replicas": replicas, "template": {"spec": job}}

    raw = objects.jobset()
    raw["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    raw["spec"]["replicatedJobs"] = [
        of("dataset-initializer", 1, parallelism=1),
        of("launcher", 1),
        of("node", 2, parallelism=8),
    ]
    assert jobset_of(msgspec.json.encode(raw)).jobset.nodes == 17


@pytest.mark.parametrize(
    ("spec", "owns"),
    [
        ({}, False),
        ({"volumeClaimPolicies": []}, False),
        ({"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "checkpoint"}}]}]}, True),
    ],
)
def test_it_is_seen_whether_a_jobset_has_volumes_of_its_own(spec: dict[str, Any], owns: bool) -> None:
    raw = objects.jobset(spec={"replicatedJobs": [], **spec})
    raw["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    assert jobset_of(msgspec.json.encode(raw)).jobset.owns_volumes is owns


def test_the_last_state_of_a_deleted_jobset_is_heard_before_its_end() -> None:
    async def test() -> None:
        api = FakeApi()
        job = TrainJob("team", "a", "job-uid", "1", datetime(2026, 1, 1, tzinfo=UTC), {})
        api.put(f"{objects.JOBSETS}/a", objects.jobset("a"))
        async with following(api) as found:
            found.cache.trainjobs.observe(Key.of(job), job)
            await eventually(lambda: found.names() == {"a"} and api.watched(objects.ALL_JOBSETS))
            failed = {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": "no"}
            live = api.objects[f"{objects.JOBSETS}/a"]
            last = {
                **live,
                "metadata": {**live["metadata"], "resourceVersion": "1000"},
                "status": {"conditions": [failed]},
            }
            api.remove(f"{objects.JOBSETS}/a", silently=True)
            api.say(objects.ALL_JOBSETS, {"type": "DELETED", "object": last})
            await eventually(lambda: not found.names())
            ended = found.cache.ended(job)
            assert ended is not None
            assert [condition.type for condition in ended.conditions] == ["Failed"]

    run(test)


def test_streams_that_end_at_once_are_resumed_after_growing_pauses() -> None:
    class Ending:
        """A server that answers each watch with 200 and ends it."""

        async def watch(
            self, path: str, *, params: dict[str, str], inactivity: float
        ) -> AsyncIterator[bytes]:
            if "sendInitialEvents" in params:
                annotations = {informer_module.INITIAL_EVENTS_END: "true"}
                metadata = {"resourceVersion": "5", "annotations": annotations}
                yield msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": metadata}})

    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            raise asyncio.CancelledError

    async def test() -> None:
        sink = JobSetSink(Cache().jobsets, has_trainjob=lambda key: True, changed=lambda state: None)
        client: Any = Ending()
        with pytest.raises(asyncio.CancelledError):
            await Informer(client, JOBSETS, sink, sleep=sleep).run()

    run(test)
    assert all(0.5 * 0.01 * 2**n <= pause <= 0.01 * 2**n for n, pause in enumerate(pauses))
