"""MPI's Secret and ConfigMap and the gangs' PodGroups, with the real core and an API server in memory."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support import objects
from tests.support.controller_scene import JOB, JOBSET, KEY, RUNTIME, Scene
from tests.support.fake_api import FakeApi, run, status
from trainyard_operator.work.queue import RetryError

from .companions import BESIDE, CONFIGMAPS, GROUP, GROUP_APIS, GROUPS, HOSTS, SECRET, SECRETS, runtime

CREATED = [("POST", path) for path in (objects.REVISIONS, SECRETS, CONFIGMAPS, GROUPS, objects.JOBSETS)]


@asynccontextmanager
async def scene(gang: str = "coscheduling", **spec: Any) -> AsyncIterator[Scene]:
    api = FakeApi()
    api.put(RUNTIME, runtime(gang))
    api.put(JOB, objects.trainjob(**spec))
    async with api.client() as client:
        found = Scene(api, client)
        found.see(RUNTIME)
        found.see(JOB)
        yield found


def restarted(old: Scene) -> Scene:
    """The next leader, which knows what its watches tell it and nothing else."""
    new = Scene(old.api, old.client)
    new.second = old.second + 2
    new.see(RUNTIME, None)
    new.see(JOB, None)
    if JOBSET in old.api.objects:
        new.see_jobset()
    return new


def secret_of(uid: str, **more: Any) -> dict[str, Any]:
    """The Secret of the TrainJob of this name with this uid."""
    return {"metadata": {**objects.jobset("tj", uid)["metadata"], "name": "tj-mpi-ssh-auth"}, **more}


def change(s: Scene, **spec: Any) -> None:
    """The user changes the TrainJob, and its event comes."""
    job = s.api.objects[JOB]
    s.api.put(JOB, {**job, "spec": {**job["spec"], **spec}})
    s.second += 2
    s.see(JOB, "MODIFIED")


def test_they_are_written_before_the_jobset_and_each_once() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            assert s.api.writes() == CREATED
            reads = [path for method, path in s.api.requests if method == "GET"]
            assert sorted(reads) == sorted(BESIDE)
            uid = s.api.objects[JOB]["metadata"]["uid"]
            for path in BESIDE:
                (owner,) = s.api.objects[path]["metadata"]["ownerReferences"]
                assert (owner["uid"], owner["controller"]) == (uid, True)
            secret = s.api.objects[SECRET]
            assert (secret["type"], secret["immutable"]) == ("kubernetes.io/ssh-auth", True)
            assert "(generated)" not in secret["data"].values()
            assert s.api.objects[HOSTS]["data"] == {"hostfile": "tj-node-0-0.tj slots=1\n"}
            assert s.api.objects[GROUP]["spec"]["minMember"] == 2
            s.report(ready=0)
            await s.settle()
            s.controller.everything()
            before = len(s.api.requests)
            await s.settle()
            assert s.api.requests[before:] == [], "a job that runs is not even looked at"

    run(test)


def test_no_secret_is_ever_read_whole() -> None:
    async def test() -> None:
        async with scene(suspend=True) as s:
            await s.settle()
            change(s, suspend=False)
            await s.settle()
            assert [request for request in s.api.whole if "/secrets" in request[1]] == []
            assert [request for request in s.api.writes() if "/secrets" in request[1]] == [("POST", SECRETS)]

    run(test)


def test_volcanos_group_is_of_its_own_api() -> None:
    async def test() -> None:
        async with scene("volcano") as s:
            await s.settle()
            path = f"{GROUP_APIS['volcano']}/namespaces/team/podgroups/tj"
            assert s.api.objects[path]["kind"] == "PodGroup"
            assert GROUP not in s.api.objects
            assert JOBSET in s.api.objects

    run(test)


def test_a_suspended_job_has_them_and_the_round_after_its_writes_asks_for_none() -> None:
    async def test() -> None:
        async with scene(suspend=True) as s:
            await s.settle()
            assert [write for write in s.api.writes() if write[0] == "POST"] == CREATED
            assert s.api.requests.count(("GET", SECRET)) == 1
            later = restarted(s)
            before = len(s.api.writes())
            await later.settle()
            assert s.api.requests.count(("GET", SECRET)) == 2
            assert s.api.writes()[before:] == []

    run(test)


@pytest.mark.parametrize("at", [objects.REVISIONS, SECRETS, CONFIGMAPS, GROUPS, objects.JOBSETS])
def test_wherever_it_crashed_the_next_leader_writes_what_is_missing_and_nothing_twice(at: str) -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("POST", at.rsplit("/", 1)[1], status(500, "InternalError"))
            with pytest.raises(RetryError):
                await s.controller.reconcile(await s.queue.get())
            done = len(s.api.writes())
            assert s.api.writes() == CREATED[:done], "nothing after what failed"
            secret = copy.deepcopy(s.api.objects.get(SECRET))
            next_leader = restarted(s)
            await next_leader.settle()
            again = s.api.writes()[done:]
            # The revision is asked for once more, and is there.
            assert [write for write in again if write[1] != objects.REVISIONS] == (
                [write for write in CREATED[done - 1 :] if write[1] != objects.REVISIONS]
            )
            assert secret in (None, s.api.objects[SECRET])

    run(test)


def test_what_changes_while_suspended_is_updated_before_the_jobset_and_the_key_is_not() -> None:
    async def test() -> None:
        async with scene(suspend=True) as s:
            await s.settle()
            secret = s.api.objects[SECRET]
            before = len(s.api.writes())
            change(s, suspend=False, trainer={"numNodes": 3})
            await s.settle()
            puts = [write for write in s.api.writes()[before:] if write[0] == "PUT"]
            assert puts == [("PUT", HOSTS), ("PUT", GROUP), ("PUT", JOBSET)]
            assert s.api.objects[HOSTS]["data"]["hostfile"].count("\n") == 3
            assert s.api.objects[GROUP]["spec"]["minMember"] == 4
            assert s.api.objects[SECRET] == secret

    run(test)


def test_one_that_was_deleted_while_suspended_is_there_again_when_the_job_is_resumed() -> None:
    async def test() -> None:
        async with scene(suspend=True) as s:
            await s.settle()
            s.api.remove(SECRET)
            change(s, suspend=False)
            await s.settle()
            assert SECRET in s.api.objects
            assert s.api.objects[JOBSET]["spec"]["suspend"] is False

    run(test)


@pytest.mark.parametrize("path", BESIDE)
@pytest.mark.parametrize("owners", [[], [{"kind": "App", "name": "tj", "uid": "a", "controller": True}]])
def test_a_strangers_is_never_touched_and_blocks(path: str, owners: list[dict[str, Any]]) -> None:
    async def test() -> None:
        async with scene() as s:
            foreign = s.api.put(path, {"metadata": {"ownerReferences": owners}, "data": {"a": "b"}})
            again = await s.settle()
            assert s.conditions() == {"Blocked": "JobSetConflict"}
            assert s.api.objects[path] == foreign
            assert JOBSET not in s.api.objects
            assert [write for write in s.api.writes() if "/trainjobs" not in write[1]] == [
                ("POST", objects.EVENTS)
            ]
            assert again is not None
            s.api.remove(path)
            s.second += again
            s.controller.touched(KEY)
            await s.settle()
            assert JOBSET in s.api.objects
            assert s.conditions() == {}

    run(test)


def test_one_of_the_trainjob_of_this_name_before_is_waited_for_without_a_word() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.put(SECRET, secret_of("the last one"))
            again = await s.settle()
            assert again is not None
            assert again < 10
            assert (s.conditions(), s.api.writes()) == ({}, [])
            s.api.remove(SECRET)
            s.controller.touched(KEY)
            await s.settle()
            assert JOBSET in s.api.objects

    run(test)


def test_one_that_comes_between_the_look_and_the_write_is_looked_at_again() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("POST", "/secrets", status(409, "AlreadyExists"))
            s.api.refuse_next("GET", SECRET, status(404, "NotFound", name="tj-mpi-ssh-auth"))
            uid = s.api.objects[JOB]["metadata"]["uid"]
            there = s.api.put(SECRET, secret_of(uid, data={"key": "the first"}))
            await s.settle()
            assert s.api.objects[SECRET] == there
            assert JOBSET in s.api.objects

    run(test)


@pytest.mark.parametrize("gang", GROUP_APIS)
def test_without_the_crd_of_its_gang_scheduler_a_job_is_blocked_with_its_name(gang: str) -> None:
    async def test() -> None:
        async with scene(gang) as s:
            s.api.missing.add(GROUP_APIS[gang])
            again = await s.settle()
            assert again is not None
            (condition,) = s.api.objects[JOB]["status"]["conditions"]
            group = GROUP_APIS[gang].split("/")[2]
            assert condition["reason"] == "CRDMissing"
            assert f"does not know podgroups.{group}; install " in condition["message"]
            written = [path for _, path in s.api.writes()]
            assert written == [f"{JOB}/status", objects.EVENTS], "nothing is built halfway"
            s.api.missing.clear()
            s.second += again
            s.controller.touched(KEY)
            await s.settle()
            assert JOBSET in s.api.objects
            assert s.conditions() == {}

    run(test)


def test_a_crd_that_goes_between_the_look_and_the_write_is_tried_again_later() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("POST", "/podgroups", status(404, "NotFound"))
            again = await s.settle()
            assert s.conditions() == {"Blocked": "CRDMissing"}
            posts = s.api.requests.count(("POST", GROUPS))
            s.second += 2
            s.controller.touched(KEY)
            await s.settle()
            assert s.api.requests.count(("POST", GROUPS)) == posts, "not on every event"
            assert again is not None
            s.second += again
            s.controller.touched(KEY)
            await s.settle()
            assert JOBSET in s.api.objects
            assert s.api.requests.count(("POST", SECRETS)) == 1

    run(test)


def test_without_the_right_to_look_a_job_is_blocked_and_says_so() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("GET", SECRET, status(403, "Forbidden", "secrets is forbidden: no right"))
            await s.settle()
            assert s.conditions() == {"Blocked": "Forbidden"}
            assert JOBSET not in s.api.objects

    run(test)


def test_an_overloaded_server_at_the_look_is_backoff_and_no_condition() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("GET", SECRET, status(429, "TooManyRequests"), {"Retry-After": "9"})
            with pytest.raises(RetryError) as caught:
                await s.controller.reconcile(await s.queue.get())
            assert caught.value.at_least == 9.0
            assert (s.conditions(), s.api.writes()) == ({}, [])

    run(test)


def test_where_the_cluster_strips_their_annotations_nothing_is_written_in_a_steady_state() -> None:
    async def test() -> None:
        async with scene(suspend=True) as s:
            s.api.stripped = {"jobsets", "podgroups", "configmaps", "secrets"}
            await s.settle()
            s.see_jobset()
            await s.settle()
            before = s.api.writes()
            for _ in range(5):
                s.second += 3600.0
                s.controller.everything()
                await s.settle()
            assert s.api.writes() == before
            change(s, suspend=False)
            await s.settle()
            assert s.api.objects[JOBSET]["spec"]["suspend"] is False

    run(test)


def completed(s: Scene) -> None:
    """JobSet's controller says that the JobSet has ended."""
    ended = {
        "type": "Completed",
        "status": "True",
        "reason": "AllJobsCompleted",
        "message": "jobset completed successfully",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    s.api.put(JOBSET, {**s.api.objects[JOBSET], "status": {"conditions": [ended]}})
    s.see_jobset()


def test_the_group_of_a_job_that_has_ended_goes_by_one_delete_and_is_never_looked_for_again() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            before = len(s.api.requests)
            completed(s)
            await s.settle()
            assert s.api.requests[before:] == [("GET", GROUP), ("DELETE", GROUP), ("PATCH", f"{JOB}/status")]
            assert (GROUP in s.api.objects, SECRET in s.api.objects) == (False, True)
            s.see(JOB, "MODIFIED")
            s.controller.everything()
            after = len(s.api.requests)
            await s.settle()
            assert s.api.requests[after:] == []

    run(test)


def test_a_job_ends_though_its_group_may_not_be_deleted() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.api.refuse_next("DELETE", GROUP, status(403, "Forbidden", "podgroups is forbidden: no right"))
            completed(s)
            await s.settle()
            (condition,) = s.api.objects[JOB]["status"]["conditions"]
            assert (condition["type"], GROUP in s.api.objects) == ("Complete", True)

    run(test)
