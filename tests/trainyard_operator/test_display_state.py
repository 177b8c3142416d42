"""The word that `kubectl get trainjobs` shows of a TrainJob."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.core_values import jobset, trainjob
from trainyard_api import names
from trainyard_operator.core.model import JobSet
from trainyard_operator.core.status import display_state
from trainyard_operator.core.status.pod_readiness import Nodes

QUEUE = {names.QUEUE_LABEL: "default"}
HELD = {names.QUEUE_GATES_ANNOTATION: names.SENT_SUSPENDED}


def conditions(**said: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": status} for kind, status in said.items()]


def counts(name: str = "node", *, active: int = 0, ready: int = 0, succeeded: int = 0) -> dict[str, Any]:
    return {"name": name, "active": active, "ready": ready, "succeeded": succeeded}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "Pending"),
        ({"conditions": conditions(Suspended="True")}, "Suspended"),
        ({"conditions": conditions(Suspended="False")}, "Pending"),
        ({"conditions": conditions(Suspended="True", Blocked="True")}, "Blocked"),
        ({"conditions": conditions(Suspended="False", Failed="True"), "jobsStatus": []}, "Failed"),
        ({"conditions": conditions(Complete="True"), "jobsStatus": [counts(succeeded=1)]}, "Complete"),
        ({"jobsStatus": [counts()]}, "Starting"),
        ({"jobsStatus": [counts(active=1)]}, "Starting"),
        ({"conditions": conditions(Suspended="False"), "jobsStatus": [counts(active=1)]}, "Starting"),
        ({"conditions": conditions(Suspended="False"), "jobsStatus": [counts(active=1, ready=1)]}, "Running"),
        ({"jobsStatus": [counts("launcher", active=1), counts(active=1, ready=1)]}, "Starting"),
        ({"jobsStatus": [counts("launcher", active=1, ready=1), counts(active=1, ready=1)]}, "Running"),
        ({"jobsStatus": [counts("dataset-initializer", active=1, ready=1), counts()]}, "Initializing"),
        ({"jobsStatus": [counts("dataset-initializer", succeeded=1), counts(active=1)]}, "Starting"),
        ({"jobsStatus": [counts("model-initializer", succeeded=1), counts(active=1, ready=1)]}, "Running"),
    ],
)
def test_a_status_is_one_word(status: dict[str, Any], state: str) -> None:
    assert display_state.of(trainjob(), status, None) == state


@pytest.mark.parametrize(
    ("labels", "annotations", "held_by_kueue", "state"),
    [
        ({}, {}, False, "Suspended"),
        (QUEUE, {}, True, "Queued"),
        (QUEUE, HELD, True, "Suspended"),
        (QUEUE, {names.QUEUE_GATES_ANNOTATION: "example.com/budget"}, True, "Queued"),
        (
            QUEUE,
            {names.QUEUE_GATES_ANNOTATION: f"example.com/budget,{names.SENT_SUSPENDED}"},
            True,
            "Suspended",
        ),
        (QUEUE, {}, False, "Suspended"),
    ],
)
def test_a_suspended_job_that_kueue_will_resume_is_queued(
    labels: dict[str, str], annotations: dict[str, str], held_by_kueue: bool, state: str
) -> None:
    suspended = {"conditions": conditions(Suspended="True")}
    job = trainjob(labels=labels, annotations=annotations, held_by_kueue=held_by_kueue)
    assert display_state.of(job, suspended, None) == state


def test_the_word_is_of_the_status_as_it_is_once_patched_and_told_only_where_it_is_another() -> None:
    starting = {"jobsStatus": [counts(active=1)], "trainyard": {"state": "Starting"}}
    assert display_state.changed(trainjob(status=starting), None) == {}
    running = {"jobsStatus": [counts(active=1, ready=1)]}
    assert display_state.changed(trainjob(status=starting), running) == {"state": "Running"}
    assert display_state.changed(trainjob(status={"jobsStatus": [counts(active=1)]}), None) == {
        "state": "Starting"
    }
    assert display_state.changed(trainjob(), None) == {}


STARTING = {"jobsStatus": [counts(active=1)]}
RUNNING = {"jobsStatus": [counts(active=1, ready=1)]}
STUCK = Nodes(3, "pod a fits no node: no")
LOST = Nodes(3, lost=True)


@pytest.mark.parametrize(
    ("status", "told", "seen", "state"),
    [
        (STARTING, "Starting", STUCK, "Unschedulable"),
        (STARTING, "Unschedulable", None, "Unschedulable"),
        (STARTING, "Unschedulable", Nodes(3), "Starting"),
        (RUNNING, "Unschedulable", None, "Running"),
        (RUNNING, "Running", STUCK, "Running"),
        ({"jobsStatus": [counts("dataset-initializer", active=1)]}, "Initializing", STUCK, "Unschedulable"),
        ({"jobsStatus": [counts(active=1)], "conditions": conditions(Blocked="True")}, "", STUCK, "Blocked"),
    ],
)
def test_a_job_of_which_a_pod_fits_no_node_says_so_until_a_look_shows_otherwise(
    status: dict[str, Any], told: str, seen: Nodes | None, state: str
) -> None:
    job = trainjob(status={**status, "trainyard": {"state": told}})
    assert display_state.of(job, job.status, None, seen) == state


@pytest.mark.parametrize(
    ("status", "recorded", "seen", "state"),
    [
        (STARTING, "Starting", LOST, "NodeLost"),
        (STARTING, "NodeLost", None, "NodeLost"),
        (STARTING, "NodeLost", Nodes(3), "Starting"),
        (STARTING, "NodeLost", STUCK, "Unschedulable"),
        (RUNNING, "NodeLost", None, "Running"),
        (RUNNING, "Running", LOST, "Running"),
    ],
)
def test_a_job_that_runs_on_a_lost_node_is_not_called_starting(
    status: dict[str, Any], recorded: str, seen: Nodes | None, state: str
) -> None:
    job = trainjob(status={**status, "trainyard": {"state": recorded}})
    assert display_state.of(job, job.status, None, seen) == state


@pytest.mark.parametrize(
    ("status", "starts"),
    [
        (STARTING, True),
        ({"jobsStatus": [counts("dataset-initializer", active=1)]}, True),
        ({"jobsStatus": [counts("dataset-initializer", active=1, ready=1)]}, False),
        ({"jobsStatus": [counts()]}, False),
        (RUNNING, False),
        ({}, False),
        ({**STARTING, "conditions": conditions(Failed="True")}, False),
        ({**STARTING, "conditions": conditions(Suspended="True")}, False),
    ],
)
def test_pods_are_looked_at_where_there_are_some_and_not_all_are_ready(
    status: dict[str, Any], starts: bool
) -> None:
    assert display_state.is_starting(trainjob(), status, None) is starts


@pytest.mark.parametrize(
    ("status", "told", "seen", "nodes"),
    [
        ({}, {}, None, None),
        ({"jobsStatus": [], "conditions": conditions(Suspended="True")}, {}, None, "0/4"),
        (STARTING, {}, None, "0/4"),
        (STARTING, {"state": "Starting", "nodes": "0/4"}, Nodes(3), "3/4"),
        (STARTING, {"state": "Starting", "nodes": "3/4"}, None, "3/4"),
        (STARTING, {"state": "Starting", "nodes": "3/8"}, None, "0/4"),
        (STARTING, {"state": "Running", "nodes": "4/4"}, None, "4/4"),
        (STARTING, {"state": "Running", "nodes": "4/4"}, Nodes(3), "3/4"),
        ({"jobsStatus": [counts()]}, {"state": "Running", "nodes": "4/4"}, None, "0/4"),
        (
            {"conditions": conditions(Suspended="True"), **STARTING},
            {"state": "Running", "nodes": "4/4"},
            None,
            "0/4",
        ),
        (RUNNING, {"state": "Starting", "nodes": "3/4"}, None, "4/4"),
        ({**RUNNING, "conditions": conditions(Complete="True")}, {"nodes": "4/4"}, None, None),
    ],
)
def test_nodes_are_told_as_ready_of_wanted_and_not_once_a_job_has_ended(
    status: dict[str, Any], told: dict[str, str], seen: Nodes | None, nodes: str | None
) -> None:
    job = trainjob(status={**status, "trainyard": told})
    changed = display_state.changed(job, None, jobset(nodes=4), seen)
    assert {**told, **changed}.get("nodes") == nodes


@pytest.mark.parametrize(
    ("status", "labels", "held", "queue"),
    [
        ({}, QUEUE, None, None),
        ({}, QUEUE, jobset(queue="default", suspend=True), "default"),
        (STARTING, {}, jobset(queue="default"), "default"),
        (STARTING, QUEUE, jobset(), "default"),
        (STARTING, {names.QUEUE_LABEL: "other"}, jobset(queue="default"), "default"),
        (STARTING, {}, jobset(), None),
        ({**RUNNING, "conditions": conditions(Complete="True")}, QUEUE, None, "default"),
    ],
)
def test_the_queue_is_the_one_that_holds_the_jobset_or_the_trainjob(
    status: dict[str, Any], labels: dict[str, str], held: JobSet | None, queue: str | None
) -> None:
    job = trainjob(status=status, labels=labels)
    changed = display_state.changed(job, None, held)
    assert changed.get("queue") == queue
    told = trainjob(status={**status, "trainyard": changed}, labels=labels)
    assert display_state.changed(told, None, held) == {}, "it is said once"


def test_without_a_jobset_nothing_is_said_of_nodes() -> None:
    assert display_state.changed(trainjob(status=STARTING), None, None) == {"state": "Starting"}
