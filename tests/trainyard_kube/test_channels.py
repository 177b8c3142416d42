"""Streams over a WebSocket: what is sent, what comes, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from tests.support.fake_api import run
from trainyard_api.errors import UserError
from trainyard_kube import channels as module
from trainyard_kube.channels import V4, V5, Channels, channels
from trainyard_kube.client import ApiError, Client, RetriableError
from trainyard_kube.credentials import Credentials

T = TypeVar("T")


def connected(
    server: Callable[[web.WebSocketResponse], Awaitable[None]],
    client: Callable[[Channels], Awaitable[T]],
    *protocols: str,
) -> T:
    """What a client answers that is connected to a server of these protocols."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=protocols or (V5, V4), autoping=False)
        await socket.prepare(request)
        await server(socket)
        await socket.close()
        return socket

    async def test() -> T:
        app = web.Application()
        app.router.add_get("/streams", handle)
        async with (
            TestServer(app) as serving,
            Client(Credentials(str(serving.make_url("")), None)) as api,
            channels(api, "/streams", params=[("a", "1")], protocols=(V5, V4)) as remote,
        ):
            return await client(remote)

    return run(test, timeout=60)


async def echo(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        await socket.send_bytes(b"\x07" + message.data)


async def silent(socket: web.WebSocketResponse) -> None:
    await socket.receive()


def test_the_first_byte_of_a_message_is_its_stream_and_an_end_is_a_message_too() -> None:
    async def client(remote: Channels) -> list[tuple[int, bytes] | None]:
        await remote.send(4, b"piece")
        await remote.close(4)
        return [await remote.receive(), await remote.receive()]

    assert connected(echo, client) == [(7, b"\x04piece"), (7, b"\xff\x04")]


def test_without_the_fifth_version_a_stream_has_no_end() -> None:
    async def client(remote: Channels) -> None:
        await remote.close(0)

    with pytest.raises(UserError, match=r"^the API server has no end of input for commands"):
        connected(echo, client, V4)


def test_a_ping_is_answered_and_empty_messages_are_nothing() -> None:
    async def server(socket: web.WebSocketResponse) -> None:
        await socket.ping(b"there?")
        answer = await socket.receive()
        await socket.send_bytes(b"")
        await socket.send_bytes(b"\x01" + answer.data if answer.type is WSMsgType.PONG else b"\x02")

    async def client(remote: Channels) -> list[tuple[int, bytes] | None]:
        return [await remote.receive(), await remote.receive()]

    assert connected(server, client) == [(1, b"there?"), None]


def test_a_silent_server_counts_as_cut() -> None:
    async def client(remote: Channels) -> tuple[int, bytes] | None:
        return await remote.receive(0.05)

    with pytest.raises(RetriableError, match=r"^the connection was cut: no answer for 0 s$"):
        connected(silent, client)


def test_pings_keep_the_connection_and_their_answers_are_no_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PING_EVERY", 0.0)

    async def server(socket: web.WebSocketResponse) -> None:
        for _ in range(3):
            ping = await socket.receive()
            assert ping.type is WSMsgType.PING
            await socket.pong(ping.data)
        await socket.send_bytes(b"\x01done")

    async def client(remote: Channels) -> tuple[int, bytes] | None:
        return await remote.receive(60)

    assert connected(server, client) == (1, b"done")


def test_whoever_receives_hears_of_the_end_that_another_task_makes() -> None:
    async def client(remote: Channels) -> tuple[int, bytes] | None:
        receiving = asyncio.create_task(remote.receive())
        await asyncio.sleep(0)
        await remote.end()
        return await receiving

    assert connected(silent, client) is None


def test_what_is_sent_after_the_end_is_an_error() -> None:
    async def client(remote: Channels) -> None:
        await remote.end()
        await remote.send(0, b"x")

    with pytest.raises(RetriableError, match=r"^the connection was cut: "):
        connected(silent, client)


def test_a_path_that_is_no_websocket_is_an_error_with_its_reason() -> None:
    async def test() -> None:
        async with (
            TestServer(web.Application()) as serving,
            Client(Credentials(str(serving.make_url("")), None)) as api,
            channels(api, "/streams", params=(), protocols=(V4,)),
        ):
            raise AssertionError

    with pytest.raises(ApiError, match=r"^404 : 404: Not Found$"):
        run(test, timeout=60)
