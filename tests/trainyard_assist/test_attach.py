"""What `trainyard attach` says of a TrainJob as it goes, and the exit code of its end."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.support.explained.cases import failed
from tests.support.explained.cases_containers import FAILED_FIRST
from tests.support.explained.objects import NOW, pod, seen, terminated
from trainyard_api.reasons import Reason
from trainyard_assist import attach
from trainyard_assist.explain import Diagnosis, Finding, Ref, State, explain
from trainyard_assist.jobs import Row

RUNNING = Row(namespace="team", name="tj", state="Running", created=NOW, nodes="2/2")
QUEUED = replace(RUNNING, state="Queued", nodes="0/2", queue="default")
WORKLOAD = Ref("Workload", "jobset-tj", "team")


def held(message: str, *, cause: Reason = Reason.QUOTA_SHORT, ranks: tuple[int, ...] = ()) -> Diagnosis:
    finding = Finding(cause, WORKLOAD, message, "wait", ranks)
    return Diagnosis(Ref("TrainJob", "tj", "team"), State.HELD, "held", finding, (), ())


@pytest.mark.parametrize(
    ("row", "diagnosis", "line"),
    [
        (RUNNING, None, "TrainJob team/tj is Running, 2/2 nodes ready"),
        (
            replace(RUNNING, progress=42, ends=NOW + timedelta(minutes=12)),
            None,
            "TrainJob team/tj is Running, 2/2 nodes ready, 42%, ETA 12 min",
        ),
        (replace(RUNNING, nodes="", progress=0), None, "TrainJob team/tj is Running, 0%"),
        (QUEUED, None, "TrainJob team/tj is Queued"),
        (
            QUEUED,
            held("it is number 3 in ClusterQueue gpus"),
            "TrainJob team/tj is Queued: QuotaShort: it is number 3 in ClusterQueue gpus",
        ),
        (
            replace(QUEUED, state="Starting", nodes="1/2", progress=42),
            held("no such image", cause=Reason.IMAGE_NOT_PULLED, ranks=(1,)),
            "TrainJob team/tj is Starting, 1/2 nodes ready: "
            "ImageNotPulled: the others wait for node 1: no such image",
        ),
    ],
    ids=["runs", "reports", "reports at once", "waits", "waits for quota", "waits for a node"],
)
def test_a_state_is_a_line_with_what_explain_says_it_waits_for(
    row: Row, diagnosis: Diagnosis | None, line: str
) -> None:
    assert attach.line(row, NOW, diagnosis) == line


def test_a_line_is_said_again_when_what_a_reader_waits_for_changes_and_not_each_second() -> None:
    waits = attach.mark(QUEUED, held("it is number 3, and waits for a (runs for 5 min)"), 3)
    assert waits == attach.mark(QUEUED, held("it is number 3, and waits for a (runs for 6 min)"), 3)
    assert waits != attach.mark(QUEUED, held("it is number 2"), 2)
    assert waits != attach.mark(QUEUED, held("no such image", cause=Reason.IMAGE_NOT_PULLED), 3)
    assert waits != attach.mark(RUNNING)
    assert attach.mark(RUNNING) == attach.mark(replace(RUNNING, nodes="1/2"))
    forty = attach.mark(replace(RUNNING, progress=40))
    assert forty == attach.mark(replace(RUNNING, progress=49, ends=NOW))
    assert forty != attach.mark(replace(RUNNING, progress=50))


@pytest.mark.parametrize("state", ["Pending", "Queued", "Starting", "Blocked", "a newer word"])
def test_explain_is_asked_about_a_job_that_waits(state: str) -> None:
    assert attach.is_explained(replace(RUNNING, state=state))


@pytest.mark.parametrize("state", ["Running", "Complete", "Failed"])
def test_explain_is_not_asked_about_a_job_that_runs_or_has_ended(state: str) -> None:
    assert not attach.is_explained(replace(RUNNING, state=state))


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (terminated(42), 42),
        (terminated(137, "OOMKilled"), 137),
        (terminated(1, message=FAILED_FIRST), 3),
        (terminated(128, "StartError", message="no such file"), 1),
        (terminated(300), 1),
    ],
    ids=["exits", "is killed", "as a rank says", "never started", "no code of a process"],
)
def test_the_exit_code_of_a_failed_job_is_that_of_the_rank_that_failed_first(
    state: dict[str, Any], code: int
) -> None:
    observation = failed(pods=(pod(0, "Failed", state=state),))
    assert attach.exit_code(observation, explain(observation)) == code


def test_the_exit_code_is_1_where_no_rank_failed() -> None:
    observation = failed(pods=())
    assert attach.exit_code(observation, explain(observation)) == 1
    running = seen()
    assert attach.exit_code(running, explain(running)) == 1
