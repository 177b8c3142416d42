"""Several streams over one WebSocket, as `pods/exec` and `pods/portforward` have them.

The first byte of a message is the number of its stream. Used by the command,
which knows what each stream means. The `kubernetes` package, which the command
has for exec plugins, knows no version in which piped input has an end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from aiohttp import WSMsgType

from trainyard_api.errors import UserError

from .client import Client, Query, RetriableError

V4: Final = "v4.channel.k8s.io"
V5: Final = "v5.channel.k8s.io"
"""The protocol with an end for each stream (Kubernetes 1.30 and later)."""
_CLOSE: Final = 255
_PING_EVERY: Final = 15.0
"""Seconds; proxies cut a connection on which nothing happens."""


class Channels:
    """The streams of an open WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self._socket = socket

    async def send(self, channel: int, data: bytes) -> None:
        """Send a piece of a stream; returns when there is room for the next one."""
        try:
            await self._socket.send_bytes(bytes([channel]) + data)
        except (aiohttp.ClientError, OSError) as error:
            raise RetriableError(f"the connection was cut: {error}") from error

    async def close(self, channel: int) -> None:
        """End a stream; the others continue."""
        if self._socket.protocol != V5:
            raise UserError(
                "the API server has no end of input for commands, which Kubernetes 1.30 and later have"
            )
        await self.send(_CLOSE, bytes([channel]))

    async def receive(self, silence: float | None = None) -> tuple[int, bytes] | None:
        """The next piece and the number of its stream; None at the end of the connection.

        Args:
            silence: Seconds without any sign of the server after which the connection counts as cut.
                A server that waits for room in a stream answers no ping: None while much is sent.
        """
        while True:
            try:
                message = await self._socket.receive(silence)
            except TimeoutError as error:
                raise RetriableError(f"the connection was cut: no answer for {silence:.0f} s") from error
            if message.type is WSMsgType.BINARY and message.data:
                return message.data[0], message.data[1:]
            if message.type is WSMsgType.PING:
                await self._socket.pong(message.data)
            elif message.type not in (WSMsgType.BINARY, WSMsgType.PONG):
                return None

    async def end(self) -> None:
        """End the connection, and inform the receiver."""
        await self._socket.close()


@asynccontextmanager
async def channels(
    client: Client, path: str, *, params: Query, protocols: Sequence[str]
) -> AsyncGenerator[Channels]:
    """Open a WebSocket with several streams, and keep it alive. Raises an `ApiError` if it does not open."""
    async with client.websocket(path, params=params, protocols=protocols) as socket:
        pings = asyncio.create_task(_ping(socket))
        try:
            yield Channels(socket)
        finally:
            pings.cancel()
            await asyncio.gather(pings, return_exceptions=True)


async def _ping(socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
    while True:
        await asyncio.sleep(_PING_EVERY)
        await socket.ping()
