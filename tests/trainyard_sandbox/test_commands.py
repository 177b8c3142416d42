"""What the sandbox runs other programs with."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from trainyard_sandbox import commands
from trainyard_sandbox.commands import run_logged, threads
from trainyard_sandbox.errors import SandboxError

RUNS = """
import sys
from pathlib import Path
from trainyard_sandbox.commands import run_logged, threads
run_logged(["sh", "-c", "echo $$; exec sleep 600"], Path(sys.argv[1]), "wait")
"""


def test_what_runs_ends_with_whoever_has_started_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", RUNS, log]) as caller:
        while not (log.exists() and log.read_text().endswith("\n")):
            time.sleep(0.05)
        caller.terminate()
    running = Path("/proc", log.read_text().strip(), "cmdline")
    for _ in range(100):
        if not running.exists() or not running.read_bytes():  # gone, or nobody has collected it yet
            return
        time.sleep(0.1)
    raise AssertionError(running.read_bytes())


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command that writes down each try, and succeeds at the third."""
    monkeypatch.setattr(commands, "_PAUSE_SECONDS", 0.0)
    tries = tmp_path / "tries"
    return ["sh", "-c", f"echo try >> {tries}; [ $(wc -l < {tries}) = 3 ]"]


def test_what_fetches_something_is_tried_again(tmp_path: Path, fetch: list[str]) -> None:
    run_logged(fetch, tmp_path / "log", "fetch", tries=3)
    assert (tmp_path / "tries").read_text() == "try\n" * 3


def test_and_says_what_it_could_not_when_it_fails_each_time(tmp_path: Path, fetch: list[str]) -> None:
    with pytest.raises(SandboxError, match=r"Could not fetch it \(exit code 1\)"):
        run_logged(fetch, tmp_path / "log", "fetch it", tries=2)
    assert (tmp_path / "tries").read_text() == "try\n" * 2


def test_after_ctrl_c_nothing_is_tried_again_and_what_waits_never_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_interrupted", threading.Event())
    tries = tmp_path / "tries"
    fetch = ["sh", "-c", f"echo try >> {tries}; exit 1"]

    def build() -> None:
        with threads(1) as pool:
            for name in ("runs", "waits"):
                pool.submit(run_logged, fetch, tmp_path / name, "fetch", tries=3)
            while not tries.exists():
                time.sleep(0.02)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    assert (tries.read_text(), (tmp_path / "waits").exists()) == ("try\n", False)


def test_a_failure_leaves_out_what_waits_and_others_are_tried_again(tmp_path: Path, fetch: list[str]) -> None:
    def build() -> None:
        with threads(1) as pool:
            pool.submit(run_logged, fetch, tmp_path / "runs", "fetch", tries=3)
            pool.submit(run_logged, fetch, tmp_path / "waits", "fetch")
            while not (tmp_path / "tries").exists():
                time.sleep(0.02)
            raise SandboxError("another failure")

    with pytest.raises(SandboxError):
        build()
    assert (tmp_path / "tries").read_text() == "try\n" * 3
    assert not (tmp_path / "waits").exists()
