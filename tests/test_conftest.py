"""The rule of tests/conftest.py: a test that does not run has failed."""

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

@pytest.mark.skipif(True, reason="no GPU here")
def test_that_lacks_a_gpu(): ...

@pytest.mark.skipif(True, reason="not in the mood")
def test_that_is_skipped_for_another_reason(): ...

def test_that_runs(): ...
"""


def test_a_skipped_test_fails_unless_what_it_lacks_is_a_gpu(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(tmp_path)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "1 passed, 1 skipped, 1 error" in answer.stdout
    assert "which is a failure" in answer.stdout
