"""Runs one operator process: starts its parts, and stops them in order on a signal.

`wiring` says what the parts are and how they fit together.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable

from trainyard_api.configuration import Configuration
from trainyard_api.errors import UserError
from trainyard_kube import credentials as credentials_module
from trainyard_kube.client import ApiError, Client, RetriableError, UnauthorizedError
from trainyard_kube.credentials import Credentials, CredentialsError

from . import gauges, logs
from .settings import SettingsError
from .wiring import Wiring

logger = logging.getLogger(__name__)

PATIENCE = 15.0
"""Seconds to wait at the start for an API server that does not answer."""
PATIENCE_IN_CLUSTER = 300.0
STOP_TIMEOUT = 8.0
"""Seconds to give up the Lease, to linger and to end the tasks; a second signal does not wait for it."""
LINGER = 3.0
"""Seconds for which a stopping pod still answers webhooks: until then nodes may route requests to it."""


class StartError(UserError):
    """The operator cannot start; the message is one line for its user."""


def run(settings: Configuration) -> int:
    """Run the operator until SIGTERM or SIGINT; returns the exit code (2: it could not start)."""
    logs.configure(settings.logging.format)
    try:
        connection = settings.client_connection
        credentials = credentials_module.load(connection.kubeconfig, connection.context)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            operator = Operator(settings, credentials)
            _exempt_from_collection()
            runner.run(operator.run())
    except (CredentialsError, SettingsError, StartError) as error:
        print(f"trainyard operator: {error}", file=sys.stderr)
        return 2
    if any(thread.name == "kopf" for thread in threading.enumerate()):
        logger.warning("Kopf did not stop in time")
        logging.shutdown()
        os._exit(0)  # the Lease is released and nothing else is held: do not wait for Kopf
    return 0


class Operator(Wiring):
    """One operator process."""

    def __init__(self, settings: Configuration, credentials: Credentials) -> None:
        super().__init__(settings, credentials)
        self._election: asyncio.Task[None] | None = None
        self._ending = False
        """Whether a task that is cancelled is to end."""
        gauges.register(self)

    async def run(self) -> None:
        """Run until `stopping` is set. Raises `StartError`."""
        self._handle_signals()
        async with self.client:
            try:
                await self._listen()
                if await self._reach(self.client):
                    logger.info(
                        "operator %s in namespace %s, %s, metrics on port %d",
                        self.identity,
                        self.settings.namespace,
                        self.credentials.source,
                        self.metrics_server.port
                        if self.settings.metrics.authentication
                        else self.probes.port,
                    )
                    self._start_tasks()
                    await self.stopping.wait()
            finally:
                await self._stop()

    async def _listen(self) -> None:
        settings = self.settings
        served: list[tuple[str, int, Callable[[], Awaitable[None]]]] = [
            ("metrics", settings.metrics.port, self.probes.start)
        ]
        if settings.metrics.authentication:
            served.append(("metrics over TLS", settings.metrics.secure_port, self.metrics_server.start))
        if settings.webhook.enabled:
            served.append(("webhooks", settings.webhook.port, self.webhook.start))
        if self.reporting:
            served.append(("reports", settings.status_server.port, self.status.start))
        for purpose, port, start in served:
            try:
                await start()
            except OSError as error:
                raise StartError(f"port {port} for {purpose}: {error.strerror}") from error

    def _start_tasks(self) -> None:
        for name, task in self.work().items():
            self.tasks.append(asyncio.create_task(self._supervise(name, task), name=name))
        self._election = asyncio.create_task(self._supervise("lease", self.elect), name="lease")
        self.tasks.append(self._election)

    async def _supervise(self, name: str, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task until the process stops: if anything else ends it, log that and restart it."""
        pauses = False
        while True:
            try:
                if pauses:
                    await asyncio.sleep(1.0)
                pauses = True
                await task()
            except (GeneratorExit, KeyboardInterrupt, SystemExit):
                raise
            except asyncio.CancelledError:
                if self._ending:
                    raise
                logger.exception("task %s was cancelled and is restarted", name)
                _forget_cancellations()
            except BaseException:  # such as a panic of Rust code, which is no Exception
                logger.exception("task %s failed and is restarted", name)

    async def _reach(self, client: Client) -> bool:
        """Wait for the API server to answer; False if the operator is to stop meanwhile."""
        patience = PATIENCE_IN_CLUSTER if self.credentials.in_cluster else PATIENCE
        end = time.monotonic() + patience
        while not self.stopping.is_set():
            try:
                async with asyncio.timeout(5.0):
                    await client.get("/version")
                return True
            except UnauthorizedError as error:
                raise StartError(f"{self.credentials.source}: {error}") from error
            except (RetriableError, TimeoutError) as error:
                if time.monotonic() >= end:
                    raise StartError(
                        f"{self.credentials.server} does not answer: {error or 'timed out'}"
                    ) from error
                logger.warning("waiting for the API server: %s", error or "timed out")
            except ApiError as error:
                raise StartError(f"{self.credentials.source}: {error}") from error
            try:
                async with asyncio.timeout(1.0):
                    await self.stopping.wait()
            except TimeoutError:
                continue
        return False

    async def _stop(self) -> None:
        self._ending = True
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._end_election()
                await asyncio.gather(self._end_tasks(), self._linger())
        except TimeoutError:
            logger.warning("did not stop in order within %.0f s", STOP_TIMEOUT)
        # Outside that time: however late it is, requests are answered or ended by the server they are in.
        await self.metrics_server.stop()
        await self.status.stop()
        await self.webhook.stop()
        await self.probes.stop()
        logger.info("stopped")

    async def _end_election(self) -> None:
        """Release the Lease, which stops the workers."""
        if self._election is not None:
            self._election.cancel()
            await asyncio.gather(self._election, return_exceptions=True)

    async def _end_tasks(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _linger(self) -> None:
        if self.webhook.good_until is not None and self.credentials.in_cluster:
            self.webhook.closing = self.status.closing = True
            await asyncio.sleep(LINGER)

    def _handle_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: int) -> None:
        if self.stopping.is_set():
            os._exit(128 + number)
        logger.info("stopping on %s", signal.Signals(number).name)
        self.stopping.set()


def _forget_cancellations() -> None:
    """Timeouts in this task would count them as their own."""
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass


def _exempt_from_collection() -> None:
    """Keep Python's collector from what the process was started with: it is most of the memory, and stays.

    Going through it takes 60 ms of CPU, in which nothing else is done, twice in a thousand TrainJobs.
    """
    gc.collect()
    gc.freeze()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop if it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop
