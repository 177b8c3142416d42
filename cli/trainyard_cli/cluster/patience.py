"""Waits for an answer of the API server, but not for long: somebody waits for the command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from trainyard_kube.client import RetriableError

T = TypeVar("T")

PATIENCE: Final = 10.0
"""Seconds for one request."""


async def in_time(request: Awaitable[T]) -> T:
    """The answer; raises `RetriableError` if there is none within `PATIENCE` seconds."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await request
    except TimeoutError:
        raise RetriableError(f"no answer within {PATIENCE:.0f} s") from None
