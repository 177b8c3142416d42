"""Rate limits: a token bucket for each key. Knows nothing of Kubernetes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Buckets(Generic[K]):
    """A rate limit per key: `qps` per second on average, `burst` at once.

    At most `most` keys are remembered, each as a digest of its text, because a caller may choose a long
    one; the key unused for the longest is forgotten first.
    """

    def __init__(
        self, qps: float, burst: int, *, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._qps = qps
        self._burst = burst
        self._most = most
        self._clock = clock
        self._left: dict[bytes, tuple[float, float]] = {}  # tokens, and when that was

    def take(self, key: K) -> float:
        """Take a token for the key; returns 0, or the seconds until there is a token."""
        now = self._clock()
        digest = hashlib.blake2b(repr(key).encode(errors="surrogatepass"), digest_size=16).digest()
        left, at = self._left.pop(digest, (float(self._burst), now))
        left = min(float(self._burst), left + (now - at) * self._qps)
        allowed = left >= 1
        self._left[digest] = (left - 1 if allowed else left, now)
        if len(self._left) > self._most:
            del self._left[next(iter(self._left))]
        return 0.0 if allowed else (1 - left) / self._qps
