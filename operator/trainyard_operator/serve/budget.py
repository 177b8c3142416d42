"""A budget of memory that all requests share.

Callers need not be authenticated, and a small body may become large once it
is read. So what each takes is estimated first; who asks for more than is left
waits for others to end. No address gets more than half, and large requests
leave a quarter to small ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

SMALL: Final = 1024 * 1024
"""Bytes of a request that may use the whole budget."""


class Budget:
    """`most` bytes for all together. Use in one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._returned = asyncio.Condition()

    @property
    def largest(self) -> int:
        """Bytes that one request may take."""
        return self._most // 2

    @contextlib.asynccontextmanager
    async def take(self, address: str, size: int) -> AsyncIterator[None]:
        """Wait for `size` bytes, at most `largest`, and take them for an address until the context ends."""
        async with self._returned:
            await self._returned.wait_for(lambda: self._fits(address, size))
            self._taken[address] += size
        try:
            yield
        finally:
            self._taken[address] -= size
            if not self._taken[address]:
                del self._taken[address]
            async with self._returned:
                self._returned.notify_all()

    def _fits(self, address: str, size: int) -> bool:
        most = self._most if size <= SMALL else self._most * 3 // 4
        return self._taken.total() + size <= most and self._taken[address] + size <= self.largest
