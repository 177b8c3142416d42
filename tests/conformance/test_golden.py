"""The golden corpus: what Kubeflow Trainer v2.3.0 itself builds, recorded, and what `render` builds."""

import io

import pytest

from tests.support.corpus import GOLDEN, RUNTIMES, by_kind_and_name, cases, load, parsed
from trainyard_api import documents
from trainyard_assist.render import render
from trainyard_cli.commands.render import run
from trainyard_operator.core.build.info import Settings

from . import exceptions
from .compare import differences, without_open_mpi_5

NOTHING = exceptions.Allowed(0, "it is the same")
OF_MPI = 33
GATES = {"expected": "", "expected-status-gate": "TrainJobStatus=true"}
"""Folders of expectations, and the feature gates that they were recorded with."""


def with_the_gates_share_last(value):
    """Trainer's plugins run in a random order, so that what the gate adds to a list stands anywhere in it."""
    if isinstance(value, dict):
        return {name: with_the_gates_share_last(item) for name, item in value.items()}
    if isinstance(value, list):
        named = all(isinstance(item, dict) and "name" in item for item in value)
        ordered = sorted(value, key=is_the_gates) if named else value
        return [with_the_gates_share_last(item) for item in ordered]
    return value


def by_name(children):
    return {f"{child['kind']} {child['metadata']['name']}": child for child in children}


def is_the_gates(item):
    return item["name"].startswith(("KUBEFLOW_TRAINER_SERVER_", "kubeflow-trainer-token"))


@pytest.mark.parametrize(
    ("folder", "case"), [(folder, case) for folder in GATES for case in cases(GOLDEN / folder)]
)
def test_render_builds_what_trainer_builds(folder, case):
    out, err = io.StringIO(), io.StringIO()
    files = [GOLDEN / "trainjobs" / f"{case}.yaml", *RUNTIMES]
    code = run(files, feature_gates=GATES[folder], out=out, err=err)
    assert (code, err.getvalue()) == (0, "")
    built, expected = parsed(out.getvalue()), by_kind_and_name(load(GOLDEN / folder / f"{case}.yaml"))
    if GATES[folder]:
        built, expected = with_the_gates_share_last(built), with_the_gates_share_last(expected)
    allowed = exceptions.GOLDEN.get(case, NOTHING)
    known = without_open_mpi_5(built)
    assert (known != built) is (allowed.quirk == OF_MPI)
    assert sorted(differences(by_name(known), by_name(expected))) == list(allowed.paths)


@pytest.mark.parametrize("case", cases(GOLDEN / "expected"))
def test_what_is_built_for_a_jobset_that_trainer_has_made_is_what_trainer_builds(case):
    given = [
        document
        for path in (GOLDEN / "trainjobs" / f"{case}.yaml", *RUNTIMES)
        for document in documents.parse(path.read_text(), path.name)
    ]
    built = render(given, settings=Settings(built_as=1), namespace="ns")
    expected = by_name(load(GOLDEN / "expected" / f"{case}.yaml"))
    assert differences(by_name(built), expected) == {}


def test_every_trainjob_of_the_corpus_has_an_expectation():
    assert cases(GOLDEN / "trainjobs") == cases(GOLDEN / "expected")
