"""Wires the operator together and runs it until it is told to stop.

Every replica keeps its caches warm and answers probes; the Lease gates the
workers alone, so that a standby takes over without reading anything first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from trainyard_api import names

from . import credentials as credentials_module
from . import logs
from .admission import Decider, WebhookServer
from .apply import REVISIONS, Applier
from .cache import Cache, Key
from .certificate_keeper import FolderKeeper, Keeper, SecretKeeper
from .client import ApiError, Client, RetriableError, UnauthorizedError
from .companions import Companions
from .controller import Controller, SweptRuntimes, SweptTrainJobs
from .credentials import Credentials, CredentialsError
from .events import Events
from .informer import JOBSETS, Informer, JobSetSink, State
from .kopf_thread import WATCHED, KopfThread
from .lease import Elector, Upstream
from .metrics import Metrics
from .probes import ProbeServer
from .queue import Queue, Workers
from .runtimes import Collector, RevisionSink, Runtimes
from .settings import Settings
from .sweep import Sweep
from .webhook_configurations import Publisher

logger = logging.getLogger(__name__)

PATIENCE = 15.0
"""Seconds to wait at the start for an API server that does not answer."""
PATIENCE_IN_CLUSTER = 300.0
STOP_TIMEOUT = 8.0
"""Seconds for an orderly stop; a second signal does not wait for it."""
GRACE = 2.0
"""Seconds for a reconciliation in the middle of its writes to end."""
DEAD_AFTER = 180.0
"""Seconds without any sign of life of a watch after which only a restart helps."""
COLLECT_INTERVAL = 600.0
LINGER = 3.0
"""Seconds for which a stopping pod still answers webhooks: until then nodes may lead to it."""
SERVICE = "trainyard-operator"
"""Name of the Service that leads to the webhooks."""


class StartError(Exception):
    """The operator cannot start; the message is one line for its user."""


def run(settings: Settings) -> int:
    """Run the operator until SIGTERM or SIGINT; returns the exit code (2: it could not start)."""
    logs.configure(settings.log_format)
    try:
        credentials = credentials_module.load(settings.kubeconfig, settings.context)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(Operator(settings, credentials).run())
    except (CredentialsError, StartError) as error:
        print(f"trainyard operator: {error}", file=sys.stderr)
        return 2
    if any(thread.name == "kopf" for thread in threading.enumerate()):
        logger.warning("Kopf has not ended in time")
        logging.shutdown()
        os._exit(0)  # the Lease is released and nothing else is held: do not wait for it
    return 0


class Operator:
    """One operator process."""

    def __init__(self, settings: Settings, credentials: Credentials) -> None:
        self.settings = settings
        self.credentials = credentials
        self.metrics = Metrics()
        self.cache = Cache()
        self.stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._starting: asyncio.Task[None] | None = None
        self.client = Client(credentials, observer=self.metrics.observe_request)
        self._wire(self.client)

    async def run(self) -> None:
        """Run until `stopping` is set. Raises `StartError`."""
        self._handle_signals()
        async with self.client:
            try:
                await self.probes.start()
            except OSError as error:
                raise StartError(
                    f"port {self.settings.metrics_port} for metrics: {error.strerror}"
                ) from error
            try:
                if self.settings.webhook:
                    await self.webhook.start()
            except OSError as error:
                await self.probes.stop()
                raise StartError(
                    f"port {self.settings.webhook_port} for webhooks: {error.strerror}"
                ) from error
            try:
                if await self._reach(self.client):
                    logger.info(
                        "operator %s in namespace %s, %s, metrics on port %d",
                        self.identity,
                        self.settings.namespace,
                        self.credentials.source,
                        self.probes.port,
                    )
                    self._start_tasks()
                    await self.stopping.wait()
            finally:
                await self._stop()

    def _wire(self, client: Client) -> None:
        settings, cache = self.settings, self.cache
        self.identity = settings.identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self.queue: Queue[Key] = Queue()
        self.runtimes = Runtimes(client, cache, namespace=settings.namespace)
        self.controller = Controller(
            cache=cache,
            queue=self.queue,
            applier=Applier(client, cache, namespace=settings.namespace),
            runtimes=self.runtimes,
            companions=Companions(client),
            events=Events(client),
            metrics=self.metrics,
            working=lambda: self.workers.running,
        )
        self.workers = Workers(self.queue, self.controller.reconcile, self._failed, count=settings.workers)
        self.jobsets = Informer(
            client,
            JOBSETS,
            JobSetSink(
                cache.jobsets,
                wanted=cache.trainjobs.__contains__,
                touched=self.controller.touched,
                changed=self.controller.jobsets_changed,
            ),
        )
        self.revisions = Informer(
            client,
            REVISIONS,
            RevisionSink(cache, changed=lambda state: None),
            namespace=settings.namespace,
            selector=names.RUNTIME_UID_LABEL,
        )
        self.sweep = Sweep(
            client,
            (
                SweptTrainJobs(cache, self.controller, WATCHED[0]),
                *(SweptRuntimes(cache, self.controller, resource) for resource in WATCHED[1:]),
            ),
            late=lambda plural: self.kopf.restart(f"the stream of {plural} delivers nothing"),
        )
        self.controller.relisted = lambda: self.sweep.soon() if self.sweep.synced else None
        self.kopf = KopfThread(
            client,
            self.credentials,
            self.controller.seen,
            started=self.sweep.soon,
            restarted=self.metrics.kopf_restarts.inc,
            observer=self.metrics.observe_request,
        )
        self.upstream = Upstream(client, settings.upstream_namespace)
        self.elector = Elector(
            client,
            settings.namespace,
            self.identity,
            started=self._lead,
            stopped=self._follow,
            allowed=lambda: self.upstream.absent,
        )
        self.collector = Collector(client, cache, namespace=settings.namespace)
        self.probes = ProbeServer(
            self.metrics,
            alive=self.dead,
            ready=self.unready,
            host=settings.metrics_host,
            port=settings.metrics_port,
        )
        self._wire_admission(client)
        self._measure()

    def _wire_admission(self, client: Client) -> None:
        settings = self.settings
        decider = Decider(client, self.cache, self.runtimes, synced=lambda: self.synced)
        self.webhook = WebhookServer(
            decider.routes(), self.metrics, host=settings.webhook_host, port=settings.webhook_port
        )
        hosts = [settings.webhook_host] if settings.webhook_host else []
        self.certificates: Keeper
        if settings.webhook_certificate_dir is not None:
            self.certificates = FolderKeeper(Path(settings.webhook_certificate_dir), self.webhook.load)
        else:
            served_as = [f"{SERVICE}.{settings.namespace}.svc", *hosts]
            self.certificates = SecretKeeper(client, settings.namespace, served_as, self.webhook.load)
        self.publisher = Publisher(
            client,
            service=SERVICE,
            namespace=settings.namespace,
            hosts=hosts,
            bundle=lambda: self.certificates.authorities,
            leading=lambda: self.elector.leading,
        )

    def _start_tasks(self) -> None:
        admission = {"certificates": self._keep_certificates, "webhook-configurations": self.publisher.run}
        for name, task in {
            "jobsets": self.jobsets.run,
            "revisions": self.revisions.run,
            "kopf": self.kopf.run,
            "sweep": self.sweep.run,
            "upstream": self.upstream.run,
            "lease": self._elect,
            "collector": self._collect,
            **(admission if self.settings.webhook else {}),
        }.items():
            self._tasks.append(asyncio.create_task(_supervise(name, task), name=name))

    def dead(self) -> list[str]:
        """What only a restart of the process would mend."""
        now = time.monotonic()
        beats = {"JobSets": self.jobsets.beat, "revisions": self.revisions.beat, "Kopf": self.kopf.beat}
        if not self._tasks:
            return []  # still waiting for the API server, which a restart would not bring nearer
        return [
            f"the watch of {name} has shown no sign of life for {now - beat:.0f} s"
            for name, beat in beats.items()
            if now - beat > DEAD_AFTER
        ]

    def unready(self) -> list[str]:
        """What this replica lacks to work or to take over, in words."""
        reasons = []
        if not self._tasks:
            reasons.append("waiting for the API server")
        if self.jobsets.state is State.STARTING:
            reasons.append(f"JobSets are not read yet {self.jobsets.problem}".rstrip())
        if self.revisions.state is State.STARTING:
            reasons.append(f"runtime revisions are not read yet {self.revisions.problem}".rstrip())
        if self.kopf.reason:
            reasons.append(self.kopf.reason)
        elif not self.sweep.synced:
            reasons.append("TrainJobs and runtimes are not all read yet")
        if self.upstream.reason:
            reasons.append(self.upstream.reason)
        if self.settings.webhook:
            reasons += self.webhook.unready(self.certificates.problem)
        if self.stopping.is_set():
            reasons.append("stopping")
        return reasons

    @property
    def synced(self) -> bool:
        """True once the cache has held everything there was."""
        return (
            self.sweep.synced
            and self.jobsets.state is not State.STARTING
            and self.revisions.state is not State.STARTING
        )

    async def _elect(self) -> None:
        await self.upstream.step()  # the first try for the Lease is to know the answer
        await self.elector.run()

    async def _keep_certificates(self) -> None:
        while not self.upstream.absent:  # noqa: ASYNC110 - passive means: no write at all
            await asyncio.sleep(0.2)
        await self.certificates.run()

    async def _lead(self) -> None:
        self._starting = asyncio.create_task(self._start_workers(), name="start-workers")

    async def _start_workers(self) -> None:
        while not self.synced:  # noqa: ASYNC110 - three tasks have a part in it
            await asyncio.sleep(0.1)
        self.queue.clear()
        self.workers.start()
        self.controller.everything()
        logger.info("%d workers on %d TrainJobs", self.settings.workers, len(self.cache.trainjobs))

    async def _follow(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        await self.workers.stop(GRACE if self.stopping.is_set() else 0.0)
        self.queue.clear()

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(COLLECT_INTERVAL)
            if self.workers.running and self.jobsets.state is State.SYNCED:
                await self.collector.collect()

    def _failed(self, key: Key, error: Exception, delay: float) -> None:
        self.metrics.reconcile_errors.labels("internal").inc()
        logger.error("%s: unexpected failure, again in %.1f s", key, delay, exc_info=error)

    def _measure(self) -> None:
        metrics, cache = self.metrics, self.cache
        metrics.gauge("queue_depth", "TrainJobs that wait for a worker", lambda: self.queue.depth)
        metrics.gauge("queue_delayed", "TrainJobs that wait for their time", lambda: self.queue.delayed)
        metrics.gauge("queue_running", "TrainJobs being reconciled", lambda: self.queue.running)
        metrics.gauge(
            "queue_oldest_seconds",
            "Seconds that the first TrainJob in the queue waits",
            lambda: self.queue.age,
        )
        metrics.gauge("leader", "1 while this replica leads", lambda: float(self.elector.leading))
        metrics.gauge("ready", "1 while this replica is ready", lambda: float(not self.unready()))
        metrics.gauges(
            "cache_objects",
            "Objects held in memory",
            "kind",
            {
                "TrainJob": partial(len, cache.trainjobs),
                "JobSet": partial(len, cache.jobsets),
                "runtime": partial(len, cache.runtimes),
                "ControllerRevision": partial(len, cache.revisions),
            },
        )
        metrics.gauges(
            "watch_age_seconds",
            "Seconds since a watch last showed a sign of life",
            "watch",
            {
                "jobsets": lambda: time.monotonic() - self.jobsets.beat,
                "revisions": lambda: time.monotonic() - self.revisions.beat,
                "kopf": lambda: time.monotonic() - self.kopf.beat,
            },
        )
        metrics.gauge(
            "unreadable_objects",
            "Objects that could not be read and are left alone",
            lambda: len(self.controller.unreadable) + self.jobsets.undecodable,
        )

    async def _reach(self, client: Client) -> bool:
        """Wait for the API server to answer; False if told to stop meanwhile."""
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
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                for task in self._tasks:
                    if task.get_name() == "lease":
                        task.cancel()  # it must not take the Lease again that we release
                await self.elector.release()
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                if self.webhook.good_until is not None and self.credentials.in_cluster:
                    self.webhook.closing = True
                    await asyncio.sleep(LINGER)
                await self.webhook.stop()
                await self.probes.stop()
        except TimeoutError:
            logger.warning("not stopped in order within %.0f s", STOP_TIMEOUT)
        logger.info("stopped")

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


async def _supervise(name: str, task: Callable[[], Awaitable[None]]) -> None:
    """Run a task for ever: one that fails is logged and started again."""
    while True:
        try:
            await task()
        except Exception:
            logger.exception("task %s has failed and is started again", name)
        await asyncio.sleep(1.0)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one."""
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop
