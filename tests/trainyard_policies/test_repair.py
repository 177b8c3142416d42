"""A repair changes its lines and nothing else."""

from datetime import date

import pytest

from tests.support.rule_examples import HERE, Example, of_workloads
from trainyard_api import documents
from trainyard_api.documents import Document
from trainyard_api.errors import FieldPath
from trainyard_policies import engine
from trainyard_policies.engine import Violation
from trainyard_policies.lint import repair
from trainyard_policies.lint.files import CannotLintError
from trainyard_policies.lint.repair import Repair
from trainyard_policies.rule import Edit, Finding, Level
from trainyard_policies.rules import node_bounds
from trainyard_policies.settings import DEFAULT, Policies

TODAY = date(2026, 11, 21)


def judged(policies: Policies) -> repair.Judge:
    return lambda document: engine.check(document.value, TODAY, policies)


def made(text: str, path: str, value: object) -> str:
    return repair._apply(text, "f.yaml", 0, Edit(FieldPath(path), value))


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ("a:\n  b: 1 # why\n# end\n", "a.b", 2, "a:\n  b: 2 # why\n# end\n"),
        ("a:\n  b: 1 # why\n# end\n", "a.c", "x", "a:\n  b: 1 # why\n  c: x\n# end\n"),
        ("a:\n  b: 1\n\nz: 1\n", "a.c.d[x.y/z]", "t", "a:\n  b: 1\n  c:\n    d:\n      x.y/z: t\n\nz: 1\n"),
        ("a: {b: 1}\n", "a.c", {"d": [1]}, 'a: {b: 1, "c": {"d": [1]}}\n'),
        ("a: {}\n", "a.c", True, 'a: {"c": true}\n'),
        ("a: {b: 'x'}\n", "a.b", "y", 'a: {"b": "y"}\n'),
        ("a:\nz: 1\n", "a.c", 1, "a:\n  c: 1\nz: 1\n"),
        ("a:\n  - b: 1\n    # kept\n    c: 2\n", "a[0].c", 3, "a:\n  - b: 1\n    # kept\n    c: 3\n"),
        (
            "a:\n  - b: |\n      x\n      y\n  - c: 1\n",
            "a[0].d",
            1,
            "a:\n  - b: |\n      x\n      y\n    d: 1\n  - c: 1\n",
        ),
        ("a:\n  b: 1\n  # of c\n  c: 2\n", "a.b", None, "a:\n  # of c\n  c: 2\n"),
        ("a:\n  b:\n    - 1\n  # end\nz: 1\n", "a.b", None, "a:\n  {}\n  # end\nz: 1\n"),
        ("a:\n  - b: 1\n    c: 2\n", "a[0].b", None, "a:\n  - c: 2\n"),
        ("a:\n  - b: 1\n", "a[0].b", None, "a:\n  - {}\n"),
        ("a: {b: 1, c: 2, d: 3}\n", "a.c", None, "a: {b: 1, d: 3}\n"),
        ("a: {b: 1, c: 2}\n", "a.c", None, "a: {b: 1}\n"),
        ("a: {b: 1, c: 2}", "a.b", None, "a: {c: 2}"),
        ("a: 1", "b", [{"c": 1}], "a: 1\nb:\n- c: 1"),
        ("a: 1\r\nb: 2\r\n", "b", None, "a: 1\r\n"),
        ("a: 1\r\nb: 2\r\n", "c", {"d": 1}, "a: 1\r\nb: 2\r\nc:\r\n  d: 1\r\n"),
        ("a: 1\n", "b.c", None, "a: 1\n"),
    ],
)
def test_an_edit_touches_the_lines_of_its_field_alone(before, path, value, after):
    assert made(before, path, value) == after


def test_the_other_documents_of_a_file_stay():
    before = "# first\na: 1\n---\n# second\na: 1\n...\n---\nb: {}\n"
    assert made(before, "a", 2) == before.replace("a: 1", "a: 2", 1)


def test_what_would_lose_a_comment_is_left_to_people():
    with pytest.raises(CannotLintError) as error:
        made("a:\n  - b: 1\n    # of c\n    c: 2\n", "a[0].b", None)
    assert str(error.value) == "f.yaml:2: a[0].b could not be repaired: change it by hand"


@pytest.mark.parametrize(
    "example", [e for e in of_workloads() if any(f.edits for _, f in e.findings)], ids=str
)
def test_every_example_that_can_be_repaired_is_repaired_in_text(example: Example):
    text = "# kept\n" + documents.dump([example.manifest])
    judge = judged(example.policies)
    fixed, made = repair.repaired(text, "f.yaml", judge)
    assert made
    assert fixed.startswith("# kept\n")
    assert repair.repaired(fixed, "f.yaml", judge) == (fixed, ())


def test_a_good_file_stays_byte_for_byte():
    text = (HERE / "manifests" / "runtime.yaml").read_text()
    assert repair.repaired(text, "f.yaml", judged(DEFAULT)) == (text, ())


def test_a_repair_that_leaves_its_finding_is_taken_back_and_the_next_one_is_made():
    text = "a: 1\nb: 1\n"

    def judge(document: Document) -> list[Violation]:
        still = [("a must be odd", Edit(FieldPath("a"), 3))]
        if document.value["b"] != 2:
            still.append(("b must be 2", Edit(FieldPath("b"), 2)))
        return [
            Violation(node_bounds.RULE, Level.MANDATORY, "", Finding(one.path, said, (one,)))
            for said, one in still
        ]

    assert repair.repaired(text, "f.yaml", judge) == (
        "a: 1\nb: 2\n",
        (Repair(2, "node-bounds", Edit(FieldPath("b"), 2)),),
    )
