"""What is noted of pods that fail."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.support.core_values import T0, at, jobset, stamp, trainjob
from trainyard_operator.core.decide.views import SeenJobSet
from trainyard_operator.core.model import Condition, PodEnd
from trainyard_operator.watch.cache import Cache, Key
from trainyard_operator.watch.pod_ends import PodEnds

KEY = Key("team", "tj")
ERROR = {"exitCode": 1, "reason": "Error", "finishedAt": stamp(5), "message": "ValueError: no"}


def pod(
    name: str = "tj-node-0-1-abcde",
    *,
    attempt: int = 0,
    of: str = "js-uid",
    containers: dict[str, dict[str, Any]] | None = None,
    deleted: float | None = None,
    **status: Any,
) -> dict[str, Any]:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "tj",
        "jobset.sigs.k8s.io/jobset-uid": of,
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-completion-index": "1",
    }
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "labels": labels,
        "creationTimestamp": stamp(0),
    }
    if deleted is not None:
        metadata |= {"deletionTimestamp": stamp(deleted + 30), "deletionGracePeriodSeconds": 30}
    ended = {"node": ERROR} if containers is None else containers
    statuses = [{"name": container, "state": {"terminated": how}} for container, how in ended.items()]
    return {
        "metadata": metadata,
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Failed", "containerStatuses": statuses, **status},
    }


def noted(*pods: dict[str, Any], **of: Any) -> list[PodEnd]:
    cache = Cache()
    cache.trainjobs.observe(KEY, trainjob())
    ends = PodEnds(cache)
    for one in pods:
        ends.upsert(*ends.decode(msgspec.json.encode(one)))
    return list(ends.of(jobset(**of)))


def end(**fields: Any) -> PodEnd:
    values: dict[str, Any] = {
        "job": "node",
        "index": 1,
        "attempt": 0,
        "pod": "tj-node-0-1-abcde",
        "node": "n1",
        "container": "node",
        "exit_code": 1,
        "reason": "Error",
        "at": at(5),
        "message": "ValueError: no",
        "born": T0,
    }
    return PodEnd(**{**values, **fields})


SIDECAR = {"exitCode": 0, "reason": "Completed", "finishedAt": stamp(3)}
KILLED = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": stamp(4)}
EVICTED: dict[str, Any] = {"reason": "Evicted", "message": "Usage of EmptyDir volume exceeds the limit."}
TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "drained",
}


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (pod(), end()),
        (pod(attempt=3), end(attempt=3)),
        (pod(containers={"proxy": SIDECAR, "node": ERROR}), end()),
        (
            pod(containers={"node": ERROR, "logger": KILLED}),
            end(
                container="logger", exit_code=137, signal="SIGKILL", reason="OOMKilled", at=at(4), message=""
            ),
        ),
        (pod(**EVICTED), end(**EVICTED)),
        (pod(conditions=[TARGET]), end(reason="EvictionByEvictionAPI", message="drained")),
        (pod(deleted=6), end()),
        (pod(deleted=5), end()),
        (pod(deleted=1, conditions=[TARGET]), end(reason="EvictionByEvictionAPI", message="drained")),
        (
            pod(containers={}, reason="NodeLost", message="n1 is gone", deleted=9),
            end(container="", exit_code=0, reason="NodeLost", message="n1 is gone", at=at(39)),
        ),
        (pod(containers={}), end(container="", exit_code=0, at=T0, message="")),
    ],
    ids=[
        "an error",
        "a later attempt",
        "not the container that ended well",
        "the container that failed first",
        "evicted by kubelet",
        "evicted through the API",
        "deleted after it had failed",
        "deleted in the second in which it failed",
        "deleted to be evicted",
        "its node lost",
        "nothing known",
    ],
)
def test_it_is_noted_how_a_pod_failed(seen: dict[str, Any], wanted: PodEnd) -> None:
    assert noted(seen, restarts=4) == [wanted]


TOLD = {"exitCode": 143, "reason": "Error", "finishedAt": stamp(5)}


@pytest.mark.parametrize(
    "seen",
    [pod(deleted=4), pod(deleted=5, containers={"node": TOLD}), pod(deleted=4, containers={})],
    ids=["it ended after that", "it ended by SIGTERM in that second", "nothing ran"],
)
def test_a_pod_that_ended_because_it_was_deleted_is_not_noted(seen: dict[str, Any]) -> None:
    """As when Kueue takes the quota of its job: it goes on later, in the same attempt."""
    assert noted(seen) == []


DELETED = {"container": "", "exit_code": 0, "reason": "Deleted", "message": ""}
CLOSED = "rank 0 lost others at 2026-01-01T12:00:05.1+00:00 with exit code 1\nConnection closed by peer\n"
LOST = pod("victim", containers={"node": {**ERROR, "message": CLOSED}})


@pytest.mark.parametrize("order", [1, -1])
def test_an_attempt_that_is_over_ended_because_its_pod_was_deleted_not_by_who_lost_it(order: int) -> None:
    seen = [pod(deleted=4), LOST][::order]
    assert noted(*seen) == []
    assert noted(*seen, restarts=1) == [end(at=at(4), **DELETED)]


def test_who_lost_others_is_noted_once_no_other_can_have_failed_before() -> None:
    assert noted(LOST) == []
    assert [one.pod for one in noted(LOST, restarts=1)] == ["victim"]
    failed = (Condition("Failed", "True", "FailedJobs", "", stamp(9)),)
    assert [one.pod for one in noted(LOST, conditions=failed)] == ["victim"]


def test_that_a_pod_was_evicted_is_noted_once_the_job_does_not_continue_with_another() -> None:
    evicted = pod("evicted", conditions=[TARGET])
    assert noted(evicted) == []
    assert [one.pod for one in noted(evicted, restarts=1)] == ["evicted"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_pod_without_which_the_job_had_continued_is_not_why_it_failed_later(order: int) -> None:
    hours = {"node": {**ERROR, "exitCode": 42, "finishedAt": stamp(36000)}}
    later = pod("later", containers=hours)
    assert [one.pod for one in noted(*[pod("evicted", **EVICTED), later][::order])] == ["later"]


def test_a_pod_that_failed_before_it_was_deleted_has_failed_though_its_launcher_was_told_to_end() -> None:
    """As torchrun, which waits for its peers after one of its ranks has failed."""
    said = "rank 1 failed at 2026-01-01T12:00:03.5+00:00 with exit code 1\nValueError: no\n"
    told = {"exitCode": 143, "reason": "Error", "finishedAt": stamp(9), "message": said}
    assert noted(pod(deleted=8, containers={"node": told}), LOST) == [
        end(rank=1, at=at(3.5), message="ValueError: no\n")
    ]


def test_what_fails_after_a_pause_is_the_failure_of_its_attempt() -> None:
    later = pod("later", containers={"node": {**ERROR, "finishedAt": stamp(60)}})
    later["metadata"]["creationTimestamp"] = stamp(30)
    assert [one.pod for one in noted(pod(deleted=4), LOST, later)] == ["later"]


@pytest.mark.parametrize(
    "state",
    [
        {"waiting": {"reason": "CrashLoopBackOff"}},
        {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}},
    ],
)
def test_a_container_that_was_to_be_started_again_has_failed_before(state: dict[str, Any]) -> None:
    again = pod(deleted=6)
    [status] = again["status"]["containerStatuses"]
    status |= {"state": state, "lastState": {"terminated": ERROR}}
    assert noted(again) == [end()]


def test_what_a_container_has_recovered_from_is_not_noted() -> None:
    suspended = pod(deleted=4)
    [status] = suspended["status"]["containerStatuses"]
    status |= {"lastState": {"terminated": {**ERROR, "finishedAt": stamp(1)}}}
    assert noted(suspended) == []


def test_of_each_attempt_the_first_is_kept_and_outlives_its_pod() -> None:
    later = pod("later", containers={"node": {**ERROR, "finishedAt": stamp(6)}})
    second = pod("second", attempt=1)
    assert [one.pod for one in noted(later, pod(), second)] == ["tj-node-0-1-abcde", "second"]
    assert [one.pod for one in noted(pod(), later)] == ["tj-node-0-1-abcde"]


def test_many_attempts_take_little_room() -> None:
    found = noted(*(pod(attempt=attempt) for attempt in range(100)))
    assert [one.attempt for one in found] == [0, *range(93, 100)]


def test_of_a_jobset_that_was_made_anew_no_attempt_is_lost_for_those_of_the_first() -> None:
    first = [pod(attempt=attempt, of="z") for attempt in range(8)]
    ends = noted(*first, *(pod(attempt=attempt, of="a") for attempt in range(3)), uid="a", restarts=3)
    assert [end.attempt for end in ends] == [0, 1, 2]


def test_a_pod_that_cannot_be_noted_hides_no_other() -> None:
    cache = Cache()
    cache.trainjobs.observe(KEY, trainjob())
    ends = PodEnds(cache)

    def failed(_: Key, __: str, end: PodEnd) -> None:
        if end.pod == "bad":
            raise OverflowError

    ends.failed = failed
    ends.replace(dict(ends.decode(msgspec.json.encode(pod(name))) for name in ("bad", "good")), 1)
    assert [noted.pod for noted in ends.of(jobset())] == ["good"]


def test_pods_of_no_trainjob_and_of_one_that_has_ended_are_not_noted() -> None:
    cache = Cache()
    woken: list[Key] = []
    cache.wake = woken.append
    ends = PodEnds(cache)
    ends.upsert(*ends.decode(msgspec.json.encode(pod())))
    assert (len(ends), woken) == (0, [])
    cache.trainjobs.observe(KEY, trainjob())
    ends.replace(dict([ends.decode(msgspec.json.encode(pod()))]), 9)
    assert (len(ends), woken) == (1, [KEY, KEY])
    assert ends.of(jobset(uid="another")) == []
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    cache.trainjobs.observe(KEY, trainjob(status=failed, resource_version="8"))
    assert len(ends) == 0


@pytest.mark.parametrize("lacks", ["jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/jobset-uid"])
def test_a_pod_without_the_labels_of_jobset_is_unreadable(lacks: str) -> None:
    foreign = pod()
    del foreign["metadata"]["labels"][lacks]
    with pytest.raises(KeyError):
        PodEnds(Cache()).decode(msgspec.json.encode(foreign))


def test_who_failed_when_and_how_is_what_the_program_itself_has_told() -> None:
    told = "rank 5 failed at 2026-01-01T12:00:04.25+00:00 with exit code 137\nTraceback\nValueError: no\n"
    assert noted(pod(containers={"node": {**ERROR, "message": told}})) == [
        end(
            rank=5,
            exit_code=137,
            signal="SIGKILL",
            at=datetime(2026, 1, 1, 12, 0, 4, 250000, UTC),
            message="Traceback\nValueError: no\n",
        )
    ]
    killed = pod(containers={"node": {**KILLED, "message": told}})
    assert noted(killed) == [end(exit_code=137, signal="SIGKILL", reason="OOMKilled", at=at(4), message=told)]


def test_of_a_container_that_is_killed_it_is_not_noted_what_a_program_beside_its_own_had_left() -> None:
    """As a script of `trainyard exec`, which failed before."""
    left = "failed at 2026-01-01T12:00:01+00:00 with exit code 1\nImportError: no numpy\n"
    killed = pod(containers={"node": {**KILLED, "message": left}})
    assert noted(killed) == [end(exit_code=137, signal="SIGKILL", reason="OOMKilled", at=at(4), message="")]


def test_a_grace_period_of_many_centuries_is_none() -> None:
    deleted = pod(containers={}, deleted=9)
    deleted["metadata"]["deletionGracePeriodSeconds"] = 2**62
    assert noted(deleted, restarts=1) == [
        end(container="", exit_code=0, reason="Deleted", at=at(39), message="")
    ]


def test_what_no_controller_writes_is_no_number() -> None:
    foreign = pod()
    foreign["metadata"]["labels"] |= {
        "jobset.sigs.k8s.io/restart-attempt": "9" * 63,
        "batch.kubernetes.io/job-completion-index": "one",
    }
    assert noted(foreign) == [end(index=0)]


@pytest.mark.parametrize(("created", "told"), [(-1, 1), (0, 1), (1, 0)])
def test_a_pod_that_is_older_than_its_trainjob_is_of_an_earlier_one(created: float, told: int) -> None:
    cache = Cache()
    cache.trainjobs.observe(KEY, replace(trainjob(), created=at(created)))
    ends, seen = PodEnds(cache), []
    ends.failed = lambda *failed: seen.append(failed)
    ends.upsert(*ends.decode(msgspec.json.encode(pod())))
    assert (len(seen), len(ends)) == (told, told)


@pytest.mark.parametrize(("uid", "created", "told"), [("js-uid", 1, 1), ("new", 1, 0), ("new", 0, 1)])
def test_a_pod_that_is_older_than_a_jobset_not_its_own_is_of_an_earlier_one(
    uid: str, created: float, told: int
) -> None:
    cache = Cache()
    cache.trainjobs.observe(KEY, trainjob())
    cache.jobsets.observe(KEY, SeenJobSet(jobset(uid=uid, created=at(created)), True))
    ends = PodEnds(cache)
    ends.upsert(*ends.decode(msgspec.json.encode(pod())))
    assert len(ends) == told


def test_each_failed_pod_of_a_trainjob_that_has_not_ended_is_told_and_its_end_too() -> None:
    cache = Cache()
    cache.trainjobs.observe(KEY, trainjob())
    ends = PodEnds(cache)
    failed: list[tuple[Key, str, str]] = []
    over: list[Key] = []
    ends.failed = lambda key, jobset, end: failed.append((key, jobset, end.pod))
    ends.over = over.append
    for name in ("first", "second"):
        ends.upsert(*ends.decode(msgspec.json.encode(pod(name))))
    assert failed == [(KEY, "js-uid", "first"), (KEY, "js-uid", "second")]
    cache.trainjobs.remove(KEY)
    ends.upsert(*ends.decode(msgspec.json.encode(pod("third"))))
    assert (len(failed), over) == (2, [KEY])
