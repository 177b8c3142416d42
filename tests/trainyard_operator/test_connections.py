"""Connections within bounds: who is closed, who is not, and that honest callers are answered meanwhile."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import uvloop
from aiohttp import web

from trainyard_operator.kube.credentials import as_file
from trainyard_operator.serve import certificates
from trainyard_operator.serve.connections import Bounds, Listener

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
QUICK = Bounds(keepalive=30.0, most=4, header_timeout=0.3)
PATIENT = Bounds(keepalive=30.0, most=4, header_timeout=30.0)


def tls_context(issued: certificates.Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with as_file(issued.certificate) as certificate, as_file(issued.key) as key:
        context.load_cert_chain(certificate, key)
    return context


class Server:
    """A server with one path that answers at once and one that answers when it is told to."""

    def __init__(self, bounds: Bounds, tls: ssl.SSLContext | None = None) -> None:
        app = web.Application()
        app.router.add_get("/now", self._now)
        app.router.add_get("/later", self._later)
        self.go = asyncio.Event()
        self.streams: list[Stream] = []
        self.listener = Listener(app, bounds, host="127.0.0.1", port=0, tls=tls)

    async def _now(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _later(self, _: web.Request) -> web.Response:
        await self.go.wait()
        return web.Response(text="ok")

    async def connect(self, source: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Stream:
        stream = await asyncio.open_connection(
            "127.0.0.1", self.listener.port, local_addr=(source, 0), ssl=tls
        )
        self.streams.append(stream)
        await asyncio.sleep(0.02)
        return stream


@asynccontextmanager
async def serving(bounds: Bounds, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(bounds, tls)
    await server.listener.start()
    try:
        async with asyncio.timeout(8):
            yield server
    finally:
        await server.listener.stop()
        for _, writer in server.streams:
            writer.transport.abort()
        await asyncio.sleep(0.01)


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run it in Python's own event loop, and in the one that the operator has."""
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(test())


async def answer(stream: Stream, path: str = "/now") -> str:
    """The first line of the answer to a request, empty if the connection is closed."""
    reader, writer = stream
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        return head.split(b"\r\n")[0].decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return ""


async def is_closed(stream: Stream, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return await stream[0].read(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("sent", [b"", b"GET /now HTTP/1.1\r\nX: a"])
def test_who_sends_no_whole_header_is_closed_in_time(sent: bytes) -> None:
    async def test() -> None:
        async with serving(QUICK) as server:
            stream = await server.connect()
            stream[1].write(sent)
            assert await is_closed(stream, within=2)

    run(test)


def test_who_sends_his_header_byte_by_byte_gets_no_more_time() -> None:
    async def test() -> None:
        async with serving(QUICK) as server:
            stream = await server.connect()
            assert await answer(stream) == "HTTP/1.1 200 OK"
            for byte in b"GET /now HTTP/1.1\r\nX: ":
                stream[1].write(bytes([byte]))
                if closed := await is_closed(stream, within=0.05):
                    break
            assert closed, "each byte came soon after the one before, but the header did not come in time"

    run(test)


def test_a_handshake_that_never_begins_is_closed_in_time() -> None:
    async def test() -> None:
        issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
        async with serving(QUICK, tls_context(issued)) as server:
            assert await is_closed(await server.connect(), within=2)
            trust = ssl.create_default_context(cadata=issued.authorities.decode())
            assert await answer(await server.connect(tls=trust)) == "HTTP/1.1 200 OK"

    run(test)


def test_one_who_was_answered_may_be_idle() -> None:
    async def test() -> None:
        async with serving(QUICK) as server:
            stream = await server.connect()
            assert await answer(stream) == "HTTP/1.1 200 OK"
            assert not await is_closed(stream, within=1)
            assert await answer(stream) == "HTTP/1.1 200 OK"

    run(test)


def test_idle_connections_make_room_for_an_honest_request() -> None:
    async def test() -> None:
        async with serving(PATIENT) as server:
            idle = [await server.connect() for _ in range(PATIENT.most)]
            honest = await server.connect()
            assert await answer(honest) == "HTTP/1.1 200 OK"
            assert [await is_closed(one, within=0.05) for one in idle] == [True, False, False, False]
            assert len(server.listener) == PATIENT.most

    run(test)


def test_the_address_that_holds_most_makes_room() -> None:
    async def test() -> None:
        async with serving(PATIENT) as server:
            honest = await server.connect()
            assert await answer(honest) == "HTTP/1.1 200 OK"
            hogs = [await server.connect("127.0.0.2") for _ in range(10 * PATIENT.most)]
            assert await answer(honest) == "HTTP/1.1 200 OK"
            assert [await is_closed(one, within=0.05) for one in hogs] == [True] * 37 + [False] * 3

    run(test)


def test_a_request_that_is_being_answered_is_never_closed() -> None:
    async def test() -> None:
        async with serving(QUICK) as server:
            waiting = [
                asyncio.create_task(answer(await server.connect(), "/later")) for _ in range(QUICK.most)
            ]
            await asyncio.sleep(0.5)
            assert await answer(await server.connect()) == "", "there is no room, and nobody to make any"
            server.go.set()
            assert await asyncio.gather(*waiting) == ["HTTP/1.1 200 OK"] * QUICK.most
            assert await answer(await server.connect()) == "HTTP/1.1 200 OK"

    run(test)


def test_all_are_closed_when_it_stops() -> None:
    async def test() -> None:
        async with serving(PATIENT) as server:
            stream = await server.connect()
            await server.listener.stop()
            assert await is_closed(stream, within=1)
            with pytest.raises(ConnectionRefusedError):
                await server.connect()

    run(test)
