"""What of the catalog has run, and where: the record, the table that shows it, and how a test records."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.checked_in import ROOT, hold, with_table
from tests.support.cluster import Cluster
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import runs as catalog_runs
from trainyard_platform.catalog.runs import Place, Run
from trainyard_platform.errors import PlatformError

FOLDER = ROOT / "runtimes"
PAGE = ROOT / "docs" / "what-ran-where.md"


def table() -> list[list[str]]:
    """The cells of each line of the table on the page."""
    lines = PAGE.read_text().partition("|---|---|---|---|---|\n")[2].splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| [")]


def test_the_table_of_what_ran_where_is_current() -> None:
    hold(PAGE, with_table(PAGE.read_text(), runs.rows(FOLDER, runs.examples())))


def test_each_runtime_of_the_catalog_and_each_of_its_examples_has_a_row() -> None:
    shown = {
        (line[0].partition("]")[0].removeprefix("["), line[1].partition("]")[0].strip("[ "))
        for line in table()
    }
    by_runtime = runs.examples()
    assert {runtime for runtime, _ in shown} == set(catalog.read_all(FOLDER))
    assert {(runtime, example) for runtime, names in by_runtime.items() for example in names} <= shown


def test_each_run_is_of_a_runtime_an_example_and_a_test_that_are_there() -> None:
    by_runtime = runs.examples()
    for run in catalog_runs.load(FOLDER):
        file, _, test = run.test.partition("::")
        assert run.runtime in catalog.read_all(FOLDER), run
        assert run.example is None or run.example in by_runtime[run.runtime], run
        assert f"def {test}(" in (ROOT / file).read_text(), run
        assert "record(" in (ROOT / file).read_text() or "runs.write(" in (ROOT / file).read_text(), run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A catalog of two runtimes, one of which takes the place of the other."""
    for name in ("torch/torch-distributed", "horovod/horovod-distributed"):
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir()
        path.write_text((FOLDER / f"{name}.yaml").read_text())
    return tmp_path


RING = Run(
    runtime="horovod-distributed",
    place=Place.SANDBOX,
    image="docker.io/trainyard/mpi:sandbox",
    versions={"horovod": None, "openmpi": "4.1.4"},
    test="tests/e2e/test_runtimes.py::test_ring",
)
DIGITS = Run(
    runtime="torch-distributed",
    example="digits",
    place=Place.GPU,
    accelerator="NVIDIA H200",
    versions={"torch": "2.15.0"},
    test="tests/gpu/test_nccl.py::test_digits",
)


def test_a_row_says_what_ran_and_what_did_not_and_what_takes_the_place_of_a_deprecated_runtime(
    folder: Path,
) -> None:
    for run in (RING, DIGITS, DIGITS.model_copy(update={"place": Place.SIMULATED})):
        runs.write(run, folder)
    horovod = "[horovod-distributed](../runtimes/horovod/horovod-distributed.yaml)"
    torch = "[torch-distributed](../runtimes/torch/torch-distributed.yaml)"
    assert list(runs.rows(folder, {"torch-distributed": ["checkpoint", "digits"]})) == [
        *runs.COLUMNS,
        f"| {horovod}, deprecated: use torch-distributed |  | "
        "without horovod, openmpi 4.1.4, `mpi:sandbox` | not run | not run |",
        f"| {torch} | [checkpoint](../examples/checkpoint) | not run | not run | not run |",
        f"| {torch} | [digits](../examples/digits) | not run | scheduled | NVIDIA H200, torch 2.15.0 |",
    ]


def test_a_run_that_is_recorded_again_takes_the_place_of_the_first(folder: Path) -> None:
    newer = {"torch": "2.16.0"}
    for run in (DIGITS, RING, DIGITS.model_copy(update={"versions": newer})):
        runs.write(run, folder)
    assert catalog_runs.load(folder) == (RING, DIGITS.model_copy(update={"versions": newer}))
    assert (folder / catalog_runs.FILE).read_text() == (
        f"{runs.HEAD}runs:\n"
        "- runtime: horovod-distributed\n"
        "  place: sandbox\n"
        "  image: docker.io/trainyard/mpi:sandbox\n"
        "  versions:\n"
        "    horovod: null\n"
        "    openmpi: 4.1.4\n"
        "  test: tests/e2e/test_runtimes.py::test_ring\n"
        "- runtime: torch-distributed\n"
        "  example: digits\n"
        "  place: gpu\n"
        "  accelerator: NVIDIA H200\n"
        "  versions:\n"
        "    torch: 2.16.0\n"
        "  test: tests/gpu/test_nccl.py::test_digits\n"
    )


def test_nothing_is_recorded_and_no_cluster_is_queried_unless_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(runs.UPDATE, raising=False)
    before = (FOLDER / catalog_runs.FILE).read_text()
    runs.record(Cluster("not-there"), "digits", "torch")
    assert (FOLDER / catalog_runs.FILE).read_text() == before


def test_a_test_is_recorded_without_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/gpu/test_nccl.py::test_it[one node with a GPU] (call)")
    assert runs.current_test() == "tests/gpu/test_nccl.py::test_it"


def test_versions_are_those_of_the_packages_that_are_there() -> None:
    command = [sys.executable, "-c", runs.VERSIONS, "pytest", "horovod"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == {"pytest": metadata.version("pytest"), "horovod": None}


def test_a_record_that_is_wrong_is_refused_with_its_line(folder: Path) -> None:
    path = folder / catalog_runs.FILE
    path.write_text("runs:\n  - {runtime: plain, place: cloud, test: a}\n")
    with pytest.raises(PlatformError) as refused:
        catalog_runs.load(folder)
    assert str(refused.value) == (f"{path}:2: runs.0.place: Input should be 'sandbox', 'simulated' or 'gpu'")


def test_a_catalog_without_a_record_has_no_runs(folder: Path) -> None:
    assert catalog_runs.load(folder) == ()
