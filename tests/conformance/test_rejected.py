"""The golden corpus: what Kubeflow Trainer v2.3.0 refuses, recorded, and what `validate` answers."""

import io
import json

import pytest

from tests.support.corpus import GOLDEN, RUNTIMES, cases, load
from trainyard_cli.commands.validate import run

(EXPECTED,) = load(GOLDEN / "rejected-expected.yaml")

UNRECORDED = {
    "22-otherkind": {
        "warnings": [],
        "errors": [
            {
                "field": "spec.runtimeRef",
                "type": "Invalid value",
                "message": (
                    'spec.runtimeRef: Invalid value: {"name":"x","apiGroup":"trainer.kubeflow.org",'
                    '"kind":"Foo"}: unsupported runtime: Foo.trainer.kubeflow.org'
                ),
            }
        ],
    }
}
"""Trainer answers this one without a field, by a plain error of the same words."""


def validate(*files):
    out, err = io.StringIO(), io.StringIO()
    code = run([*files, *RUNTIMES], out=out, err=err)
    assert err.getvalue().startswith("Not tried: ") == (code == 0)
    return code, json.loads(out.getvalue())


@pytest.mark.parametrize("case", cases(GOLDEN / "rejected"))
def test_validate_answers_what_trainer_answers(case):
    expected = {**EXPECTED, **UNRECORDED}[case]
    code, answer = validate(GOLDEN / "rejected" / f"{case}.yaml")
    assert answer == expected
    assert code == (1 if expected["errors"] else 0)


@pytest.mark.parametrize("case", cases(GOLDEN / "trainjobs"))
def test_validate_lets_in_what_trainer_builds(case):
    """The runtime with a cache included, which Trainer's own webhook refuses."""
    assert validate(GOLDEN / "trainjobs" / f"{case}.yaml")[1]["errors"] == []


def test_every_recorded_answer_is_asked_for():
    assert set(EXPECTED) | set(UNRECORDED) == set(cases(GOLDEN / "rejected"))
