"""What the notebook's bar shows of a TrainJob."""

import importlib.util
from typing import Any

import pytest

from tests.support.site import ROOT

pytestmark = pytest.mark.long  # IPython takes seconds to import

WAITS = {"state": "Queued", "nodes": "0/2", "queue": "default"}
BLOCKED = {"type": "Blocked", "status": "True", "message": "the runtime is not there"}
RUNS_AGAIN = {"type": "Blocked", "status": "False", "message": "it was not there"}
REPORTED = {"progressPercentage": 40, "estimatedRemainingSeconds": 90}


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, ("Created", 0, "Created")),
        ({"trainyard": WAITS}, ("Queued", 0, "Queued, 0/2 nodes, queue default")),
        (
            {"trainyard": {"state": "Blocked", "nodes": "0/2"}, "conditions": [BLOCKED]},
            ("Blocked", 0, "Blocked, 0/2 nodes: the runtime is not there"),
        ),
        (
            {
                "trainyard": {"state": "Running", "nodes": "2/2", "queue": "default"},
                "trainerStatus": REPORTED,
                "conditions": [RUNS_AGAIN],
            },
            ("Running", 40, "Running, 2/2 nodes, 90 s left"),
        ),
        (
            {"conditions": [{"type": "Complete", "status": "True", "message": "jobset completed"}]},
            ("Complete", 100, "Complete: jobset completed"),
        ),
    ],
    ids=["new", "in a queue", "blocked", "running", "without Trainyard"],
)
def test_the_bar_and_its_line_say_how_far_a_job_is(status: Any, shown: tuple[str, float, str]) -> None:
    spec = importlib.util.spec_from_file_location("progress", ROOT / "examples/notebook/progress.py")
    assert spec
    assert spec.loader
    progress = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(progress)
    assert progress.shown({"status": status}) == shown
