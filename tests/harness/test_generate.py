"""`make generate` writes all that is made from something else, and says what it leaves."""

import ast
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.generate import GENERATORS, Generator, generate
from tests.support import checked_in
from tests.support.checked_in import ROOT, hold

OF_OTHERS = (
    "docs/performance/*.svg",
    "requirements/*.txt",
    "sandbox/toolchain/**/go.sum",
    "tests/conformance/golden/expected*/*",
)
"""Made by `make bench`, by `make lock`, by Go and by Kubeflow Trainer."""
PARTLY = (
    "docs/configuration.md",
    "docs/explain.md",
    "docs/gitops.md",
    "docs/metrics.md",
    "docs/what-ran-where.md",
)
"""Written by hand, but for a table or what a command answers."""


def holders() -> set[str]:
    """The tests that hold a file to what makes it, as pytest names them."""
    return {
        f"{path.relative_to(ROOT)}::{function.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and "checked_in" in (text := path.read_text())
        for function in ast.parse(text).body
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == hold.__name__
    }


def files(*patterns: str) -> set[Path]:
    return {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}


def marked() -> set[Path]:
    """The files of which `.gitattributes` says that they are generated."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    command = ["git", "check-attr", "-z", "--stdin", "linguist-generated"]
    answer = subprocess.run(command, cwd=ROOT, input=listed, capture_output=True, check=True).stdout
    fields = answer.decode().split("\0")
    return {ROOT / path for path, value in zip(fields[::3], fields[2::3], strict=False) if value == "set"}


def test_each_test_that_holds_a_file_is_in_the_table() -> None:
    assert sorted(generator.test for generator in GENERATORS) == sorted(holders())


def test_each_generator_has_files_and_git_folds_them_in_a_review() -> None:
    assert [generator.files for generator in GENERATORS if not files(generator.files)] == []
    made = files(*(generator.files for generator in GENERATORS)) - files(*PARTLY)
    assert marked() == made | files(*OF_OTHERS)


def test_only_those_run_that_need_no_sandbox_and_the_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "same.md").write_text("same\n")
    ran: list[str] = []

    def run(tests: Sequence[str]) -> int:
        ran.extend(tests)
        (tmp_path / "other.md").write_text("new\n")
        return 0

    table = (
        Generator("*.md", "test_pages.py::test_page"),
        Generator("shapes.json", "e2e.py::test_shapes", True),
    )
    assert generate(table, tmp_path, run) == 0
    assert ran == ["test_pages.py::test_page"]
    assert capsys.readouterr().out == (
        "written: other.md\nleft as it is, for it needs a sandbox (make generate SANDBOX=1): shapes.json\n"
    )
    generate(table, tmp_path, run, sandbox=True)
    assert ran == ["test_pages.py::test_page", "test_pages.py::test_page", "e2e.py::test_shapes"]
    assert capsys.readouterr().out == ""


def test_a_file_that_is_out_of_date_is_named_with_the_command_that_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\nb\n")
    monkeypatch.setattr(checked_in, "ROOT", tmp_path)
    with pytest.raises(AssertionError) as failed:
        hold(page, "a\nc\n")
    assert str(failed.value) == (
        "page.md is out of date: run `make generate`, and read the difference\n"
        "--- checked in\n+++ made\n@@ -1,2 +1,2 @@\n a\n-b\n+c"
    )
    monkeypatch.setenv(checked_in.WRITE, "1")
    hold(page, "a\nc\n")
    assert page.read_text() == "a\nc\n"
