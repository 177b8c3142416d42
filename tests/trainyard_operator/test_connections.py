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

from tests.support.fake_api import eventually
from trainyard_kube.credentials import as_file
from trainyard_operator.serve import certificates
from trainyard_operator.serve.connections import Bounds, Listener

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
QUICK = Bounds(keepalive=30.0, most=4, header_timeout=0.3)
MIB, MUCH = 1024 * 1024, 48
PATIENT = Bounds(keepalive=30.0, most=4, header_timeout=30.0)


def tls_context(issued: certificates.Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with as_file(issued.certificate) as certificate, as_file(issued.key) as key:
        context.load_cert_chain(certificate, key)
    return context


class Server:
    """A server that answers at once at one path, when it is told to at another, and with much at a third."""

    def __init__(self, bounds: Bounds, tls: ssl.SSLContext | None, shutdown_timeout: float) -> None:
        app = web.Application()
        app.router.add_route("*", "/now", self._now)
        app.router.add_post("/body", self._body)
        app.router.add_get("/later", self._later)
        app.router.add_get("/much", self._much)
        self.sent = 0
        """MiB that `/much` has sent."""
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.streams: list[Stream] = []
        self.listener = Listener(
            app, bounds, host="127.0.0.1", port=0, tls=tls, shutdown_timeout=shutdown_timeout
        )

    async def _now(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _body(self, request: web.Request) -> web.Response:
        await request.read()
        return web.Response(text="ok")

    async def _later(self, _: web.Request) -> web.Response:
        self.begun.set()
        await self.go.wait()
        return web.Response(text="ok")

    async def _much(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(MUCH * MIB)})
        await response.prepare(request)
        for _ in range(MUCH):
            await response.write(b" " * MIB)
            self.sent += 1
        return response

    async def connect(self, source: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Stream:
        stream = await asyncio.open_connection(
            "127.0.0.1", self.listener.port, local_addr=(source, 0), ssl=tls
        )
        self.streams.append(stream)
        await asyncio.sleep(0.02)
        return stream


@asynccontextmanager
async def serving(
    bounds: Bounds, tls: ssl.SSLContext | None = None, shutdown_timeout: float = 2.0
) -> AsyncIterator[Server]:
    server = Server(bounds, tls, shutdown_timeout)
    await server.listener.start()
    try:
        async with asyncio.timeout(25):  # less than PATIENT's
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
            assert await is_closed(stream, within=20)

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
            assert await is_closed(await server.connect(), within=20)
            trust = ssl.create_default_context(cadata=issued.authorities.decode())
            assert await answer(await server.connect(tls=trust)) == "HTTP/1.1 200 OK"

    run(test)


@pytest.mark.parametrize("way", ["sends no TLS", "hangs up"])
def test_a_handshake_that_fails_leaves_its_place_at_once(way: str) -> None:
    async def test() -> None:
        issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
        async with serving(PATIENT, tls_context(issued)) as server:
            for _, writer in [await server.connect() for _ in range(PATIENT.most)]:
                if way == "sends no TLS":
                    writer.write(b"GET /now HTTP/1.1\r\n\r\n")
                else:
                    writer.transport.abort()
            await eventually(lambda: len(server.listener) == 0, within=20)
            trust = ssl.create_default_context(cadata=issued.authorities.decode())
            assert await answer(await server.connect(tls=trust)) == "HTTP/1.1 200 OK"

    run(test)


@pytest.mark.long
def test_one_who_was_answered_may_be_idle() -> None:
    async def test() -> None:
        async with serving(QUICK) as server:
            stream = await server.connect()
            assert await answer(stream) == "HTTP/1.1 200 OK"
            assert not await is_closed(stream, within=1)
            assert await answer(stream) == "HTTP/1.1 200 OK"

    run(test)


@pytest.mark.parametrize("tls", [False, True])
def test_idle_connections_make_room_for_an_honest_request(tls: bool) -> None:
    async def test() -> None:
        issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
        trust = ssl.create_default_context(cadata=issued.authorities.decode())
        async with serving(PATIENT, tls_context(issued) if tls else None) as server:
            idle = [await server.connect() for _ in range(PATIENT.most)]
            honest = await server.connect(tls=trust if tls else None)
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


def test_those_that_owe_the_rest_of_their_bodies_make_room() -> None:
    """Their callers have to send more, as those of idle connections have."""

    async def test() -> None:
        async with serving(PATIENT) as server:
            for _ in range(3 * PATIENT.most):
                _, writer = await server.connect("127.0.0.2")
                writer.write(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbod")
                await asyncio.sleep(0.01)
            assert await answer(await server.connect()) == "HTTP/1.1 200 OK"
            writer.write(b"y")
            assert b" 200 " in await server.streams[-2][0].readuntil(b"\r\n\r\nok")

    run(test)


def test_a_head_of_many_small_headers_is_not_kept() -> None:
    async def test() -> None:
        async with serving(PATIENT) as server:
            stream = await server.connect()
            stream[1].write(
                b"GET /now HTTP/1.1\r\nHost: a\r\n" + 100 * (b"X: " + 1000 * b"y" + b"\r\n") + b"\r\n"
            )
            assert await is_closed(stream, within=20)
            assert await answer(await server.connect()) == "HTTP/1.1 200 OK"

    run(test)


def test_the_rest_of_a_body_that_nobody_reads_is_not_waited_for() -> None:
    async def test() -> None:
        async with serving(PATIENT) as server:
            stream = await server.connect()
            stream[1].write(b"POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
            assert b" 200 " in await stream[0].readuntil(b"\r\n\r\nok")
            stream[1].write(b"rest")
            assert await answer(stream) == ""

    run(test)


def test_who_reads_slowly_is_sent_no_more_than_he_takes_and_gets_all_of_it() -> None:
    async def test() -> None:
        async with serving(PATIENT) as server:
            reader, writer = await server.connect()
            writer.write(b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.2)
            assert server.sent < MUCH, "the rest would be in our memory"
            await reader.readexactly(MUCH * MIB)
            await eventually(lambda: server.sent == MUCH)

    run(test)


def test_what_is_being_answered_when_it_stops_is_answered_if_that_is_soon() -> None:
    async def test() -> None:
        async with serving(PATIENT, shutdown_timeout=30.0) as server:
            waiting = asyncio.create_task(answer(await server.connect(), "/later"))
            await server.begun.wait()
            stopping = asyncio.create_task(server.listener.stop())
            await asyncio.sleep(0.05)
            server.go.set()
            assert await waiting == "HTTP/1.1 200 OK"
            await stopping
            assert len(server.listener) == 0

    run(test)


def test_what_is_not_answered_soon_when_it_stops_is_ended() -> None:
    async def test() -> None:
        async with serving(PATIENT, shutdown_timeout=0.1) as server:
            waiting = asyncio.create_task(answer(await server.connect(), "/later"))
            await server.begun.wait()
            await server.listener.stop()
            assert await waiting == ""
            assert len(server.listener) == 0

    run(test)


def test_who_does_not_read_is_not_waited_for_when_it_stops() -> None:
    async def test() -> None:
        async with serving(PATIENT, shutdown_timeout=0.1) as server:
            reader, writer = await server.connect()
            writer.write(b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.1)
            assert len(server.listener) == 1
            await server.listener.stop()
            assert len(server.listener) == 0

    run(test)


@pytest.mark.parametrize(
    ("host", "there"),
    [
        ("127.0.0.1", {"127.0.0.1": True, "127.0.0.2": False}),
        ("127.0.0.2", {"127.0.0.1": False, "127.0.0.2": True}),
        (None, {"127.0.0.1": True, "127.0.0.2": True}),
    ],
)
def test_it_listens_at_its_host_alone_and_without_one_at_every_address(
    host: str | None, there: dict[str, bool]
) -> None:
    async def reached(address: str, port: int) -> bool:
        """Whether it is there: others may have a port of this number at another address."""
        try:
            reader, writer = await asyncio.open_connection(address, port)
        except ConnectionRefusedError:
            return False
        writer.write(b"GET /of-this-test HTTP/1.0\r\n\r\n")
        told = await reader.read()
        writer.close()
        return told.endswith(b"here")

    async def here(_: web.Request) -> web.Response:
        return web.Response(text="here")

    async def test() -> None:
        app = web.Application()
        app.router.add_get("/of-this-test", here)
        listener = Listener(app, PATIENT, host=host, port=0)
        await listener.start()
        try:
            assert {address: await reached(address, listener.port) for address in there} == there
        finally:
            await listener.stop()

    run(test)


def test_a_server_whose_task_is_cancelled_still_accepts_connections() -> None:
    async def test() -> None:
        async with serving(PATIENT) as server:
            assert await answer(await server.connect()) == "HTTP/1.1 200 OK"
            for task in list(server.listener._tasks):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert await answer(await server.connect()) == "HTTP/1.1 200 OK"
            assert len(server.listener._tasks) == 2  # it accepts, and looks for connections whose time is up
        assert not server.listener._tasks

    run(test)


def test_all_are_closed_when_it_stops() -> None:
    async def test() -> None:
        async with serving(PATIENT) as server:
            stream = await server.connect()
            await server.listener.stop()
            assert await is_closed(stream, within=20)
            with pytest.raises(ConnectionRefusedError):
                await server.connect()

    run(test)
