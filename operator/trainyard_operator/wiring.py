"""The parts of one replica, and how they fit together.

Every replica keeps its caches warm, answers webhooks, accepts reports of
progress and answers probes; the Lease gates only the workers, so that a
standby takes over without reading anything first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from trainyard_api import names
from trainyard_api.configuration import Configuration
from trainyard_api.rate import Buckets
from trainyard_kube.client import ApiError, Client
from trainyard_kube.credentials import Credentials, CredentialsError
from trainyard_kube.resources import JOBSETS, PODS, REVISIONS

from .core.admit.limits import Limits
from .core.build import info, plugins
from .core.build.plugins.trainjobstatus import GATE
from .metrics import Metrics
from .serve import probes
from .serve.admission import Decider, WebhookServer
from .serve.certificate_keeper import FolderKeeper, Keeper, SecretKeeper
from .serve.dry_runs import Trials
from .serve.metrics_server import Exposition, MetricsServer
from .serve.policy_file import PolicyFile
from .serve.reporters import Reporters
from .serve.status_server import StatusServer
from .serve.webhook_configurations import Publisher
from .watch.cache import Cache, Key
from .watch.handlers import WATCHED
from .watch.informer import Informer, JobSetSink, State
from .watch.kopf_thread import KopfThread
from .watch.pod_ends import FAILED, SELECTOR, PodEnds
from .watch.sweep import Sweep
from .work.apply import Applier
from .work.ca_rollout import Authorities
from .work.companions import Companions
from .work.controller import Controller, SweptRuntimes, SweptTrainJobs
from .work.election import Election
from .work.events import Events
from .work.jobs import Jobs
from .work.last_lines import LastLines
from .work.lease import Timing, Upstream
from .work.memory import Memories
from .work.plugin_timing import measured
from .work.pods import Pods
from .work.queue import Queue, Workers
from .work.queues import Queues
from .work.reaper import Reaper
from .work.refusal_events import Refusals
from .work.runtimes import Collector, RevisionSink, Runtimes

logger = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds for a reconciliation in the middle of its writes, and for a look at last lines, to end."""
DEAD_AFTER = 180.0
"""Seconds without a sign of life from a task after which only a restart helps."""
SILENT_AFTER = 180.0
"""Seconds without an answer of the API server after which a replica is not ready."""
CREDENTIALS_INTERVAL = 30.0
"""Seconds between two looks at the files with the CA and our client certificate."""
STUCK_AFTER = 600.0
"""Seconds that the work on one TrainJob may take: its requests have much lower bounds."""
START_INTERVAL = 1.0
"""Seconds between two tries to start the workers, after an error that nobody has thought of."""
COLLECT_INTERVAL = 30.0
"""Seconds between two looks for revisions to collect. A look at the cache; most lead to no request."""
READERS = 3
"""Failed attempts whose logs are read at a time."""
ELECTION_CONNECTIONS = 2
"""One for the request under way, one for the request that follows a broken one."""

Work = Callable[[], Awaitable[None]]


class Wiring:
    """One replica, not yet running."""

    def __init__(self, settings: Configuration, credentials: Credentials) -> None:
        self.settings = settings
        self.credentials = credentials
        self.reporting = GATE in settings.feature_gates.on
        """Whether training processes may report their progress."""
        self.metrics = Metrics()
        self.cache = Cache()
        self.stopping = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self._starting: asyncio.Task[None] | None = None
        self._not_started = ""
        """Why a try to start the workers failed, until the next one begins."""
        self.client = Client(credentials, observer=self.metrics.observe_request)
        self.identity = settings.leader_election.identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self._wire_work(self.client)
        self._wire_watches(self.client)
        self._wire_election(self.client)
        self._wire_servers(self.client)

    def _wire_work(self, client: Client) -> None:
        settings, cache = self.settings, self.cache
        self.queue: Queue[Key] = Queue()
        memories = Memories(cache)
        self.pod_ends = PodEnds(cache)
        self.runtimes = Runtimes(client, cache, namespace=settings.namespace, memories=memories)
        self.applier = Applier(client, cache, namespace=settings.namespace)
        companions = Companions(client)
        jobs = Jobs(client)
        self.queues = Queues(client)
        events = Events(client, now=client.time.now)
        self.controller = Controller(
            cache=cache,
            queue=self.queue,
            applier=self.applier,
            runtimes=self.runtimes,
            memories=memories,
            companions=companions,
            jobs=jobs,
            refusals=Refusals(client, jobs),
            queues=self.queues,
            events=events,
            pods=Pods(client, now=client.time.now),
            pod_ends=self.pod_ends,
            metrics=self.metrics,
            working=lambda: self.workers.running,
            leading=lambda: self.elector.safe,
            settings=self.build_settings,
            using=measured(plugins.ALL, self.metrics),
            now=client.time.now,
        )
        self.workers = Workers(
            self.queue, self.controller.reconcile, self._failed, count=settings.controller.concurrency
        )
        self.last_lines = LastLines(
            client, cache, events, lines=settings.last_lines, leading=lambda: self.elector.safe
        )
        self.pod_ends.failed, self.pod_ends.over = self.last_lines.failed, self.last_lines.over
        self.readers = Workers(self.last_lines.queue, self.last_lines.work, self._failed, count=READERS)
        self.authorities = Authorities(
            cache,
            memories,
            companions,
            self.applier,
            settings=self.build_settings,
            working=lambda: self.workers.running,
            leading=lambda: self.elector.safe,
        )
        self.collector = Collector(
            client,
            cache,
            namespace=settings.namespace,
            working=lambda: self.workers.running and self.elector.safe,
            now=client.time.now,
        )
        self.reaper: Reaper | None = None
        if settings.retention is not None:
            self.reaper = Reaper(
                client,
                cache,
                settings.retention,
                self.metrics,
                working=lambda: self.workers.running,
                now=client.time.now,
            )

    def _wire_watches(self, client: Client) -> None:
        cache = self.cache
        self.jobsets = Informer(
            client,
            JOBSETS,
            JobSetSink(
                cache.jobsets,
                has_trainjob=cache.trainjobs.__contains__,
                changed=self.controller.jobsets_changed,
            ),
        )
        self.revisions = Informer(
            client,
            REVISIONS,
            RevisionSink(cache),
            namespace=self.settings.namespace,
            selector=names.RUNTIME_UID_LABEL,
        )
        self.failed_pods = Informer(client, PODS, self.pod_ends, selector=SELECTOR, fields=FAILED)
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

    def _wire_election(self, client: Client) -> None:
        settings, timing = self.settings, self.settings.leader_election
        self.upstream = Upstream(client, settings.upstream_namespace)
        self.election = Election(
            Client(self.credentials, limit=ELECTION_CONNECTIONS, observer=self.metrics.observe_request),
            settings.namespace,
            self.identity,
            started=self._lead,
            stopped=self._follow,
            allowed=lambda: self.upstream.absent,
            timing=Timing(timing.lease_duration, timing.renew_deadline, timing.retry_period),
        )
        self.elector = self.election.elector

    def _wire_servers(self, client: Client) -> None:
        settings = self.settings
        exposition = Exposition(self.metrics)
        self.metrics_server = MetricsServer(
            client,
            exposition,
            host=settings.metrics.host,
            port=settings.metrics.secure_port,
            now=client.time.now,
        )
        self.probes = probes.server(
            None if settings.metrics.authentication else exposition,
            alive=self.dead,
            ready=self.unready,
            host=settings.metrics.host,
            port=settings.metrics.port,
        )
        self.policy_file = PolicyFile(settings.webhook)
        self.decider = Decider(
            client,
            self.cache,
            self.runtimes,
            synced=lambda: self.synced,
            allowed=Limits(**settings.limits.model_dump()),
            settings=self.build_settings,
            policies=self.policy_file.policies,
            trials=Trials(client, self.build_settings),
            queues=self.queues,
            now=client.time.now,
        )
        self.webhook = WebhookServer(
            self.decider.routes(),
            self.metrics,
            host=settings.webhook.host,
            port=settings.webhook.port,
            now=client.time.now,
        )
        reports = settings.status_server
        self.status = StatusServer(
            Reporters(client, self.cache),
            self.applier,
            self.cache,
            self.metrics,
            synced=lambda: self.synced,
            reports=Buckets(reports.qps, reports.burst),
            host=reports.host,
            port=reports.port,
            now=client.time.now,
        )
        own = settings.metrics.host if settings.metrics.authentication else None
        hosts = sorted({host for host in (settings.webhook.host, reports.host, own) if host})
        folder = settings.cert_management.folder
        self.certificates: Keeper
        if folder is not None:
            self.certificates = FolderKeeper(Path(folder), self._serve)
        else:
            served_as = [f"{names.OPERATOR}.{settings.namespace}.svc", *hosts]
            self.certificates = SecretKeeper(
                client, settings.namespace, served_as, self._serve, now=client.time.now
            )
        self.publisher = Publisher(
            client,
            service=names.OPERATOR,
            namespace=settings.namespace,
            hosts=hosts,
            bundle=lambda: self.certificates.authorities,
            leading=lambda: self.elector.leading,
        )

    def build_settings(self) -> info.Settings:
        """What manifests depend on, as it is now."""
        return info.Settings(
            feature_gates=self.settings.feature_gates.on,
            operator_namespace=self.settings.namespace,
            service_name=names.OPERATOR,
            status_server_port=self.settings.status_server.port,
            status_server_ca=(self.certificates.authorities or b"").decode(),
            queue_holds_jobset=self.settings.queue_holds == names.JOBSET,
            keeps_resumed=self.settings.suspended_condition == "upstream",
        )

    def work(self) -> dict[str, Work]:
        """Tasks other than the election while the process runs, by name."""
        settings = self.settings
        tasks: dict[str, Work] = {
            names.JOBSETS: self.jobsets.run,
            "revisions": self.revisions.run,
            "failed-pods": self._follow_failed_pods,
            "kopf": self.kopf.run,
            "sweep": self.sweep.run,
            "upstream": self.upstream.run,
            "collector": self._collect,
            "credentials": self._keep_credentials,
        }
        if settings.webhook.enabled or self.reporting or settings.metrics.authentication:
            tasks["certificates"] = self._keep_certificates
        if self.policy_file.policies is not None:
            tasks["policies"] = partial(self.policy_file.run, self.decider.hold_to)
        if settings.webhook.enabled and settings.cert_management.folder is None:
            tasks["webhook-configurations"] = self.publisher.run
        if self.reporting:
            tasks["authorities"] = self.authorities.run
        if self.reaper is not None:
            tasks["retention"] = self.reaper.run
        return tasks

    def dead(self) -> list[str]:
        """What only a restart of the process would fix."""
        if not self.tasks:
            return []  # still waiting for the API server, which a restart would not speed up
        now = time.monotonic()
        beats = {
            "the watch of JobSets": self.jobsets.beat,
            "the watch of revisions": self.revisions.beat,
            "the watch of Kopf": self.kopf.beat,
            "the sweep": self.sweep.beat,
            "the election": self.elector.beat,
        }
        reasons = [
            f"{name} has shown no sign of life for {now - beat:.0f} s"
            for name, beat in beats.items()
            if now - beat > DEAD_AFTER
        ]
        reasons += self._silent(STUCK_AFTER)
        if self.queue.longest > STUCK_AFTER:
            reasons.append(f"a worker has been busy with one TrainJob for {self.queue.longest:.0f} s")
        if self.sweep.reverted:
            reasons.append(self.sweep.reverted)
        if self._not_started:
            reasons.append(self._not_started)
        return reasons

    def unready(self) -> list[str]:
        """What this replica lacks to work or to take over, in words."""
        reasons = []
        if not self.tasks:
            reasons.append("waiting for the API server")
        if self.jobsets.state is State.STARTING:
            reasons.append(f"JobSets have not been read yet {self.jobsets.problem}".rstrip())
        if self.revisions.state is State.STARTING:
            reasons.append(f"runtime revisions have not been read yet {self.revisions.problem}".rstrip())
        if self.kopf.reason:
            reasons.append(self.kopf.reason)
        elif not self.sweep.synced:
            reasons.append("not all TrainJobs and runtimes have been read yet")
        if self.tasks:
            reasons += self._silent(SILENT_AFTER)
        if self.upstream.reason:
            reasons.append(self.upstream.reason)
        if self.settings.webhook.enabled:
            reasons += self.webhook.unready(self.certificates.problem)
        if self.reporting:
            reasons += self.status.unready(self.certificates.problem)
            if self.status.good_until is not None and not self.certificates.authorities:
                reasons.append("ca.crt is missing next to the certificate: training processes need it")
        if self.stopping.is_set():
            reasons.append("stopping")
        return reasons

    def _silent(self, after: float) -> list[str]:
        """What the API server has said nothing about for too long; a watch that only retries still beats."""
        now = time.monotonic()
        heard = {
            "JobSets": self.jobsets.heard,
            "runtime revisions": self.revisions.heard,
            "TrainJobs and runtimes": self.sweep.heard,
        }
        return [
            f"the API server has sent nothing about {subject} for {now - at:.0f} s"
            for subject, at in heard.items()
            if now - at > after
        ]

    @property
    def synced(self) -> bool:
        """True once the cache has held everything that existed."""
        return (
            self.sweep.synced
            and self.jobsets.state is not State.STARTING
            and self.revisions.state is not State.STARTING
        )

    async def _follow_failed_pods(self) -> None:
        """Follow them once it is known whose pods they are."""
        while not self.synced:  # noqa: ASYNC110 - synced is made of three streams
            await asyncio.sleep(0.1)
        await self.failed_pods.run()

    async def elect(self) -> None:
        """Take part in the election for the Lease until cancelled, which releases it."""
        await self.upstream.step()  # the first try for the Lease needs the answer
        await self.election.run()

    async def _keep_certificates(self) -> None:
        if isinstance(self.certificates, SecretKeeper):
            await self.certificates.look()  # a passive replica, too, serves its metrics
            while not self.upstream.absent:  # noqa: ASYNC110 - passive means: no write at all
                await asyncio.sleep(0.2)
        await self.certificates.run()

    async def _lead(self) -> None:
        self._starting = asyncio.create_task(self._keep_starting(), name="start-workers")
        self._starting.add_done_callback(self._start_ended)

    def _start_ended(self, task: asyncio.Task[None]) -> None:
        """Unless `_follow` has ended it: a leader without workers must not look alive."""
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if task is self._starting and error is not None:
            self._not_started = f"the workers could not be started: {type(error).__name__}"
            logger.error("%s", self._not_started, exc_info=error)

    async def _keep_starting(self) -> None:
        """Start the workers. After an error try again: if it stays, the liveness probe ends the process."""
        while True:
            self._not_started = ""  # this try may have to wait, which a restart would not speed up
            try:
                return await self._start_workers()
            except Exception as error:
                logger.exception("the workers could not be started; trying again")
                self._not_started = f"the workers could not be started: {type(error).__name__}: {error}"
                await asyncio.sleep(START_INTERVAL)

    async def _start_workers(self) -> None:
        # A TrainJob that may report is built with the authority, known once there is a certificate.
        while not self.synced or (self.reporting and not self.certificates.authorities):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        # A job that has failed meanwhile says why in its last status. Without the right to read pods, go on.
        while self.failed_pods.state is State.STARTING and not self.failed_pods.problem:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        self.controller.since = await self._present()
        self.queue.clear()
        self.workers.start()
        self.readers.start()
        self.controller.everything()
        self.authorities.begin_to_lead()
        logger.info(
            "%d workers on %d TrainJobs", self.settings.controller.concurrency, len(self.cache.trainjobs)
        )

    async def _present(self) -> int:
        """The version that TrainJobs are at, as soon as the API server says."""
        while True:
            try:
                return await self.applier.present()
            except ApiError as error:
                logger.info("waiting for the version of TrainJobs: %s", error)
                await asyncio.sleep(0.5)

    async def _follow(self) -> None:
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
            self._not_started = ""
        grace = GRACE if self.stopping.is_set() else 0.0
        await asyncio.gather(self.readers.stop(grace), self.workers.stop(grace))
        self.queue.clear()

    async def _keep_credentials(self) -> None:
        problem = ""
        while (files := self.credentials.tls_files) is not None:
            try:
                if files.reload():
                    logger.info("now using new certificates of %s", self.credentials.source)
                problem = ""
            except CredentialsError as error:
                if str(error) != problem:
                    logger.warning("%s", error)
                problem = str(error)
            await asyncio.sleep(CREDENTIALS_INTERVAL)
        await asyncio.Event().wait()  # plain HTTP, or a plugin that keeps them

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(COLLECT_INTERVAL)
            if self.jobsets.state is State.SYNCED:
                await self.collector.collect()

    def _serve(self, certificate: bytes, key: bytes) -> None:
        for server in (self.webhook, self.status, self.metrics_server):
            server.load(certificate, key)

    def _failed(self, key: Key, error: Exception, delay: float) -> None:
        self.metrics.reconcile_errors.labels("internal").inc()
        logger.error("%s: unexpected error, trying again in %.1f s", key, delay, exc_info=error)
