"""What is counted and measured about TrainJobs and plugins."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from tests.support.controller_scene import JOB, JOBSET, KEY, scene
from tests.support.core_values import jobset, runtime, trainjob
from tests.support.fake_api import run, status
from trainyard_api.configuration import Configuration
from trainyard_api.errors import ErrorType, FieldError, InvalidFieldError
from trainyard_kube.credentials import Credentials
from trainyard_operator import gauges
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.framework import Framework
from trainyard_operator.core.build.info import DEFAULT_SETTINGS, Info
from trainyard_operator.core.decide.views import SeenJobSet
from trainyard_operator.core.model import Create, JobSet, TrainJob
from trainyard_operator.core.status.display_state import State
from trainyard_operator.main import Operator
from trainyard_operator.metrics import Metrics
from trainyard_operator.watch.cache import Cache, Key
from trainyard_operator.work.memory import Memory
from trainyard_operator.work.milestones import Milestones
from trainyard_operator.work.plugin_timing import measured
from trainyard_operator.work.queue import Queue, RetryError

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def conditions(*kinds: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True"} for kind in kinds]}


def counts(**fields: int) -> dict[str, Any]:
    none = {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
    return {"replicatedJobsStatus": [{"name": "node", **none, **fields}]}


def test_trainjobs_are_counted_by_state_and_states_without_any_are_0() -> None:
    cache = Cache()
    for number, said in enumerate([conditions("Complete"), conditions("Complete"), {}]):
        name = f"job-{number}"
        job = TrainJob("team", name, name, str(number + 1), CREATED, {}, said)
        cache.trainjobs.observe(Key.of(job), job)
    metrics = Metrics()
    metrics.registry.register(gauges.TrainJobs(cache))
    found = {state: value(metrics, "trainyard_trainjobs", state=state) for state in State}
    assert found == {
        "Pending": 1,
        "Queued": 0,
        "Suspended": 0,
        "Blocked": 0,
        "Starting": 0,
        "Unschedulable": 0,
        "NodeLost": 0,
        "Initializing": 0,
        "Running": 0,
        "Complete": 2,
        "Failed": 0,
    }


def test_when_the_first_of_its_certificates_expires_is_measured() -> None:
    operator = Operator(Configuration(namespace="n"), Credentials(server="http://127.0.0.1", tls=None))
    metric = "trainyard_certificate_expiry_timestamp_seconds"
    assert math.isnan(value(operator.metrics, metric) or 0)
    operator.webhook.good_until = CREATED + timedelta(days=2)
    operator.status.good_until = CREATED + timedelta(days=1)
    assert value(operator.metrics, metric) == (CREATED + timedelta(days=1)).timestamp()


def test_a_watch_that_only_tries_again_is_as_old_as_what_the_api_server_last_sent() -> None:
    operator = Operator(Configuration(namespace="n"), Credentials(server="http://127.0.0.1", tls=None))
    now = time.monotonic()
    for part in (operator.jobsets, operator.revisions, operator.failed_pods, operator.sweep):
        part.beat = now
    operator.kopf.beat = now
    operator.jobsets.heard = now - 200
    operator.revisions.heard = now - 201
    operator.failed_pods.heard = now - 202
    operator.sweep.heard = now - 203
    expected = {"jobsets": 200, "revisions": 201, "failed-pods": 202, "kopf": 203}
    ages = {watch: value(operator.metrics, "trainyard_watch_age_seconds", watch=watch) for watch in expected}
    assert ages == pytest.approx(expected, abs=0.9)


def test_a_trainjob_that_has_not_changed_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    judge = gauges.state

    def look(job: TrainJob, jobset: JobSet | None) -> str:
        looked.append(job.name)
        return judge(job, jobset)

    monkeypatch.setattr(gauges, "state", look)
    cache, metrics = Cache(), Metrics()
    metrics.registry.register(gauges.TrainJobs(cache))

    def observe(name: str, version: str, status: dict[str, Any]) -> None:
        job = TrainJob("team", name, name, version, CREATED, {}, status)
        cache.trainjobs.observe(Key.of(job), job)

    for number in range(3):
        observe(f"job-{number}", str(number + 1), {})
    assert value(metrics, "trainyard_trainjobs", state="Pending") == 3
    looked.clear()
    observe("job-1", "10", conditions("Complete"))
    assert value(metrics, "trainyard_trainjobs", state="Complete") == 1
    assert looked == ["job-1"]


def test_a_trainjob_whose_jobset_alone_has_changed_has_another_state() -> None:
    cache, metrics = Cache(), Metrics()
    metrics.registry.register(gauges.TrainJobs(cache))
    job = trainjob()
    cache.trainjobs.observe(Key.of(job), job)
    for version, suspend, state in (("1", True, "Queued"), ("2", False, "Pending")):
        held = jobset(queue="default", suspend=suspend, resource_version=version)
        cache.jobsets.observe(Key.of(job), SeenJobSet(held, True))
        assert value(metrics, "trainyard_trainjobs", state=state) == 1


def test_measured_plugins_build_what_they_build_and_each_is_timed() -> None:
    metrics = Metrics()
    job, rt = trainjob({"trainer": {"numNodes": 2}}), runtime({"torch": {}})
    using = measured(plugins.ALL, metrics)
    began = time.perf_counter()
    assert using.children(job, rt, DEFAULT_SETTINGS) == plugins.ALL.children(job, rt, DEFAULT_SETTINGS)
    times = {
        name: value(metrics, "trainyard_plugin_seconds_count", plugin=name) for name in ("torch", "jobset")
    }
    assert times == {"torch": 1, "jobset": 2}, "one phase, and two"
    spent = value(metrics, "trainyard_plugin_seconds_sum", plugin="jobset")
    assert spent is not None
    assert 0 < spent <= time.perf_counter() - began


def test_a_plugin_that_cannot_work_with_what_it_is_given_is_counted() -> None:
    class Broken:
        name = "broken"
        implements = frozenset[str]()

        def enforce_ml_policy(self, info: Info) -> Info:
            raise InvalidFieldError(FieldError(ErrorType.INVALID, "spec", None, "no"))

    metrics = Metrics()
    with pytest.raises(InvalidFieldError):
        measured(Framework([Broken()]), metrics).children(trainjob(), runtime({}), DEFAULT_SETTINGS)
    assert value(metrics, "trainyard_plugin_errors_total", plugin="broken") == 1


def test_a_trainjob_is_timed_from_its_creation_to_each_milestone_once() -> None:
    async def test() -> None:
        async with scene() as s:
            began = datetime.fromisoformat(s.api.objects[JOB]["metadata"]["creationTimestamp"])
            offset = (s.now() - began).total_seconds()

            def took(until: str) -> tuple[float, float]:
                name = "trainyard_trainjob_seconds"
                count = value(s.metrics, f"{name}_count", until=until)
                total = value(s.metrics, f"{name}_sum", until=until)
                assert count is not None
                assert total is not None
                return count, total - count * offset

            async def jobset(second: float, **status: Any) -> None:
                """What the JobSet says, at this second; counts are written some seconds later."""
                s.second = second
                s.api.put(JOBSET, {**s.api.objects[JOBSET], "status": status})
                s.see_jobset()
                await s.settle()
                s.second = second + 20
                s.controller.touched(KEY)
                await s.settle()

            await s.settle()
            assert took("jobset") == (1, 0)
            await jobset(100, **counts(active=1))
            assert took("running") == (0, 0)
            await jobset(200, **counts(active=1, ready=1))
            assert took("running") == (1, 220), "as late as the status is written"
            await jobset(300, **counts(active=1))
            await jobset(400, **counts(active=1, ready=1))
            assert took("running") == (1, 220), "not again when its pods come back"
            done = {"type": "Completed", "status": "True", "reason": "R", "lastTransitionTime": "t"}
            await jobset(500, **counts(succeeded=1), conditions=[done])
            assert (took("complete"), took("failed")) == ((1, 500), (0, 0))

    run(test)


def test_a_milestone_that_the_status_has_already_is_not_counted_by_the_next_leader() -> None:
    def jobs(**counts: int) -> dict[str, Any]:
        return {"jobsStatus": [{"name": "node", **counts}]}

    def running(before: dict[str, Any], after: dict[str, Any]) -> float | None:
        metrics = Metrics()
        job = TrainJob("team", "tj", "uid", "1", CREATED, {}, before)
        Milestones(metrics).wrote_status(Memory("uid"), job, after, CREATED + timedelta(seconds=1))
        return value(metrics, "trainyard_trainjob_seconds_count", until="running")

    assert running({}, jobs(ready=1)) == 1
    assert running(jobs(active=2), jobs(active=1, ready=1)) == 1
    assert running(jobs(ready=1), jobs(ready=1)) == 0
    assert running(jobs(ready=2), jobs(ready=1, succeeded=1)) == 0


def test_only_the_first_jobset_of_a_job_that_was_not_blocked_is_timed() -> None:
    def created(status: dict[str, Any]) -> float | None:
        metrics = Metrics()
        job = TrainJob("team", "tj", "uid", "1", CREATED, {}, status)
        write = Create({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"})
        Milestones(metrics).wrote(Memory("uid"), job, write, CREATED + timedelta(hours=5))
        return value(metrics, "trainyard_trainjob_seconds_count", until="jobset")

    assert created({}) == 1
    assert created({"conditions": [{"type": "Suspended", "status": "True"}]}) == 1
    assert created({"conditions": [{"type": "Blocked", "status": "True"}]}) == 0
    assert created({"jobsStatus": []}) == 0


def test_the_longest_work_on_a_key_is_known() -> None:
    async def test() -> None:
        now = [0.0]
        queue: Queue[str] = Queue(clock=lambda: now[0])
        assert queue.longest == 0
        queue.add("a")
        queue.add("b")
        await queue.get()
        now[0] = 5.0
        await queue.get()
        now[0] = 7.0
        assert queue.longest == 7
        queue.done("a")
        assert queue.longest == 2
        queue.done("b")
        assert queue.longest == 0

    run(test)


def test_each_look_at_a_trainjob_is_timed_and_what_went_wrong_is_counted_by_its_kind() -> None:
    async def test() -> None:
        async with scene() as s:

            def a_second_later(_: web.Request) -> bool:
                s.second += 1
                return True

            s.api.accepts = a_second_later
            s.api.refuse_next("POST", "/controllerrevisions", status(503, "ServiceUnavailable"))
            with pytest.raises(RetryError):
                await s.controller.reconcile(KEY)
            s.api.refuse_next("POST", "/jobsets", status(422, "Invalid", "no"))
            s.api.refuse_next("PATCH", "/status", status(409, "Conflict"))
            with pytest.raises(RetryError):
                await s.controller.reconcile(KEY)
            s.second += 60
            await s.controller.reconcile(KEY)
            assert JOBSET in s.api.objects
            errors = {
                cause: value(s.metrics, "trainyard_reconcile_errors_total", cause=cause)
                for cause in ("api", "conflict", "refused")
            }
            assert errors == {"api": 1, "conflict": 1, "refused": 1}
            assert value(s.metrics, "trainyard_reconcile_seconds_count") == 3
            assert value(s.metrics, "trainyard_reconcile_seconds_sum") == len(s.api.requests)

    run(test)
