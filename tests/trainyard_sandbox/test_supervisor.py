"""The supervisor starts in order, tells who died, and takes everybody along."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainyard_sandbox.supervisor import Component, ComponentState, Plan, Running, State


@contextmanager
def supervisor(folder: Path, *components: Component) -> Iterator[subprocess.Popen[bytes]]:
    plan = Plan(components, str(folder), str(folder / "state.json"))
    plan.write(folder / "plan.json")
    command = [sys.executable, "-m", "trainyard_sandbox.supervisor", str(folder / "plan.json")]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(folder: Path, condition: Callable[[State], bool]) -> State:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        state = State.read(folder / "state.json")
        if state and condition(state):
            return state
        time.sleep(0.02)
    raise AssertionError(json.dumps(json.loads((folder / "state.json").read_text()), indent=1))


def alive(pid: int | None) -> bool:
    if pid is None or not Path(f"/proc/{pid}").exists():
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] != "Z"


def test_a_component_starts_when_what_it_needs_answers(tmp_path: Path) -> None:
    late = (
        "import socket, time; time.sleep(0.5); s = socket.socket(socket.AF_UNIX); "
        f"s.bind('{tmp_path}/s'); s.listen(); time.sleep(60)"
    )
    first = Component("first", [sys.executable, "-c", late], ready=f"{tmp_path}/s")
    second = Component("second", ["/usr/bin/test", "-S", f"{tmp_path}/s"], after=["first"])
    with supervisor(tmp_path, second, first):
        state = wait_for(tmp_path, lambda state: state.components["second"].state == "ended")
    assert (state.components["first"].state, state.components["second"].exit_code) == ("ready", 0)


def test_a_component_that_dies_is_told_and_its_output_is_kept(tmp_path: Path) -> None:
    with supervisor(tmp_path, Component("c", ["/bin/sh", "-c", "echo last words; exit 3"])):
        state = wait_for(tmp_path, lambda state: state.components["c"].state == "ended")
    c = state.components["c"]
    assert c == Running(ComponentState.ENDED, pid=None, exit_code=3, since=c.since)
    assert (tmp_path / "c.log").read_text() == "last words\n"


def test_a_component_that_cannot_start_is_told_and_does_not_keep_others_from_starting(tmp_path: Path) -> None:
    with supervisor(tmp_path, Component("lost", ["/nonexistent"]), Component("c", ["/bin/sleep", "60"])):
        state = wait_for(tmp_path, lambda state: state.components["c"].state == "ready")
    lost = state.components["lost"]
    assert lost == Running(ComponentState.ENDED, pid=None, exit_code=None, since=lost.since)
    assert (tmp_path / "lost.log").read_text() == (
        "Could not start: [Errno 2] No such file or directory: '/nonexistent'\n"
    )


def test_a_state_that_cannot_be_written_is_written_as_soon_as_it_can_be(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (tmp_path / "state.json").mkdir()
    with supervisor(tmp_path, Component("c", ["/bin/sh", "-c", f"touch {runs}; exec sleep 60"])):
        deadline = time.monotonic() + 20
        while not runs.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        (tmp_path / "state.json").rmdir()
        wait_for(tmp_path, lambda state: state.components["c"].state == "ready")


def test_hangup_starts_what_has_ended_and_leaves_the_others_alone(tmp_path: Path) -> None:
    once = Component(
        "once", ["/bin/sh", "-c", f"[ -e {tmp_path}/again ] && exec sleep 60; touch {tmp_path}/again"]
    )
    with supervisor(tmp_path, once, Component("steady", ["/bin/sleep", "60"])) as process:
        before = wait_for(tmp_path, lambda state: state.components["once"].state == "ended")
        process.send_signal(signal.SIGHUP)
        after = wait_for(tmp_path, lambda state: state.components["once"].state == "ready")
        time.sleep(0.2)
        assert alive(after.components["once"].pid)
        assert after.components["steady"].pid == before.components["steady"].pid


def test_terminate_ends_all_of_them(tmp_path: Path) -> None:
    with supervisor(tmp_path, *(Component(name, ["/bin/sleep", "60"]) for name in "ab")) as process:
        state = wait_for(tmp_path, lambda state: all(c.state == "ready" for c in state.components.values()))
        process.terminate()
        assert process.wait(20) == 0
        assert [alive(c.pid) for c in state.components.values()] == [False, False]


def test_a_supervisor_that_is_killed_takes_its_components_with_it(tmp_path: Path) -> None:
    with supervisor(tmp_path, Component("c", ["/bin/sleep", "60"])) as process:
        state = wait_for(tmp_path, lambda state: state.components["c"].state == "ready")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 10
        while alive(state.components["c"].pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not alive(state.components["c"].pid)
