"""One replica's controller with the real core, an API server in memory, and time in the test's hands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec

from trainyard_kube.client import Client
from trainyard_operator.core.build.info import DEFAULT_SETTINGS
from trainyard_operator.core.decide.views import jobset_of
from trainyard_operator.metrics import Metrics
from trainyard_operator.watch.cache import Cache, Key
from trainyard_operator.watch.informer import State
from trainyard_operator.watch.pod_ends import PodEnds
from trainyard_operator.work.apply import Applier
from trainyard_operator.work.companions import Companions
from trainyard_operator.work.controller import Controller
from trainyard_operator.work.events import Events
from trainyard_operator.work.jobs import Jobs
from trainyard_operator.work.memory import Memories
from trainyard_operator.work.pods import Pods
from trainyard_operator.work.queue import Queue, RetryError
from trainyard_operator.work.queues import Queues
from trainyard_operator.work.refusal_events import Refusals
from trainyard_operator.work.runtimes import Runtimes

from . import objects
from .fake_api import FakeApi

KEY = Key("team", "tj")
JOB = f"{objects.JOBS}/tj"
JOBSET = f"{objects.JOBSETS}/tj"
RUNTIME = f"{objects.RUNTIMES}/rt"
START = datetime(2026, 1, 1, tzinfo=UTC)
"""When the API server in memory says that its objects were created."""


class Scene:
    """One replica's controller. Time is `second`."""

    def __init__(self, api: FakeApi, client: Client) -> None:
        self.api = api
        self.client = client
        self.second = 0.0
        self.working = True
        self.leading = True
        self.settings = DEFAULT_SETTINGS
        self.cache = Cache()
        self.queue: Queue[Key] = Queue(clock=self.clock)
        self.metrics = Metrics()
        self.memories = Memories(self.cache)
        self.pod_ends = PodEnds(self.cache)
        self.controller = Controller(
            cache=self.cache,
            queue=self.queue,
            applier=Applier(client, self.cache, namespace="trainyard-system", clock=self.clock),
            runtimes=Runtimes(
                client,
                self.cache,
                namespace="trainyard-system",
                memories=self.memories,
                clock=self.clock,
            ),
            memories=self.memories,
            companions=Companions(client),
            jobs=Jobs(client),
            refusals=Refusals(client, Jobs(client), clock=self.clock),
            queues=Queues(client, clock=self.clock),
            events=Events(client, clock=self.clock, now=self.now),
            pods=Pods(client, now=self.now, clock=self.clock),
            pod_ends=self.pod_ends,
            metrics=self.metrics,
            working=lambda: self.working,
            leading=lambda: self.leading,
            settings=lambda: self.settings,
            now=self.now,
            clock=self.clock,
        )
        self.controller.jobsets = State.SYNCED

    def clock(self) -> float:
        return self.second

    def now(self) -> datetime:
        return START + timedelta(seconds=self.second)

    def see(self, path: str, kind: str | None = "ADDED") -> None:
        """Kopf delivers the object as it is now."""
        self.controller.seen(path.split("/")[-2], kind, self.api.objects[path])

    def see_jobset(self) -> None:
        seen = jobset_of(msgspec.json.encode(self.api.objects[JOBSET]))
        self.cache.jobsets.observe(KEY, seen)

    def report(self, *, ready: int) -> None:
        """JobSet's controller counts the pods of the JobSet."""
        counts = {"name": "node", "ready": ready, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
        status = {"replicatedJobsStatus": [counts]}
        self.api.put(JOBSET, {**self.api.objects[JOBSET], "status": status})
        self.see_jobset()

    async def settle(self) -> float | None:
        """Work the queue off, as one worker would; returns the last delay that was asked for."""
        again = None
        for _ in range(20):
            if not self.queue.depth:
                return again
            key = await self.queue.get()
            try:
                again = await self.controller.reconcile(key)
            except RetryError:
                self.queue.add(key)
            finally:
                self.queue.done(key)
        raise AssertionError("the queue never becomes empty")

    def conditions(self) -> dict[str, str]:
        found = self.api.objects[JOB].get("status", {}).get("conditions", [])
        return {condition["type"]: condition["reason"] for condition in found}


@asynccontextmanager
async def scene(*, with_runtime: bool = True) -> AsyncIterator[Scene]:
    api = FakeApi()
    if with_runtime:
        api.put(RUNTIME, objects.runtime())
    api.put(JOB, objects.trainjob())
    async with api.client() as client:
        found = Scene(api, client)
        if with_runtime:
            found.see(RUNTIME)
        found.see(JOB)
        yield found
