"""What the pods of a failed attempt printed last stays when they are gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.support import controller_scene, objects
from tests.support.controller_scene import JOB, JOBSET, KEY, Scene
from tests.support.core_values import at, stamp, trainjob
from tests.support.fake_api import run, status
from trainyard_operator.core.decide import last_lines
from trainyard_operator.core.decide.last_lines import (
    IN_SUM,
    LONGEST_LINE,
    MOST_PODS,
    OF_A_POD,
    Kept,
    Lines,
    Pod,
)
from trainyard_operator.core.decide.reconcile import COLLECT_SECONDS
from trainyard_operator.core.model import PodEnd
from trainyard_operator.watch.cache import Key
from trainyard_operator.work.events import Events
from trainyard_operator.work.last_lines import (
    AGAIN,
    AT_ONCE,
    LOG_BYTES,
    MOST_ENDS,
    OFTEN,
    SETTLE,
    TAKEN_OVER,
    TRIES,
    LastLines,
)
from trainyard_operator.work.queue import RetryError

PODS = "/api/v1/namespaces/team/pods"
CONFIG_MAP = "/api/v1/namespaces/team/configmaps/tj-last-lines"


def pod(index: int, **fields: Any) -> Pod:
    values: dict[str, Any] = {
        "name": f"tj-node-0-{index}-abcde",
        "job": "node",
        "index": index,
        "container": "node",
        "born": at(0),
    }
    return Pod(**{**values, **fields})


# --- what is kept ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("one\ntwo\n", "one\ntwo"),
        ("\n\n  indented\n\nlast\n\n", "  indented\n\nlast"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07and\x00 plain\u202e\n", "red and plain"),
        ("\x1b]never closed\nthe next line\n", "the next line"),
        (" 10%|#\r 50%|#####\r100%|##########\r\ndone\r\n", "100%|##########\ndone"),
        ("x" * 600, "x" * 496 + " ..."),
        ("", ""),
    ],
    ids=["lines", "blank lines within", "controls", "an escape ends with its line", "a bar", "long", "empty"],
)
def test_a_log_is_kept_as_a_terminal_would_show_it(log: str, shown: str) -> None:
    assert last_lines.tidy(log) == shown


@pytest.mark.parametrize(
    ("most", "kept"), [(9, "a\nbc\n\nüe"), (8, "bc\n\nüe"), (5, "\nüe"), (3, "üe"), (2, ""), (0, "")]
)
def test_of_a_text_that_is_too_long_the_last_whole_lines_are_kept(most: int, kept: str) -> None:
    assert last_lines.within("a\nbc\n\nüe", most) == kept


def test_of_each_place_a_pod_that_failed_is_kept_and_the_first_that_failed_leads() -> None:
    pods = [
        pod(0),
        pod(1, name="old", born=at(1), failed=True),
        pod(1, name="failed", born=at(2), failed=True),
        pod(1, name="replaced", born=at(3)),
        pod(2, failed=True),
        pod(3, name="older", born=at(1)),
        pod(3, name="newer", born=at(2)),
    ]
    assert [one.name for one in last_lines.chosen(pods, "tj-node-0-2-abcde")] == [
        "tj-node-0-2-abcde",
        "failed",
        "tj-node-0-0-abcde",
        "newer",
    ]


def test_what_has_ended_is_read_once_and_what_runs_only_in_the_first_looks() -> None:
    ended, runs = pod(0, ended=True), pod(1)
    read = Kept("js", 1, pods={"node-0": last_lines.of(ended, "x"), "node-1": last_lines.of(runs, "y")})
    nothing = Kept("js", 1)
    assert last_lines.unread([ended, runs], nothing, again=True) == [ended, runs]
    assert last_lines.unread([ended, runs], nothing, again=False) == [ended]
    assert last_lines.unread([ended, runs], read, again=True) == [runs]
    assert last_lines.unread([replace(ended, name="its successor")], read, again=False) != []


def test_the_first_that_failed_has_most_room_and_the_others_share_the_rest() -> None:
    long = "\n".join(["é" * LONGEST_LINE] * 400)
    fresh = {one.place: last_lines.of(one, long) for one in (pod(index) for index in range(MOST_PODS + 6))}
    kept = last_lines.merged(Kept("js", 1), fresh, MOST_PODS + 6, "node-5")
    assert (len(kept.pods), kept.left_out) == (MOST_PODS, 6)
    sizes = {place: len(lines.text.encode()) for place, lines in kept.pods.items()}
    first = sizes.pop("node-5")
    assert OF_A_POD - 2 * LONGEST_LINE - 2 < first <= OF_A_POD
    assert {1000 <= size <= (IN_SUM - OF_A_POD) // (MOST_PODS - 1) for size in sizes.values()} == {True}
    assert sum(sizes.values()) + first <= IN_SUM


def test_a_later_look_adds_and_never_takes_a_text_away() -> None:
    first = {
        "node-0": last_lines.of(pod(0), "so far"),
        "node-1": last_lines.of(pod(1, ended=True), "ValueError: no"),
    }
    before = last_lines.merged(Kept("js", 1), first, 2, "node-1")
    gone = last_lines.without(pod(0), "the pod was gone before its log was read", gone=True)
    assert last_lines.merged(before, {"node-0": gone}, 2, "node-1") == before
    more = last_lines.of(pod(0, ended=True), "so far\nConnection closed by peer")
    after = last_lines.merged(before, {"node-0": more}, 2, "node-1")
    assert after.pods == {"node-0": more, "node-1": first["node-1"]}
    assert last_lines.merged(msgspec.structs.replace(before, left_out=6), {}, 1, "node-1").left_out == 6


def test_a_config_map_is_read_back_and_goes_with_its_trainjob() -> None:
    lines = {
        "node-0": last_lines.without(pod(0), "the pod was gone", gone=True),
        "node-1": last_lines.of(pod(1, ended=True), "ValueError: no"),
    }
    kept = last_lines.merged(Kept("js", 2), lines, 2, "node-1")
    job = trainjob()
    made = last_lines.manifest(job, kept)
    assert made == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "tj-last-lines",
            "namespace": "team",
            "ownerReferences": [
                {
                    "apiVersion": "trainer.kubeflow.org/v1alpha1",
                    "kind": "TrainJob",
                    "name": "tj",
                    "uid": job.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "data": {
            "attempt.json": json.dumps(
                {
                    "jobset": "js",
                    "attempt": 2,
                    "first": "node-1",
                    "pods": {
                        "node-0": {
                            "pod": "tj-node-0-0-abcde",
                            "container": "node",
                            "ended": True,
                            "missing": "the pod was gone",
                        },
                        "node-1": {"pod": "tj-node-0-1-abcde", "container": "node", "ended": True},
                    },
                },
                separators=(",", ":"),
            ),
            "node-1": "ValueError: no",
        },
    }
    assert last_lines.read(made) == kept
    assert last_lines.is_of(made, job.uid)
    assert not last_lines.is_of(made, "another")
    assert not last_lines.is_of({"metadata": {}}, job.uid)


@pytest.mark.parametrize("about", [None, "", "{", "[]", '{"jobset": 1}', '{"jobset": "js", "attempt": "x"}'])
def test_what_somebody_has_made_unreadable_keeps_nothing(about: str | None) -> None:
    data = {} if about is None else {"attempt.json": about}
    assert last_lines.read({"metadata": {}, "data": data}) is None
    assert last_lines.read({"metadata": {}}) is None


def test_of_a_text_that_somebody_has_made_no_more_pods_are_read_than_are_kept() -> None:
    pods = {f"node-{index}": {"pod": "p"} for index in range(MOST_PODS * 2)}
    about = json.dumps({"jobset": "js", "attempt": 1, "pods": pods})
    kept = last_lines.read({"metadata": {}, "data": {"attempt.json": about}})
    assert kept is not None
    assert len(kept.pods) == MOST_PODS


# --- how it is read -------------------------------------------------------------


def end(index: int = 1, *, attempt: int = 0, **fields: Any) -> PodEnd:
    values: dict[str, Any] = {
        "job": "node",
        "index": index,
        "attempt": attempt,
        "pod": f"tj-node-0-{index}-abcde",
        "node": "n1",
        "container": "node",
        "exit_code": 1,
        "reason": "Error",
        "at": at(5),
        "born": at(0),
    }
    return PodEnd(**{**values, **fields})


class Watched:
    """LastLines beside one replica's controller, with a TrainJob whose JobSet has begun."""

    def __init__(self, scene: Scene, lines: int) -> None:
        self.scene, self.api = scene, scene.api
        events = Events(scene.client, clock=scene.clock, now=scene.now)
        self.lines = LastLines(
            scene.client, scene.cache, events, lines=lines, leading=lambda: scene.leading, clock=scene.clock
        )
        self.jobset: str = self.api.objects[JOBSET]["metadata"]["uid"]

    def has(self, index: int, log: str | None = "", phase: str = "Failed", attempt: int = 0) -> None:
        """There is such a pod; None: it is gone with its log."""
        name = f"tj-node-0-{index}-abcde"
        self.api.objects.pop(f"{PODS}/{name}", None)
        self.api.logs.pop(f"{PODS}/{name}/log", None)
        if log is None:
            return
        labels = {
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "jobset.sigs.k8s.io/restart-attempt": str(attempt),
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        self.api.put(
            f"{PODS}/{name}",
            {
                "metadata": {"labels": labels, "creationTimestamp": stamp(0)},
                "spec": {"containers": [{"name": "node"}]},
                "status": {"phase": phase},
            },
        )
        self.api.logs[f"{PODS}/{name}/log"] = log

    def fails(self, *ends: PodEnd) -> None:
        for one in ends:
            self.lines.failed(KEY, self.jobset, one)

    def restarts(self, number: int) -> None:
        """JobSet's controller has begun so many further attempts."""
        self.api.put(JOBSET, {**self.api.objects[JOBSET], "status": {"restarts": number}})
        self.scene.see_jobset()

    async def look(self) -> float | None:
        return await self.lines.work(KEY)

    @property
    def data(self) -> dict[str, str]:
        data: dict[str, str] = self.api.objects[CONFIG_MAP]["data"]
        return {place: text for place, text in data.items() if place != "attempt.json"}

    @property
    def about(self) -> Any:
        return json.loads(self.api.objects[CONFIG_MAP]["data"]["attempt.json"])

    @property
    def events(self) -> list[str]:
        return [body["message"] for path, body in self.api.objects.items() if "/events/" in path]


@asynccontextmanager
async def watched(lines: int = 200) -> AsyncIterator[Watched]:
    async with controller_scene.scene() as scene:
        scene.controller.touched(KEY)
        await scene.settle()
        scene.see_jobset()
        scene.api.requests.clear()
        yield Watched(scene, lines)


def test_the_lines_of_all_pods_are_kept_when_one_has_failed_and_of_those_that_ran_once_more() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(0, "step 1\n", phase="Running")
            job.has(1, "Traceback\nValueError: no\n")
            job.fails(end(1))
            assert await job.look() == AGAIN
            assert job.data == {"node-0": "step 1", "node-1": "Traceback\nValueError: no"}
            assert job.about == {
                "jobset": job.jobset,
                "attempt": 1,
                "first": "node-1",
                "pods": {
                    "node-0": {"pod": "tj-node-0-0-abcde", "container": "node"},
                    "node-1": {"pod": "tj-node-0-1-abcde", "container": "node", "ended": True},
                },
            }
            job.has(0, "step 1\nConnection closed by peer\n")
            job.has(1, None)
            assert await job.look() is None
            assert job.data == {
                "node-0": "step 1\nConnection closed by peer",
                "node-1": "Traceback\nValueError: no",
            }

    run(test)


def test_a_pod_that_was_gone_before_its_log_was_read_is_told() -> None:
    async def test() -> None:
        async with watched() as job:
            job.fails(end(1))
            assert await job.look() is None
            assert job.about["pods"] == {
                "node-1": {
                    "pod": "tj-node-0-1-abcde",
                    "container": "node",
                    "ended": True,
                    "missing": "the pod was gone before its log was read",
                }
            }

    run(test)


def test_the_next_failed_attempt_takes_the_place_of_the_one_before() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(1, "first\n")
            job.fails(end(1))
            await job.look()
            job.restarts(1)
            job.has(1, "second\n", attempt=1)
            job.fails(end(1), end(1, attempt=1), end(0))
            assert await job.look() is None
            assert (job.data, job.about["attempt"]) == ({"node-1": "second"}, 2)

    run(test)


def test_an_attempt_of_which_nothing_could_be_read_leaves_the_one_before() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(1, "first\n")
            job.fails(end(1))
            await job.look()
            job.restarts(1)
            job.has(1, None)
            job.fails(end(1, attempt=1))
            assert await job.look() is None
            assert (job.data, job.about["attempt"]) == ({"node-1": "first"}, 1)

    run(test)


def test_an_attempt_that_jobset_has_not_counted_is_made_up() -> None:
    async def test() -> None:
        async with watched() as job:
            job.fails(end(1, attempt=7))
            assert [await job.look() for _ in range(TRIES)] == [SETTLE] * (TRIES - 1) + [None]
            assert (job.api.requests, len(job.lines)) == ([], 0)

    run(test)


def test_a_job_that_fails_again_and_again_is_looked_at_now_and_then() -> None:
    async def test() -> None:
        async with watched() as job:
            job.fails(*(end(1, attempt=attempt) for attempt in range(OFTEN, OFTEN + 50)))
            assert (job.lines.queue.depth, job.lines.queue.held) == (0, 1)

    run(test)


def test_a_job_that_is_suspended_or_evicted_has_not_failed() -> None:
    async def test() -> None:
        async with watched() as job:
            job.fails(end(0, reason="Deleted", exit_code=0), end(1, reason="EvictionByEvictionAPI"))
            assert (await job.look(), job.lines.queue.depth, len(job.lines)) == (None, 0, 0)
            assert job.api.requests == []

    run(test)


def test_a_replica_that_begins_anew_reads_only_what_is_not_kept_yet() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(1, "ValueError: no\n")
            job.fails(end(1))
            await job.look()
            again = Watched(job.scene, 200)
            again.has(2, "later\n")
            again.api.requests.clear()
            again.fails(end(1), end(2))
            assert await again.look() is None
            assert again.data == {"node-1": "ValueError: no", "node-2": "later"}
            assert [path for _, path in again.api.requests if path.endswith("/log")] == [
                f"{PODS}/tj-node-0-2-abcde/log"
            ]
            again.api.requests.clear()
            once_more = Watched(job.scene, 200)
            once_more.fails(end(1))
            assert await once_more.look() is None
            assert once_more.api.requests == [("GET", CONFIG_MAP), ("GET", PODS)]

    run(test)


def test_a_log_without_line_feeds_is_asked_for_again_in_less() -> None:
    async def test() -> None:
        async with watched() as job:
            rows = [f"{number} " + "x" * 3000 for number in range(200)]
            job.has(1, "\n".join(rows) + "\nValueError: no\n")
            job.fails(end(1))
            await job.look()
            kept = job.data["node-1"].splitlines()
            assert [line.partition(" ")[0] for line in kept] == [
                "195",
                "196",
                "197",
                "198",
                "199",
                "ValueError:",
            ]
            assert max(map(len, kept)) == LONGEST_LINE
            assert len(rows[0]) * len(rows) > LOG_BYTES

    run(test)


@pytest.mark.parametrize("owner", [None, "somebody"])
def test_a_config_map_of_somebody_else_is_left_alone_and_told_once(owner: str | None) -> None:
    async def test() -> None:
        async with watched() as job:
            owners = [] if owner is None else [{"uid": owner, "controller": True}]
            theirs = job.api.put(CONFIG_MAP, {"metadata": {"ownerReferences": owners}, "data": {"my": "own"}})
            job.has(1, "ValueError: no\n")
            job.fails(end(1))
            assert await job.look() is None
            assert job.api.objects[CONFIG_MAP] == theirs
            assert job.events == [
                "The last lines of attempt 1 are not kept: ConfigMap tj-last-lines exists and is not this "
                "TrainJob's"
            ]
            assert not [path for _, path in job.api.requests if path.endswith("/log")]

    run(test)


def test_a_config_map_that_is_removed_with_an_earlier_trainjob_is_waited_for() -> None:
    async def test() -> None:
        async with watched() as job:
            owner = {"kind": "TrainJob", "name": "tj", "uid": "earlier", "controller": True}
            job.api.put(CONFIG_MAP, {"metadata": {"ownerReferences": [owner]}, "data": {}})
            job.has(1, "ValueError: no\n")
            job.fails(end(1))
            assert await job.look() == COLLECT_SECONDS
            job.api.remove(CONFIG_MAP)
            await job.look()
            assert (job.data, job.events) == ({"node-1": "ValueError: no"}, [])

    run(test)


def test_a_refusal_by_quota_is_told_and_not_tried_again() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(1, "ValueError: no\n")
            job.fails(end(1))
            refusal = status(403, "Forbidden", "exceeded quota: tenant, requested: count/configmaps=1")
            job.api.refuse_next("POST", "/configmaps", refusal)
            assert await job.look() is None
            assert job.events == [
                "The last lines of attempt 1 are not kept: 403 Forbidden: exceeded quota: tenant, requested: "
                "count/configmaps=1"
            ]

    run(test)


def test_where_logs_may_not_be_read_nothing_is_written() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(1, "ValueError: no\n")
            job.fails(end(1))
            job.api.refuse_next("GET", "/log", status(403, "Forbidden", "cannot get pods/log"))
            assert await job.look() is None
            assert job.api.writes() == []

    run(test)


def test_once_a_log_may_not_be_read_those_that_wait_are_not_requested() -> None:
    async def test() -> None:
        async with watched() as job:
            for index in range(4 * AT_ONCE):
                job.has(index, "ValueError: no\n")
                job.api.refuse_next("GET", "/log", status(403, "Forbidden", "cannot get pods/log"))
            job.fails(end(1))
            assert await job.look() is None
            await asyncio.sleep(0.1)  # in which others would be requested
            assert len([path for _, path in job.api.requests if path.endswith("/log")]) <= 2 * AT_ONCE
            worker = asyncio.current_task()
            assert worker is not None
            assert worker.cancelling() == 0, "the worker's next timeout would end it, with Python 3.11.2"

    run(test)


def test_an_overloaded_api_server_is_tried_again_a_few_times_and_then_told() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(1, "ValueError: no\n")
            job.fails(end(1))
            for _ in range(TRIES):
                job.api.refuse_next("POST", "/configmaps", status(503, "ServiceUnavailable"))
            for _ in range(TRIES - 1):
                with pytest.raises(RetryError):
                    await job.look()
            assert await job.look() is None
            assert job.events == [
                "The last lines of attempt 1 are not kept: 503 ServiceUnavailable: ServiceUnavailable"
            ]

    run(test)


def test_a_replica_that_does_not_lead_writes_nothing() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(1, "ValueError: no\n")
            job.fails(end(1))
            job.scene.leading = False
            await job.look()
            assert job.api.writes() == []

    run(test)


def test_of_a_trainjob_that_was_made_anew_nothing_is_kept_that_its_predecessor_printed() -> None:
    async def test() -> None:
        async with watched() as job:
            job.fails(end(1))
            job.api.remove(JOB)
            job.api.put(JOB, objects.trainjob())
            job.scene.see(JOB)
            job.lines.failed(KEY, "the JobSet of another", end(1))
            assert await job.look() is None
            assert job.api.requests == []

    run(test)


def test_a_pod_is_told_once_and_a_storm_of_them_is_bounded() -> None:
    async def test() -> None:
        async with watched() as job:
            job.fails(end(1))
            await job.lines.queue.get()
            job.lines.queue.done(KEY)
            job.fails(end(1), end(1))
            assert (job.lines.queue.depth, job.lines.queue.delayed) == (0, 0)
            job.fails(*(end(index) for index in range(2 * MOST_ENDS)))
            assert job.lines.queue.held == 1
            assert len(job.lines._due[KEY].seen) == MOST_ENDS

    run(test)


def test_a_trainjob_that_has_ended_is_forgotten_when_all_is_kept() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(1, "ValueError: no\n")
            job.fails(end(1))
            job.lines.over(KEY)
            assert len(job.lines) == 1
            await job.look()
            assert len(job.lines) == 1
            job.lines.over(KEY)
            assert len(job.lines) == 0
            assert job.data == {"node-1": "ValueError: no"}

    run(test)


def test_a_replica_that_does_not_lead_forgets_a_trainjob_a_minute_after_its_end() -> None:
    async def test() -> None:
        async with watched() as job:
            job.scene.leading = False
            job.fails(end(1))
            job.lines.over(KEY)
            job.scene.second = TAKEN_OVER - 1
            job.lines.over(KEY)
            assert (len(job.lines), job.lines.queue.depth) == (1, 1)
            job.scene.second = TAKEN_OVER
            job.lines.over(Key("team", "another"))
            assert (len(job.lines), job.lines.queue.depth) == (0, 0)
            job.fails(end(1, attempt=OFTEN))
            job.scene.cache.trainjobs.remove(KEY)
            job.lines.over(KEY)
            assert (len(job.lines), job.lines.queue.held) == (0, 0), "it is gone"

    run(test)


def test_the_lines_of_a_job_whose_leader_ended_with_it_are_kept_by_the_next_leader() -> None:
    async def test() -> None:
        async with watched() as job:
            job.scene.leading = False
            job.has(1, "ValueError: no\n")
            job.fails(end(1))
            job.lines.over(KEY)
            job.scene.leading, job.scene.second = True, TAKEN_OVER / 2
            await job.look()
            assert job.data == {"node-1": "ValueError: no"}

    run(test)


def test_it_can_be_turned_off() -> None:
    async def test() -> None:
        async with watched(lines=0) as job:
            job.fails(end(1))
            assert (len(job.lines), job.lines.queue.depth) == (0, 0)

    run(test)


def test_a_pod_that_cannot_be_read_costs_only_itself() -> None:
    async def test() -> None:
        async with watched() as job:
            job.has(1, "ValueError: no\n")
            job.api.put(f"{PODS}/odd", {"metadata": {"labels": None}, "spec": None, "status": 7})
            job.fails(end(1))
            await job.look()
            assert job.data == {"node-1": "ValueError: no"}

    run(test)


def test_lines_without_a_text_are_small() -> None:
    assert msgspec.json.encode(Lines("p")) == b'{"pod":"p"}'
