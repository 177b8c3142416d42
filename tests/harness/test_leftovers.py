"""What a dead run has left goes; what a living one has, and what users have, stays."""

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patience import eventually
from trainyard_sandbox.cluster import Sandbox
from trainyard_sandbox.errors import SandboxError

from . import __main__ as harness
from . import leftovers


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of runs in a cache of its own, for a clone of its own."""
    monkeypatch.setattr(harness, "PROJECT", tmp_path)
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path))
    monkeypatch.delenv(leftovers.RUN, raising=False)
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield tmp_path / "runs"
    for number, handler in handlers:
        signal.signal(number, handler)


@pytest.fixture
def started(runs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that a run has started."""
    runs.mkdir()
    (runs / "1-run").touch()
    environment = {**os.environ, leftovers.RUN: str(runs / "1-run")}
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        # Linux closes what tells Popen that the program has begun a moment before it shows the environment.
        eventually("its environment is shown", Path(f"/proc/{process.pid}/environ").read_bytes)
        yield process
        process.kill()


def test_a_process_of_a_dead_run_is_ended_and_the_run_forgotten(
    runs: Path, started: subprocess.Popen[bytes]
) -> None:
    assert leftovers.clear() == [f"ended process {started.pid}"]
    assert started.wait(60) == -9
    assert list(runs.iterdir()) == []
    assert leftovers.clear() == []


def test_nothing_of_a_dead_run_goes_on_while_its_sandboxes_are_taken_down(
    runs: Path, started: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int | None] = []
    monkeypatch.setattr(Sandbox, "down", lambda _: codes.append(started.poll()))
    (runs / "1-run").write_text("/clone\ta\n")
    assert leftovers.clear() == [f"ended process {started.pid}"]
    assert codes == [-9]


def test_a_process_of_a_living_run_goes_on(runs: Path, started: subprocess.Popen[bytes]) -> None:
    with (runs / "1-run").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert leftovers.clear() == []
    assert started.poll() is None


def test_a_run_is_known_while_it_lives_with_what_it_brings_up(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leftovers.noted() as path:
        monkeypatch.setenv(leftovers.RUN, str(path))
        leftovers.note("a", Path("/clone"))
        assert path.read_text() == "/clone\ta\n"
        assert leftovers.clear() == []
        assert list(runs.iterdir()) == [path]
    assert leftovers.clear() == []
    assert list(runs.iterdir()) == []


def test_a_sandbox_that_cannot_be_taken_down_is_said_and_left_to_the_next_run(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(sandbox: Sandbox) -> None:
        if sandbox.instance.name == "b":
            raise SandboxError("Processes of the sandbox do not end: [1].")

    monkeypatch.setattr(Sandbox, "down", down)
    runs.mkdir()
    (runs / "1-run").write_text("/clone\ta\n/clone\tb\n")
    said = "could not take down the sandbox b of /clone: Processes of the sandbox do not end: [1]."
    assert [leftovers.clear(), leftovers.clear()] == [[said], [said]]


@pytest.mark.parametrize(
    ("interruption", "code", "why"), [(KeyboardInterrupt, 130, "Interrupted"), (None, 0, "Left at the end")]
)
def test_a_run_takes_down_what_it_has_started_whether_it_ends_or_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    interruption: type[BaseException] | None,
    code: int,
    why: str,
) -> None:
    monkeypatch.setenv(leftovers.RUN, "")
    started: list[subprocess.Popen[bytes]] = []

    def run(*_: object) -> int:
        started.append(subprocess.Popen(["sleep", "600"]))
        environment = Path(f"/proc/{started[0].pid}/environ")
        eventually("its environment is shown", lambda: leftovers.RUN.encode() in environment.read_bytes())
        if interruption:
            raise interruption
        return 0

    monkeypatch.setattr(harness, "run", run)
    assert harness.main(["check"]) == code
    [process] = started
    assert process.wait(60) == -9
    assert f"{why}: ended process {process.pid}\n" in capsys.readouterr().err
    assert leftovers.clear() == []


def test_a_second_run_in_a_clone_is_refused_and_touches_nothing(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / ".reports.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert harness.main(["check"]) == 2
    assert capsys.readouterr().err == (
        f"A test run goes on in {tmp_path}: wait for its end, or use another clone.\n"
    )
    assert not runs.exists()


def test_outside_of_a_run_nothing_is_written_down(runs: Path) -> None:
    leftovers.note("a")
    assert not runs.exists()
