"""How renewed authorities of the status server reach the training processes that run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from tests.support import objects
from tests.support.controller_scene import JOB, JOBSET, Scene, scene
from tests.support.fake_api import run, status
from trainyard_operator.core.build.info import Settings
from trainyard_operator.work.apply import Applier
from trainyard_operator.work.ca_rollout import AGAIN, Authorities
from trainyard_operator.work.companions import Companions

CONFIG_MAP = "/api/v1/namespaces/team/configmaps/tj-tls-config"
OLD = Settings(feature_gates=frozenset({"TrainJobStatus"}), status_server_ca="old")


class Renewal:
    """A job that runs with the authorities `old`, and what brings others to it."""

    def __init__(self, s: Scene) -> None:
        self.scene = s
        self.api = s.api
        s.settings = OLD
        self.authorities = self.another_leader()

    def another_leader(self) -> Authorities:
        s = self.scene
        return Authorities(
            s.cache,
            s.memories,
            Companions(s.client),
            Applier(s.client, s.cache, namespace="trainyard-system", clock=s.clock),
            settings=lambda: s.settings,
            working=lambda: s.working,
            leading=lambda: s.leading,
            clock=s.clock,
        )

    def renew(self, authorities: str = "new") -> None:
        self.scene.settings = replace(OLD, status_server_ca=authorities)

    def told(self) -> str:
        found: str = self.api.objects[CONFIG_MAP]["data"]["ca.crt"]
        return found

    async def requests(self) -> list[tuple[str, str]]:
        """What one step asks of the API server."""
        before = len(self.api.requests)
        await self.authorities.step()
        return self.api.requests[before:]


@asynccontextmanager
async def running() -> AsyncIterator[Renewal]:
    async with scene() as s:
        found = Renewal(s)
        await s.settle()
        await found.authorities.step()
        s.second += AGAIN
        await found.authorities.step()
        yield found


def test_a_running_job_gets_renewed_authorities_and_then_nothing_is_asked_for() -> None:
    async def test() -> None:
        async with running() as r:
            assert await r.requests() == []
            before = r.api.objects[CONFIG_MAP]
            r.renew()
            assert await r.requests() == [("GET", CONFIG_MAP), ("GET", CONFIG_MAP), ("PUT", CONFIG_MAP)]
            after = r.api.objects[CONFIG_MAP]
            assert after["data"] == {"ca.crt": "new"}
            assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
            for _ in range(3):
                r.scene.second += AGAIN
                assert await r.requests() == []

    run(test)


def test_whoever_loses_the_lease_meanwhile_brings_them_to_no_other_job() -> None:
    async def test() -> None:
        async with running() as r:
            s = r.scene
            r.api.put(f"{objects.JOBS}/other", objects.trainjob("other"))
            s.see(f"{objects.JOBS}/other")
            await s.settle()
            r.renew()

            def answers(request: web.Request) -> bool:
                s.working = request.method != "PUT"
                return True

            r.api.accepts = answers
            await r.authorities.step()
            other = CONFIG_MAP.replace("/tj-", "/other-")
            assert [r.api.objects[path]["data"]["ca.crt"] for path in (CONFIG_MAP, other)] == ["new", "old"]

    run(test)


def test_what_is_written_is_what_a_look_at_the_suspended_job_would_write() -> None:
    async def test() -> None:
        async with running() as r:
            r.renew()
            await r.authorities.step()
            r.api.put(JOB, {**objects.trainjob(suspend=True), "metadata": r.api.objects[JOB]["metadata"]})
            r.scene.see(JOB, "MODIFIED")
            before = len(r.api.requests)
            await r.scene.settle()
            assert ("PUT", CONFIG_MAP) not in r.api.requests[before:]

    run(test)


def test_a_new_leader_looks_once_at_each_running_job() -> None:
    async def test() -> None:
        async with running() as r:
            r.renew()
            r.scene.controller.everything()
            r.authorities = r.another_leader()
            await r.authorities.step()
            assert r.told() == "new"
            r.scene.controller.everything()
            r.authorities.begin_to_lead()
            assert await r.requests() == [("GET", CONFIG_MAP)]

    run(test)


def test_a_job_that_was_being_built_at_the_change_gets_the_new_authorities_with_the_second_look() -> None:
    async def test() -> None:
        async with scene() as s:
            r = Renewal(s)
            r.renew()
            await r.authorities.step()
            r.renew("old")  # what the worker that builds it has read before the change
            await s.settle()
            r.renew()
            assert r.told() == "old"
            s.second += AGAIN
            await r.authorities.step()
            assert r.told() == "new"

    run(test)


def test_one_that_stood_still_brings_them_once_it_may_write_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running() as r:
            r.renew()
            r.scene.leading = False
            for _ in range(2):
                await r.authorities.step()
                r.scene.second += AGAIN
            assert r.told() == "old"
            r.scene.leading = True
            r.api.refuse_next("GET", "/tj-tls-config", status(403, "Forbidden", "not yours"))
            await r.authorities.step()
            r.scene.second += AGAIN
            await r.authorities.step()
            assert r.told() == "new"
        assert [record.getMessage() for record in caplog.records] == [
            "team/tj: its pods do not have the new authorities yet: "
            "Forbidden: ConfigMap tj-tls-config: not yours"
        ]

    run(test)


@pytest.mark.parametrize("change", ["standby", "stood still", "another's", "finished", "suspended", "gone"])
def test_nothing_is_written_for(change: str) -> None:
    async def test() -> None:
        async with running() as r:
            r.renew()
            trainjob: dict[str, Any] = r.api.objects[JOB]
            match change:
                case "standby":
                    r.scene.working = False
                case "stood still":
                    r.scene.leading = False
                case "another's":
                    (owner,) = r.api.objects[CONFIG_MAP]["metadata"]["ownerReferences"]
                    r.api.objects[CONFIG_MAP]["metadata"]["ownerReferences"] = [{**owner, "uid": "other"}]
                case "finished":
                    done = {"type": "Complete", "status": "True"}
                    r.api.put(JOB, {**trainjob, "status": {"conditions": [done]}})
                    r.scene.see(JOB, "MODIFIED")
                case "suspended":
                    jobset = r.api.objects[JOBSET]
                    r.api.put(JOBSET, {**jobset, "spec": {**jobset["spec"], "suspend": True}})
                    r.scene.see_jobset()
                case "gone":
                    del r.api.objects[CONFIG_MAP]
            before = len(r.api.writes())
            await r.authorities.step()
            assert r.api.writes()[before:] == []

    run(test)


def test_a_write_that_fails_is_tried_again_after_a_minute() -> None:
    async def test() -> None:
        async with running() as r:
            r.renew()
            for _ in range(3):
                r.api.refuse_next("PUT", "/tj-tls-config", status(409, "Conflict"))
                await r.authorities.step()
                assert r.told() == "old"
                r.scene.second += AGAIN - 1
                assert await r.requests() == []
                r.scene.second += 1
            await r.authorities.step()
            assert r.told() == "new"

    run(test)
