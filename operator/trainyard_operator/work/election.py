"""The election in a thread of its own, so that no other work can cost the Lease.

The thread has an event loop and connections that nothing else uses. However
long the main loop is held, and however many requests wait for the API server,
the Lease is renewed in time. A main loop that hangs for good does not answer
the liveness probe, and the kubelet restarts the container.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from trainyard_kube.client import Client

from .lease import Elector, Timing

logger = logging.getLogger(__name__)

Callback = Callable[[], Coroutine[Any, Any, None]]


class Election:
    """Runs an `Elector` in a thread, and calls `started` and `stopped` in the loop that `run` belongs to.

    `elector` may be read from any thread: its fields are single values. For the
    parameters see `Elector`; `client` is opened here and must not be shared.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        *,
        started: Callback,
        stopped: Callback,
        allowed: Callable[[], bool] = lambda: True,
        timing: Timing | None = None,
    ) -> None:
        self.elector = Elector(
            client,
            namespace,
            identity,
            started=self._without_waiting(started),
            stopped=self._with_waiting(stopped),
            allowed=allowed,
            timing=timing,
            now=client.time.now,
        )
        self._client = client
        self._main: asyncio.AbstractEventLoop | None = None

    async def run(self) -> None:
        """Take part in the election until cancelled, then release the Lease."""
        self._main = asyncio.get_running_loop()
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()
        ended: asyncio.Future[None] = self._main.create_future()
        thread = threading.Thread(target=self._thread, args=(loop, stop, ended), name="lease", daemon=True)
        thread.start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(stop.set)
            try:
                await ended
            except Exception:  # raised instead, it would have the task restarted that is to end
                logger.exception("the election did not end in order")
            raise

    def _thread(
        self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event, ended: asyncio.Future[None]
    ) -> None:
        failure: Exception | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._take_part(stop))
        except Exception as error:  # the task that waits for it raises it, and is restarted
            failure = error
        except BaseException as error:  # such as a cancellation that does not come from here
            failure = RuntimeError(f"the election has ended: {error!r}")
        with contextlib.suppress(RuntimeError):  # the process is ending and its loop is closed
            ended.get_loop().call_soon_threadsafe(_end, ended, failure)

    async def _take_part(self, stop: asyncio.Event) -> None:
        async with self._client:
            election = asyncio.create_task(self.elector.run())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((election, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not election.done():
                election.cancel()  # it must not take the released Lease again
                await asyncio.wait((election,))
                await self.elector.release()
            elif (error := election.exception()) is not None:
                raise error

    def _without_waiting(self, call: Callback) -> Callable[[], Awaitable[None]]:
        """Calls it in the main loop, and does not wait: a busy loop would hold up renewals."""

        async def begun() -> None:
            self._in_main(call)

        return begun

    def _with_waiting(self, call: Callback) -> Callable[[], Awaitable[None]]:
        """Calls it in the main loop, and waits: the Lease is released only once the work has stopped."""

        async def done() -> None:
            await asyncio.wrap_future(self._in_main(call))

        return done

    def _in_main(self, call: Callback) -> concurrent.futures.Future[None]:
        if self._main is None:
            raise RuntimeError("the election has not started")
        return asyncio.run_coroutine_threadsafe(call(), self._main)


def _end(ended: asyncio.Future[None], failure: Exception | None) -> None:
    if ended.done():
        return
    if failure is None:
        ended.set_result(None)
    else:
        ended.set_exception(failure)
