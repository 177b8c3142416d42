"""Connections of an HTTP server within bounds: how many, and how long each may be silent.

A server that anybody in the cluster can reach, and that cannot tell who calls
before it has read a request, must not be filled by callers that only connect.
So the number of connections has a cap, a request's headers must arrive in
time, and a server that is full makes room: it closes the connection that has
waited for its caller for the longest, of the address that holds most of them.
The API server sends everything from a few addresses, so no address has a cap of
its own, and a connection whose complete request is being answered is never closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from aiohttp import StreamReader, web

from .framing import Framing

logger = logging.getLogger(__name__)

MOST = 512
"""Connections at a time. An idle one with TLS needs about 60 KiB."""
HEADER_TIMEOUT = 5.0
"""Seconds for a handshake, and again for the headers of a request from its first byte."""
LOOK = 1.0
"""Seconds between two looks for connections whose time is up."""
RESTART_AFTER = 0.1
"""Seconds until a task that has ended runs again: what ends it may still be there."""
BACKLOG = 128

_Work = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What connections may cost; `keepalive` is how many seconds one may be idle after an answer."""

    keepalive: float
    most: int = MOST
    header_timeout: float = HEADER_TIMEOUT


class Listener:
    """Accepts connections for the application of `runner` between `start` and `stop`.

    Port 0 picks a free port, see `port`. Without a `host` it listens on all
    addresses of the machine.
    """

    def __init__(
        self,
        app: web.Application,
        bounds: Bounds,
        *,
        host: str | None,
        port: int,
        tls: ssl.SSLContext | None = None,
        shutdown_timeout: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.port = port
        self._bounds = bounds
        self._host = host
        self._tls = tls
        self._clock = clock
        self._open: dict[asyncio.Protocol, _Connection] = {}
        """By aiohttp's protocol, which a request knows as its own."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        app.middlewares.append(self._answering)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=shutdown_timeout,
            keepalive_timeout=bounds.keepalive,
            lingering_time=0,  # do not wait for the rest of a rejected body
        )

    def __len__(self) -> int:
        return len(self._open)

    async def start(self) -> None:
        """Listen. Raises OSError if the port is taken."""
        self._socket = _listening(self._host, self.port)
        self.port = self._socket.getsockname()[1]
        await self._runner.setup()
        self._keep_running(partial(self._accept, self._socket))
        self._keep_running(self._look)

    async def stop(self) -> None:
        """Stop listening, and end what is being answered."""
        if self._socket is None:
            return
        accepting, self._tasks = self._tasks, set()
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)
        self._socket.close()
        self._socket = None
        await self._runner.cleanup()
        for connection in list(self._open.values()):
            connection.close()

    def _keep_running(self, work: _Work, after: float = 0.0) -> None:
        async def begin() -> None:
            await asyncio.sleep(after)
            await work()

        task = asyncio.create_task(begin())
        task.add_done_callback(partial(self._ended, work))  # before `_keep` forgets the task
        self._keep(task)

    def _ended(self, work: _Work, task: asyncio.Task[None]) -> None:
        """Restart what `stop` has not ended: a server that accepts no connection looks as if it listened."""
        if task not in self._tasks:
            return
        error = None if task.cancelled() else task.exception()
        reason = "a cancellation" if error is None else type(error).__name__
        logger.error("port %d: a task was ended by %s and is restarted", self.port, reason, exc_info=error)
        self._keep_running(work, RESTART_AFTER)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:  # out of file descriptors, or the caller has gone already
                logger.warning("port %d: could not accept a connection: %s", self.port, error.strerror)
                await asyncio.sleep(0.1)
                continue
            peer = str(address[0])
            if len(self._open) >= self._bounds.most and not self._make_room():
                accepted.close()
                continue
            self._keep(asyncio.create_task(self._serve(self._connection(peer, accepted), accepted)))

    def _connection(self, peer: str, accepted: socket.socket) -> _Connection:
        server = self._runner.server
        if server is None:
            raise RuntimeError("the listener was not started")
        inner = cast("asyncio.Protocol", server())
        connection = _Connection(
            peer, inner, accepted, clock=self._clock, ended=lambda: self._open.pop(inner, None)
        )
        self._open[inner] = connection
        return connection

    async def _serve(self, connection: _Connection, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._bounds.header_timeout if self._tls is not None else None,
            )
        except (OSError, ssl.SSLError, EOFError, asyncio.CancelledError):
            # A handshake that failed, or took too long, is left to the caller to notice.
            connection.ended()
            accepted.close()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK, self._bounds.header_timeout))
            now = self._clock()
            for connection in list(self._open.values()):
                limit = self._bounds.keepalive if connection.between else self._bounds.header_timeout
                if not connection.answering and now - connection.since > limit:
                    connection.close()

    def _make_room(self) -> bool:
        """Close a connection that waits for its caller; False if every one is being answered."""
        waiting = [connection for connection in self._open.values() if connection.waits]
        if not waiting:
            return False
        held = Counter(connection.peer for connection in waiting)
        most = max(held.values())
        rivals = (connection for connection in waiting if held[connection.peer] == most)
        silent = min(rivals, key=lambda connection: connection.since)
        silent.close()
        return True

    @web.middleware
    async def _answering(
        self, request: web.Request, handler: Callable[[web.Request], Any]
    ) -> web.StreamResponse:
        connection = self._open.get(request.protocol)
        if connection is None:
            return cast("web.StreamResponse", await handler(request))
        connection.answering, connection.body = True, request.content
        try:
            return cast("web.StreamResponse", await handler(request))
        finally:
            connection.answered()


class _Connection(asyncio.Protocol):
    """Passes data on to aiohttp's protocol, and remembers when it came."""

    def __init__(
        self,
        peer: str,
        inner: asyncio.Protocol,
        accepted: socket.socket,
        *,
        clock: Callable[[], float],
        ended: Callable[[], object],
    ) -> None:
        self.peer = peer
        self.inner = inner
        self.ended = ended
        self.transport: asyncio.Transport | None = None
        self.since = clock()
        """When it began to wait for its caller: as it was made, after an answer, or at a request's start."""
        self.between = False
        """Whether it has been answered and nothing has come since."""
        self.answering = False
        self.body: StreamReader | None = None
        """Of the request that is being answered."""
        self._framing = Framing()
        self._clock = clock
        self._accepted = accepted

    @property
    def waits(self) -> bool:
        """Whether its caller has to send more."""
        return not self.answering or (self.body is not None and not self.body.is_eof())

    def close(self) -> None:
        """Close it without an answer: its caller may not be listening."""
        self.ended()
        if self.transport is not None:
            self.transport.abort()
        else:
            with contextlib.suppress(OSError):
                self._accepted.shutdown(socket.SHUT_RDWR)  # ends the handshake

    def answered(self) -> None:
        self.answering, self.body = False, None
        self._framing.answered()
        self.between = True
        self.since = self._clock()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.since = self._clock()
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.between and not self.answering:
            self.between = False
            self.since = self._clock()
        if self._framing.takes(data):
            self.inner.data_received(data)
        else:
            self.close()

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended()
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()


def _listening(host: str | None, port: int) -> socket.socket:
    """A socket that listens; without a host for IPv6 and IPv4 where the machine has both."""
    if host is not None:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        server = socket.create_server((host, port), family=family, backlog=BACKLOG)
    elif socket.has_dualstack_ipv6():
        try:
            server = socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
            )
        except OSError as error:
            if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                raise
            server = socket.create_server(("", port), backlog=BACKLOG)
    else:
        server = socket.create_server(("", port), backlog=BACKLOG)
    server.setblocking(False)
    return server
