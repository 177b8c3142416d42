"""Kopf as an informer of TrainJobs and runtimes, in a thread and an event loop of its own.

When Kopf ends, it cancels every task it does not know, and it ends a stream
for good on errors that it deems fatal; so it gets its own loop, and is
restarted in process whenever one of its streams is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import kopf

from trainyard_api import names
from trainyard_kube.client import ApiError, Client, NotFoundError
from trainyard_kube.credentials import Credentials

from . import handlers
from .handlers import WATCHED
from .informer import INACTIVITY
from .kopf_storage import NoDiff, NoProgress

logger = logging.getLogger(__name__)

STREAM_TASK = "watcher for "
"""How the names of Kopf's streaming tasks begin; their number tells whether a stream has ended."""
START_TIMEOUT = 10.0
"""Seconds for Kopf to open its streams."""
STOP_TIMEOUT = 5.0
"""Seconds to wait for the thread when the process stops."""
END_TIMEOUT = 3.0
"""Seconds for Kopf to end by itself once it is told to."""
FIRST_RETRY, LAST_RETRY = 0.5, 30.0


class KopfThread:
    """Keeps a Kopf operator running that passes on what it sees.

    `seen` is called in the loop of `run`, `started` there each time that the
    streams are open. `observer` sees Kopf's requests (see `Credentials.session`).
    """

    def __init__(
        self,
        client: Client,
        credentials: Credentials,
        seen: handlers.Seen,
        *,
        started: Callable[[], None],
        restarted: Callable[[], None],
        observer: Callable[[str, str, int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reason = "Kopf has not started yet"
        """Why there are no streams; empty while there are."""
        self.beat = clock()
        """When Kopf's loop, or the wait for CRDs, last got a turn."""
        self._client = client
        self._credentials = credentials
        self._seen = seen
        self._started = started
        self._restarted = restarted
        self._observer = observer
        self._clock = clock
        self._main: asyncio.AbstractEventLoop | None = None
        self._end: Callable[[], object] = lambda: None

    async def run(self) -> None:
        """Keep Kopf running until cancelled."""
        self._main = asyncio.get_running_loop()
        delay = FIRST_RETRY
        while True:
            self.beat = self._clock()
            streaming = await self._served()
            if streaming is None:
                await asyncio.sleep(2.0)
                continue
            # Made here, so that the thread can be told to end before it has begun.
            loop, stop, ended = asyncio.new_event_loop(), asyncio.Event(), asyncio.Event()
            self._end = partial(loop.call_soon_threadsafe, stop.set)
            since = self._clock()
            thread = threading.Thread(
                target=self._thread, args=(loop, stop, ended, streaming), name="kopf", daemon=True
            )
            thread.start()
            try:
                await ended.wait()
            finally:  # also if a cancellation ends this, and it is run again
                self.reason = "Kopf's streams have ended and are restarted"
                await self._shut_down(ended)
            logger.warning("%s", self.reason)
            self._restarted()
            delay = FIRST_RETRY if self._clock() - since > 60 else min(LAST_RETRY, delay * 2)
            await asyncio.sleep(delay)

    def restart(self, why: str) -> None:
        """End Kopf's streams; `run` opens new ones."""
        logger.warning("restarting Kopf: %s", why)
        self._signal()

    async def _shut_down(self, ended: asyncio.Event) -> None:
        self._signal()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT):
                await ended.wait()

    def _signal(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has already ended and closed its loop
            self._end()

    async def _served(self) -> bool | None:
        """None while a resource is not served yet; else whether the server streams lists."""
        try:
            group = await self._client.get(WATCHED[0].base)
            served = {entry.get("name") for entry in group.get("resources", ())}
            missing = [resource.plural for resource in WATCHED if resource.plural not in served]
        except NotFoundError:
            missing = [resource.plural for resource in WATCHED]
        except ApiError as error:
            self._say(f"the API server does not answer: {error}")
            return None
        if missing:
            self._say(f"CRDs missing in {names.TRAINER_GROUP}: {', '.join(missing)}")
            return None
        params = {
            "fieldSelector": "metadata.name=-",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "1",
        }
        try:
            async with contextlib.aclosing(self._client.watch(WATCHED[0].path(), params=params)) as lines:
                async for _ in lines:
                    break
        except ApiError as error:
            if error.code in {400, 422}:
                logger.info("the server refuses streamed lists, Kopf lists in pages")
                return False
            self._say(f"{WATCHED[0].plural} cannot be watched: {error}")
            return None
        return True

    def _say(self, reason: str) -> None:
        if reason != self.reason:
            logger.warning("%s", reason)
        self.reason = reason

    def _thread(
        self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event, ended: asyncio.Event, streaming: bool
    ) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._operate(stop, ended, streaming))
        except Exception as error:  # whatever Kopf deems fatal costs its streams, not the process
            logger.warning("Kopf has ended: %s: %s", type(error).__name__, error)
        finally:
            self._in_main(ended.set)

    async def _operate(self, stop: asyncio.Event, ended: asyncio.Event, streaming: bool) -> None:
        watchdog = asyncio.create_task(self._watch_over(stop, ended), name="watchdog")
        try:
            await kopf.operator(
                registry=handlers.registry(self._pass_on, self._login),
                settings=kopf_settings(streaming=streaming),
                clusterwide=True,
                standalone=True,
                # Kopf would ask for the name of a user that the image does not have.
                identity=names.OPERATOR,  # type: ignore[arg-type]  # a NewType that Kopf keeps to itself
                stop_flag=stop,
            )
        finally:
            watchdog.cancel()

    async def _watch_over(self, stop: asyncio.Event, ended: asyncio.Event) -> None:
        """Announce that the streams are open; end Kopf once one of them has ended."""
        since = self._clock()
        announced = False
        while not stop.is_set():
            await asyncio.sleep(0.25)
            if stop.is_set():  # meanwhile: streams that end are not announced
                break
            self.beat = self._clock()
            streams = sum(1 for task in asyncio.all_tasks() if task.get_name().startswith(STREAM_TASK))
            if streams >= len(WATCHED):
                if not announced:
                    announced = True
                    self.reason = ""
                    self._in_main(self._started)
            elif announced or self._clock() - since > START_TIMEOUT:
                self.reason = f"Kopf has {streams} of {len(WATCHED)} streams"
                logger.warning("%s", self.reason)
                stop.set()
        # While ending, Kopf can wait forever for a login that it has already ended. This task is
        # cancelled if it does end.
        await asyncio.sleep(END_TIMEOUT)
        logger.warning("Kopf does not stop; its event loop is stopped")
        self._in_main(ended.set)
        loop = asyncio.get_running_loop()
        # The runner cancels the tasks that are left and waits for them without limit, until the second stop.
        loop.call_later(END_TIMEOUT, loop.stop)
        loop.stop()

    async def _login(self) -> kopf.AiohttpSession:
        session = self._credentials.session(limit=0, observer=self._observer)
        return kopf.AiohttpSession(server=self._credentials.server, aiohttp_session=session)

    def _pass_on(self, plural: str, kind: str | None, manifest: Mapping[str, Any]) -> None:
        self._in_main(self._seen, plural, kind, manifest)

    def _in_main(self, call: Callable[..., None], *args: object) -> None:
        if self._main is not None:
            with contextlib.suppress(RuntimeError):  # the process is ending and its loop is closed
                self._main.call_soon_threadsafe(call, *args)


def kopf_settings(*, streaming: bool) -> kopf.OperatorSettings:
    """Kopf as a plain informer: no posting, no peering, no scanning, no process of its own to kill."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = NoDiff()
    settings.persistence.progress_storage = NoProgress()
    settings.scanning.disabled = True  # our own watch follows CRDs that come and go
    settings.watching.initial_streaming = streaming
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 280
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = INACTIVITY
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = (1, 1, 2, 3, 5)
    settings.queueing.exit_timeout = 1
    settings.queueing.idle_timeout = 0.1  # how long the task of an object outlives its last event
    settings.queueing.worker_limit = None  # a limit below the number of objects can deadlock
    settings.process.ultimate_exiting_timeout = None  # else it kills the whole process, not only its thread
    return settings
