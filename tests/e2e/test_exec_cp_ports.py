"""`trainyard exec`, `cp` and `ports`, by a data scientist and by who may only look."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.cluster import A_SHELLS_OWN, UNTIL_TOLD, Cluster, Object, finish, trainjob
from tests.support.patience import LEARNED, eventually
from trainyard_sandbox.paths import PROJECT

pytestmark = [pytest.mark.sandbox(area="tenants"), pytest.mark.long]

TRAINYARD = str(PROJECT / ".venv" / "bin" / "trainyard")
TMP = "/tmp"  # noqa: S108 (the pod's own)
SERVES = (
    "import http.server, os, threading\n"
    "server = http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler)\n"
    "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
    "import time\n"
    "while not os.path.exists('/tmp/go'):\n"
    "    time.sleep(0.2)\n"
)
"""On its own loopback, as TensorBoard does."""


def of(team_a: Cluster, person: str) -> dict[str, str]:
    """The environment of somebody of team-a."""
    return {**A_SHELLS_OWN, **team_a.sandbox.environment(person, "team-a")}


def trainyard(
    team_a: Cluster, person: str, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """What the command answers somebody of team-a."""
    return subprocess.run(
        [TRAINYARD, *arguments],
        env=of(team_a, person),
        input=stdin,
        capture_output=True,
        check=False,
        timeout=300,
    )


def two_nodes(name: str, script: str) -> Object:
    job = trainjob(name, script)
    job["spec"]["trainer"]["numNodes"] = 2
    return job


def runs(team_a: Cluster, job: str) -> list[Object]:
    """Its pods, once all of them run."""

    def ready() -> list[Object]:
        pods = team_a.pods(job)
        return pods if pods and all(pod["status"].get("phase") == "Running" for pod in pods) else []

    return eventually("its pods run", ready)


def test_a_command_runs_in_the_rank_that_is_named(team_a: Cluster) -> None:
    team_a.apply(two_nodes("inside", UNTIL_TOLD))
    pods = runs(team_a, "inside")
    which = ("--", "sh", "-c", "echo $JOB_COMPLETION_INDEX; cat; echo sad >&2; exit 3")
    for rank in ("0", "1"):
        answer = trainyard(team_a, "ada", "exec", "inside", "--rank", rank, *which, stdin=b"piped\n")
        assert (answer.returncode, answer.stdout, answer.stderr) == (3, f"{rank}\npiped\n".encode(), b"sad\n")
    shell = trainyard(team_a, "ada", "exec", "inside", stdin=b"echo $0 $((40 + 2))\n")
    assert (shell.returncode, shell.stdout.split()[-1:]) == (0, [b"42"])
    absent = trainyard(team_a, "ada", "exec", "inside", "--", "no-such-program")
    assert absent.returncode == 2, absent
    assert absent.stderr.decode() == "the image of rank 0 of TrainJob team-a/inside has no no-such-program\n"
    viewer = trainyard(team_a, "vera", "exec", "inside", "--", "true")
    assert viewer.returncode == 2, viewer
    assert viewer.stderr.startswith(b"you are not allowed to run commands in the pods of namespace team-a")
    for pod in pods:
        finish(team_a, pod)
    team_a.wait_for_condition("inside", "Complete", within=LEARNED)
    over = trainyard(team_a, "ada", "exec", "inside", "--rank", "0", "--", "true")
    assert over.returncode == 2
    assert re.match(rb"(Rank 0 of )?TrainJob team-a/inside (has ended|is Complete)", over.stderr), over.stderr


def test_a_shell_on_a_terminal_is_a_terminal_there(team_a: Cluster) -> None:
    team_a.apply(trainjob("typed", UNTIL_TOLD))
    [pod] = runs(team_a, "typed")
    master, slave = pty.openpty()
    with subprocess.Popen(
        [TRAINYARD, "exec", "typed"],
        env=of(team_a, "ada"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    ) as shell:
        os.close(slave)
        seen = b""
        try:
            # Typed before anybody listens, it waits in the terminal.
            os.write(master, b"test -t 0 && echo a terminal of $((40 + 2)); exit 7\r")
            with suppress(OSError):  # at its end, nobody has it open any more
                while piece := os.read(master, 65_536):
                    seen += piece
            assert shell.wait(LEARNED.now) == 7, seen
        finally:
            shell.kill()
            os.close(master)
    assert b"a terminal of 42" in seen
    finish(team_a, pod)
    team_a.wait_for_condition("typed", "Complete", within=LEARNED)


def test_a_folder_goes_to_a_rank_and_comes_back(team_a: Cluster, tmp_path: Path) -> None:
    team_a.apply(two_nodes("copied", UNTIL_TOLD))
    pods = runs(team_a, "copied")
    data = tmp_path / "data"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "weights").write_bytes(os.urandom(3_000_000))
    (data / "run.sh").write_text("echo ran")
    (data / "run.sh").chmod(0o755)
    (data / "latest").symlink_to("deep")
    sent = trainyard(team_a, "ada", "cp", str(data), f"copied:{TMP}", "--rank", "1")
    assert (sent.returncode, sent.stdout) == (0, b""), sent
    ran = trainyard(team_a, "ada", "exec", "copied", "--rank", "1", "--", "sh", f"{TMP}/data/run.sh")
    assert ran.stdout == b"ran\n", ran
    other = trainyard(team_a, "ada", "exec", "copied", "--rank", "0", "--", "test", "-e", f"{TMP}/data")
    assert other.returncode == 1, other
    back = trainyard(team_a, "ada", "cp", f"copied:{TMP}/data", str(tmp_path / "back"), "--rank", "1")
    assert back.returncode == 0, back
    weights = (data / "deep" / "weights").read_bytes()
    assert {
        path.relative_to(tmp_path / "back").as_posix(): path.read_bytes()
        for path in (tmp_path / "back").rglob("*")
        if path.is_file()
    } == {"deep/weights": weights, "latest/weights": weights, "run.sh": b"echo ran"}
    absent = trainyard(team_a, "ada", "cp", f"copied:{TMP}/no", str(tmp_path))
    assert absent.returncode == 2
    assert absent.stderr.startswith(b"/tmp/no of rank 0 of TrainJob team-a/copied was not copied: tar: "), (
        absent
    )
    for pod in pods:
        finish(team_a, pod)
    team_a.wait_for_condition("copied", "Complete", within=LEARNED)


def test_a_port_of_a_rank_answers_on_this_machine_until_ctrl_c(team_a: Cluster) -> None:
    job = trainjob("served", runtime="torch-distributed")
    job["spec"]["trainer"]["command"] = ["python3", "-c", SERVES]
    team_a.apply(job)
    [pod] = runs(team_a, "served")
    with subprocess.Popen(
        [TRAINYARD, "ports", "served", ":8000", ":9"],
        env=of(team_a, "ada"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who was started in the background by a shell ignores it, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as forwarding:
        try:
            lines = [forwarding.stdout.readline() for _ in range(2)]
            served, silent = (
                int(re.match(r"127\.0\.0\.1:(\d+) -> rank 0 of TrainJob team-a/served, port ", line)[1])
                for line in lines
            )
            eventually("it answers", lambda: answer(served).startswith(b"HTTP/1.0 200 OK"))
            assert answer(silent) == b""
            forwarding.send_signal(signal.SIGINT)
            out, err = forwarding.communicate(timeout=LEARNED.now)
        finally:
            forwarding.kill()
    assert (forwarding.returncode, out) == (0, "")
    assert err.splitlines()[-1] == "rank 0 of TrainJob team-a/served: nothing listens on its port 9"
    viewer = trainyard(team_a, "vera", "ports", "served", ":8000")
    assert viewer.returncode == 2
    assert viewer.stderr.startswith(b"you are not allowed to forward ports of the pods of namespace team-a")
    finish(team_a, pod)
    team_a.wait_for_condition("served", "Complete", within=LEARNED)


def answer(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
        whole = b""
        with suppress(ConnectionResetError):
            while piece := connection.recv(65_536):
                whole += piece
        return whole
