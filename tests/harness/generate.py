"""`make generate`: writes what is checked in and made from something else.

Run as `python -m tests.harness.generate [--sandbox]`. Each file has a test that
holds it to what makes it, which is how `make check` finds a file that is out of
date. Here the same tests, in one process, write the files first
(tests/support/checked_in.py).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.checked_in import ROOT, WRITE


@dataclass(frozen=True)
class Generator:
    """Files of one kind, and the test that writes them."""

    files: str
    """Where they are, from the project's root; `*` stands for a part of a name."""
    test: str
    """The test that holds them to what makes them, as pytest names it."""
    sandbox: bool = False
    """Whether they are made from what a sandbox holds."""


GENERATORS: Final = (
    Generator(
        "stacks/schema.json",
        "tests/trainyard_platform/test_settings.py::test_the_checked_in_schema_is_current",
    ),
    Generator(
        "runtimes/schema.json",
        "tests/runtimes/test_schema.py::test_the_schema_that_is_checked_in_is_current",
    ),
    Generator(
        "docs/policies/rules.md",
        "tests/trainyard_policies/test_reference.py::test_the_page_that_is_checked_in_is_current",
    ),
    Generator(
        "docs/adr/README.md",
        "tests/test_pages.py::test_the_index_of_the_decisions_is_current",
    ),
    Generator(
        "docs/reference/command.md",
        "tests/trainyard_cli/test_reference.py::test_the_page_that_is_checked_in_is_current",
    ),
    Generator(
        "docs/reference/stack.md",
        "tests/trainyard_platform/test_stack_reference.py::test_the_page_that_is_checked_in_is_current",
    ),
    Generator(
        "docs/compatibility.md",
        "tests/trainyard_platform/test_compatibility.py::test_the_page_is_current",
    ),
    Generator(
        "docs/what-ran-where.md",
        "tests/runtimes/test_runs.py::test_the_table_of_what_ran_where_is_current",
    ),
    Generator(
        "docs/configuration.md",
        "tests/trainyard_operator/test_docs.py::test_every_field_of_the_configuration_is_documented",
    ),
    Generator(
        "docs/explain.md",
        "tests/trainyard_assist/explain/test_causes.py::test_the_page_about_explain_has_the_table_of_causes",
    ),
    Generator(
        "docs/metrics.md",
        "tests/trainyard_operator/test_docs.py::test_every_metric_is_documented_and_has_the_operators_prefix",
    ),
    Generator(
        "docs/gitops.md",
        "tests/trainyard_cli/test_verify.py::test_the_product_as_it_is_delivered_is_green",
    ),
    Generator(
        "docs/pictures/run.txt",
        "tests/test_pictures.py::test_the_text_about_run_is_what_it_prints",
    ),
    Generator(
        "docs/pictures/*.svg",
        "tests/test_pictures.py::test_a_picture_is_that_of_its_text",
    ),
    Generator(
        "tests/trainyard_platform/golden/*.json",
        "tests/trainyard_platform/test_stacks.py::test_the_graph_of_a_stack_is_the_recorded_one",
    ),
    Generator(
        "tests/runtimes/golden/*.yaml",
        "tests/runtimes/test_examples.py::test_its_example_becomes",
    ),
    Generator(
        "tests/trainyard_assist/migrate/expected/*.yaml",
        "tests/trainyard_assist/test_migrate.py::test_a_job_becomes",
    ),
    Generator(
        "policies/trainyard_policies/shapes/shapes.json",
        "tests/e2e/test_policies.py::test_the_shapes_that_are_checked_in_are_those_of_the_cluster",
        sandbox=True,
    ),
    Generator(
        "platform/trainyard_platform/stack/chart_values.yaml",
        "tests/e2e/test_stacks.py::test_the_values_that_charts_know_are_recorded_as_they_are",
        sandbox=True,
    ),
)
"""All that is made here. Locks are `make lock`'s, and what upstream's programs record is theirs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.generate", description=__doc__)
    parser.add_argument("--sandbox", action="store_true", help="bring a sandbox up for what needs one")
    return generate(GENERATORS, ROOT, _pytest, sandbox=parser.parse_args(arguments).sandbox)


def generate(
    generators: Sequence[Generator],
    root: Path,
    run: Callable[[Sequence[str]], int],
    *,
    sandbox: bool = False,
) -> int:
    """Write files, and say which are others now and which are left as they are.

    Args:
        generators: What makes them.
        root: The project's.
        run: Runs tests, by their names, and returns the exit code.
        sandbox: Whether to bring a sandbox up for what needs one.
    """
    chosen = [generator for generator in generators if sandbox or not generator.sandbox]
    before = _files(chosen, root)
    code = run([generator.test for generator in chosen])
    after = _files(chosen, root)
    for path in sorted(path for path, content in after.items() if before.get(path) != content):
        print(f"written: {path.relative_to(root)}")
    for generator in generators:
        if generator not in chosen:
            print(f"left as it is, for it needs a sandbox (make generate SANDBOX=1): {generator.files}")
    return code


def _files(generators: Sequence[Generator], root: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for generator in generators for path in root.glob(generator.files)}


def _pytest(tests: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", "--quiet", "--no-header", *tests]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, WRITE: "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
