"""The rules of tests/conftest.py: a test that does not run has failed, and what goes together."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.skipif(True, reason="no GPU here")
def test_that_lacks_a_gpu(): ...

@pytest.mark.skipif(True, reason="not in the mood")
def test_that_is_skipped_for_another_reason(): ...

def test_that_runs(): ...
"""


MEETS = """
import os, time
from pathlib import Path

def test_that_meets_the_other_file():
    Path(f"{NAME}.there").touch()
    deadline = time.monotonic() + 60
    while len(list(Path().glob("*.there"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
"""
SAYS = """
import os
from pathlib import Path

def test_that_says_where_it_runs():
    Path(f"{NAME}.process").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""


def test_two_processes_run_the_files_of_e2e_side_by_side_and_those_of_another_folder_in_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "tests").mkdir()
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path / "tests")
    for folder, text in {"e2e": MEETS, "faults": SAYS}.items():
        (tmp_path / "tests" / folder).mkdir()
        for name in ("a", "b"):
            (tmp_path / "tests" / folder / f"test_{name}.py").write_text(f"NAME = {name!r}\n{text}")
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "2", "--import-mode=importlib"]
    answer = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "tests"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed" in answer.stdout, answer.stdout + answer.stderr
    assert len({file.read_text() for file in tmp_path.glob("*.process")}) == 1


def test_longest_first_begins_with_the_folder_or_file_that_takes_longest_and_ends_with_what_is_new(
    tmp_path: Path,
) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    seconds = {"faults/test_a": 4, "e2e/test_b": 5, "trainyard_api/test_c": 3, "faults/test_d": 2}
    for name in ("e2e/test_a_new_one", *seconds):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text("def test_it(): ...\n")
    (tmp_path / "harness").mkdir()
    files = {f"{name}.py": number for name, number in seconds.items()}
    (tmp_path / "harness" / "budgets.json").write_text(json.dumps({"night": {"seconds": 1, "files": files}}))
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "--import-mode=importlib"]
    answer = subprocess.run(
        [*command, "--longest-first=night", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.splitlines()[:5] == [
        "faults/test_a.py::test_it",
        "faults/test_d.py::test_it",
        "e2e/test_b.py::test_it",
        "trainyard_api/test_c.py::test_it",
        "e2e/test_a_new_one.py::test_it",
    ], answer.stdout + answer.stderr


def test_what_is_about_linux_is_not_run_elsewhere_and_is_not_skipped(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    linux\n")
    (tmp_path / "test_it.py").write_text(
        """
import sys
import pytest

sys.platform = "elsewhere"

@pytest.mark.linux
def test_that_needs_linux(): ...

def test_that_runs(): ...
"""
    )
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(tmp_path)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0
    assert "1 passed, 1 deselected in" in answer.stdout


@pytest.mark.parametrize(
    ("kueue", "outcome"),
    [
        ("{enabled: true}", "2 passed in"),
        ("{enabled: true, integrations: [jobset.x-k8s.io/jobset]}", "2 passed in"),
        ("{enabled: true, integrations: [trainer.kubeflow.org/trainjob]}", "1 passed, 1 deselected in"),
    ],
)
def test_what_queues_of_jobsets_do_is_not_run_where_the_sandboxs_queues_hold_trainjobs(
    tmp_path: Path, kueue: str, outcome: str
) -> None:
    (tmp_path / "stacks").mkdir()
    stack = f"config:\n  trainyard:platform:\n    kueue: {kueue}\n"
    (tmp_path / "stacks" / "Pulumi.sandbox.yaml").write_text(stack)
    folder = tmp_path / "tests"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    jobset_queues\n")
    (folder / "test_it.py").write_text(
        """
import pytest

@pytest.mark.jobset_queues
def test_of_such_a_queue(): ...

def test_of_any_queue(): ...
"""
    )
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), str(folder)]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout.splitlines()[-1].rpartition(" in")[0] + " in") == (0, outcome)


def test_a_skipped_test_fails_unless_what_it_lacks_is_a_gpu(tmp_path: Path) -> None:
    folder = tmp_path / "GPU"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), str(folder)]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "1 passed, 1 skipped, 1 error" in answer.stdout
    assert "which is a failure" in answer.stdout


@pytest.mark.parametrize(
    ("lacks", "code", "counted"),
    [
        ('pytest.importorskip("no_such_module")', 2, "1 error in"),
        ('pytest.skip("not in the mood", allow_module_level=True)', 2, "1 error in"),
        ('pytest.skip("no GPU here", allow_module_level=True)', 5, "1 skipped in"),
    ],
)
def test_a_skipped_file_fails_unless_what_it_lacks_is_a_gpu(
    tmp_path: Path, lacks: str, code: int, counted: str
) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_it.py").write_text(f"import pytest\n{lacks}\ndef test_it(): ...\n")
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(tmp_path)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (answer.returncode, counted in answer.stdout) == (code, True), answer.stdout
