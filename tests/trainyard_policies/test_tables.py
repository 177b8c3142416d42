"""A hundred mistakes are refused, and what is honest is not: in files and in the policy pack.

The same tables are put to a real API server in `tests/conformance/test_gates.py`.
"""

import functools
import io
from pathlib import Path
from typing import Any

import pulumi_policy as crossguard
import pytest

from tests.support.corpus import RUNTIMES, load
from tests.support.packs import arguments, reported
from tests.support.rule_examples import TODAY, OnThatDay
from tests.support.rule_tables import Case, cases
from trainyard_api import documents
from trainyard_cli.commands import lint
from trainyard_policies import engine, pack
from trainyard_policies.settings import Policies

FAULTY, HONEST = cases("faulty"), cases("honest")
MANDATORY = crossguard.EnforcementLevel.MANDATORY


@functools.cache
def refusing() -> list[Any]:
    """What of the pack refuses a resource."""
    return [
        policy
        for policy in pack.all_policies(Policies())
        if policy.enforcement_level is MANDATORY and isinstance(policy, crossguard.ResourceValidationPolicy)
    ]


def test_there_are_a_hundred_mistakes_and_sixty_that_are_none():
    assert (len(FAULTY) >= 100, len(HONEST) >= 60) == (True, True)
    assert len({case.what for case in (*FAULTY, *HONEST)}) == len(FAULTY) + len(HONEST)


@pytest.mark.parametrize("case", FAULTY, ids=str)
def test_lint_refuses_a_mistake_with_its_field_its_line_and_the_way_out(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("f.yaml").write_text(documents.dump([case.manifest]))
    out = io.StringIO()
    code = lint.run([Path("f.yaml")], today=TODAY, out=out, err=io.StringIO())
    [document] = documents.parse(Path("f.yaml").read_text(), "f.yaml")
    found = engine.check(document.value, TODAY, case.policies)
    [said] = [
        v for v in found if v.refuses and (str(v.finding.path), case.says in v.message) == (case.at, True)
    ]
    place = document.position(said.finding.path.steps)
    line = f"f.yaml:{place.line}:{place.column}: mandatory: {said.message} [{said.rule.id}]\n"
    assert (code, line in out.getvalue()) == (1, True), out.getvalue()


@pytest.mark.parametrize("case", FAULTY, ids=str)
def test_the_pack_refuses_a_mistake_in_a_preview(case: Case, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pack, "date", OnThatDay)
    said = [message for policy in refusing() for message, _ in reported(policy, arguments(case.manifest))]
    assert [message for message in said if message.startswith(f"{case.at}: ") and case.says in message], said


@pytest.mark.parametrize("case", HONEST, ids=str)
def test_nothing_is_refused_that_is_only_unusual(case: Case):
    found = engine.check(case.manifest, TODAY, case.policies)
    assert [violation.message for violation in found if violation.refuses] == []


@pytest.mark.parametrize("path", RUNTIMES, ids=lambda path: path.stem)
def test_the_shapes_have_nothing_against_what_trainers_own_controller_builds_from(path: Path):
    asked = ("well-formed", "pod-consistency")
    for manifest in load(path):
        found = engine.check(manifest, TODAY)
        assert [v.message for v in found if v.refuses and v.rule.id in asked] == []
