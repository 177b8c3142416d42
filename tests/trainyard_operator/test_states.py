"""The word that `kubectl get trainjobs` shows of a TrainJob."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard_api import names
from trainyard_operator.core import states

from .core_values import trainjob

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
    assert states.of(trainjob(), status) == state


@pytest.mark.parametrize(
    ("labels", "annotations", "state"),
    [({}, {}, "Suspended"), (QUEUE, {}, "Queued"), (QUEUE, HELD, "Suspended")],
)
def test_a_suspended_job_that_kueue_will_resume_is_queued(
    labels: dict[str, str], annotations: dict[str, str], state: str
) -> None:
    suspended = {"conditions": conditions(Suspended="True")}
    assert states.of(trainjob(labels=labels, annotations=annotations), suspended) == state


def test_the_word_is_of_the_status_as_it_is_once_patched_and_told_only_where_it_is_another() -> None:
    starting = {"jobsStatus": [counts(active=1)], "trainyard": {"state": "Starting"}}
    assert states.changed(trainjob(status=starting), None) == {}
    running = {"jobsStatus": [counts(active=1, ready=1)]}
    assert states.changed(trainjob(status=starting), running) == {"state": "Running"}
    assert states.changed(trainjob(status={"jobsStatus": [counts(active=1)]}), None) == {"state": "Starting"}
    assert states.changed(trainjob(), None) == {}
