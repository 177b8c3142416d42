"""A TrainJob from its event to its JobSet and status, with the real core and an API server in memory."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.support import objects
from tests.support.controller_scene import JOB, JOBSET, KEY, RUNTIME, Scene, scene
from tests.support.fake_api import run, status
from trainyard_api import names
from trainyard_kube.resources import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES, TRAINJOBS
from trainyard_operator.core import model
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.decide.reconcile import RETRY_SECONDS
from trainyard_operator.core.decide.views import RuntimeKey, revision_of
from trainyard_operator.core.status.pod_readiness import Nodes
from trainyard_operator.watch.cache import Cache, Key
from trainyard_operator.watch.informer import State
from trainyard_operator.work.apply import Applier
from trainyard_operator.work.controller import SweptRuntimes, SweptTrainJobs
from trainyard_operator.work.memory import Memories, Memory
from trainyard_operator.work.queue import RetryError
from trainyard_operator.work.runtimes import (
    IN_USE,
    KEPT,
    UNREFERENCED,
    Collector,
    RevisionSink,
    Runtimes,
)

from . import companions

WORKLOAD = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads/jobset-tj"


def test_a_trainjob_becomes_a_jobset_of_its_own() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            owner = s.api.objects[JOBSET]["metadata"]["ownerReferences"][0]
            assert owner["uid"] == s.api.objects[JOB]["metadata"]["uid"]
            assert [path for _, path in s.api.writes()] == [objects.REVISIONS, objects.JOBSETS]

    run(test)


def test_nothing_is_written_once_everything_is_as_it_should_be() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            before = s.api.writes()
            s.see_jobset()
            s.controller.everything()
            await s.settle()
            assert s.api.writes() == before
            restarted = Scene(s.api, s.client)
            restarted.see(RUNTIME, None)
            restarted.see(JOB, None)
            restarted.see_jobset()
            await restarted.settle()
            assert s.api.writes() == before

    run(test)


def test_what_the_jobset_says_comes_back_on_the_trainjob() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            done = {
                "type": "Completed",
                "status": "True",
                "reason": "AllJobsCompleted",
                "message": "jobset completed successfully",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            s.api.put(JOBSET, {**s.api.objects[JOBSET], "status": {"conditions": [done]}})
            s.see_jobset()
            await s.settle()
            assert s.conditions() == {"Complete": "AllJobsCompleted"}

    run(test)


def test_a_job_without_its_runtime_is_blocked_until_the_runtime_comes() -> None:
    async def test() -> None:
        async with scene(with_runtime=False) as s:
            again = await s.settle()
            assert s.conditions() == {"Blocked": "RuntimeNotFound"}
            assert again is not None
            assert again <= 60
            s.second = 2.0
            s.api.put(RUNTIME, objects.runtime())
            s.see(RUNTIME)
            await s.settle()
            assert JOBSET in s.api.objects
            assert s.conditions() == {}

    run(test)


def test_a_runtime_that_was_created_just_before_its_job_is_not_called_missing() -> None:
    async def test() -> None:
        async with scene(with_runtime=False) as s:
            s.api.put(RUNTIME, objects.runtime())  # its event is still on the way
            await s.settle()
            assert JOBSET in s.api.objects
            assert s.conditions() == {}

    run(test)


@pytest.mark.parametrize(
    "name", ["../../other/trainingruntimes/rt", "..", ".", "rt/../rt", "rt?x=y", "rt#x", "%72t", "rt/status"]
)
def test_the_name_of_a_runtime_does_not_lead_anywhere_else(name: str) -> None:
    async def test() -> None:
        async with scene(with_runtime=False) as s:
            reference = {"name": name, "kind": "TrainingRuntime"}
            s.api.put(JOB, objects.trainjob(runtimeRef=reference))
            s.see(JOB)
            await s.settle()
            assert s.conditions() == {"Blocked": "RuntimeNotFound"}
            assert [path for _, path in s.api.requests if "runtimes" in path] == []

    run(test)


def test_a_job_whose_runtime_is_misspelt_is_told_the_nearest_name() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.put(JOB, objects.trainjob(runtimeRef={"name": "torch-distribted"}))
            nearest = f"{objects.RUNTIMES}/torch-distributed"
            s.api.put(nearest, objects.runtime("torch-distributed"))
            s.see(JOB)
            s.see(nearest)
            await s.settle()
            [blocked] = s.api.objects[JOB]["status"]["conditions"]
            assert blocked["message"] == (
                'ClusterTrainingRuntime "torch-distribted" is not found; did you mean torch-distributed?; '
                "create it, or create the TrainJob again with another runtimeRef"
            )

    run(test)


def test_a_refusal_becomes_a_condition_and_is_tried_again_within_a_minute() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("POST", "/jobsets", status(403, "Forbidden", "exceeded quota: gpus"))
            again = await s.settle()
            assert s.conditions() == {"Blocked": "QuotaExceeded"}
            assert again is not None
            assert again <= 60
            posts = s.api.requests.count(("POST", objects.JOBSETS))
            s.second = 5.0
            s.controller.touched(KEY)
            await s.settle()
            assert s.api.requests.count(("POST", objects.JOBSETS)) == posts, "not on every event"
            s.second = 5.0 + again
            s.controller.touched(KEY)
            await s.settle()
            assert JOBSET in s.api.objects
            assert s.conditions() == {}

    run(test)


def test_a_refusal_that_is_over_asks_for_no_more_looks() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("POST", "/jobsets", status(422, "Invalid", "no"))
            again = await s.settle()
            assert again is not None
            s.second = again
            s.controller.touched(KEY)
            await s.settle()
            s.report(ready=1)
            s.second += await s.settle() or 0.0
            s.controller.touched(KEY)
            assert await s.settle() is None

    run(test)


def test_a_refusal_is_logged_when_it_is_a_new_one(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with scene() as s:
            for message in ("no", "no", "neither"):
                s.api.refuse_next("POST", "/jobsets", status(422, "Invalid", message))
                s.controller.touched(KEY)
                s.second += await s.settle() or 0.0
        said = [record.getMessage() for record in caplog.records if "JobSetRejected" in record.getMessage()]
        assert said == [
            "team/tj: JobSetRejected: JobSet tj: no",
            "team/tj: JobSetRejected: JobSet tj: neither",
        ]

    run(test)


def test_a_refusal_is_forgotten_when_what_was_refused_changes() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("POST", "/jobsets", status(422, "Invalid", "no"))
            await s.settle()
            assert s.conditions() == {"Blocked": "JobSetRejected"}
            s.second = 2.0
            changed = {**s.api.objects[JOB], "spec": {**objects.trainjob()["spec"], "suspend": True}}
            s.api.put(JOB, changed)
            s.see(JOB, "MODIFIED")
            await s.settle()
            assert JOBSET in s.api.objects

    run(test)


def test_without_the_jobset_crd_jobs_say_so_until_it_is_there() -> None:
    async def test() -> None:
        async with scene() as s:
            s.controller.jobsets_changed(State.MISSING)
            await s.settle()
            assert s.conditions() == {"Blocked": "CRDMissing"}
            s.second = 2.0
            s.controller.jobsets_changed(State.SYNCED)
            await s.settle()
            assert JOBSET in s.api.objects
            assert s.conditions() == {}

    run(test)


@pytest.mark.parametrize(("code", "after"), [(429, 9.0), (500, 0.0), (503, 0.0)])
def test_an_overloaded_server_is_backoff_and_never_a_condition(code: int, after: float) -> None:
    async def test() -> None:
        async with scene() as s:
            headers = {"Retry-After": "9"} if code == 429 else {}
            s.api.refuse_next("POST", "/jobsets", status(code, "Any"), headers)
            with pytest.raises(RetryError) as caught:
                await s.controller.reconcile(await s.queue.get())
            assert caught.value.at_least == after
            assert s.conditions() == {}

    run(test)


def test_a_jobset_of_another_owner_blocks_and_is_left_alone() -> None:
    async def test() -> None:
        async with scene() as s:
            foreign = s.api.put(JOBSET, objects.jobset(owner="somebody else"))
            s.second = 60.0
            await s.settle()
            assert s.conditions() == {"Blocked": "JobSetConflict"}
            assert s.api.objects[JOBSET] == foreign

    run(test)


def test_what_a_jobset_of_another_owner_names_is_not_asked_for() -> None:
    async def test() -> None:
        async with scene() as s:
            foreign = objects.jobset(owner="somebody else")
            foreign["metadata"]["annotations"] = {names.RUNTIME_REVISION_ANNOTATION: "of-others"}
            s.api.put(JOBSET, foreign)
            s.see_jobset()
            s.second = 60.0
            await s.settle()
            assert s.conditions() == {"Blocked": "JobSetConflict"}
            assert ("GET", f"{objects.REVISIONS}/of-others") not in s.api.requests

    run(test)


def test_a_jobset_of_an_earlier_job_is_in_the_way_only_if_it_is_still_there() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.put(JOBSET, objects.jobset(owner="earlier"))
            s.see_jobset()
            s.api.remove(JOBSET)  # its event is still on the way
            await s.settle()
            (owner,) = s.api.objects[JOBSET]["metadata"]["ownerReferences"]
            assert owner["uid"] == s.api.objects[JOB]["metadata"]["uid"]
            assert [path for _, path in s.api.writes() if path.endswith("/status")] == []

    run(test)


def test_a_jobset_of_an_earlier_job_that_stays_is_asked_for_once() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.put(JOBSET, objects.jobset(owner="earlier"))
            s.see_jobset()
            for second, conditions in ((0, {}), (59, {}), (60, {"Blocked": "JobSetConflict"})):
                s.second = second
                await s.settle()
                assert s.conditions() == conditions
                s.queue.add(KEY)
            assert s.api.requests.count(("GET", JOBSET)) == 1

    run(test)


def test_counts_that_are_not_due_wait_and_the_last_ones_are_written_always() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            delays = []
            for ready in (0, 1, 2):
                s.report(ready=ready)
                delays.append(await s.settle())
                s.second += 0.1
            assert s.api.objects[JOB]["status"]["jobsStatus"][0]["ready"] == 0
            assert delays == [15.0, pytest.approx(2.0), pytest.approx(1.9)], (
                "its pods after 15 s, counts after 2"
            )
            s.second += 1.9
            s.controller.touched(KEY)
            await s.settle()
            assert s.api.objects[JOB]["status"]["jobsStatus"][0]["ready"] == 2

    run(test)


def test_a_write_is_followed_by_another_look_though_counts_wait() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=0)
            await s.settle()
            s.report(ready=1)
            s.api.objects[JOB]["spec"]["suspend"] = True
            s.api.put(JOB, s.api.objects[JOB])
            s.see(JOB, "MODIFIED")
            await s.settle()
            assert s.api.objects[JOBSET]["spec"]["suspend"] is True
            s.second += 1.0
            s.controller.touched(KEY)
            await s.settle()
            assert s.conditions() == {"Suspended": "Suspended"}
            assert s.api.objects[JOB]["status"]["jobsStatus"][0]["ready"] == 1

    run(test)


def test_an_object_that_cannot_be_read_is_noted_and_stops_no_other() -> None:
    async def test() -> None:
        async with scene() as s:
            bad = {**s.api.objects[JOB]["metadata"], "name": "bad", "creationTimestamp": "yesterday"}
            s.controller.seen("trainjobs", "ADDED", {"metadata": bad})
            s.controller.seen("trainjobs", "ADDED", {"metadata": None})
            assert ("trainjobs", Key("team", "bad")) in s.controller.unreadable
            await s.settle()
            assert JOBSET in s.api.objects

    run(test)


@pytest.mark.parametrize("spec", [{"runtimeRef": None}, {"trainer": [1]}, {"runtimePatches": {"a": 1}}, {}])
def test_a_hostile_trainjob_fails_nowhere_but_in_its_own_condition(spec: dict[str, Any]) -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.put(JOB, {**s.api.objects[JOB], "spec": spec or None})
            s.see(JOB, "MODIFIED")
            await s.settle()

    run(test)


def test_a_standby_queues_nothing() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.working = False
            s.controller.everything()
            assert s.queue.depth == 0

    run(test)


def test_a_deleted_trainjob_is_forgotten() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see(JOB, "DELETED")
            assert KEY not in s.cache.trainjobs
            assert await s.controller.reconcile(KEY) is None

    run(test)


def test_the_sweep_compares_lists_with_what_was_seen_readable_or_not() -> None:
    async def test() -> None:
        async with scene() as s:
            bad_job, bad_runtime = f"{objects.JOBS}/bad", f"{objects.RUNTIMES}/bad"
            for path in (bad_job, bad_runtime):
                s.api.put(path, {"spec": "what"})
                s.see(path, None)
            at = {path: int(body["metadata"]["resourceVersion"]) for path, body in s.api.objects.items()}
            jobs = SweptTrainJobs(s.cache, s.controller, TRAINJOBS)
            of_teams = SweptRuntimes(s.cache, s.controller, TRAINING_RUNTIMES)
            of_all = SweptRuntimes(s.cache, s.controller, CLUSTER_TRAINING_RUNTIMES)
            bad, rt, unread = jobs.key("team", "bad"), of_all.key(None, "rt"), of_all.key(None, "bad")
            assert jobs.versions() == {KEY: at[JOB], bad: at[bad_job]}
            assert of_all.versions() == {rt: at[RUNTIME], unread: at[bad_runtime]}
            assert of_teams.versions() == {}
            assert [jobs.version(key) for key in (KEY, bad)] == [at[JOB], at[bad_job]]
            assert jobs.version(Key("team", "none")) == -1
            assert [of_all.version(key) for key in (rt, unread)] == [at[RUNTIME], at[bad_runtime]]
            for swept, keys in ((jobs, (KEY, bad)), (of_all, (rt, unread))):
                for key in keys:
                    swept.vanished(key, "1000")
                assert swept.versions() == {}

    run(test)


def test_a_list_that_begins_anew_asks_for_a_sweep_for_it_tells_of_no_deletion() -> None:
    async def test() -> None:
        async with scene() as s:
            asked: list[str] = []
            s.controller.relisted = lambda: asked.append("sweep")
            s.see(JOB, "MODIFIED")
            assert asked == []
            s.see(JOB, None)
            assert asked == ["sweep"]

    run(test)


@pytest.mark.parametrize("told", ["by its event", "by a list without it"])
def test_nothing_is_built_from_a_runtime_that_is_deleted(told: str) -> None:
    async def test() -> None:
        async with scene() as s:
            if told == "by its event":
                s.see(RUNTIME, "DELETED")
            else:
                key = RuntimeKey("ClusterTrainingRuntime", None, "rt")
                s.controller.runtime_vanished("clustertrainingruntimes", key, "1000")
            s.api.remove(RUNTIME)
            await s.settle()
            assert s.conditions() == {"Blocked": "RuntimeNotFound"}
            assert JOBSET not in s.api.objects

    run(test)


def test_an_unreadable_runtime_that_is_gone_is_noted_no_more() -> None:
    async def test() -> None:
        async with scene() as s:
            key = RuntimeKey("ClusterTrainingRuntime", None, "bad")
            for gone in (
                lambda: s.controller.runtime_vanished("clustertrainingruntimes", key, "1000"),
                lambda: s.see(objects.RUNTIMES + "/bad", "DELETED"),
            ):
                bad = s.api.put(f"{objects.RUNTIMES}/bad", {"spec": "what"})
                s.see(f"{objects.RUNTIMES}/bad")
                version = int(bad["metadata"]["resourceVersion"])
                assert s.controller.unreadable == {("clustertrainingruntimes", key): version}
                s.api.put(f"{objects.RUNTIMES}/bad", objects.runtime("bad"))
                gone()
                assert s.controller.unreadable == {}

    run(test)


def test_the_event_of_a_runtime_looks_at_the_jobs_that_have_not_finished() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.api.put(RUNTIME, s.api.objects[RUNTIME])
            s.see(RUNTIME, "MODIFIED")
            assert s.queue.depth == 1
            await s.settle()
            finished = {"conditions": [{"type": "Failed", "status": "True", "reason": "x", "message": ""}]}
            s.api.put(JOB, {**s.api.objects[JOB], "status": finished})
            s.see(JOB, "MODIFIED")
            await s.settle()
            s.api.put(RUNTIME, s.api.objects[RUNTIME])
            s.see(RUNTIME, "MODIFIED")
            assert s.queue.depth == 0

    run(test)


def test_a_change_that_another_part_reads_first_is_carried_out_too() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            await s.settle()
            before = s.cache.trainjobs.get(KEY)
            assert before is not None
            job = s.api.objects[JOB]
            s.api.put(JOB, {**job, "spec": {**job["spec"], "suspend": True}})
            reporter = Applier(s.client, s.cache, namespace="trainyard-system")
            with pytest.raises(RetryError):  # a progress report was built on the version before
                await reporter.status(before, {"trainerStatus": {"progressPercentage": 1}})
            s.see(JOB, "MODIFIED")  # no news any more
            await s.settle()
            assert s.api.objects[JOBSET]["spec"]["suspend"] is True
            assert s.conditions() == {"Suspended": "Suspended"}

    run(test)


@pytest.mark.parametrize(
    ("refusals", "puts", "suspended_by_then"),
    [
        pytest.param(1, 3, True, id="of its other content"),
        pytest.param(2, 2, False, id="of any write, which is not sent again at once"),
    ],
)
def test_a_running_job_is_suspended_whatever_else_is_refused(
    refusals: int, puts: int, suspended_by_then: bool
) -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            await s.settle()
            ran = s.api.objects[JOBSET]["metadata"]["annotations"]["trainyard.dev/rendered"]
            job = s.api.objects[JOB]
            s.api.put(JOB, {**job, "spec": {**job["spec"], "suspend": True}})
            s.see(JOB, "MODIFIED")
            s.api.requests.clear()
            for _ in range(refusals):
                s.api.refuse_next("PUT", "/tj", status(422, "Invalid", "field is immutable"))
            await s.settle()
            assert [method for method, _ in s.api.requests].count("PUT") == puts
            assert s.api.objects[JOBSET]["spec"]["suspend"] is suspended_by_then
            assert s.conditions() == {"Suspended": "Suspended", "Blocked": "JobSetRejected"}

            s.second = 31.0
            s.controller.everything()
            await s.settle()
            assert s.api.objects[JOBSET]["spec"]["suspend"] is True
            assert s.api.objects[JOBSET]["metadata"]["annotations"]["trainyard.dev/ran-as"] == ran
            assert s.conditions() == {"Suspended": "Suspended"}

    run(test)


def test_a_runtime_that_admission_reads_first_unblocks_its_jobs() -> None:
    async def test() -> None:
        async with scene(with_runtime=False) as s:
            await s.settle()
            assert s.conditions() == {"Blocked": "RuntimeNotFound"}
            s.api.put(RUNTIME, objects.runtime())
            job = s.cache.trainjobs.get(KEY)
            assert job is not None
            admission = Runtimes(s.client, s.cache, namespace="trainyard-system", memories=Memories(Cache()))
            await admission.choose(job, None)
            s.see(RUNTIME)  # no news any more
            s.second += 1
            await s.settle()
            assert s.conditions() == {}
            assert JOBSET in s.api.objects

    run(test)


def test_each_status_says_in_a_word_where_the_trainjob_stands() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=0)
            await s.settle()
            assert s.api.objects[JOB]["status"]["trainyard"] == {"state": "Starting", "nodes": "0/1"}
            s.second += 60.0
            s.report(ready=1)
            await s.settle()
            s.second += 60.0
            s.controller.everything()
            await s.settle()
            assert s.api.objects[JOB]["status"]["trainyard"] == {"state": "Running", "nodes": "1/1"}

    run(test)


PODS = "/api/v1/namespaces/team/pods"


def pod(s: Scene, name: str, **conditions: dict[str, str]) -> None:
    """The API server has this pod of the job."""
    labels = {
        "jobset.sigs.k8s.io/jobset-uid": s.api.objects[JOBSET]["metadata"]["uid"],
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
    }
    said = [{"type": kind, **condition} for kind, condition in conditions.items()]
    s.api.put(f"{PODS}/{name}", {"metadata": {"labels": labels}, "status": {"conditions": said}})


NO_ROOM = {
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available",
    "lastTransitionTime": "2026-01-01T00:00:01Z",
}


async def later(s: Scene, seconds: float) -> float | None:
    s.second += seconds
    s.controller.everything()
    return await s.settle()


def test_while_a_job_starts_its_pods_are_looked_at_now_and_then_and_never_once_it_runs() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.api.objects[JOBSET]["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] = 2
            s.report(ready=0)
            assert await s.settle() == 15.0
            pod(s, "a", Ready={"status": "True"}, PodScheduled={"status": "True"})
            pod(s, "b", PodScheduled=NO_ROOM)
            assert await later(s, 10) == 5.0
            assert ("GET", PODS) not in s.api.requests
            await later(s, 5)
            await later(s, 2)
            assert s.api.objects[JOB]["status"]["trainyard"] == {"state": "Starting", "nodes": "1/2"}
            assert s.api.requests.count(("GET", PODS)) == 1
            await later(s, 13)
            await later(s, 16)
            assert s.api.objects[JOB]["status"]["trainyard"] == {"state": "Unschedulable", "nodes": "1/2"}
            told = [one["message"] for path, one in s.api.objects.items() if "/events/" in path]
            assert told == ["Pod b fits no node: 0/1 nodes are available"]
            s.report(ready=1)
            await s.settle()
            await later(s, 60)
            assert s.api.objects[JOB]["status"]["trainyard"] == {"state": "Running", "nodes": "2/2"}
            looks = s.api.requests.count(("GET", PODS))
            assert await later(s, 600) is None
            assert (looks, s.api.requests.count(("GET", PODS))) == (3, 3)

    run(test)


@pytest.mark.parametrize("deleted", [{}, {"deletionTimestamp": "2026-01-01T00:05:00Z"}])
@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({"Ready": {"status": "False"}, "ContainersReady": {"status": "True"}}, "NodeLost"),
        ({"Ready": {"status": "False"}, "ContainersReady": {"status": "False"}}, "Starting"),
        ({"Ready": {"status": "False"}}, "Starting"),
        (
            {
                "Ready": {"status": "False", "reason": "ReadinessGatesNotReady"},
                "ContainersReady": {"status": "True"},
            },
            "Starting",
        ),
    ],
)
def test_a_job_that_has_run_says_that_its_node_is_lost_once_a_look_at_its_pods_shows_it(
    conditions: dict[str, dict[str, str]], state: str, deleted: dict[str, str]
) -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=1)
            await s.settle()
            s.report(ready=0)
            pod(s, "a", **conditions)
            s.api.objects[f"{PODS}/a"]["metadata"] |= deleted
            await s.settle()
            await later(s, 15)
            assert s.api.objects[JOB]["status"]["trainyard"] == {"state": state, "nodes": "0/1"}

    run(test)


def test_a_new_attempt_is_a_new_start_and_pods_that_cannot_be_seen_hold_nothing_up() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=0)
            await s.settle()
            s.api.refuse_next("GET", "/pods", status(403, "Forbidden"))
            assert await later(s, 15) == 15.0
            assert s.api.objects[JOB]["status"]["trainyard"] == {"state": "Starting", "nodes": "0/1"}
            again = {**s.api.objects[JOBSET], "status": {**s.api.objects[JOBSET]["status"], "restarts": 1}}
            s.api.put(JOBSET, again)
            s.see_jobset()
            assert await later(s, 10) == 15.0
            assert s.api.requests.count(("GET", PODS)) == 1

    run(test)


def waiting_pod(s: Scene, name: str, reason: str, message: str = "") -> None:
    """The API server has a pod of the job whose container waits on its node."""
    pod(s, name, PodScheduled={"status": "True"})
    found = s.api.objects[f"{PODS}/{name}"]
    waits = {"state": {"waiting": {"reason": reason, "message": message}}}
    s.api.put(f"{PODS}/{name}", {**found, "status": {**found["status"], "containerStatuses": [waits]}})


def blocked(s: Scene) -> tuple[str, str] | None:
    """Reason and message of `Blocked`."""
    found = [c for c in s.api.objects[JOB]["status"].get("conditions", ()) if c["type"] == "Blocked"]
    return (found[0]["reason"], found[0]["message"]) if found else None


def test_a_job_that_starts_says_which_image_it_waits_for_until_its_pods_run() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=0)
            await s.settle()
            waiting_pod(s, "a", "ErrImagePull", "i:1 is not found")
            await later(s, 15)
            step = "correct the image, or give the pods a pull secret for its registry"
            told = ("ImageNotPulled", f"pod a: ErrImagePull: i:1 is not found; {step}")
            assert blocked(s) == told
            assert s.api.objects[JOB]["status"]["trainyard"]["state"] == "Starting"
            waiting_pod(s, "a", "ImagePullBackOff", "Back-off pulling image")
            await later(s, 10)
            assert blocked(s) == told, "the kubelet tries again, and words it differently"
            s.memories.forget(KEY)
            await later(s, 10)
            assert blocked(s) == told, "a new leader has not looked yet"
            pod(s, "a", Ready={"status": "True"}, PodScheduled={"status": "True"})
            await later(s, 15)
            assert blocked(s) is None
            state = {"state": "Running", "nodes": "1/1"}
            assert s.api.objects[JOB]["status"]["trainyard"] == state, "though JobSet has not counted it"

    run(test)


def test_a_job_whose_deadline_passes_while_its_pods_are_read_ends_at_the_next_look_without_its_gang() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.put(RUNTIME, companions.runtime())
            s.see(RUNTIME, "MODIFIED")
            s.api.put(JOB, objects.trainjob(activeDeadlineSeconds=100))
            s.see(JOB, "MODIFIED")
            await s.settle()
            s.report(ready=0)
            await s.settle()
            waiting_pod(s, "a", "ErrImagePull", "i:1 is not found")

            def passes(request: web.Request) -> bool:
                s.second = max(s.second, 101.0 if request.path == PODS else 0.0)
                return True

            s.api.accepts = passes
            before = len(s.api.writes())
            await later(s, 90)
            group, job = ("DELETE", companions.GROUP), ("PATCH", f"{JOB}/status")
            assert s.api.writes()[before:][:2] == [group, job]
            assert s.conditions() == {"Failed": "DeadlineExceeded"}

    run(test)


def test_a_job_that_starts_says_which_volume_it_waits_for_as_only_events_tell() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=0)
            await s.settle()
            waiting_pod(s, "a", "ContainerCreating")
            events = "/api/v1/namespaces/team/events"
            about = {"uid": s.api.objects[f"{PODS}/a"]["metadata"]["uid"]}
            for name, at, said in (("old", 1, "SuccessfulAttachVolume"), ("new", 2, "FailedMount")):
                last = f"2026-01-01T00:00:0{at}Z"
                event = {"involvedObject": about, "reason": said, "message": said, "lastTimestamp": last}
                s.api.put(f"{events}/{name}", event)
            await later(s, 15)
            assert blocked(s) == (
                "VolumeNotMounted",
                "pod a: FailedMount: FailedMount; "
                "correct the volume that the message names, or have the platform team check the storage",
            )
            pulling = {"involvedObject": about, "reason": "Pulling", "lastTimestamp": "2026-01-01T00:00:20Z"}
            s.api.put(f"{events}/new", pulling)
            await later(s, 10)
            assert blocked(s) is None
            asked = s.api.requests.count(("GET", events))
            await later(s, 60)
            assert s.api.requests.count(("GET", events)) == asked, "a long pull costs none"

    run(test)


def test_a_job_whose_pods_change_is_looked_at_after_ten_seconds_and_ever_later_while_they_do_not() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=0)
            await s.settle()
            pod(s, "a")
            waits = [await later(s, seconds) for seconds in (15, 10, 30)]
            assert waits == [10.0, 30.0, 60.0]
            waiting_pod(s, "a", "ErrImagePull")
            assert await later(s, 60) == 10.0

    run(test)


def test_other_words_of_the_scheduler_or_the_kubelet_bring_no_look_forward() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=0)
            await s.settle()
            pod(s, "a", PodScheduled=NO_ROOM)
            await later(s, 35)
            waits = []
            for number, seconds in enumerate((10, 30, 60), start=2):
                pod(s, "a", PodScheduled={**NO_ROOM, "message": f"0/{number} nodes are available"})
                waits.append(await later(s, seconds))
            assert waits == [30.0, 60.0, 120.0]
            job = s.cache.trainjobs.get(KEY)
            assert job is not None
            assert s.memories.of(job).seen == Nodes(0, "pod a fits no node: 0/4 nodes are available")
            s.api.requests.clear()
            looks = []
            for message, seconds in (
                ("Back-off", 120),
                ("not found", 10),
                ("Back-off", 30),
                ("", 30),
                ("", 30),
            ):
                waiting_pod(s, "a", "ErrImagePull", message)
                await later(s, seconds)
                looks.append(s.api.requests.count(("GET", PODS)))
            assert looks == [1, 2, 3, 3, 4]

    run(test)


def test_the_word_is_written_to_jobs_that_other_versions_have_left_without_one() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            ended = {"conditions": [{"type": "Complete", "status": "True"}]}
            s.api.put(JOB, {**s.api.objects[JOB], "status": ended})
            s.see(JOB, "MODIFIED")
            await s.settle()
            assert s.api.objects[JOB]["status"] == {**ended, "trainyard": {"state": "Complete"}}
            written = s.api.writes()
            s.controller.everything()
            await s.settle()
            assert s.api.writes() == written

    run(test)


def test_where_the_crd_has_no_place_for_the_word_it_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream's CRD: the API server drops what its schema does not know."""

    async def test() -> None:
        async with scene() as s:
            put = s.api.put

            def pruned(path: str, manifest: dict[str, Any]) -> dict[str, Any]:
                kept = {k: v for k, v in manifest.get("status", {}).items() if k != names.STATUS_FIELD}
                return put(path, {**manifest, "status": kept} if "status" in manifest else manifest)

            monkeypatch.setattr(s.api, "put", pruned)
            await s.settle()
            s.report(ready=0)
            await s.settle()
            assert list(s.api.objects[JOB]["status"]) == ["jobsStatus"]
            written = s.api.writes()
            s.controller.everything()
            await s.settle()
            assert s.api.writes() == written

    run(test)


def test_where_the_crd_refuses_a_status_of_nothing_but_the_word_the_word_is_tried_once() -> None:
    async def test() -> None:
        async with scene() as s:
            s.settings = replace(s.settings, queue_holds_jobset=True)
            job = s.api.objects[JOB]
            s.api.put(JOB, {**job, "metadata": {**job["metadata"], "labels": {names.QUEUE_LABEL: "default"}}})
            s.see(JOB, "MODIFIED")
            refusal = status(
                422, "Invalid", "status: Invalid value: 0: in body should have at least 1 properties"
            )
            s.api.refuse_next("PATCH", "/status", refusal)
            await s.settle()
            s.see_jobset()
            s.controller.everything()
            await s.settle()
            assert "status" not in s.api.objects[JOB]
            s.report(ready=0)
            await s.settle()
            # Whether the CRD has a place for another part is not known yet.
            assert s.api.objects[JOB]["status"]["trainyard"] == {"nodes": "0/1"}

    run(test)


def fails(s: Scene, name: str, *, attempt: int, at: int, message: str = "") -> None:
    """The API server tells that a pod of the job has failed."""
    jobset = s.api.objects[JOBSET]["metadata"]
    labels = {
        "jobset.sigs.k8s.io/jobset-name": jobset["name"],
        "jobset.sigs.k8s.io/jobset-uid": jobset["uid"],
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
    }
    stamp = f"2026-01-01T00:00:{at:02}Z"
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": stamp, "message": message or f"{name} broke"}
    pod = {
        "metadata": {"name": name, "namespace": "team", "labels": labels, "creationTimestamp": stamp},
        "spec": {"nodeName": "n1"},
        "status": {"containerStatuses": [{"name": "node", "state": {"terminated": ended}}]},
    }
    s.pod_ends.upsert(*s.pod_ends.decode(msgspec.json.encode(pod)))


FAILED = {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": "failed jobs: [tj-node-0]"}


def test_a_failed_trainjob_says_how_each_attempt_failed_and_each_of_them_is_an_event() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=1)
            await s.settle()
            fails(s, "later", attempt=0, at=7)
            await s.settle()
            fails(s, "first", attempt=0, at=5)
            await s.settle()
            assert "attempts" not in s.api.objects[JOB]["status"]["trainyard"], "another may prove the first"
            s.second += 60.0
            s.controller.everything()
            await s.settle()
            [attempt] = s.api.objects[JOB]["status"]["trainyard"]["attempts"]
            assert (attempt["pod"], attempt["message"]) == ("first", "first broke")
            fails(s, "second", attempt=1, at=30)
            ended = {**FAILED, "lastTransitionTime": "2026-01-01T00:00:31Z"}
            s.api.put(JOBSET, {**s.api.objects[JOBSET], "status": {"conditions": [ended]}})
            s.see_jobset()
            await s.settle()
            status = s.api.objects[JOB]["status"]
            assert [one["pod"] for one in status["trainyard"]["attempts"]] == ["first", "second"]
            assert status["trainyard"]["state"] == "Failed"
            [failed] = status["conditions"]
            assert failed["message"] == (
                "failed jobs: [tj-node-0]. In attempt 2 node 0 failed first: exit code 1, "
                "container node of pod second on node n1: second broke"
            )
            events = [one for path, one in s.api.objects.items() if "/events/" in path]
            assert sorted((one["reason"], one["message"][:10]) for one in events) == [
                ("AttemptFailed", "Attempt 1:"),
                ("AttemptFailed", "Attempt 2:"),
            ]
            written = s.api.writes()
            s.see(JOB, "MODIFIED")
            s.controller.everything()
            await s.settle()
            assert (s.api.writes(), len(s.pod_ends)) == (written, 0)

    run(test)


def test_what_fails_after_somebody_has_deleted_the_jobset_is_told_like_what_failed_before() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.report(ready=1)
            fails(s, "old", attempt=0, at=5)
            fails(s, "older", attempt=1, at=6)
            for s.second in (7.0, 20.0):
                s.report(ready=1)
                s.controller.everything()
                await s.settle()
            s.api.remove(JOBSET)
            s.cache.jobsets.remove(KEY)
            s.controller.everything()
            await s.settle()
            metadata = {**s.api.objects[JOBSET]["metadata"], "creationTimestamp": "2026-01-01T00:00:30Z"}
            s.api.put(JOBSET, {**s.api.objects[JOBSET], "metadata": metadata})
            s.report(ready=1)
            await s.settle()
            fails(s, "new", attempt=0, at=40)
            for s.second in (60.0, 80.0):
                s.controller.everything()
                await s.settle()
            [attempt] = s.api.objects[JOB]["status"]["trainyard"]["attempts"]
            assert (attempt["attempt"], attempt["pod"]) == (1, "new")
            told = [body["message"] for path, body in s.api.objects.items() if "/events/" in path]
            assert sorted(message.rpartition(": ")[2] for message in told) == [
                "new broke",
                "old broke",
                "older broke",
            ]
            written = s.api.writes()
            s.controller.everything()
            await s.settle()
            assert s.api.writes() == written

    run(test)


def test_a_job_that_fails_twice_alike_is_stopped_before_it_is_tried_a_third_time() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            for attempt, second in enumerate((5, 10)):
                fails(s, f"tj-node-0-0-abcd{attempt}", attempt=attempt, at=second, message="broke")
                s.second = float(second)
                s.api.put(JOBSET, {**s.api.objects[JOBSET], "status": {"restarts": attempt + 1}})
                s.see_jobset()
                again = await s.settle()
            assert again == 0.0
            s.controller.everything()
            await s.settle()
            [failed] = s.api.objects[JOB]["status"]["conditions"]
            assert (failed["type"], failed["reason"]) == ("Failed", "SameFailureTwice")
            assert s.api.objects[JOBSET]["spec"]["suspend"] is True
            assert "SameFailureTwice" in {
                o["reason"] for path, o in s.api.objects.items() if "/events/" in path
            }
            written = s.api.writes()
            s.see_jobset()
            s.controller.everything()
            await s.settle()
            assert s.api.writes() == written

    run(test)


def test_a_status_that_we_wrote_wakes_nobody() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            job = s.cache.trainjobs.get(KEY)
            assert job is not None
            applier = Applier(s.client, s.cache, namespace="trainyard-system")
            await applier.status(job, {"trainerStatus": {"progressPercentage": 1}})
            s.see(JOB, "MODIFIED")
            assert s.queue.depth == 0

    run(test)


def test_a_revision_is_collected_a_day_after_its_last_jobset_and_not_before() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            (revision,) = s.cache.revisions
            s.second = 2 * UNREFERENCED
            assert await collector.collect() == 0, "a JobSet names it"
            s.cache.jobsets.remove(KEY)
            assert await collector.collect() == 0
            s.second += UNREFERENCED - 1
            assert await collector.collect() == 0
            s.second += 1
            assert await collector.collect() == 1
            assert f"{objects.REVISIONS}/{revision}" not in s.api.objects
            assert s.api.bodies[-1]["preconditions"].keys() == {"uid", "resourceVersion"}

    run(test)


def test_a_replica_that_leads_no_more_or_sees_a_new_jobset_in_the_middle_of_a_round_collects_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            (revision,) = s.cache.revisions.values()
            seen = s.cache.jobsets.get(KEY)
            assert seen is not None
            leads = [False]
            collector = Collector(
                s.client,
                s.cache,
                namespace="trainyard-system",
                working=lambda: leads[0],
                clock=s.clock,
                now=s.now,
            )
            s.cache.jobsets.remove(KEY)
            s.second = 2 * UNREFERENCED
            before = s.api.writes()
            with monkeypatch.context() as standby:
                standby.delattr(Collector, "_surplus")  # a standby does not even look
                assert await collector.collect() == 0
            turns = iter((True, False))
            deposed = Collector(
                s.client,
                s.cache,
                namespace="trainyard-system",
                working=lambda: next(turns),
                clock=s.clock,
                now=s.now,
            )
            assert await deposed.collect() == 0
            leads[0] = True
            s.cache.jobsets.observe(KEY, seen)
            assert await collector._delete(revision) == 0
            assert s.api.writes() == before

    run(test)


def test_a_revision_that_was_used_within_a_day_counts_as_named() -> None:
    async def test() -> None:
        async with scene() as s:
            s.second = 0.6 * UNREFERENCED
            await s.settle()
            s.cache.jobsets.remove(KEY)
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            for day, is_noted in ((1.2, False), (1.6, True)):
                s.second = day * UNREFERENCED
                await collector.collect()
                (revision,) = s.cache.revisions.values()
                assert (revision.unreferenced_since is not None) is is_noted

    run(test)


def test_a_revision_that_cannot_be_marked_is_tried_once_and_collected_after_a_day_of_this_leader() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            s.second = 2 * UNREFERENCED
            s.cache.jobsets.remove(KEY)
            s.api.refuse_next("PATCH", objects.REVISIONS, status(422, "Invalid", "data: field is immutable"))
            for seconds, collected in ((0, 0), (UNREFERENCED - 1, 0), (1, 1)):
                s.second += seconds
                assert await collector.collect() == collected
            assert len([path for method, path in s.api.requests if method == "PATCH"]) == 1

    run(test)


def test_a_list_of_revisions_is_what_there_is_of_them() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            (stored,) = (body for path, body in s.api.objects.items() if path.startswith(objects.REVISIONS))
            cache = Cache()
            sink = RevisionSink(cache)
            name, revision = sink.decode(msgspec.json.encode(stored))
            key = sink.key("trainyard-system", name)
            sink.replace({key: revision}, 1000)
            assert list(cache.revisions.values()) == [revision]
            sink.replace({}, 1001)
            assert list(cache.revisions) == []

    run(test)


def test_the_content_of_a_revision_that_is_not_kept_is_read_again_once() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            (name,) = s.cache.revisions
            (job,), (seen,) = s.cache.trainjobs.values(), s.cache.jobsets.values()
            runtimes = Runtimes(
                s.client, s.cache, namespace="trainyard-system", memories=Memories(s.cache), clock=s.clock
            )
            before = (await runtimes.choose(job, seen.jobset)).runtime
            reads = ("GET", f"{objects.REVISIONS}/{name}")
            assert s.api.requests.count(reads) == 0
            s.cache.contents.forget(name)
            for _ in range(2):
                again = (await runtimes.choose(job, seen.jobset)).runtime
                assert isinstance(again, model.Runtime)
                assert isinstance(before, model.Runtime)
                assert (again, dict(again.spec)) == (before, dict(before.spec))
            assert s.api.requests.count(reads) == 1
            s.cache.contents.forget(name)
            s.api.remove(f"{objects.REVISIONS}/{name}", silently=True)
            gone = await runtimes.choose(job, seen.jobset)
            assert (isinstance(gone.runtime, model.Runtime), name in s.cache.revisions) == (True, False)

    run(test)


def test_the_day_after_which_a_revision_is_collected_goes_on_under_another_leader() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.second = 2 * UNREFERENCED
            s.cache.jobsets.remove(KEY)
            (name,) = s.cache.revisions

            async def collect() -> int:
                """As a replica does that has just begun to lead."""
                s.cache.revisions_used.clear()
                return await Collector(s.client, s.cache, namespace="trainyard-system", now=s.now).collect()

            for _ in range(3):
                s.second += UNREFERENCED / 4
                assert await collect() == 0
            assert s.api.requests.count(("PATCH", f"{objects.REVISIONS}/{name}")) == 1
            s.second += UNREFERENCED / 2
            assert await collect() == 1

    run(test)


def test_a_revision_that_is_named_again_has_a_whole_day_when_it_is_not_any_more() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.second = 2 * UNREFERENCED
            seen = s.cache.jobsets.get(KEY)
            assert seen is not None
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            s.cache.jobsets.remove(KEY)
            await collector.collect()
            s.cache.jobsets.observe(KEY, seen)
            for _ in range(3):
                s.second += UNREFERENCED
                assert await collector.collect() == 0
            (revision,) = s.cache.revisions.values()
            assert revision.unreferenced_since is None
            assert len([path for method, path in s.api.writes() if method == "PATCH"]) == 2
            s.cache.jobsets.remove(KEY)
            assert await collector.collect() == 0
            s.second += UNREFERENCED - 1
            assert await collector.collect() == 0

    run(test)


def edited(s: Scene, times: int, *, uid: str) -> list[str]:
    """Revisions of a runtime that was edited each minute, the oldest first; no JobSet names them."""
    found = []
    for number in range(times):
        s.second += 60
        edition = objects.runtime()
        edition["spec"]["mlPolicy"]["numNodes"] = number + 2
        edition["metadata"]["uid"] = uid
        manifest = revisions.manifest_of(revisions.live(edition), "trainyard-system")
        created = {**manifest["metadata"], "creationTimestamp": s.now().isoformat()}
        path = f"{objects.REVISIONS}/{created['name']}"
        stored = json.dumps(s.api.put(path, {**manifest, "metadata": created}))
        s.cache.revisions.observe(created["name"], revision_of(json.loads(stored)))
        found.append(created["name"])
    return found


def test_of_a_runtimes_unreferenced_revisions_the_newest_twenty_are_kept_and_what_is_named_always() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            (named,) = s.cache.revisions
            runtime = s.api.objects[RUNTIME]["metadata"]["uid"]
            made = edited(s, KEPT + 5, uid=runtime)
            s.second += IN_USE
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            assert await collector.collect() == 5
            assert set(s.cache.revisions) == {named, *made[5:]}
            assert await collector.collect() == 0

    run(test)


def test_what_is_left_of_runtimes_that_are_gone_takes_no_place_of_the_live_ones() -> None:
    async def test() -> None:
        async with scene() as s:
            edited(s, KEPT, uid=s.api.objects[RUNTIME]["metadata"]["uid"])
            edited(s, KEPT, uid="gone")
            s.second += IN_USE
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            assert await collector.collect() == 0

    run(test)


def test_a_runtime_that_is_made_anew_again_and_again_keeps_no_more_revisions() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            (named,) = s.cache.revisions
            made = [name for number in range(KEPT + 5) for name in edited(s, 1, uid=f"made-anew-{number}")]
            s.second += IN_USE
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            assert await collector.collect() == 5
            assert set(s.cache.revisions) == {named, *made[5:]}

    run(test)


def test_a_revision_whose_jobset_may_be_on_its_way_is_not_collected_though_there_are_newer_ones() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            seen = s.cache.jobsets.get(KEY)
            assert seen is not None
            (chosen,) = s.cache.revisions
            s.cache.jobsets.remove(KEY)
            edited(s, KEPT, uid=s.api.objects[RUNTIME]["metadata"]["uid"])
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            s.cache.revisions_used[chosen] = s.clock() - IN_USE + 1
            assert await collector.collect() == 0
            s.second += 1
            assert await collector.collect() == 1
            assert chosen not in s.cache.revisions

    run(test)


def test_a_revision_that_is_chosen_while_another_one_is_collected_stays() -> None:
    async def test() -> None:
        async with scene() as s:
            made = edited(s, 2, uid=s.api.objects[RUNTIME]["metadata"]["uid"])
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            assert await collector.collect() == 0
            s.second += UNREFERENCED

            def chooses_the_last(request: web.Request) -> bool:
                if request.method == "DELETE":
                    s.cache.revisions_used[made[1]] = s.clock()
                return True

            s.api.accepts = chooses_the_last
            assert await collector.collect() == 1
            assert list(s.cache.revisions) == made[1:]
            assert [path for path in s.api.objects if path.startswith(objects.REVISIONS)] == [
                f"{objects.REVISIONS}/{made[1]}"
            ]

    run(test)


def test_a_revision_that_is_chosen_while_it_is_collected_is_recorded_anew() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            (revision,) = s.cache.revisions
            s.api.remove(JOBSET)
            s.api.remove(JOB)
            s.cache.jobsets.remove(KEY)
            s.cache.trainjobs.remove(KEY)
            collector = Collector(s.client, s.cache, namespace="trainyard-system", clock=s.clock, now=s.now)
            assert await collector.collect() == 0
            s.second += UNREFERENCED
            assert await collector.collect() == 0
            s.second += UNREFERENCED
            looks: list[asyncio.Task[float | None]] = []

            def brings_a_job(request: web.Request) -> bool:
                if request.method == "DELETE":
                    s.api.put(JOB, objects.trainjob())
                    s.see(JOB)
                    looks.append(asyncio.get_running_loop().create_task(s.settle()))
                return True

            s.api.accepts = brings_a_job
            assert await collector.collect() == 1
            await asyncio.gather(*looks)
            noted = s.api.objects[JOBSET]["metadata"]["annotations"]
            assert noted[names.RUNTIME_REVISION_ANNOTATION] == revision
            assert f"{objects.REVISIONS}/{revision}" in s.api.objects

    run(test)


def edited_by_others(s: Scene, **spec: Any) -> None:
    """Somebody changes the suspended JobSet itself, and its event comes."""
    jobset = s.api.objects[JOBSET]
    generation = jobset["metadata"].get("generation", 1) + 1
    metadata = {**jobset["metadata"], "generation": generation}
    s.api.put(JOBSET, {**jobset, "metadata": metadata, "spec": {**jobset["spec"], **spec}})
    s.see_jobset()


@asynccontextmanager
async def suspended(*, stripped: bool = False) -> AsyncIterator[Scene]:
    """A TrainJob that waits, with its JobSet and its first status."""
    async with scene() as s:
        s.api.stripped = {"jobsets"} if stripped else set()
        s.api.put(JOB, objects.trainjob(suspend=True))
        s.see(JOB, "MODIFIED")
        await s.settle()
        s.see_jobset()
        await s.settle()
        yield s


def test_what_others_change_in_a_suspended_jobset_is_put_right_on_the_next_look() -> None:
    async def test() -> None:
        async with suspended() as s:
            wanted = s.api.objects[JOBSET]["spec"]
            (job,) = wanted["replicatedJobs"]
            pod = {"containers": [{"name": "node", "image": "theirs"}]}
            template = {**job["template"], "spec": {**job["template"]["spec"], "template": {"spec": pod}}}
            edited_by_others(s, replicatedJobs=[{**job, "template": template}])
            await s.settle()
            assert s.api.objects[JOBSET]["spec"] == wanted

    run(test)


def test_an_edit_that_changes_nothing_that_is_wanted_is_read_once_and_not_written_over() -> None:
    async def test() -> None:
        async with suspended() as s:
            before = s.api.writes()
            edited_by_others(s, network={"enableDNSHostnames": True})  # such as a default of JobSet's
            await s.settle()
            s.controller.everything()
            await s.settle()
            assert s.api.writes() == before
            assert s.api.requests.count(("GET", JOBSET)) == 1

    run(test)


def test_what_others_changed_while_nobody_led_is_put_right_after_a_restart() -> None:
    async def test() -> None:
        async with suspended() as s:
            wanted = s.api.objects[JOBSET]["spec"]
            edited_by_others(s, replicatedJobs=[])
            restarted = Scene(s.api, s.client)
            restarted.see(RUNTIME, None)
            restarted.see(JOB, None)
            restarted.see_jobset()
            await restarted.settle()
            assert s.api.objects[JOBSET]["spec"] == wanted

    run(test)


FINISHED = {
    "status": {
        "conditions": [
            {
                "type": "Complete",
                "status": "True",
                "reason": "AllJobsCompleted",
                "message": "jobset completed successfully",
                "lastTransitionTime": "2026-01-01T11:00:00Z",
            }
        ],
        "trainyard": {"state": "Complete"},
    }
}


def test_a_new_leader_that_is_shown_a_job_as_it_was_before_its_end_does_not_run_it_again() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.put(JOB, {**s.api.objects[JOB], **FINISHED})
            s.controller.since = int(s.api.objects[JOB]["metadata"]["resourceVersion"])
            await s.settle()
            assert s.api.writes() == []
            assert s.conditions() == {"Complete": "AllJobsCompleted"}

    run(test)


def test_a_new_leader_that_is_shown_a_job_that_is_no_more_makes_nothing_for_it() -> None:
    async def test() -> None:
        async with scene() as s:
            s.controller.since = int(s.api.objects[JOB]["metadata"]["resourceVersion"])
            s.api.remove(JOB, silently=True)
            await s.settle()
            assert s.api.writes() == []

    run(test)


@pytest.mark.parametrize(("newer", "asked"), [(False, 1), (True, 0)])
def test_a_job_from_before_a_leaders_time_is_asked_for_once_and_a_new_one_never(
    newer: bool, asked: int
) -> None:
    async def test() -> None:
        async with scene() as s:
            s.controller.since = int(s.api.objects[JOB]["metadata"]["resourceVersion"]) - newer
            await s.settle()
            assert JOBSET in s.api.objects
            assert s.api.requests.count(("GET", JOB)) == asked

    run(test)


def test_one_that_stood_still_past_its_lease_writes_nothing_more() -> None:
    async def test() -> None:
        async with scene() as s:
            s.leading = False
            with pytest.raises(RetryError, match="another replica may hold the Lease by now"):
                await s.controller.reconcile(KEY)
            assert s.api.writes() == []

    run(test)


def test_a_jobset_that_went_with_its_trainjob_is_not_made_again_though_its_end_is_told_first() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            await s.settle()
            before = s.api.writes()
            s.api.remove(JOB)
            s.api.remove(JOBSET)
            s.cache.jobsets.remove(KEY)
            s.controller.touched(KEY)
            await s.settle()
            assert s.api.writes() == before

    run(test)


def test_a_jobset_that_went_with_its_trainjob_before_the_next_look_is_not_made_again() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.controller.reconcile(await s.queue.get())
            s.queue.done(KEY)
            before = s.api.writes()
            assert ("POST", objects.JOBSETS) in before
            s.api.remove(JOB)
            s.api.remove(JOBSET)
            s.cache.jobsets.remove(KEY)
            s.controller.touched(KEY)
            await s.settle()
            assert s.api.writes() == before

    run(test)


@pytest.mark.parametrize("by", ["a look at it", "a list"])
def test_a_job_that_is_gone_does_not_run_again_for_what_its_stream_still_delivers_of_it(by: str) -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            await s.settle()
            before, past = s.api.writes(), s.api.objects[JOB]
            s.api.remove(JOB)
            s.api.remove(JOBSET)
            s.cache.jobsets.remove(KEY)
            if by == "a list":
                s.controller.vanished(KEY, "1000")
            else:
                s.controller.touched(KEY)
                await s.settle()
            assert KEY not in s.cache.trainjobs
            s.controller.seen("trainjobs", "MODIFIED", past)
            await s.settle()
            assert s.api.writes() == before
            s.controller.seen("trainjobs", "DELETED", past)

    run(test)


def test_a_jobset_that_somebody_deletes_is_made_again_every_time() -> None:
    async def test() -> None:
        async with scene() as s:
            for times in (1, 2, 3):
                await s.settle()
                assert s.api.requests.count(("POST", objects.JOBSETS)) == times
                s.api.remove(JOBSET)
                s.cache.jobsets.remove(KEY)
                s.controller.touched(KEY)
            assert s.api.requests.count(("GET", JOB)) <= 2

    run(test)


def test_a_job_that_is_resumed_elsewhere_has_its_old_jobs_deleted_before_it_is_resumed() -> None:
    def on(node: str) -> list[Any]:
        pod = {"nodeSelector": {node: "yes"}}
        jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
        return [{"manager": "a/b", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}]

    async def test() -> None:
        async with scene() as s:
            for spec in ({"runtimePatches": on("a")}, {"suspend": True, "runtimePatches": on("a")}):
                s.api.put(JOB, objects.trainjob(**spec))
                s.see(JOB, "MODIFIED")
                await s.settle()
            counts = {"name": "node", "suspended": 1}
            status = {"replicatedJobsStatus": [counts]}
            jobset = s.api.put(JOBSET, {**s.api.objects[JOBSET], "status": status})
            s.see_jobset()
            owner = {"uid": jobset["metadata"]["uid"], "controller": True}
            old = {"suspend": True, "template": {}}
            path = "/apis/batch/v1/namespaces/team/jobs/tj-node-0"
            s.api.put(path, {"metadata": {"ownerReferences": [owner]}, "spec": old})
            await s.settle()
            before = len(s.api.requests)
            s.api.put(JOB, objects.trainjob(runtimePatches=on("b")))
            s.see(JOB, "MODIFIED")
            again = await s.settle()
            assert path not in s.api.objects
            assert again is not None
            assert s.api.objects[JOBSET]["spec"]["suspend"] is True, "JobSet has not seen that it is gone"
            s.api.put(JOBSET, {**s.api.objects[JOBSET], "status": {}})
            s.see_jobset()
            await s.settle()
            spec = s.api.objects[JOBSET]["spec"]
            assert spec["suspend"] is False
            pod = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
            assert pod["nodeSelector"] == {"b": "yes"}
            children = [(m, p) for m, p in s.api.requests[before:] if not p.startswith(objects.JOBS)]
            jobs = path.rsplit("/", 1)[0]
            put = [("GET", JOBSET), ("PUT", JOBSET)]
            assert children == [*put, ("GET", jobs), ("DELETE", path), ("GET", jobs), ("GET", jobs), *put]

    run(test)


def test_what_a_refusal_repeats_of_a_jobs_environment_is_neither_logged_nor_told_nor_stored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with scene() as s:
            env = [{"name": "ACCESS_TOKEN", "value": "hf_CANARY"}]
            jobs = [{"name": "node", "template": {"containers": [{"env": env, "args": ["x" * 200_000]}]}}]
            message = (
                'admission webhook "vjobset.kb.io" denied the request: spec.replicatedJobs: '
                f"Invalid value: {json.dumps(jobs)}: field is immutable"
            )
            s.api.refuse_next("POST", "/jobsets", status(403, "Forbidden", message))
            with caplog.at_level(logging.INFO):
                await s.settle()
            (blocked,) = s.api.objects[JOB]["status"]["conditions"]
            (event,) = (body for path, body in s.api.objects.items() if path.startswith(objects.EVENTS))
            sentence = "spec.replicatedJobs: Invalid value: (not shown): field is immutable"
            for said in (blocked["message"], event["message"], caplog.text):
                assert sentence in said
                assert "hf_CANARY" not in said
                assert len(said) < 2000

    run(test)


@pytest.mark.parametrize("working", [False, True], ids=["while nobody led", "before the worker's look"])
def test_a_job_whose_jobset_completed_and_went_does_not_train_twice(working: bool) -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            await s.settle()
            s.working = working
            done = {
                "type": "Completed",
                "status": "True",
                "reason": "AllJobsCompleted",
                "message": "jobset completed successfully",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            jobset = s.api.put(JOBSET, {**s.api.objects[JOBSET], "status": {"conditions": [done]}})
            s.see_jobset()
            s.api.remove(JOBSET)
            s.cache.jobsets.remove(KEY, uid=jobset["metadata"]["uid"])
            s.working = True
            s.controller.everything()
            await s.settle()
            assert s.conditions() == {"Complete": "AllJobsCompleted"}
            assert JOBSET not in s.api.objects
            job = s.cache.trainjobs.get(KEY)
            assert job is not None
            assert s.cache.ended(job) is not None, "until the stream or a look says that the TrainJob has it"
            s.see(JOB, "MODIFIED")
            s.api.put(JOB, {**s.api.objects[JOB], "metadata": {**s.api.objects[JOB]["metadata"]}})
            s.see(JOB, "MODIFIED")
            assert s.cache.ended(job) is None

    run(test)


def test_a_jobset_that_is_deleted_before_its_end_is_made_again() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            await s.settle()
            first = s.api.objects[JOBSET]["metadata"]["uid"]
            s.api.remove(JOBSET)
            s.cache.jobsets.remove(KEY, uid=first)
            await s.settle()
            assert s.api.objects[JOBSET]["metadata"]["uid"] != first

    run(test)


def test_a_finished_trainjob_needs_no_runtime_and_no_snapshot() -> None:
    async def test() -> None:
        async with scene(with_runtime=False) as s:
            job = s.api.put(JOB, {**s.api.objects[JOB], **FINISHED})
            s.see(JOB, "MODIFIED")
            s.api.put(JOBSET, objects.jobset("tj", job["metadata"]["uid"]))
            s.see_jobset()
            s.api.requests.clear()
            await s.settle()
            s.controller.everything()
            await s.settle()
            assert [path for method, path in s.api.requests if method == "GET"] == []

    run(test)


def test_a_controllerrevision_of_others_is_neither_kept_nor_deleted() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            name = "some-daemonset-7d9f"
            foreign = f"{objects.REVISIONS}/{name}"
            s.api.put(foreign, {"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": {"spec": {}}})
            jobset = s.api.objects[JOBSET]
            annotations = {names.RUNTIME_REVISION_ANNOTATION: name}
            metadata = {**jobset["metadata"], "annotations": annotations}
            s.api.put(JOBSET, {**jobset, "metadata": metadata})
            s.see_jobset()
            await s.settle()
            assert name not in s.cache.revisions
            assert foreign in s.api.objects

    run(test)


def test_a_trainjob_of_the_same_name_begins_with_no_memory_of_the_earlier_one() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            await s.settle()
            before = s.memories.of(s.cache.trainjobs.get(KEY) or pytest.fail("it is there"))
            assert (before.had_jobset, before.milestones) == (True, frozenset({"jobset"}))
            s.api.remove(JOB)
            s.api.put(JOB, objects.trainjob())
            s.see(JOB)
            job = s.cache.trainjobs.get(KEY)
            assert job is not None
            assert s.memories.of(job) == Memory(job.uid)

    run(test)


def test_nothing_is_remembered_of_a_trainjob_whose_status_met_its_end() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            s.see_jobset()
            await s.settle()
            s.second += 100.0
            s.report(ready=1)
            last = s.api.objects[JOB]
            s.api.remove(JOB)  # Kopf's event comes after the status has been rejected
            await s.settle()
            later = {**last["metadata"], "resourceVersion": "99999"}
            s.controller.seen("trainjobs", "DELETED", {**last, "metadata": later})
            await s.settle()
            assert (len(s.cache.trainjobs), len(s.memories), s.queue.delayed) == (0, 0, 0)

    run(test)


def test_a_trainjob_made_anew_stays_though_the_end_of_the_earlier_one_is_answered_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            get = s.client.get
            s.api.remove(JOB)

            async def late(path: str, **options: Any) -> Any:
                try:
                    return await get(path, **options)
                finally:
                    s.api.put(JOB, objects.trainjob())
                    s.see(JOB)

            monkeypatch.setattr(s.client, "get", late)
            await s.controller._applier.refresh_trainjob(KEY)
            assert KEY in s.cache.trainjobs

    run(test)


def test_where_the_cluster_strips_our_annotations_nothing_is_written_in_a_steady_state() -> None:
    async def test() -> None:
        async with suspended(stripped=True) as s:
            assert "annotations" not in s.api.objects[JOBSET]["metadata"]
            before = s.api.writes()
            for _ in range(5):
                s.second += 3600.0
                s.controller.everything()
                await s.settle()
            assert s.api.writes() == before
            restarted = Scene(s.api, s.client)
            restarted.see(RUNTIME, None)
            restarted.see(JOB, None)
            restarted.see_jobset()
            await restarted.settle()
            assert s.api.writes().count(("PUT", JOBSET)) == 1, "once for each that leads"
            s.api.put(JOB, {**s.api.objects[JOB], "spec": objects.trainjob()["spec"]})
            restarted.see(JOB, "MODIFIED")
            await restarted.settle()
            assert s.api.objects[JOBSET]["spec"]["suspend"] is False

    run(test)


def test_annotations_that_the_cluster_no_longer_strips_come_back_when_somebody_takes_them_away() -> None:
    async def test() -> None:
        async with suspended(stripped=True) as s:
            s.api.stripped = set()
            edited_by_others(s, replicatedJobs=[])
            await s.settle()
            written = dict(s.api.objects[JOBSET]["metadata"]["annotations"])
            bare = dict(s.api.objects[JOBSET]["metadata"])
            del bare["annotations"]
            s.api.put(JOBSET, {**s.api.objects[JOBSET], "metadata": bare})
            s.see_jobset()
            await s.settle()
            # Nobody can tell any more that it was not Trainer who made it.
            known = written.pop("trainyard.dev/built-as"), written.pop("trainyard.dev/rendered")
            now = dict(s.api.objects[JOBSET]["metadata"]["annotations"])
            assert (now.pop("trainyard.dev/rendered") != known[1], now) == (True, written)

    run(test)


async def suspended_in_its_queue(s: Scene) -> None:
    """A user suspends the job, whose JobSet has waited for ten seconds."""
    s.settings = replace(s.settings, queue_holds_jobset=True)
    job = s.api.objects[JOB]
    s.api.put(JOB, {**job, "metadata": {**job["metadata"], "labels": {names.QUEUE_LABEL: "default"}}})
    s.see(JOB, "MODIFIED")
    await s.settle()
    s.see_jobset()
    await s.settle()
    job = s.api.objects[JOB]
    s.api.put(JOB, {**job, "spec": {**job["spec"], "suspend": True}})
    s.see(JOB, "MODIFIED")
    await later(s, 10)


def test_a_job_in_a_queue_is_suspended_though_kueue_does_not_manage_its_namespace() -> None:
    async def test() -> None:
        async with scene() as s:
            await suspended_in_its_queue(s)
            assert s.conditions() == {"Suspended": "Suspended"}

    run(test)


def test_a_workload_that_kueue_makes_of_a_suspended_job_is_deactivated_at_the_next_look() -> None:
    async def test() -> None:
        async with scene() as s:
            await suspended_in_its_queue(s)

            async def look() -> float | None:
                s.second += RETRY_SECONDS
                s.controller.touched(KEY)
                return await s.settle()

            assert await look() == RETRY_SECONDS, "there is no Workload yet"
            owner = {"uid": s.api.objects[JOBSET]["metadata"]["uid"]}
            s.api.put(WORKLOAD, {"metadata": {"ownerReferences": [owner]}, "spec": {"active": True}})
            await look()
            assert s.api.objects[WORKLOAD]["spec"] == {"active": False}
            assert await look() is None, "nobody has to look again"

    run(test)


def test_a_job_that_waits_where_the_queue_holds_trainjobs_is_built_from_the_runtime_as_it_is() -> None:
    async def test() -> None:
        async with scene() as s:
            job = s.api.objects[JOB]
            spec = {**job["spec"], "suspend": True, "runtimePatches": [{"manager": names.KUEUES_PATCHES}]}
            metadata = {**job["metadata"], "labels": {names.QUEUE_LABEL: "default"}}
            s.api.put(JOB, {**job, "metadata": metadata, "spec": spec})
            s.see(JOB, "MODIFIED")
            await s.settle()
            s.see_jobset()
            before = s.api.objects[JOBSET]["metadata"]
            live = s.api.objects[RUNTIME]
            edited = {**live["spec"], "mlPolicy": {"numNodes": 3}}
            s.api.put(RUNTIME, {**live, "metadata": {**live["metadata"], "generation": 2}, "spec": edited})
            s.see(RUNTIME, "MODIFIED")
            await s.settle()
            after = s.api.objects[JOBSET]
            [node] = after["spec"]["replicatedJobs"]
            assert after["metadata"]["uid"] != before["uid"]
            assert (node["template"]["spec"]["parallelism"], after["spec"]["suspend"]) == (3, True)

    run(test)
