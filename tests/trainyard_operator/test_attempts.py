"""How the attempts of a TrainJob failed, in its status, its condition and its Events."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.core_values import at, jobset, stamp, trainjob
from trainyard_operator.core.model import Condition, EventNote, PodEnd
from trainyard_operator.core.status import attempts


def end(index: int, seconds: float, *, attempt: int = 0, **fields: Any) -> PodEnd:
    values: dict[str, Any] = {
        "job": "node",
        "index": index,
        "attempt": attempt,
        "pod": f"tj-node-0-{index}-abcde",
        "node": "n1",
        "container": "node",
        "exit_code": 1,
        "reason": "Error",
        "at": at(seconds),
    }
    return PodEnd(**{**values, **fields})


def said(index: int, seconds: float, *, attempt: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "job": "node",
        "index": index,
        "pod": f"tj-node-0-{index}-abcde",
        "node": "n1",
        "container": "node",
        "exitCode": 1,
        "reason": "Error",
        "failedAt": stamp(seconds),
        **fields,
    }


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ([end(0, 3), end(1, 2)], 1),
        ([end(0, 2), end(1, 2)], 0),
        ([end(0, 2, exit_code=143), end(1, 2)], 1),
        ([end(0, 1, exit_code=143), end(1, 2)], 0),
        ([end(0, 1, lost_others=True), end(1, 3)], 1),
        ([end(0, 3, lost_others=True), end(1, 2, lost_others=True)], 1),
        ([end(0, 2.75), end(1, 2.5)], 1),
    ],
    ids=[
        "the earliest",
        "the lower",
        "not who was told to end",
        "unless that was first",
        "not who lost others",
        "unless all have",
        "the earliest within a second",
    ],
)
def test_of_each_attempt_the_pod_that_failed_first_is_kept(ends: list[PodEnd], first: int) -> None:
    assert [one["index"] for one in attempts.with_ends((), ends)] == [first]
    assert [one["index"] for one in attempts.with_ends((), ends[::-1])] == [first]
    one_by_one = attempts.with_ends(attempts.with_ends((), ends[:1]), ends[1:])
    assert [one["index"] for one in one_by_one] == [first]


def test_times_near_the_end_of_all_years_can_be_compared() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    told, lost = end(0, 2, exit_code=143), replace(end(1, 2, lost_others=True), at=last)
    assert attempts.is_before(lost, told)
    assert not attempts.is_before(told, lost)


MINUTE = 60
HOUR = 60 * MINUTE


@pytest.mark.parametrize(
    ("later", "first"),
    [
        (end(1, 10 * HOUR, exit_code=42), 1),
        (end(1, 9 * MINUTE, exit_code=42), 0),
        (end(1, 10 * HOUR, lost_others=True), 1),
        (end(1, 30 * MINUTE, lost_others=True), 0),
        (end(1, 10 * HOUR, exit_code=143), 0),
        (end(1, 10 * HOUR, exit_code=0, reason="Deleted", container=""), 0),
    ],
    ids=[
        "the job had continued",
        "it is a consequence",
        "it lost others hours later",
        "it had waited for the first",
        "it was told to end",
        "it was deleted",
    ],
)
def test_a_failure_after_which_the_job_had_continued_is_not_the_cause_of_a_later_one(
    later: PodEnd, first: int
) -> None:
    ends = [end(0, MINUTE, reason="Evicted"), later]
    for seen in (ends, ends[::-1]):
        noted: tuple[Any, ...] = ()
        for one_more in seen:
            noted = attempts.with_ends(noted, [one_more])
        assert [attempt["index"] for attempt in noted] == [first]


def test_what_fails_after_the_job_had_continued_is_an_event_of_its_own() -> None:
    [evicted] = attempts.with_ends((), [end(0, MINUTE, reason="Evicted")])
    known = attempts.with_ends([evicted], [end(1, 10 * HOUR)])
    assert attempts.notes({attempts.told(evicted)}, known) == (
        EventNote("Warning", "AttemptFailed", f"Attempt 1: {attempts.sentence(known[0])}"),
    )
    assert attempts.notes({attempts.told(evicted), attempts.told(known[0])}, known) == ()


def test_an_attempt_is_kept_whole() -> None:
    killed = end(
        1, 5, attempt=2, exit_code=137, signal="SIGKILL", reason="OOMKilled", message="x" * 5000 + "!"
    )
    assert attempts.with_ends((), [killed]) == (
        said(
            1,
            5,
            attempt=3,
            exitCode=137,
            signal="SIGKILL",
            reason="OOMKilled",
            message="x" * 1999 + "!",
        ),
    )


def test_a_status_keeps_the_first_attempt_and_the_last_ones() -> None:
    found: tuple[Any, ...] = ()
    for attempt in range(12):
        found = attempts.with_ends(found, [end(0, attempt, attempt=attempt)])
    assert [one["attempt"] for one in found] == [1, 6, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (
            said(1, 0, message="Traceback ...\nValueError: no\n\n"),
            "node 1 failed first: exit code 1, container node of pod tj-node-0-1-abcde on node n1: "
            "ValueError: no",
        ),
        (
            said(0, 0, exitCode=137, signal="SIGKILL", reason="OOMKilled"),
            "node 0 failed first: OOMKilled, exit code 137 (SIGKILL), "
            "container node of pod tj-node-0-0-abcde on node n1",
        ),
        (
            said(
                0, 0, exitCode=0, reason="Evicted", container="", node="", message="The node was low on disk."
            ),
            "node 0 failed first: Evicted, pod tj-node-0-0-abcde: The node was low on disk.",
        ),
    ],
)
def test_how_it_failed_is_a_sentence(attempt: dict[str, Any], sentence: str) -> None:
    assert attempts.sentence(attempt) == sentence


def test_the_condition_failed_has_upstreams_words_first_and_the_last_attempt_behind_them() -> None:
    failed = Condition(
        "Failed", "True", "FailedJobs", "jobset failed due to one or more job failures", stamp(9)
    )
    known = attempts.with_ends((), [end(0, 1), end(1, 5, attempt=1)])
    assert attempts.with_last_failure(failed, known) == Condition(
        "Failed",
        "True",
        "FailedJobs",
        "jobset failed due to one or more job failures. In attempt 2 node 1 failed first: exit code 1, "
        "container node of pod tj-node-0-1-abcde on node n1",
        stamp(9),
    )
    assert attempts.with_last_failure(failed, known[:1]).message.startswith(
        f"{failed.message}. node 0 failed first: "
    )
    assert attempts.with_last_failure(failed, ()) == failed
    complete = Condition("Complete", "True", "AllJobsCompleted", "jobset completed successfully", stamp(9))
    assert attempts.with_last_failure(complete, known) == complete


def test_each_attempt_is_an_event_once() -> None:
    known = attempts.with_ends((), [end(0, 1), end(1, 5, attempt=1)])
    assert attempts.notes({attempts.told(known[0])}, known) == (
        EventNote("Warning", "AttemptFailed", f"Attempt 2: {attempts.sentence(known[1])}"),
    )


def test_what_the_status_keeps_is_read_back() -> None:
    known = attempts.with_ends((), [end(0, 1)])
    assert attempts.of(trainjob(status={"trainyard": {"attempts": list(known)}})) == known
    assert attempts.of(trainjob()) == ()


def test_attempts_of_an_earlier_jobset_are_not_those_of_its_successor() -> None:
    known = attempts.with_ends((), [end(0, 1), end(1, 5, attempt=1)])
    job = trainjob(status={"trainyard": {"attempts": list(known)}})
    assert attempts.of(job, jobset(created=at(1))) == known
    assert attempts.of(job, jobset(created=at(2))) == known[1:]
    assert attempts.of(job, jobset(created=at(6))) == ()


def test_an_attempt_on_a_node_whose_clock_is_behind_is_of_the_jobset_that_made_its_pod() -> None:
    known = attempts.with_ends((), [end(0, 1, born=at(61)), end(1, 5, attempt=1, born=at(65))])
    assert known == (said(0, 61), said(1, 65, attempt=2))
    assert (
        attempts.of(trainjob(status={"trainyard": {"attempts": list(known)}}), jobset(created=at(60)))
        == known
    )


def test_what_an_earlier_release_counted_from_0_is_counted_from_1() -> None:
    old = [said(0, 1, attempt=0), said(0, 5, attempt=1)]
    assert [one["attempt"] for one in attempts.of(trainjob(status={"trainyard": {"attempts": old}}))] == [
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Deleted", "was deleted"),
        ("EvictionByEvictionAPI", "was evicted"),
        ("PreemptionByScheduler", "was preempted"),
        ("DeletionByPodGC", "was lost with its node"),
    ],
)
def test_what_is_no_failure_is_not_told_as_one(reason: str, words: str) -> None:
    known = attempts.with_ends((), [end(1, 2, exit_code=0, reason=reason, container="")])
    sentence = f"node 1 {words}, pod tj-node-0-1-abcde on node n1"
    assert attempts.notes((), known) == (EventNote("Normal", "AttemptEnded", f"Attempt 1: {sentence}"),)


def test_a_pod_that_was_deleted_is_behind_a_failure_of_the_same_second_and_before_who_lost_it() -> None:
    deleted = end(0, 2, exit_code=0, reason="Deleted", container="")
    for other, first in ((end(1, 2.9), 1), (end(1, 1.5, lost_others=True), 0), (end(1, 3), 0)):
        assert [one["index"] for one in attempts.with_ends((), [deleted, other])] == [first]


@pytest.mark.parametrize(
    ("others", "first"),
    [
        ([end(1, 17, exit_code=0, reason="Deleted", container="")], 0),
        ([end(1, 17, exit_code=143)], 0),
        ([end(1, 17, exit_code=0, reason="Deleted", container=""), end(2, 4)], 2),
        ([end(1, 4, exit_code=0, reason="Deleted", container="")], 1),
    ],
    ids=["so it is the first", "it may have ended by itself", "unless another failed", "not before"],
)
def test_a_pod_that_was_deleted_after_one_had_lost_others_was_deleted_because_of_it(
    others: list[PodEnd], first: int
) -> None:
    """As by JobSet's controller, once torchrun has waited for its peers in vain."""
    ends = [end(0, 5, lost_others=True, rank=0), *others]
    for seen in (ends, ends[::-1]):
        noted: tuple[Any, ...] = ()
        for one_more in seen:
            noted = attempts.with_ends(noted, [one_more])
        assert [attempt["index"] for attempt in noted] == [first]
