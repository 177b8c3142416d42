"""Each cause is named from what was seen of it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.support.checked_in import ROOT, hold
from tests.support.explained import cases_containers, cases_control, cases_scheduling
from tests.support.explained.cases import Case
from trainyard_api import markdown
from trainyard_api.reasons import Reason
from trainyard_assist.explain import State, explain
from trainyard_assist.explain.causes import TABLE, About
from trainyard_assist.explain.model import Mark
from trainyard_assist.explain.rules import AFTER_THE_END, BEFORE_THE_END

CASES = (*cases_control.CASES, *cases_scheduling.CASES, *cases_containers.CASES)
OPERATOR_SAYS = {
    Reason.RUNTIME_INVALID,
    Reason.POLICY_UNSUPPORTED,
    Reason.JOBSET_CONFLICT,
    Reason.FORBIDDEN,
    Reason.QUOTA_EXCEEDED,
    Reason.CRD_MISSING,
}
"""Causes that only the operator's condition `Blocked` names."""
NOT_OF_EXPLAIN = {
    Reason.ATTEMPT_ENDED,
    Reason.LAST_LINES_NOT_KEPT,
    Reason.RUNTIME_NOT_SUPPORTED,
    Reason.RUNTIME_RENEWED,
    Reason.RUNTIME_REVISION_LOST,
    Reason.UNSCHEDULABLE,
    Reason.WRITE_UNDONE,
}
"""Reasons of a failed TrainJob and of events, behind which explain looks for another cause."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_cause(case: Case) -> None:
    diagnosis = explain(case.seen)
    assert (diagnosis.state, diagnosis.finding) == (case.state, case.finding)
    held = [stage.stage for stage in diagnosis.walk if stage.mark is Mark.HELD]
    assert held == [TABLE[case.finding.cause].at]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_commands_of_a_next_step_act_on_the_cluster_that_was_looked_at(case: Case) -> None:
    finding = explain(replace(case.seen, options=("--context", "my lab"))).finding
    assert finding is not None
    of_namespaces = re.findall(r" -(?:n [a-z-]+|A -l [a-z./=]+)(.{0,20})", finding.next_step)
    assert [rest for rest in of_namespaces if not rest.startswith(" --context 'my lab'")] == []


def test_every_cause_has_a_case_and_a_line_in_the_table() -> None:
    assert set(TABLE) == set(Reason) - NOT_OF_EXPLAIN
    assert {case.finding.cause for case in CASES} | OPERATOR_SAYS == set(TABLE)


def test_every_rule_has_a_case_in_which_it_is_the_first_to_find_something() -> None:
    first = set()
    for case in CASES:
        rules = AFTER_THE_END if case.state is State.FAILED else BEFORE_THE_END
        first.add(next(rule for rule in rules if rule(case.seen) is not None))
    assert first == {*BEFORE_THE_END, *AFTER_THE_END}


class Placeholders(dict[str, str]):
    def __missing__(self, word: str) -> str:
        return f"<{word}>"


def test_the_page_about_explain_has_the_table_of_causes() -> None:
    page = ROOT / "docs/explain.md"
    rows = (
        (markdown.code(cause), markdown.prose(about.means), markdown.prose(next_step(about)))
        for cause, about in TABLE.items()
    )
    header, *table = markdown.table(("cause", "means", "next step"), rows)
    before, _, rest = page.read_text().partition(f"{header}\n")
    _, _, after = rest.partition("\n\n")
    hold(page, "\n".join((before + header, *table, after)))


def test_the_page_about_explain_has_the_reasons_that_are_no_causes() -> None:
    _, _, rest = (ROOT / "docs/explain.md").read_text().partition("| reason | of | means |\n")
    table, _, _ = rest.partition("\n\n")
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == NOT_OF_EXPLAIN


def next_step(about: About) -> str:
    return about.next_step.format_map(Placeholders())
