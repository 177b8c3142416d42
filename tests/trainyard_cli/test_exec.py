"""`trainyard exec`: which pod, which command, whose terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
import termios
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import answered
from tests.support.containers import JOBS, PODS, Containers
from tests.support.fake_api import eventually, status
from tests.support.fake_api import run as run_test
from trainyard_api.errors import UserError
from trainyard_assist.run import interactive
from trainyard_cli.cluster import connection, terminal
from trainyard_cli.commands import exec as command
from trainyard_kube.client import ApiError
from trainyard_kube.credentials import Credentials

WHY = r"\. See why: trainyard explain tj -n team --context lab$"


def executed(
    api: Containers, *arguments: str, rank: str | None = None, stdin: bytes = b""
) -> tuple[int, bytes, bytes]:
    """The exit code, the output and the errors of a command that has no terminal."""
    read_in, write_in = os.pipe()
    os.write(write_in, stdin)
    os.close(write_in)
    out, err = os.memfd_create("out"), os.memfd_create("err")

    async def test() -> int:
        async with api.serving() as url:
            return await command._execute(
                Credentials(server=url, tls=None, namespace="team", options=("--context", "lab")),
                None,
                "tj",
                rank,
                arguments,
                descriptors=(read_in, out, err),
                is_terminal=False,
            )

    try:
        code = run_test(test, timeout=120)
        return code, os.pread(out, 10**6, 0), os.pread(err, 10**6, 0)
    finally:
        for descriptor in (read_in, out, err):
            os.close(descriptor)


def test_a_command_has_its_own_output_errors_and_exit_code(tmp_path: Path) -> None:
    api = Containers(tmp_path)
    script = "echo out; echo err >&2; exit 3"
    assert executed(api, "sh", "-c", script) == (3, b"out\n", b"err\n")
    assert executed(api, "true") == (0, b"", b"")
    assert api.execs[0] == {
        "command": ["sh", "-c", script],
        "container": "node",
        "stdin": "true",
        "stdout": "true",
        "stderr": "true",
        "tty": "false",
    }
    assert api.writes() == []


def test_with_a_folder_a_command_starts_where_the_shell_does(tmp_path: Path) -> None:
    api = Containers(tmp_path)
    annotations = {"trainyard.dev/workspace": "sha256:0123"}
    api.put(f"{JOBS}/tj", {**api.objects[f"{JOBS}/tj"], "metadata": {"annotations": annotations}})
    assert executed(api, "echo", "in the folder") == (0, b"in the folder\n", b"")
    executed(api, stdin=b"exit\n")
    command, shell = (executed["command"] for executed in api.execs)
    assert command == [*interactive.shell(("echo", "in the folder"))]
    assert command[2].removesuffix('exec "$@"\n') == shell[2][: shell[2].index("command -v bash")]


def test_what_is_piped_to_it_is_its_input_to_the_end(tmp_path: Path) -> None:
    assert executed(Containers(tmp_path), "cat", stdin=b"a\nb\n") == (0, b"a\nb\n", b"")
    assert executed(Containers(tmp_path), stdin=b"echo shell\nexit 4\n") == (4, b"shell\n", b"")


def test_a_server_that_has_no_end_of_input_is_told_of(tmp_path: Path) -> None:
    api = Containers(tmp_path)
    api.protocols = ("v4.channel.k8s.io",)
    with pytest.raises(UserError, match="the API server has no end of input for commands"):
        executed(api, "cat", stdin=b"a")


def test_the_rank_that_is_named_runs_it_and_else_the_first(tmp_path: Path) -> None:
    api = Containers(tmp_path, nodes=2)
    executed(api, "true")
    executed(api, "true", rank="1")
    executed(api, "true", rank="node-1")
    assert [path.split("/")[-2] for method, path in api.requests if path.endswith("/exec")] == [
        "tj-node-0-0-x",
        "tj-node-0-1-x",
        "tj-node-0-1-x",
    ]


def test_of_the_pods_of_a_rank_the_one_that_runs_is_meant(tmp_path: Path) -> None:
    api = Containers(tmp_path, nodes=0)
    for number in range(9):
        api.node(0, {"terminated": {"exitCode": 1}}, phase="Failed", name=f"tj-a{number}")
    api.node(0, name="tj-b")
    assert executed(api, "true") == (0, b"", b"")
    assert api.requests[-1] == ("GET", f"{PODS}/tj-b/exec")


def test_neither_an_older_pod_than_the_job_nor_one_that_is_being_deleted_is_entered(tmp_path: Path) -> None:
    api = Containers(tmp_path, nodes=0)
    api.node(0, name="tj-a", metadata={"creationTimestamp": "2025-12-31T23:59:59Z"})
    with pytest.raises(UserError, match=f"^TrainJob team/tj is Running, and has no pod of rank 0 yet{WHY}"):
        executed(api, "true")
    api.node(0, name="tj-b", metadata={"deletionTimestamp": "2026-01-01T00:01:00Z"})
    sentence = f"^Rank 0 of TrainJob team/tj is stopping: its pod is being deleted{WHY}"
    with pytest.raises(UserError, match=sentence):
        executed(api, "true")
    api.node(0, name="tj-c")
    assert executed(api, "true") == (0, b"", b"")
    assert [path for _, path in api.requests if path.endswith("/exec")] == [f"{PODS}/tj-c/exec"]


def test_a_rank_that_is_two_pods_is_told_their_places(tmp_path: Path) -> None:
    api = Containers(tmp_path)
    api.node(0, job="launcher")
    sentence = "^TrainJob tj has several pods of rank 0: say which with --rank: launcher-0, node-0$"
    with pytest.raises(UserError, match=sentence):
        executed(api, "true")
    assert executed(api, "true", rank="launcher-0")[0] == 0


@pytest.mark.parametrize(
    ("state", "phase", "words"),
    [
        ({}, "Pending", "does not run yet: its pod is Pending"),
        (
            {"waiting": {"reason": "ImagePullBackOff"}},
            "Pending",
            r"does not run yet: its pod is Pending \(ImagePullBackOff\)",
        ),
        ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "Failed", r"has ended: OOMKilled \(137\)"),
        ({}, "Failed", "has ended: its pod is Failed"),
    ],
)
def test_a_rank_that_does_not_run_says_why(
    tmp_path: Path, state: dict[str, Any], phase: str, words: str
) -> None:
    api = Containers(tmp_path, nodes=0)
    api.node(0, state, phase=phase)
    with pytest.raises(UserError, match=f"^Rank 0 of TrainJob team/tj {words}{WHY}"):
        executed(api, "true")


def test_a_job_without_pods_and_a_rank_that_is_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^TrainJob tj has no rank 7: it has 0, 1$"):
        executed(Containers(tmp_path, nodes=2), "true", rank="7")
    api = Containers(tmp_path, nodes=0)
    with pytest.raises(UserError, match=f"^TrainJob team/tj is Running, and has no pod of rank 0 yet{WHY}"):
        executed(api, "true")
    api.put(f"{JOBS}/tj", {"status": {"trainyard": {"state": "Complete"}}})
    with pytest.raises(
        UserError, match=f"^TrainJob team/tj is Complete, and has no pod of rank 0 any more{WHY}"
    ):
        executed(api, "true")


def test_the_right_that_is_missing_is_named(tmp_path: Path) -> None:
    api = Containers(tmp_path)
    for _ in range(2):  # the second time it is asked why
        api.refuse_next("GET", "/exec", status(403, "Forbidden"))
    sentence = (
        r"^you are not allowed to run commands in the pods of namespace team \(create and get pods/exec\): "
        "ask the platform team for your tenant's right pods/exec$"
    )
    with pytest.raises(UserError, match=sentence):
        executed(api, "true")


def test_why_it_is_refused_is_what_the_server_says(tmp_path: Path) -> None:
    api = Containers(tmp_path)
    for _ in range(2):
        api.refuse_next("GET", "/exec", status(400, "BadRequest", "cannot exec in a stopped container"))
    with pytest.raises(ApiError, match=r"^400 BadRequest: cannot exec in a stopped container$"):
        executed(api, "true")


def test_a_program_or_a_shell_that_the_image_does_not_have_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Containers(tmp_path)
    with pytest.raises(UserError, match=r"^the image of rank 0 of TrainJob team/tj has no no-such-program$"):
        executed(api, "no-such-program", "-v")
    monkeypatch.setattr(interactive, "shell", lambda _: ("no-such-shell",))
    with pytest.raises(
        UserError,
        match=r"has no shell, neither bash nor sh: name a command that it has, such as "
        r"trainyard exec tj -n team --context lab -- python3$",
    ):
        executed(api)


def test_an_argument_that_would_lose_bytes_on_its_way_is_refused(tmp_path: Path) -> None:
    api = Containers(tmp_path)
    with pytest.raises(UserError, match=r"^'/data/\\udcff' is not UTF-8, .*: nothing was run there$"):
        executed(api, "rm", "-r", "/data/\udcff")
    assert api.execs == []


def test_a_connection_that_is_cut_is_an_error(tmp_path: Path) -> None:
    api = Containers(tmp_path)
    api.cut = True
    with pytest.raises(ApiError, match=r"^the connection was cut"):
        executed(api, "sh", "-c", "echo begun; sleep 60")


# --- a terminal ---------------------------------------------------------------------


class Typist:
    """Somebody at a terminal."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (24, 80))
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""

    def read(self) -> None:
        self.seen += os.read(self.master, 65_536)

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    @property
    def is_as_before(self) -> bool:
        return termios.tcgetattr(self.slave) == self.before


def at_a_terminal(api: Containers, typist: Typist, act: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """The exit code of a shell in which somebody acts."""

    async def test() -> int:
        asyncio.get_running_loop().add_reader(typist.master, typist.read)
        async with api.serving() as url:
            running = asyncio.create_task(
                command._execute(
                    Credentials(server=url, tls=None, namespace="team"),
                    None,
                    "tj",
                    None,
                    ("sh",),
                    descriptors=(typist.slave, typist.slave, typist.slave),
                    is_terminal=True,
                )
            )
            acting = asyncio.create_task(act())
            await asyncio.wait((running, acting), return_when=asyncio.FIRST_EXCEPTION)
            return await running

    return run_test(test, timeout=120)


def test_a_terminal_is_raw_while_it_is_somewhere_else_and_as_before_afterwards(tmp_path: Path) -> None:
    api, typist = Containers(tmp_path), Typist()

    async def act() -> None:
        await eventually(lambda: api.sizes == [(80, 24)], within=60)
        assert not typist.is_as_before
        typist.type(b"echo size $(stty size)\n")
        await eventually(lambda: b"size 24 80" in typist.seen, within=60)
        termios.tcsetwinsize(typist.slave, (50, 132))
        os.kill(os.getpid(), signal.SIGWINCH)
        await eventually(lambda: api.sizes == [(80, 24), (132, 50)], within=60)
        typist.type(b"exit 5\n")

    assert at_a_terminal(api, typist, act) == 5
    assert typist.is_as_before
    assert (api.execs[0]["tty"], api.execs[0]["stderr"]) == ("true", "false")


def test_a_terminal_is_as_before_after_a_cut_and_after_a_signal(tmp_path: Path) -> None:
    api, typist = Containers(tmp_path), Typist()

    async def cut() -> None:
        await eventually(lambda: api.sizes != [], within=60)
        api.cut = True
        typist.type(b"echo\n")

    with pytest.raises(ApiError, match="the connection was cut"):
        at_a_terminal(api, typist, cut)
    assert typist.is_as_before
    api, typist = Containers(tmp_path), Typist()

    async def kill() -> None:
        await eventually(lambda: api.sizes != [], within=60)
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(asyncio.CancelledError):
        at_a_terminal(api, typist, kill)
    assert typist.is_as_before


def test_what_is_written_waits_for_room_and_loses_nothing() -> None:
    reading, writing = os.pipe()
    whole = os.urandom(300_000)

    async def test() -> bytes:
        async def read() -> bytes:
            return b"".join([piece async for piece in terminal.pieces(reading)])

        received = asyncio.create_task(read())
        await terminal.write(writing, whole)
        os.close(writing)
        return await received

    try:
        assert run_test(test, timeout=60) == whole
    finally:
        os.close(reading)


def test_an_input_that_is_closed_or_a_file_ends(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"whole")

    async def test(descriptor: int) -> list[bytes]:
        return [piece async for piece in terminal.pieces(descriptor)]

    with file.open("rb") as opened:
        assert run_test(lambda: test(opened.fileno())) == [b"whole"]
    with open(os.devnull, "rb") as nothing:
        assert run_test(lambda: test(nothing.fileno())) == []
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    assert run_test(lambda: test(reading)) == []


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_file_a_closed_input_and_the_empty_device_are_waited_for_in_the_loop_of_each_system(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    file, copy = tmp_path / "file", tmp_path / "copy"
    file.write_bytes(b"whole")

    async def copied(source: int, target: int) -> list[bytes]:
        pieces = [piece async for piece in terminal.pieces(source)]
        for piece in pieces:
            await terminal.write(target, piece)
        return pieces

    async def of_closed() -> list[bytes]:
        reading, writing = os.pipe()  # in the loop, which would else take the numbers
        os.close(reading)
        os.close(writing)
        return [piece async for piece in terminal.pieces(reading)]

    with file.open("rb") as whole, copy.open("wb") as target, open(os.devnull, "r+b", buffering=0) as nothing:
        assert terminal.run(copied(whole.fileno(), nothing.fileno())) == [b"whole"]
        whole.seek(0)
        assert terminal.run(copied(whole.fileno(), target.fileno())) == [b"whole"]
        assert terminal.run(copied(nothing.fileno(), target.fileno())) == []
    assert terminal.run(of_closed()) == []
    assert copy.read_bytes() == b"whole"


# --- the command --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"job": "../x"}, "'../x' is not a valid name of an object"),
        ({"namespace": "A"}, "'A' is not a valid name of an object"),
        ({"kubeconfig": "/no/such/file"}, "/no/such/file"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_code_2(options: dict[str, Any], sentence: str) -> None:
    code, out, err = answered(command.run, **{"job": "tj", **options})
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_ctrl_c_says_what_may_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_execute", interrupted)
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    assert answered(command.run, "tj") == (130, "", "interrupted: what was started in tj may still run\n")


def test_no_answer_is_one_line_and_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None, source="here"))
    code, out, err = answered(command.run, "tj")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("here: GET ")
    assert "may still run" not in err


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "here: gone: what was started in tj may still run\n"),
        (400, "here: 400 BadRequest: gone\n"),
        (504, "here: 504 BadRequest: gone: what was started in tj may still run\n"),
    ],
)
def test_only_of_what_may_have_begun_it_is_told_that_it_may_still_run(
    code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: Any, **__: Any) -> int:
        raise ApiError("gone", code=code, reason="BadRequest")

    monkeypatch.setattr(command, "_execute", failing)
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None, source="here"))
    assert answered(command.run, "tj") == (2, "", words)
