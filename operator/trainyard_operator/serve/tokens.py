"""What the API server has said of bearer tokens, so that not every request queries it again."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from trainyard_api.rate import Buckets
from trainyard_kube.client import Client
from trainyard_kube.resources import TOKEN_REVIEWS

T = TypeVar("T")

KNOWN_FOR: Final = 60.0
"""Seconds for which a token is not reviewed again; a revoked one stays valid for that much longer."""
MOST_KNOWN: Final = 10_000
REVIEWS_AT_A_TIME: Final = 8
ATTEMPTS_QPS, ATTEMPTS_BURST = 5.0, 20
"""Of one address, with tokens that are not known: each costs the API server several requests."""


class RefusedTokenError(Exception):
    """The token is refused. `code` is the HTTP status; `retry_after` in seconds."""

    def __init__(self, code: int, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class _Known(Generic[T]):
    until: float
    answer: T


class Tokens(Generic[T]):
    """Remembers what was found out about each token; `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[bytes, _Known[T]] = {}
        self._attempts: Buckets[str] = Buckets(ATTEMPTS_QPS, ATTEMPTS_BURST, clock=clock)
        self._reviews = asyncio.Semaphore(REVIEWS_AT_A_TIME)

    async def find(self, token: str, address: str, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask` says about the token, or has said within the last minute.

        `address` is the peer's. Raises `RefusedTokenError` if it tries too
        many, and what `ask` raises, which is not remembered.
        """
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        entry = self._known.get(digest)
        if entry is not None and self._clock() < entry.until:
            return entry.answer
        if wait := self._attempts.take(address):
            raise RefusedTokenError(429, "too many tokens in a short time", wait)
        async with self._reviews:
            answer = await ask()
        self._known.pop(digest, None)
        self._known[digest] = _Known(self._clock() + KNOWN_FOR, answer)
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return answer


def bearer(header: str | None) -> str | None:
    """The token of an Authorization header, None if it has none: the scheme and it, and nothing else."""
    parts = (header or "").split(" ")
    return parts[1] if len(parts) == 2 and parts[0].lower() == "bearer" and parts[1] else None


async def reviewed(client: Client, token: str, audience: str | None = None) -> dict[str, Any]:
    """The user whom the token belongs to, as in a TokenReview's status.

    `audience` is whom the token must be meant for, None for the API server
    itself. Raises `RefusedTokenError`, and the client's errors.
    """
    audiences = {} if audience is None else {"audiences": [audience]}
    review = {
        "apiVersion": TOKEN_REVIEWS.api_version,
        "kind": TOKEN_REVIEWS.kind,
        "spec": {"token": token, **audiences},
    }
    status = (await client.create(TOKEN_REVIEWS.path(), review)).get("status") or {}
    meant = audience is None or audience in (status.get("audiences") or ())
    if status.get("authenticated") is not True or not meant:
        raise RefusedTokenError(401, "the API server does not accept the token")
    user: dict[str, Any] = status.get("user") or {}
    return user
