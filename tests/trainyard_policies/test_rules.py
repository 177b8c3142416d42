"""Each rule finds what its table of examples says, and nothing else."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from tests.support.rule_examples import (
    FOLDER,
    HERE,
    STRICT,
    Example,
    all_examples,
    changed,
    ending_with,
    manifest,
    of_the_stack,
    of_workloads,
    strict_rule,
)
from trainyard_api import documents, names
from trainyard_api.errors import FieldPath
from trainyard_policies import engine, rules
from trainyard_policies.rule import LONGEST, MOST, Finding, Level, edited
from trainyard_policies.subject import Subject

TODAY = date(2026, 11, 21)
GOLDEN = HERE.parent / "conformance" / "golden" / "trainjobs"


def test_every_rule_has_a_table_with_examples_that_pass_and_examples_that_do_not():
    passing = {example.rule.id for example in all_examples() if not example.findings}
    failing = {example.rule.id for example in all_examples() if example.findings}
    every = {rule.id for rule in rules.ALL}
    assert (every - passing, every - failing) == (set(), set()), "rules without a passing, a failing example"
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(rules.BY_ID)


def test_rule_ids_are_unique_and_kebab_case():
    assert len(rules.BY_ID) == len(rules.ALL)
    assert [i for i in rules.BY_ID if i != i.lower() or not i.replace("-", "").isalpha()] == []


@pytest.mark.parametrize("example", of_workloads(), ids=str)
def test_a_rule_about_a_workload(example: Example):
    found = engine.check(example.manifest, TODAY, example.policies)
    ours = [v.finding for v in found if v.rule.id == example.rule.id]
    assert ours == [finding for _, finding in example.findings]


@pytest.mark.parametrize("example", of_the_stack(), ids=str)
def test_a_rule_about_all_manifests(example: Example):
    found = engine.check_all(example.manifests, TODAY, example.policies, [example.rule])
    assert [(of, v.finding) for of, v in found] == list(example.findings)


def test_a_rule_about_all_manifests_that_cannot_read_one_is_named():
    with pytest.raises(engine.RuleError) as error:
        engine.check_all([manifest("trainjob")], TODAY, only=[strict_rule()])
    assert (error.value.exit_code, str(error.value)) == (2, STRICT)


@pytest.mark.parametrize(
    ("page", "place", "way_out"),
    [
        ("", "", "report this as a bug in the rules"),
        ("tests/support/rule_examples.py", r"tests/support/rule_examples\.py:1\d\d: ", "correct the rule"),
        ("site/support/rule_examples.py", r"site/support/rule_examples\.py:1\d\d: ", "correct the rule"),
    ],
    ids=["of ours", "of a site", "of a site, installed"],
)
def test_a_rule_that_ends_with_an_exception_is_named(page: str, place: str, way_out: str):
    of_workload, of_stack = (
        replace(ending_with(KeyError("spec"), rule), page=page) for rule in ("image-tag", "chart-hooks")
    )
    said = "ends with KeyError: 'spec'"
    with pytest.raises(engine.RuleError, match=f"^{place}the rule image-tag {said}; {way_out}$"):
        engine.check(manifest("runtime"), TODAY, only=[of_workload])
    with pytest.raises(engine.RuleError, match=f"^{place}the rule chart-hooks {said}; {way_out}$"):
        engine.check_all([manifest("runtime")], TODAY, only=[of_stack])


def test_a_rule_that_reports_a_copy_of_a_manifest_is_named():
    finding = Finding(FieldPath("spec"), "must not be here")
    copying = replace(strict_rule(), check=lambda every, _: [(replace(about), finding) for about in every])
    why = "ends with ValueError: a finding comes with one of the manifests that it gets, not with a copy"
    with pytest.raises(engine.RuleError, match=f"^the rule chart-hooks {why}; report this as a bug "):
        engine.check_all([manifest("runtime")], TODAY, only=[copying])
    with pytest.raises(engine.RuleError, match=f"^policies/site/own.py:1: the rule chart-hooks {why}; "):
        engine.check_all([manifest("runtime")], TODAY, only=[replace(copying, page="policies/site/own.py")])


def test_of_an_exception_only_the_beginning_is_repeated_in_one_line():
    rule = ending_with(ValueError(f"2 errors:\n  spec: {'x' * 1000}"), "image-tag")
    with pytest.raises(engine.RuleError, match=r"ValueError: 2 errors: spec: x{100,200}\.{3}; report"):
        engine.check(manifest("runtime"), TODAY, only=[rule])


@pytest.mark.parametrize("example", of_workloads(), ids=str)
def test_edits_put_right_what_they_come_with(example: Example):
    edits = [edit for _, finding in example.findings for edit in finding.edits]
    repaired = engine.check(edited(example.manifest, edits), TODAY, example.policies)
    left = [v.finding.path for v in repaired if v.rule.id == example.rule.id]
    assert left == [finding.path for _, finding in example.findings if not finding.edits]


def test_a_rule_that_brings_edits_says_so():
    bring = {e.rule.id for e in all_examples() for _, finding in e.findings if finding.edits}
    assert {rule.id for rule in rules.ALL if rule.fixes} == bring


@pytest.mark.parametrize("name", ["runtime", "initialized", "launched", "trainjob"])
def test_the_good_manifests_pass_every_rule(name: str):
    assert engine.check(manifest(name), TODAY) == ()


def test_a_namespaced_runtime_is_held_to_what_the_catalog_is():
    # Exceptions hold in the catalog alone, and so does what is said of those that hold.
    only = [rule for rule in rules.OF_WORKLOADS if not rule.id.startswith("exception-")]
    for example in of_workloads():
        value = example.manifest
        if value["kind"] == names.CLUSTER_TRAINING_RUNTIME:
            there = engine.check(value, TODAY, example.policies, only)
            here = engine.check({**value, "kind": names.TRAINING_RUNTIME}, TODAY, example.policies, only)
            assert [(v.rule.id, v.level, v.finding) for v in here] == [
                (v.rule.id, v.level, v.finding) for v in there
            ]


def test_levels_as_shipped():
    """What a scientist's SDK cannot meet is advice in TrainJobs."""
    advice = {
        subject: {rule.id for rule in rules.ALL if rule.levels.get(subject) is Level.ADVISORY}
        for subject in Subject
    }
    assert advice == {
        Subject.RUNTIMES: {
            "exception-due",
            "exception-unused",
            "framework-known",
            "image-digest",
            "reserved-env",
            "resources-declared",
            "run-as-non-root",
            "service-account-token",
        },
        Subject.TRAINJOBS: {
            "exception-due",
            "exception-unused",
            "image-digest",
            "image-tag",
            "run-as-non-root",
            "secrets-by-reference",
        },
        Subject.STACK: {"deprecated-runtime", "sent-suspended"},
    }


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_trainjob_of_the_conformance_tests_is_refused_as_shipped(path: Path):
    for document in documents.parse(path.read_text(), path.name):
        found = engine.check(document.value, TODAY)
        assert [violation.message for violation in found if violation.refuses] == []


def test_a_finding_has_an_end_and_keeps_the_last_of_its_words():
    said = f"must be one of {'x' * 1000}, is torh; did you mean torch?"
    short = Finding(FieldPath("spec"), said).message
    assert short == f"{said[:150]} ... {said[-145:]}"
    assert len(short) == LONGEST


def test_a_rule_that_finds_too_much_says_so():
    value = changed("runtime", {f"metadata.labels[a{n}]": "!" for n in range(60)})
    found = [v.finding for v in engine.check(value, TODAY) if v.rule.id == "name-form"]
    assert len(found) == MOST + 1
    assert found[-1] == engine.MORE
    assert engine.MORE.message == "finds more than the 50 reported places"
