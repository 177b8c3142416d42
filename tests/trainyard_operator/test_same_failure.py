"""A failure that came twice alike is not tried a third time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from tests.support.core_values import at, counts, jobset, observed, stamp, trainjob
from trainyard_api.json_types import Json
from trainyard_operator.core.build.info import Settings
from trainyard_operator.core.decide import same_failure
from trainyard_operator.core.decide.reconcile import RETRY_SECONDS, reconcile
from trainyard_operator.core.model import (
    NOTHING,
    Activate,
    Condition,
    EventNote,
    JobSet,
    Observed,
    Plan,
    PodEnd,
    Suspend,
    TrainJob,
)
from trainyard_operator.core.status import attempts

TRACEBACK = 'Traceback (most recent call last):\n  File "/workspace/train.py", line 3, in <module>\n'
WORDS = f"{TRACEBACK}KeyError: 'label'\n"
MINUTE, HOUR = 60.0, 3600.0
NOW = at(2 * MINUTE)


def end(attempt: int, seconds: float, message: str = WORDS, **fields: Any) -> PodEnd:
    values: dict[str, Any] = {
        "job": "node",
        "index": 1,
        "attempt": attempt,
        "pod": f"tj-node-0-1-abcd{attempt}",
        "node": f"n{attempt}",
        "container": "node",
        "exit_code": 1,
        "reason": "Error",
        "at": at(seconds),
        "message": message,
    }
    return PodEnd(**{**values, **fields})


def restarted(times: int = 2, **fields: Any) -> JobSet:
    """The JobSet, whose controller has begun another attempt after each failure."""
    return jobset(restarts=times, replicated_jobs_status=(counts(active=1),), **fields)


def look(*ends: PodEnd, job: TrainJob | None = None, js: JobSet | None = None, now: datetime = NOW) -> Plan:
    job = job or trainjob(status={"jobsStatus": list(COUNTED)})
    noted = same_failure.with_progress(job, None, attempts.with_ends(attempts.of(job), ends))
    return reconcile(observed(job, js or restarted(), attempts=noted), now)


COUNTED: tuple[Json, ...] = (
    {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0},
)
MESSAGE = (
    "attempts 1 and 2 failed in the same way, so there is no further attempt: "
    "rank 5 (node 1) failed first: exit code 1, "
    "container node of pod tj-node-0-1-abcd1 on node n1: KeyError: 'label' (/workspace/train.py:3); correct "
    "the cause of the failure, and create the TrainJob again. With the annotation "
    "trainyard.dev/max-restarts, the operator retries a TrainJob even after the same failure"
)
FAILED = {
    "type": "Failed",
    "status": "True",
    "reason": "SameFailureTwice",
    "message": MESSAGE,
    "lastTransitionTime": stamp(2 * MINUTE),
}
TWICE = (end(0, MINUTE, rank=5), end(1, 2 * MINUTE, rank=5))


def stops(plan: Plan) -> bool:
    return any(condition["type"] == "Failed" for condition in (plan.status or {}).get("conditions", ()))


def test_the_trainjob_fails_and_says_what_came_twice_and_how_to_have_it_tried_again() -> None:
    assert look(*TWICE) == Plan(
        status={"conditions": [FAILED]},
        events=(EventNote("Warning", "SameFailureTwice", MESSAGE),),
        requeue_after=0.0,
    )


def failed(**fields: Any) -> Observed:
    return observed(trainjob(status={"conditions": [FAILED], "jobsStatus": list(COUNTED)}), **fields)


def test_then_its_jobset_is_suspended_and_keeps_its_volumes() -> None:
    plan = reconcile(failed(js=restarted()), at(130))
    suspend = Suspend("team", "tj", "js-uid", "9", {"trainyard.dev/ran-as": "unknown"})
    assert plan == Plan(writes=(suspend,), requeue_after=RETRY_SECONDS)


def test_a_queue_gets_its_quota_back() -> None:
    job = trainjob(status={"conditions": [FAILED]}, labels={"kueue.x-k8s.io/queue-name": "default"})
    held = restarted(queue="default")
    plan = reconcile(observed(job, held), at(130), Settings(queue_holds_jobset=True))
    assert plan == Plan(writes=(Activate("team", "tj", "js-uid", active=False),), requeue_after=RETRY_SECONDS)


def test_once_it_is_suspended_its_counts_are_told_and_nothing_is_written_any_more() -> None:
    stopped = restarted(suspend=True, times=3)
    stopped = replace(stopped, replicated_jobs_status=(counts(suspended=1),))
    told = {**COUNTED[0], "active": 0, "suspended": 1}
    assert reconcile(failed(js=stopped), at(140)) == Plan(status={"jobsStatus": [told]})
    counted = trainjob(status={"conditions": [FAILED], "jobsStatus": [told]})
    assert reconcile(observed(counted, stopped), at(150)) == NOTHING


def test_what_has_ended_or_is_going_is_left_alone() -> None:
    ended = restarted(conditions=(Condition("Failed", "True", "FailedJobs", "failed", stamp(125)),))
    assert reconcile(failed(js=ended), at(130)) == NOTHING
    assert reconcile(failed(js=restarted(deleting=True)), at(130)) == NOTHING
    assert reconcile(failed(js=restarted(owner_uid="another")), at(130)) == NOTHING


def test_of_more_attempts_the_last_two_count() -> None:
    ends = (end(0, 10, f"{TRACEBACK}OSError: busy\n"), end(1, 70), end(2, 130))
    plan = look(*ends, js=restarted(3), now=at(131))
    assert stops(plan)
    assert plan.events[0].message.startswith(
        "attempts 2 and 3 failed in the same way, so there is no further attempt: node 1 "
    )


def test_an_attempt_that_still_goes_on_has_not_failed() -> None:
    """A pod of it may be replaced by itself."""
    assert not stops(look(*TWICE, js=restarted(1)))


def test_who_names_a_number_gets_that_many() -> None:
    annotated = restarted(annotations={"trainyard.dev/max-restarts": "3"})
    assert not stops(look(*TWICE, js=annotated))


def test_an_attempt_that_has_run_for_minutes_is_let_be() -> None:
    """Such as after an upgrade of the operator."""
    assert not stops(look(*TWICE, now=at(2 * MINUTE + 301)))


def test_a_suspended_job_stays_suspended() -> None:
    assert not stops(look(*TWICE, job=trainjob({"suspend": True})))


@pytest.mark.parametrize(
    "twice",
    [
        pytest.param((end(0, 60, rank=5), end(1, 120, rank=3)), id="another rank, the same exit code"),
        pytest.param((end(0, 60), end(1, 120, exit_code=3)), id="another exit code, the same rank"),
        pytest.param(
            (end(0, 60, index=0, exit_code=3), end(1, 120, index=1, exit_code=3)),
            id="the same code of sys.exit",
        ),
        pytest.param(
            (
                end(0, 60, "", exit_code=137, reason="OOMKilled"),
                end(1, 120, "step 9", exit_code=137, reason="OOMKilled"),
            ),
            id="too much memory, whatever it said",
        ),
        pytest.param(
            (
                end(0, 60, "OSError: <socket 0x7f3a0c> of tj-node-0-0-aaaaa on n0 at 10.0.0.7:29500"),
                end(1, 120, "OSError: <socket 0x7f99ff> of tj-node-0-0-bbbbb on n1 at 10.0.0.9:29500"),
            ),
            id="other addresses, pods and nodes",
        ),
        pytest.param(
            (
                end(
                    0,
                    60,
                    "2026-01-01 12:00:01,250 [rank0] pid=4711 run 6f1c3a2e-1b2d-4c3d-8e9f-001122334455: no",
                ),
                end(
                    1,
                    120,
                    "2026-01-01 12:07:59,001 [rank0] pid=17 run 00000000-1b2d-4c3d-8e9f-aabbccddeeff: no",
                ),
            ),
            id="other times, processes and ids",
        ),
    ],
)
def test_the_same_again_is(twice: tuple[PodEnd, PodEnd]) -> None:
    assert stops(look(*twice))


@pytest.mark.parametrize(
    "twice",
    [
        pytest.param((end(0, 60), end(1, 120, f"{TRACEBACK}KeyError: 'text'\n")), id="other words"),
        pytest.param((end(0, 60), end(1, 120, WORDS.replace("line 3", "line 4"))), id="another place"),
        pytest.param(
            (end(0, 60, "loss is NaN at step 7"), end(1, 120, "loss is NaN at step 9")), id="a step"
        ),
        pytest.param((end(0, 60), end(1, 120, index=0, exit_code=3)), id="another node and exit code"),
        pytest.param((end(0, 60, ""), end(1, 120, "")), id="no words"),
        pytest.param((end(0, 60, "KeyError\n====\n"), end(1, 120, "OSError\n====\n")), id="only a rule"),
        pytest.param((end(0, 60), end(1, 120, lost_others=True)), id="it only lost others"),
        pytest.param(
            (end(0, 60, reason="Evicted"), end(1, 120, reason="Evicted")),
            id="evicted",
        ),
        pytest.param(
            (end(0, 60, reason="PreemptionByScheduler"), end(1, 120, reason="PreemptionByScheduler")),
            id="preempted",
        ),
        pytest.param(
            (end(0, 60, exit_code=128, reason="StartError"), end(1, 120, exit_code=128, reason="StartError")),
            id="it could not start",
        ),
        pytest.param((end(0, 60, exit_code=143), end(1, 120, exit_code=143)), id="told to end"),
        pytest.param((end(0, 60, exit_code=137), end(1, 120, exit_code=137)), id="killed"),
        pytest.param(
            (end(0, 60), end(1, 120, exit_code=137, reason="OOMKilled")), id="too much memory only once"
        ),
    ],
)
def test_the_same_again_is_not(twice: tuple[PodEnd, PodEnd]) -> None:
    assert not stops(look(*twice))


def test_attempts_between_which_one_was_not_seen_are_not_compared() -> None:
    assert not stops(look(end(0, 60), end(2, 120), js=restarted(3)))


@pytest.mark.parametrize(
    ("first", "second", "stopped"),
    [
        pytest.param(MINUTE, 9 * MINUTE, True, id="both soon"),
        pytest.param(10 * HOUR, 11 * HOUR, True, id="both as it saves after ten hours"),
        pytest.param(10 * HOUR, HOUR, False, id="it went on from a checkpoint, or came by chance"),
        pytest.param(MINUTE, HOUR, False, id="it came further"),
    ],
)
def test_without_reports_of_progress_both_must_have_taken_as_long(
    first: float, second: float, stopped: bool
) -> None:
    both = (end(0, first), end(1, first + second))
    assert stops(look(*both, now=at(first + second))) is stopped


def test_time_in_a_queue_is_no_time_of_the_first_attempt() -> None:
    resumed = Condition("Suspended", "False", "ResumeJobs", "jobset is resumed", stamp(5 * HOUR))
    both = (end(0, 5 * HOUR + 60), end(1, 5 * HOUR + 120))
    assert not stops(look(*both, now=at(5 * HOUR + 121)))
    assert stops(look(*both, js=restarted(conditions=(resumed,)), now=at(5 * HOUR + 121)))


def test_how_long_the_first_attempt_took_is_not_known_once_it_was_resumed_after_that() -> None:
    resumed = Condition("Suspended", "False", "ResumeJobs", "jobset is resumed", stamp(90))
    assert not stops(look(*TWICE, js=restarted(conditions=(resumed,))))


def reported(percentage: int, seconds: float, *noted: Json) -> TrainJob:
    progress = {"progressPercentage": percentage, "lastUpdatedTime": stamp(seconds)}
    return trainjob(status={"trainerStatus": progress, "trainyard": {"attempts": list(noted)}})


@pytest.mark.parametrize(
    ("percentage", "seconds", "stopped"),
    [
        pytest.param(40, 11 * HOUR, True, id="as far as before, though it took an hour"),
        pytest.param(41, 11 * HOUR, True, id="nearly"),
        pytest.param(45, 11 * HOUR, False, id="further"),
        pytest.param(40, 9 * HOUR, False, id="nothing was reported since the attempt before"),
    ],
)
def test_where_a_job_reports_its_progress_both_must_have_come_as_far(
    percentage: int, seconds: float, stopped: bool
) -> None:
    job = reported(40, 9 * HOUR)
    known = same_failure.with_progress(job, None, attempts.with_ends((), [end(0, 10 * HOUR)]))
    assert known[0]["progress"] == 40
    later = reported(percentage, seconds, *known)
    assert stops(look(end(1, 11 * HOUR), job=later, now=at(11 * HOUR))) is stopped


def test_the_progress_of_an_attempt_that_is_noted_stays() -> None:
    known = same_failure.with_progress(reported(40, 50), None, attempts.with_ends((), [end(0, 60)]))
    assert same_failure.with_progress(reported(70, 90, *known), None, known) == known


def test_the_first_pod_to_fail_is_told_with_the_progress_of_its_attempt() -> None:
    """Of two pods that failed, the one that was first may be seen later."""
    known = same_failure.with_progress(reported(40, 50), None, attempts.with_ends((), [end(0, 60)]))
    earlier = attempts.with_ends(known, [end(0, 55, index=0)])
    [noted] = same_failure.with_progress(reported(70, 90, *known), None, earlier)
    assert (noted["index"], noted["progress"]) == (0, 40)


def test_a_failure_after_which_the_job_had_continued_leaves_the_progress_to_a_later_one() -> None:
    known = same_failure.with_progress(reported(10, HOUR), None, attempts.with_ends((), [end(0, HOUR)]))
    later = attempts.with_ends(known, [end(0, 10 * HOUR, index=0)])
    [noted] = same_failure.with_progress(reported(90, 9 * HOUR, *known), None, later)
    assert (noted["index"], noted["progress"]) == (0, 90)
