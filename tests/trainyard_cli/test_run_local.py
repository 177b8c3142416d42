"""A TrainJob on this machine, with real processes: its lines, its end, and nothing that stays behind.

Each script may hold a pipe open, the FIFO `alive`: once its reader is told of its end, none of them runs.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from trainyard_api import documents
from trainyard_api.errors import UserError
from trainyard_api.places import SHIPPED
from trainyard_cli.local import descendants, machine
from trainyard_cli.local.run import run_local

HOLDS = "exec 3> alive\n"
"""Of a shell, which waits here for a reader."""
DRIVER = """
import json, sys
from pathlib import Path
from trainyard_cli.local.run import run_local

sys.exit(run_local(*json.loads(sys.argv[1]), Path(sys.argv[2]), grace=float(sys.argv[3])))
"""
COMPLETE = "The TrainJob is Complete"


def runtime(name: str = "plain") -> Mapping[str, Any]:
    (file,) = SHIPPED.runtimes.glob(f"*/{name}.yaml")
    (document,) = documents.parse(file.read_text(encoding="utf-8"), file.name)
    return document.value


def trainjob(*command: str, nodes: int = 2, name: str = "plain", **trainer: Any) -> Mapping[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "tj"},
        "spec": {
            "runtimeRef": {"name": name},
            "trainer": {"numNodes": nodes, "command": list(command), **trainer},
        },
    }


def shell(script: str, **options: Any) -> Mapping[str, Any]:
    return trainjob("sh", "-c", script, **options)


class Alive:
    """The reading end of what scripts hold open."""

    def __init__(self, folder: Path) -> None:
        os.mkfifo(folder / "alive")
        self._file = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
        self._holder = os.open(folder / "alive", os.O_WRONLY)

    def nobody(self) -> bool:
        """Whether no process holds it, without waiting."""
        os.close(self._holder)
        try:
            return os.read(self._file, 1) == b""
        except BlockingIOError:
            return False

    def wait_for_the_end(self) -> None:
        """Wait until no process holds it."""
        os.close(self._holder)
        os.set_blocking(self._file, True)
        while os.read(self._file, 4096):
            pass

    def close(self) -> None:
        os.close(self._file)


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[Alive]:
    reader = Alive(tmp_path)
    yield reader
    reader.close()


def ran(
    job: Mapping[str, Any], folder: Path, *, name: str = "plain", grace: float = 30
) -> tuple[int, str, str]:
    """The exit code, the lines, and what is said of them, without the sentence about the image."""
    out, err = io.StringIO(), io.StringIO()
    code = run_local(job, runtime(name), folder, grace=grace, out=out, err=err)
    first, *sentences = err.getvalue().splitlines()
    assert first.startswith("The TrainJob runs with what is installed here, not with the image ")
    return code, out.getvalue(), "\n".join(sentences)


def started(job: Mapping[str, Any], folder: Path, grace: float = 30) -> subprocess.Popen[str]:
    """A command of its own that runs it."""
    manifests = json.dumps([job, runtime()])
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, manifests, str(folder), str(grace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_lines_of_each_node_have_its_number(tmp_path: Path) -> None:
    code, out, err = ran(shell("echo node $JOB_COMPLETION_INDEX; echo of $(pwd) >&2", nodes=3), tmp_path)
    assert (code, err) == (0, COMPLETE)
    expected = [line for rank in range(3) for line in (f"{rank} | node {rank}", f"{rank} | of {tmp_path}")]
    assert sorted(out.splitlines()) == expected


def test_the_variables_of_the_shell_are_there_and_those_of_the_trainjob_take_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_SHELL", "shell")
    monkeypatch.setenv("FROM_BOTH", "shell")
    env = [{"name": "FROM_BOTH", "value": "job"}]
    _, out, _ = ran(shell("echo $FROM_SHELL $FROM_BOTH", nodes=1, env=env), tmp_path)
    assert out == "0 | shell job\n"


def test_the_first_that_fails_ends_the_others_and_its_exit_code_is_that_of_the_trainjob(
    tmp_path: Path, alive: Alive
) -> None:
    os.mkfifo(tmp_path / "ready")
    waits = "trap 'echo ending; exit 0' TERM; echo > ready; sleep 1000 & wait"
    script = f"{HOLDS}if [ $JOB_COMPLETION_INDEX = 0 ]; then {waits}; fi; read x < ready; exit 3"
    code, out, err = ran(shell(script), tmp_path)
    assert (code, out, err) == (
        3,
        "0 | ending\n",
        "Rank 1 failed with exit code 3: the TrainJob is Failed",
    )
    assert alive.nobody()


def test_a_signal_that_ends_a_rank_is_an_exit_code_as_a_pod_has_it(tmp_path: Path) -> None:
    code, _, err = ran(shell("kill -9 $$$$", nodes=1), tmp_path)
    assert (code, err) == (137, "Rank 0 failed with exit code 137: the TrainJob is Failed")


def test_what_does_not_end_is_killed_with_all_that_it_has_started(tmp_path: Path, alive: Alive) -> None:
    # As torchrun's ranks: in sessions of their own, and left alone once torchrun is killed.
    script = tmp_path / "launch.py"
    script.write_text(
        "import os, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.environ['JOB_COMPLETION_INDEX'] == '1':\n"
        "    open('ready').read()\n"
        "    sys.exit(7)\n"
        "rank = 'exec 3> alive; trap \"\" TERM; echo rank; echo > ready; exec sleep 1000'\n"
        "subprocess.run(['sh', '-c', rank], start_new_session=True)\n"
    )
    os.mkfifo(tmp_path / "ready")
    code, out, _ = ran(trainjob(sys.executable, str(script)), tmp_path, grace=0.01)
    assert (code, out) == (7, "0 | rank\n")
    assert alive.nobody()


def test_what_a_rank_leaves_running_ends_with_it(tmp_path: Path, alive: Alive) -> None:
    # The first has a session of its own, the second keeps the output open.
    left = "(setsid sleep 1000 > /dev/null 2>&1 &) ; sleep 1000 & echo done"
    assert ran(shell(HOLDS + left, nodes=1), tmp_path) == (0, "0 | done\n", COMPLETE)
    assert alive.nobody()


def test_a_trainjob_is_complete_with_its_chief_and_its_servers_are_ended(
    tmp_path: Path, alive: Alive
) -> None:
    chief = """case $TF_CONFIG in *'"type":"chief"'*) echo trained; exit 0;; esac"""
    script = f"{HOLDS}{chief}; sleep 1000"
    job = shell(script, name="tensorflow-ps", nodes=1)
    assert ran(job, tmp_path, name="tensorflow-ps") == (0, "chief-0 | trained\n", COMPLETE)
    assert alive.nobody()


def test_nothing_in_a_line_controls_a_terminal_and_none_is_longer_than_64_kib(tmp_path: Path) -> None:
    script = (
        r"printf 'a\033[31mred\033[0m\n 1%%\r99%%\n'; head -c 200000 /dev/zero | tr '\0' x; printf '\nend'"
    )
    _, out, _ = ran(shell(script, nodes=1), tmp_path)
    assert out.splitlines() == ["0 | ared", "0 | 99%", "0 | " + "x" * 65536, "0 | end"]


@pytest.mark.parametrize(
    ("number", "name", "code"),
    [
        (signal.SIGINT, "SIGINT", 130),
        (signal.SIGTERM, "SIGTERM", 143),
        (signal.SIGHUP, "SIGHUP", 129),
    ],
)
def test_a_signal_ends_all_of_it(tmp_path: Path, alive: Alive, number: int, name: str, code: int) -> None:
    process = started(shell(HOLDS + "echo runs; sleep 1000", nodes=1), tmp_path)
    assert process.stdout.readline() == "0 | runs\n"
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code
    assert err.splitlines()[1:] == [f"Ended by {name}: nothing of it runs any more"]
    assert alive.nobody()


def test_a_second_ctrl_c_does_not_wait_any_longer(tmp_path: Path, alive: Alive) -> None:
    script = HOLDS + "trap 'echo not yet' TERM; echo runs; while :; do sleep 1000 & wait; done"
    process = started(shell(script, nodes=1), tmp_path, grace=100_000)
    for line in ("0 | runs\n", "0 | not yet\n"):
        assert process.stdout.readline() == line
        process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert alive.nobody()


@pytest.mark.linux  # its kernel tells children of it
def test_the_ranks_of_a_command_that_is_killed_end(tmp_path: Path, alive: Alive) -> None:
    process = started(shell(HOLDS + "echo runs; exec sleep 1000"), tmp_path)
    assert process.stdout.readline().endswith("runs\n")
    assert process.stdout.readline().endswith("runs\n")
    process.kill()
    process.communicate()
    alive.wait_for_the_end()


def test_a_pipe_that_closes_ends_all_of_it(tmp_path: Path, alive: Alive) -> None:
    process = started(shell(HOLDS + "while :; do echo runs; done", nodes=1), tmp_path)
    process.stdout.readline()
    process.stdout.close()
    process.stderr.close()
    assert process.wait() != 0
    assert alive.nobody()


@pytest.mark.parametrize(
    ("job", "message"),
    [
        pytest.param(
            trainjob("torchrun", "train.py"),
            "torchrun is not on this machine: install PyTorch (pip install torch), "
            "or send the TrainJob to a cluster",
            id="a program",
        ),
        pytest.param(
            trainjob("./none.sh"),
            "{folder}/none.sh: there is no such program, or it must not be executed",
            id="a file",
        ),
        pytest.param(trainjob("./text"), "./text could not be started: Exec format error", id="no program"),
        pytest.param(
            trainjob("sh", env=[{"name": "A=B", "value": "x"}]),
            "sh could not be started: illegal environment variable name",
            id="the name of a variable",
        ),
        pytest.param(
            trainjob("sh", "-c", "a\0b"), "sh could not be started: embedded null byte", id="a null byte"
        ),
        pytest.param(
            trainjob("sh", nodes=0), "The TrainJob has no nodes: ask for at least one", id="no nodes"
        ),
        pytest.param(
            trainjob("sh", name="none"),
            'TrainJob:1: ClusterTrainingRuntime "none" is neither in the files nor in the catalog',
            id="a runtime",
        ),
    ],
)
def test_what_cannot_start_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Mapping[str, Any], message: str
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "text").write_text("text")
    (tmp_path / "text").chmod(0o755)
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(UserError) as error:
        run_local(job, runtime(), tmp_path, out=out, err=err)
    assert (str(error.value), out.getvalue()) == (message.format(folder=tmp_path), "")


def test_a_workspace_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        run_local(shell("true"), runtime(), tmp_path / "none")
    assert str(error.value) == f"{tmp_path}/none: there is no such folder"


def test_without_a_runtime_it_is_that_of_the_catalog(tmp_path: Path) -> None:
    out = io.StringIO()
    assert run_local(shell("echo x", nodes=1), None, tmp_path, out=out, err=io.StringIO()) == 0
    assert out.getvalue() == "0 | x\n"


def test_free_ports_are_different() -> None:
    assert len(set(machine.free_ports(50))) == 50


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What NVIDIA's driver brings, in front of all other programs."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "nvidia-smi"


@pytest.mark.linux  # the name of a process is written in /proc
def test_the_name_of_a_process_may_have_any_bytes() -> None:
    script = "open('/proc/self/comm', 'wb').write(b') Z \\xff'); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in descendants.children()
        child.communicate(b"\n")


def test_without_proc_the_program_that_lists_the_processes_is_not_taken_for_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ps = tmp_path / "ps"
    lines = ("  $$ $PPID R+", "4711 $PPID S", " 4712  4711 Ss", "4713 $PPID Z+")
    ps.write_text("#!/bin/sh\n" + "".join(f'echo "{line}"\n' for line in lines))
    ps.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(descendants, "_PROC", tmp_path / "none")
    assert descendants.children() == frozenset({4711})
    assert descendants.descendants(frozenset()) == {4711, 4712}
    assert descendants.descendants(frozenset({4711})) == set()


def test_gpus_are_those_that_the_driver_lists_and_the_shell_shows(driver: Path) -> None:
    driver.write_text("#!/bin/sh\nprintf 'GPU-a\\nGPU-b\\n'\n")
    driver.chmod(0o755)
    assert machine.gpus({}) == ["GPU-a", "GPU-b"]
    assert machine.gpus({"CUDA_VISIBLE_DEVICES": "1,3"}) == ["1", "3"]
    assert machine.gpus({"CUDA_VISIBLE_DEVICES": ""}) == []
    assert machine.gpus({"CUDA_VISIBLE_DEVICES": "-1"}) == []
    assert machine.gpus({"CUDA_VISIBLE_DEVICES": "1, 3,-1,2"}) == ["1", "3"]
    driver.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    assert machine.gpus({}) == []
