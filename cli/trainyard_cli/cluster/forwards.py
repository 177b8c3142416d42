"""Forwards ports of this machine to the pod of a rank, over `pods/portforward`.

Called by `trainyard ports`. Each connection has a WebSocket of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_kube.channels import V4, Channels, channels
from trainyard_kube.client import ApiError, Client, ForbiddenError

from . import own_rights, ranks
from .ranks import Rank

ADDRESS: Final = "127.0.0.1"
"""Nobody on another machine reaches it."""
MOST: Final = 256
"""Connections at a time."""
_DATA, _ERROR = range(2)
_PORT: Final = 2
"""Bytes of the number of the port, which each stream begins with."""
_PIECE: Final = 32 * 1024
_LINGER: Final = 5.0
"""Seconds of silence after which a connection ends whose client sends no more: the protocol cannot say
that to the other side, which may still have an answer to send."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A port of this machine, and the one of the pod that it leads to."""

    local: int
    """0: one that is free."""
    remote: int


class Forwards:
    """The ports that are forwarded to a rank.

    `say` takes the error of a connection; other connections continue.
    """

    def __init__(self, client: Client, rank: Rank, say: Callable[[str], None]) -> None:
        self._client = client
        self._rank = rank
        self._say = say

    @asynccontextmanager
    async def listening(self, forwards: Sequence[Forward]) -> AsyncGenerator[list[Forward]]:
        """Listen, and forward each connection; gives the ports as they are.

        Raises:
            UserError: The right is missing, or a port is taken.
            ApiError: The cluster could not be queried.
        """
        await self._require_right()
        servers: list[asyncio.Server] = []
        try:
            for forward in forwards:
                servers.append(await self._listen(forward))
            yield [
                Forward(server.sockets[0].getsockname()[1], forward.remote)
                for server, forward in zip(servers, forwards, strict=True)
            ]
        finally:
            for server in servers:
                server.close()

    async def _require_right(self) -> None:
        """Ask before anybody connects: to try it would be a connection to the port."""
        if not await own_rights.may(self._client, self._rank.namespace, "portforward"):
            raise self._not_allowed()

    def _not_allowed(self) -> UserError:
        return UserError(
            f"you are not allowed to forward ports of the pods of namespace {self._rank.namespace} (create "
            "and get pods/portforward): ask the platform team for your tenant's right pods/portforward"
        )

    async def _listen(self, forward: Forward) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._serve(forward.remote, reader, writer)
            except UserError as error:
                self._say(error.shown)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

        try:
            return await asyncio.start_server(serve, ADDRESS, forward.local)
        except OSError as error:
            raise UserError(
                f"port {forward.local} of this machine cannot be used: {error.strerror}. Take one that is "
                f"free: :{forward.remote}"
            ) from error

    async def _serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for is_last in (False, True):
            has_begun = False
            try:
                params = [("ports", str(port))]
                async with channels(
                    self._client, self._rank.path("portforward"), params=params, protocols=(V4,)
                ) as remote:
                    has_begun = True
                    if words := await _Connection(remote, reader, writer).run():
                        self._say(self._words(port, words))
                    return
            except ForbiddenError as error:
                raise self._not_allowed() from error
            except ApiError:
                if has_begun or is_last:
                    raise
            # Its pod may be another one by now.
            self._rank = await ranks.running(
                self._client, self._rank.namespace, self._rank.job, self._rank.place
            )

    def _words(self, port: int, words: str) -> str:
        if "refused" in words:
            return f"{self._rank}: nothing listens on its port {port}"
        return clean(f"{self._rank}, port {port}: {words}")


class _Connection:
    """Handle one connection, over its own WebSocket."""

    def __init__(self, remote: Channels, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._remote = remote
        self._reader = reader
        self._writer = writer
        self._is_active = True

    async def run(self) -> str:
        """Carry what comes from both sides, until one of them ends it; returns what went wrong."""
        sending = asyncio.create_task(self._send())
        begun: set[int] = set()
        try:
            while (message := await self._remote.receive()) is not None:
                self._is_active = True
                channel, data = message
                if channel not in begun:
                    begun.add(channel)
                    data = data[_PORT:]
                if channel == _DATA and data:
                    self._writer.write(data)
                    await self._writer.drain()
                elif channel == _ERROR and data:
                    return data.decode(errors="replace")
        except OSError:
            pass  # whoever has connected is gone
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        return ""

    async def _send(self) -> None:
        with suppress(OSError, ApiError):
            while data := await self._reader.read(_PIECE):
                await self._remote.send(_DATA, data)
            while self._is_active:
                self._is_active = False
                await asyncio.sleep(_LINGER)
        await self._remote.end()
