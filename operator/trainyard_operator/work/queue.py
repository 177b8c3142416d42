"""The work queue between those who observe and those who act.

A key is in the queue at most once, and never worked on by two workers: one
that changes while it is being worked on is worked on again afterwards. A key
whose work fails comes back after a backoff of its own, so that one bad object
does not affect others. Knows nothing of Kubernetes.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


class RetryError(Exception):
    """Raised by the work to get its key again, without counting as an error.

    It comes after the key's next backoff, which is at least `at_least` seconds; `reason` is for the log.
    """

    def __init__(self, reason: str, *, at_least: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at_least = at_least


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential delays: `base` seconds, doubled each time up to `cap`, less up to `jitter` of it."""

    base: float = 0.05
    cap: float = 60.0
    jitter: float = 0.25

    def delay(self, failures: int, uniform: Callable[[], float] = random.random) -> float:
        """Seconds to wait after the `failures`-th failure in a row (the first is 1)."""
        whole = min(self.cap, self.base * 2.0 ** min(failures - 1, 40))
        return whole * (1.0 - self.jitter * uniform())


class Queue(Generic[K]):
    """Keys waiting for work. Belongs to one event loop; no method blocks but `get`.

    `clock` gives seconds that never go back (default: monotonic time).
    """

    def __init__(
        self, *, backoff: Backoff | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._ready: dict[K, float] = {}  # in order of arrival, with the time of it
        self._running: dict[K, bool] = {}  # True: to be queued again when done
        self._since: dict[K, float] = {}  # when work on a running key began, in that order
        self._due: dict[K, float] = {}  # the one delay in force for a key
        self._heap: list[tuple[float, int, K]] = []  # at most half of it are delays no longer in force
        self._ticket = itertools.count()
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()

    def add(self, key: K) -> None:
        """Queue the key for work now; a delay in force for it is forgotten."""
        if self._due.pop(key, None) is not None:
            self._compact()
        if key in self._running:
            self._running[key] = True
        elif key not in self._ready:
            self._ready[key] = self._clock()
            self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue the key in `seconds`, or earlier if a delay in force says so."""
        if seconds <= 0:
            self.add(key)
            return
        if key in self._ready:
            return
        due = self._clock() + seconds
        if self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._ticket), key))
        self._compact()
        self._changed.set()

    def retry(self, key: K, at_least: float = 0.0) -> float:
        """Count a failure of the key and queue it after its backoff; returns the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = max(at_least, self._backoff.delay(failures))
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key's work succeeded: its next failure is a first one."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often in a row the key's work has failed."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for the key that has been ready the longest and take it; `done` gives it back."""
        while True:
            wait = self._promote()
            if self._ready:
                key = next(iter(self._ready))
                del self._ready[key]
                self._running[key] = False
                self._since[key] = self._clock()
                return key
            self._changed.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: K) -> None:
        """Work on the key has ended, however it ended."""
        self._since.pop(key, None)
        if self._running.pop(key, False):
            self.add(key)

    def clear(self) -> None:
        """Forget every key that waits, with its delays and failures; running ones end as they are."""
        self._ready.clear()
        self._due.clear()
        self._heap.clear()
        self._failures.clear()
        for key in self._running:
            self._running[key] = False

    def discard(self, key: K) -> None:
        """Forget the key as `clear` does all of them."""
        self._ready.pop(key, None)
        self._failures.pop(key, None)
        if self._due.pop(key, None) is not None:
            self._compact()
        if key in self._running:
            self._running[key] = False

    def _compact(self) -> None:
        """Drop the delays no longer in force once they are the larger part of the heap."""
        if len(self._heap) > 2 * len(self._due):
            self._heap = [(due, next(self._ticket), key) for key, due in self._due.items()]
            heapq.heapify(self._heap)

    @property
    def depth(self) -> int:
        """Number of keys that are ready and not being worked on."""
        self._promote()
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """Number of keys that wait for their time."""
        return len(self._due)

    @property
    def held(self) -> int:
        """Number of delays in memory, those no longer in force included."""
        return len(self._heap)

    @property
    def running(self) -> int:
        """Number of keys being worked on."""
        return len(self._running)

    @property
    def age(self) -> float:
        """Seconds that the key at the head has been ready; 0 if there is none."""
        return self._clock() - next(iter(self._ready.values())) if self._ready else 0.0

    @property
    def longest(self) -> float:
        """Seconds that the longest work on a key has taken so far; 0 if there is none."""
        return self._clock() - next(iter(self._since.values())) if self._since else 0.0

    def _promote(self) -> float | None:
        """Move keys whose time has come to the ready ones; returns seconds to the next, None without one."""
        now = self._clock()
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) != due:
                heapq.heappop(self._heap)
                continue
            if due > now:
                return due - now
            heapq.heappop(self._heap)
            self.add(key)
        return None


class Workers(Generic[K]):
    """A number of tasks that take keys from a queue and hand them to `work`.

    `work` returns the number of seconds after which it wants the key again
    (None: not by itself), or raises: `RetryError` to come back, anything else to be
    reported to `failed` and come back after the key's backoff. A task that something
    other than `stop` ends, such as a stray cancellation, is logged and replaced.
    """

    def __init__(
        self,
        queue: Queue[K],
        work: Callable[[K], Awaitable[float | None]],
        failed: Callable[[K, Exception, float], None],
        *,
        count: int = 8,
    ) -> None:
        self._queue = queue
        self._work = work
        self._failed = failed
        self._count = count
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def running(self) -> bool:
        """True between `start` and `stop`."""
        return bool(self._tasks)

    def start(self) -> None:
        """Start the workers; no effect while they run."""
        if not self._tasks:
            self._tasks = [self._worker(f"worker-{number}") for number in range(self._count)]

    async def stop(self, grace: float = 0.0) -> None:
        """Stop the workers, those in the middle of a key after `grace` seconds at most."""
        tasks, self._tasks = self._tasks, []
        if grace > 0:
            end = time.monotonic() + grace
            self._queue.clear()
            while self._queue.running and time.monotonic() < end:  # noqa: ASYNC110 - only at shutdown
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _worker(self, name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(self._loop(), name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Replace a task that `stop` has not ended: otherwise ever fewer would work, unnoticed."""
        if task not in self._tasks:
            return
        error = None if task.cancelled() else task.exception()
        logger.error(
            "%s was ended by %s and is replaced",
            task.get_name(),
            "a cancellation" if error is None else type(error).__name__,
            exc_info=error,
        )
        self._tasks[self._tasks.index(task)] = self._worker(task.get_name())

    async def _loop(self) -> None:
        task = asyncio.current_task()
        while True:
            key = await self._queue.get()
            try:
                await self._one(key)
            except BaseException:
                if task in self._tasks:  # not ended by `stop`: the work on the key is still due
                    self._queue.retry(key)
                raise
            finally:
                self._queue.done(key)

    async def _one(self, key: K) -> None:
        try:
            again = await self._work(key)
        except RetryError as retry:
            self._queue.retry(key, retry.at_least)
        except Exception as error:  # a bad object must cost only itself
            self._failed(key, error, self._queue.retry(key))
        else:
            self._queue.forget(key)
            if again is not None:
                self._queue.add_after(key, again)
