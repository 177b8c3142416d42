"""The bodies of requests, within bounds of size and time, each and all together.

Callers need not be authenticated. So the total size of all bodies has a bound,
and when it is reached, the next caller is not turned away: the address that
holds most loses its largest unfinished body. A caller that sends much and
slowly makes room for callers that send little.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes: the object and the old object of an update, each below the API server's limit of 3 MiB."""
MAX_HELD: Final = 16 * 1024 * 1024
"""Bytes of all bodies that are being read or answered."""
BODY_TIMEOUT: Final = 5.0
"""Seconds in which a body must have arrived."""


class RefusedBodyError(Exception):
    """The body is not read completely. `code` is the HTTP status, `outcome` a word for the metrics."""

    def __init__(self, code: int, message: str, outcome: str) -> None:
        super().__init__(message)
        self.code = code
        self.outcome = outcome


@dataclass(eq=False, slots=True)
class _Body:
    peer: str
    limit: asyncio.Timeout
    data: bytearray = field(default_factory=bytearray)
    whole: bool = False
    evicted: bool = False


class Bodies:
    """Reads bodies: `most` bytes each, `held` bytes together, each within `seconds`."""

    def __init__(self, *, most: int = MAX_BODY, held: int = MAX_HELD, seconds: float = BODY_TIMEOUT) -> None:
        self._most = most
        self._held = held
        self._seconds = seconds
        self._bodies: dict[_Body, None] = {}

    @contextlib.asynccontextmanager
    async def read(self, request: web.Request) -> AsyncIterator[bytearray]:
        """Read the body; it counts as held until the context ends. Raises `RefusedBodyError`."""
        if (request.content_length or 0) > self._most:
            raise self._too_large()
        body = _Body(request.remote or "", asyncio.timeout(self._seconds))
        self._bodies[body] = None
        try:
            await self._fill(body, request)
            yield body.data
        finally:
            del self._bodies[body]

    async def _fill(self, body: _Body, request: web.Request) -> None:
        try:
            async with body.limit:
                async for chunk in request.content.iter_any():
                    body.data += chunk
                    if len(body.data) > self._most:
                        raise self._too_large()
                    while sum(len(other.data) for other in self._bodies if not other.evicted) > self._held:
                        self._evict(body)
                body.whole = True
        except TimeoutError:
            if body.evicted:
                raise _overloaded() from None
            raise RefusedBodyError(504, "the body did not arrive in time", "timeout") from None

    def _evict(self, newest: _Body) -> None:
        """Give up the largest unfinished body of the address that holds most."""
        held: Counter[str] = Counter()
        for body in self._bodies:
            held[body.peer] += 0 if body.evicted else len(body.data)
        unfinished = [body for body in self._bodies if not body.whole and not body.evicted]
        largest = max(unfinished, key=lambda body: (held[body.peer], len(body.data)))
        largest.evicted = True
        if largest is newest:
            raise _overloaded()
        with contextlib.suppress(RuntimeError):  # its time has just run out by itself
            largest.limit.reschedule(asyncio.get_running_loop().time())

    def _too_large(self) -> RefusedBodyError:
        return RefusedBodyError(413, f"more than {self._most} bytes", "malformed")


def _overloaded() -> RefusedBodyError:
    return RefusedBodyError(503, "too much data is being sent, try again", "overloaded")
