"""`trainyard ports`: who is forwarded to whom."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import answered
from tests.support.containers import Containers
from tests.support.fake_api import eventually, status
from tests.support.fake_api import run as run_test
from trainyard_api.errors import UserError
from trainyard_cli.cluster import connection, forwards
from trainyard_cli.cluster.forwards import Forward
from trainyard_cli.commands import ports as command
from trainyard_cli.output import Output
from trainyard_kube.credentials import Credentials


@asynccontextmanager
async def service(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncGenerator[int]:
    """A server as it runs in the pod; its port."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a line in capitals, and end."""
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()


async def forwarded(
    api: Containers, remote: int, act: Callable[[int], Awaitable[None]], output: Output = Output.TEXT
) -> tuple[str, str]:
    """What is printed and said while somebody acts at the local port."""
    out, err = io.StringIO(), io.StringIO()
    async with api.serving() as url:
        listening = asyncio.create_task(
            command._listen(
                Credentials(server=url, tls=None, namespace="team"),
                None,
                "tj",
                None,
                [Forward(0, remote)],
                output=output,
                out=out,
                err=err,
            )
        )
        try:
            await eventually(lambda: listening.done() or out.getvalue().endswith("\n"), within=60)
            if listening.done():
                listening.result()
            text = out.getvalue()
            local = json.loads(text)["ports"][0]["local"] if output is Output.JSON else text.split()[0][10:]
            await act(int(local))
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
    return out.getvalue(), err.getvalue()


async def line(port: int, text: bytes = b"hello\n") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    answer = await reader.read()
    writer.close()
    return answer


def test_what_is_sent_to_the_local_port_reaches_that_of_the_rank_and_back(tmp_path: Path) -> None:
    api = Containers(tmp_path)
    answers: list[bytes] = []

    async def act(port: int) -> None:
        answers.extend(await asyncio.gather(line(port), line(port, b"x" * 60_000 + b"\n")))

    async def test() -> tuple[str, str]:
        async with service(shout) as remote:
            out, err = await forwarded(api, remote, act)
            return out.replace(str(remote), "REMOTE"), err

    out, err = run_test(test, timeout=120)
    assert answers == [b"HELLO\n", b"X" * 60_000 + b"\n"]
    assert out.endswith(" -> rank 0 of TrainJob team/tj, port REMOTE\n")
    assert (out[:10], err) == ("127.0.0.1:", "")


def test_the_ports_can_be_had_as_json(tmp_path: Path) -> None:
    async def act(port: int) -> None:
        assert port > 0

    out, _ = run_test(lambda: forwarded(Containers(tmp_path), 6006, act, Output.JSON), timeout=120)
    document = json.loads(out)
    assert document == {
        "apiVersion": "ports.trainyard.dev/v1alpha1",
        "kind": "Ports",
        "namespace": "team",
        "trainJob": "tj",
        "rank": "0",
        "ports": [{"address": "127.0.0.1", "local": document["ports"][0]["local"], "remote": 6006}],
    }


def test_where_nothing_listens_is_told_and_the_next_connection_works(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        remote = free.getsockname()[1]

    async def act(port: int) -> None:
        assert await line(port) == b""
        server = await asyncio.start_server(shout, "127.0.0.1", remote)
        assert await line(port) == b"HELLO\n"
        server.close()

    _, err = run_test(lambda: forwarded(Containers(tmp_path), remote, act), timeout=120)
    assert err == f"rank 0 of TrainJob team/tj: nothing listens on its port {remote}\n"


def test_a_rank_that_gets_a_new_pod_is_forwarded_to_that(tmp_path: Path) -> None:
    api = Containers(tmp_path, nodes=0)
    api.node(0, name="tj-a")

    async def act(port: int) -> None:
        assert await line(port) == b"HELLO\n"
        api.remove("/api/v1/namespaces/team/pods/tj-a")
        assert await line(port) == b""
        api.node(0, name="tj-b")
        assert await line(port) == b"HELLO\n"

    async def test() -> str:
        async with service(shout) as remote:
            return (await forwarded(api, remote, act))[1]

    err = run_test(test, timeout=120)
    why = "See why: trainyard explain tj -n team"
    assert err == f"TrainJob team/tj is Running, and has no pod of rank node-0 yet. {why}\n"
    assert api.forwards == ["tj-a", "tj-b"]


def test_a_client_that_is_gone_ends_its_connection_after_some_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwards, "_LINGER", 0.02)
    ended: list[bool] = []

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.append(True)
        writer.close()

    async def act(port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello")
        writer.close()
        await eventually(lambda: ended == [True], within=60)

    async def test() -> str:
        async with service(wait) as remote:
            return (await forwarded(Containers(tmp_path), remote, act))[1]

    assert run_test(test, timeout=120) == ""


@pytest.mark.parametrize("verb", ["get", "create"])
def test_the_right_that_is_missing_is_named_before_anybody_connects(tmp_path: Path, verb: str) -> None:
    api = Containers(tmp_path)
    api.allowed.remove(verb)

    async def act(_: int) -> None:
        raise AssertionError

    sentence = (
        r"^you are not allowed to forward ports of the pods of namespace team .* right pods/portforward$"
    )
    with pytest.raises(UserError, match=sentence):
        run_test(lambda: forwarded(api, 6006, act), timeout=120)
    assert api.forwards == []


def test_a_right_that_is_lost_meanwhile_is_told(tmp_path: Path) -> None:
    api = Containers(tmp_path)

    async def act(port: int) -> None:
        for _ in range(2):
            api.refuse_next("GET", "/portforward", status(403, "Forbidden"))
        assert await line(port) == b""

    _, err = run_test(lambda: forwarded(api, 6006, act), timeout=120)
    assert err.startswith("you are not allowed to forward ports of the pods of namespace team")


def test_a_local_port_that_is_taken_is_told(tmp_path: Path) -> None:
    api = Containers(tmp_path)

    async def test(taken: int) -> None:
        async with api.serving() as url:
            credentials = Credentials(server=url, tls=None, namespace="team")
            out = io.StringIO()
            await command._listen(
                credentials, None, "tj", None, [Forward(taken, 6006)], output=Output.TEXT, out=out, err=out
            )

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(
            UserError, match=rf"^port {taken} of this machine cannot be used: .* free: :6006$"
        ):
            run_test(lambda: test(taken), timeout=120)


@pytest.mark.parametrize(
    ("text", "forward"),
    [
        ("6006", Forward(6006, 6006)),
        ("16006:6006", Forward(16006, 6006)),
        (":6006", Forward(0, 6006)),
        ("0:6006", Forward(0, 6006)),
    ],
)
def test_a_port_is_as_kubectl_reads_it(text: str, forward: Forward) -> None:
    assert command._forward(text) == forward


@pytest.mark.parametrize(
    "text", ["", ":", "0", "x", "70000", "1:70000", "1:2:3", "-1", "٣", "6006:", "9" * 5000]
)
def test_what_is_no_port_is_one_sentence(text: str) -> None:
    code, out, err = answered(command.run, "tj", [text])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is not a port: use 6006, 16006:6006 or :6006 (1 to 65535)" in err


def test_ctrl_c_ends_it_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_listen", interrupted)
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    assert answered(command.run, "tj", ["6006"]) == (0, "", "")
