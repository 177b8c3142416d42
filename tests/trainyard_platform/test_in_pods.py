"""How a Python program of a training ended, as the module says it that each Python of a container reads."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainyard_platform import in_pods

MODULE = Path(in_pods.__file__).with_name("sitecustomize.py")
TORCHRUN = """
import types
class ChildFailedError(Exception):
    def __init__(self, failures):
        self.failures = {rank: types.SimpleNamespace(**failure) for rank, failure in failures.items()}
raise ChildFailedError(FAILURES)
"""
"""What torchrun ends with, as far as it is read: torch.distributed.elastic.multiprocessing.errors."""


def ended(tmp_path: Path, script: str, **environment: str) -> tuple[int, str, str]:
    """The exit code of a Python that reads the module, what it printed, and its termination message."""
    message = tmp_path / "termination-log"
    message.touch()
    folder = tmp_path / "module"
    folder.mkdir()
    text = MODULE.read_text().replace('"/dev/termination-log"', repr(str(message)))
    (folder / "sitecustomize.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment, "PYTHONPATH": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr, message.read_text()


def test_a_program_that_ends_well_says_nothing(tmp_path: Path) -> None:
    assert ended(tmp_path, "print(1)") == (0, "", "")


def test_an_exception_is_shown_as_always_and_is_the_termination_message(tmp_path: Path) -> None:
    code, shown, message = ended(tmp_path, "raise ValueError('no such column')")
    assert (code, message) == (1, shown)
    assert message.splitlines()[-1] == "ValueError: no such column"


@pytest.mark.parametrize("mistake", ["import no_such_module", "print(no_such_name)", "if:"])
def test_a_mistake_that_would_only_come_again_ends_with_42(tmp_path: Path, mistake: str) -> None:
    code, shown, message = ended(tmp_path, mistake)
    assert (code, message) == (42, shown)


def test_an_exit_code_of_the_programs_own_stays(tmp_path: Path) -> None:
    assert ended(tmp_path, "raise SystemExit(3)") == (3, "", "")


def test_a_long_traceback_is_cut_at_its_beginning(tmp_path: Path) -> None:
    _, _, message = ended(tmp_path, "raise ValueError('x' * 9000 + '!')")
    assert (len(message), message[-2:]) == (4000, "!\n")


def test_a_rank_leaves_its_traceback_where_torchrun_reads_it(tmp_path: Path) -> None:
    error = tmp_path / "error.json"
    code, shown, message = ended(tmp_path, "raise ValueError('no')", TORCHELASTIC_ERROR_FILE=str(error))
    assert (code, message) == (1, "")
    left = json.loads(error.read_text())["message"]
    assert (left["message"], left["extraInfo"]["py_callstack"]) == ("ValueError: no", shown)
    assert left["extraInfo"]["timestamp"].isdigit()


def failure(at: int, exitcode: int = 1, message: Any = "") -> dict[str, Any]:
    return {"timestamp": at, "exitcode": exitcode, "message": message}


RECORDED = {"message": "ValueError: no", "extraInfo": {"py_callstack": "Traceback\nValueError: no\n"}}


@pytest.mark.parametrize(
    ("failures", "code", "message"),
    [
        (
            {0: failure(9), 1: failure(5, message=RECORDED)},
            1,
            "Traceback\nValueError: no\nrank 1 failed first, with exit code 1",
        ),
        ({2: failure(5, exitcode=-9)}, 1, "\nrank 2 failed first, with signal 9"),
        ({0: failure(5, exitcode=42), 1: failure(6)}, 42, "\nrank 0 failed first, with exit code 42"),
        ({0: failure(5, exitcode=2)}, 42, "\nrank 0 failed first, with exit code 2"),
    ],
)
def test_torchrun_says_which_rank_failed_first_and_what_it_had_left(
    tmp_path: Path, failures: dict[int, Any], code: int, message: str
) -> None:
    said = ended(tmp_path, TORCHRUN.replace("FAILURES", repr(failures)))
    assert (said[0], said[2]) == (code, message)


def test_a_module_of_its_name_that_it_hides_is_read_all_the_same(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("print('read')")
    code, _, _ = ended(tmp_path, "import sys; sys.exit(0)")
    assert code == 0
