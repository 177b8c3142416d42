"""One list of a namespace's Events serves all who need them at a time."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support import objects
from tests.support.core_values import at, jobset
from tests.support.fake_api import FakeApi, run, status
from trainyard_api.reasons import Reason
from trainyard_kube.client import ForbiddenError
from trainyard_operator.work.event_lists import Event, EventLists
from trainyard_operator.work.pods import Pods

PODS = "/api/v1/namespaces/team/pods"


def put_event(api: FakeApi, uid: str, reason: str, second: int, **more: Any) -> None:
    event = {
        "involvedObject": {"kind": "Pod", "uid": uid},
        "reason": reason,
        "message": f"{reason} of {uid}",
        "lastTimestamp": f"2026-01-01T00:00:{second:02}Z",
        **more,
    }
    api.put(f"{objects.EVENTS}/{uid}.{second}", event)


def keep(messages: list[str], event: Event) -> None:
    messages.append(event.message)


def test_a_list_that_fails_fails_for_all_who_wait_for_it_and_for_nobody_else() -> None:
    async def test() -> None:
        api = FakeApi()
        put_event(api, "a", "Pulled", 1)
        api.refuse_next("GET", "/events", status(403, "Forbidden"))
        async with api.client() as client:
            events = EventLists[list[str]](client, list, keep)
            answers = await asyncio.gather(*(events.of("team", "") for _ in range(3)), return_exceptions=True)
            assert [type(answer) for answer in answers] == [ForbiddenError] * 3
            assert await events.of("team", "") == ["Pulled of a"]
            assert api.requests == [("GET", objects.EVENTS)] * 2

    run(test)


def test_an_event_that_cannot_be_read_hides_no_other() -> None:
    async def test() -> None:
        api = FakeApi()
        put_event(api, "a", "Pulled", 1, lastTimestamp="0000-01-01T00:00:00Z")
        put_event(api, "b", "Pulled", 1)
        async with api.client() as client:
            assert await EventLists[list[str]](client, list, keep).of("team", "") == ["Pulled of b"]

    run(test)


def test_a_list_serves_all_jobs_of_a_namespace_that_start_and_the_newest_event_of_a_pod_counts() -> None:
    async def test() -> None:
        api, second = FakeApi(), [0.0]
        waits = {"state": {"waiting": {"reason": "ContainerCreating"}}}
        api.put(f"{PODS}/a", {"metadata": {"uid": "a"}, "status": {"containerStatuses": [waits]}})
        put_event(api, "a", "FailedMount", 2)
        put_event(api, "a", "SuccessfulAttachVolume", 1)
        put_event(api, "b", "Pulling", 3)
        async with api.client() as client:
            pods = Pods(client, now=lambda: at(0), clock=lambda: second[0])
            jobsets = [jobset(name=f"tj-{number}", uid=f"uid-{number}") for number in range(3)]
            starts = [(await pods.follow(None, each))[0] for each in jobsets]

            async def looks() -> tuple[set[str], int]:
                await asyncio.gather(*map(pods.follow, starts, jobsets))
                held = {start.seen.held.reason if start.seen and start.seen.held else "" for start in starts}
                return held, api.requests.count(("GET", objects.EVENTS))

            second[0] = 15.0
            assert await looks() == ({Reason.VOLUME_NOT_MOUNTED}, 1)
            put_event(api, "a", "Pulling", 16)
            second[0] = 25.0
            assert await looks() == ({""}, 2)

    run(test)


def test_a_volume_that_fails_late_or_of_a_pod_that_waited_for_a_node_first_is_said() -> None:
    async def test() -> None:
        api, second = FakeApi(), [0.0]
        api.put(f"{PODS}/a", {"metadata": {"uid": "a"}})
        async with api.client() as client:
            pods = Pods(client, now=lambda: at(0), clock=lambda: second[0])
            start, _ = await pods.follow(None, jobset())

            async def look(later: float) -> tuple[str, int]:
                second[0] += later
                await pods.follow(start, jobset())
                held = start.seen.held.reason if start.seen and start.seen.held else ""
                return held, api.requests.count(("GET", objects.EVENTS))

            assert await look(15) == ("", 0), "it has no node"
            waits = {"state": {"waiting": {"reason": "ContainerCreating"}}}
            api.put(f"{PODS}/a", {"metadata": {"uid": "a"}, "status": {"containerStatuses": [waits]}})
            assert await look(10) == ("", 1), "it waits for nothing that an Event tells"
            put_event(api, "a", "FailedMount", 26)
            assert await look(120) == (Reason.VOLUME_NOT_MOUNTED, 2)
            put_event(api, "a", "Pulling", 27)
            assert await look(10) == ("", 3)
            assert await look(10) == ("", 3), "a pod that has its volumes has nothing to tell"

    run(test)
