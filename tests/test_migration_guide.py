"""docs/migrate-from-v1.md names nothing of the SDK that is not there."""

import inspect
import re
from pathlib import Path

import pytest
from kubeflow import trainer
from kubeflow.trainer import options
from kubeflow.trainer.types import types

GUIDE = Path(__file__).parents[1] / "docs" / "migrate-from-v1.md"
OURS = {"trainyard migrate", "kubectl apply", "kubectl patch"}


def calls():
    """What stands in the right-hand column of the table of the SDK."""
    table = GUIDE.read_text().partition("| `TrainingClient` | today |\n|---|---|\n")[2]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return [call for _, today in rows for call in re.findall(r"`([^`]+)`", today) if call not in OURS]


def callables(text):
    """Each name that is called in the text, with the keywords of its own call; a name alone without any."""
    if "(" not in text:
        yield text, []
    for name, arguments in re.findall(r"([A-Za-z0-9_.]+)\(((?:[^()]|\([^()]*\))*)\)", text):
        yield name, re.findall(r"(\w+)=", re.sub(r"\([^()]*\)", "", arguments))
        if "(" in arguments:
            yield from callables(arguments)


def resolved(name):
    first, _, rest = name.partition(".")
    found = options if first == "options" else getattr(trainer, first)
    return getattr(found, rest) if rest else found


def test_the_table_has_calls():
    assert len(calls()) > 20


@pytest.mark.parametrize("call", sorted(set(calls())))
def test_the_sdk_has(call):
    for name, keywords in callables(call):
        found = types.TrainJob if name == "TrainJob" else resolved(name)
        assert set(keywords) <= set(inspect.signature(found).parameters), name


def test_the_status_and_the_steps_of_a_job_are_what_the_guide_says():
    job = inspect.signature(types.TrainJob).parameters
    step = inspect.signature(types.Step).parameters
    assert {"status", "steps"} <= set(job)
    assert {"pod_name", "status"} <= set(step)
