"""A machine that does to TrainJobs what people, controllers and nodes do, in any order."""

import asyncio
import json
from collections import deque
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from aiohttp import web
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support import objects
from tests.support.controller_scene import START, Scene
from tests.support.fake_api import FakeApi
from trainyard_operator.core.decide.views import revision_of
from trainyard_operator.watch.cache import Key
from trainyard_operator.watch.informer import JobSetSink
from trainyard_operator.work.queue import Workers

NAMES = st.sampled_from(["a", "b"])


STREAMS = {"trainjobs": "/apis/trainer.kubeflow.org/v1alpha1/trainjobs", "jobsets": objects.ALL_JOBSETS}


RUNTIME = f"{objects.RUNTIMES}/rt"


TERMINAL = ("Complete", "Failed")


ENDS = {
    "Completed": ("Complete", "AllJobsCompleted"),
    "Failed": ("Failed", "FailedJobs"),
}


class World(FakeApi):
    """An API server whose answers get lost, and which remembers all that it ever was."""

    def __init__(self):
        super().__init__()
        self.faults = deque()
        """What happens to the next writes: a code to refuse with, or `lost` or `killed`, once done."""
        self.past = []
        self.second = 0.0
        self.broken = []
        self.killed = asyncio.Event()
        self.buried = asyncio.Event()

    def put(self, path, body):
        if path not in self.objects:
            at = (START + timedelta(seconds=self.second)).strftime("%Y-%m-%dT%H:%M:%SZ")
            body = {**body, "metadata": {"creationTimestamp": at, **body["metadata"]}}
        self._judge(path, self.objects.get(path), body)
        stored = super().put(path, body)
        self.past.append((int(stored["metadata"]["resourceVersion"]), dict(self.objects)))
        return stored

    def _judge(self, path, old, new):
        """Whether this may be."""
        if "/trainjobs/" in path and old is not None:
            before, after = ended(old), ended(new)
            if len(after) > 1 or (before and before != after):
                self.broken.append(f"I-2: {path} was {before} and is {after}")
        if "/jobsets/" in path and old is None:
            job = self.objects.get(path.replace(objects.JOBSETS, objects.JOBS))
            if job is not None and owner(new) == job["metadata"]["uid"] and ended(job):
                self.broken.append(f"I-4: a JobSet for {path} after {ended(job)}")

    async def _serve(self, request):
        if request.method == "GET" or not self.faults:
            return await super()._serve(request)
        fault = self.faults.popleft()
        if isinstance(fault, int):
            body = {"kind": "Status", "code": fault, "reason": "ForATest", "message": "for a test"}
            return web.json_response(body, status=fault)
        await super()._serve(request)
        if fault == "killed":
            self.killed.set()
            await self.buried.wait()
        request.transport.abort()
        return web.Response()


def ended(job):
    return sorted(
        c["type"]
        for c in job.get("status", {}).get("conditions", ())
        if c["type"] in TERMINAL and c["status"] == "True"
    )


def owner(manifest):
    (reference,) = manifest["metadata"]["ownerReferences"]
    return reference["uid"]


class Stream(deque):
    """Events that have not been delivered yet."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    put_nowait = deque.append


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.world = World()
        self.streams = {plural: Stream() for plural in STREAMS}
        for plural, path in STREAMS.items():
            self.world._streams[self.streams[plural]] = path  # type: ignore[index]
        self.failures = []
        self.world.put(RUNTIME, objects.runtime())
        self.client = self.do(self.stack.enter_async_context(self.world.client()))

    def do(self, coroutine):
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 30))

    # The operator.

    @initialize()
    def start(self):
        self.lead(self.world.objects)

    def lead(self, shown):
        """A new process takes over, and is shown this."""
        self.scene = scene = Scene(self.world, self.client)
        scene.second = self.world.second
        self.sink = JobSetSink(
            scene.cache.jobsets,
            has_trainjob=scene.cache.trainjobs.__contains__,
            changed=lambda state: None,
        )
        self.workers = Workers(scene.queue, scene.controller.reconcile, self._failed)
        if RUNTIME in self.world.objects:
            scene.see(RUNTIME, None)
        for path, body in self.world.objects.items():
            if path.startswith(objects.REVISIONS):
                scene.cache.revisions.answered(body["metadata"]["name"], revision_of(body))
        for plural in STREAMS:
            self.list(plural, shown)
        scene.controller.since = self.do(scene.controller._applier.present())
        scene.controller.everything()

    def _failed(self, key, error, delay):
        self.failures.append(error)

    def list(self, plural, shown):
        """A relist: what is shown is all there is."""
        self.streams[plural].clear()
        found = {path: body for path, body in shown.items() if f"/{plural}/" in path}
        at = max((int(body["metadata"]["resourceVersion"]) for body in found.values()), default=0)
        if shown is self.world.objects:
            at = max((version for version, _ in self.world.past), default=0)
        if plural == "jobsets":
            decoded = (self.sink.decode(json.dumps(body).encode()) for body in found.values())
            self.sink.replace(dict(decoded), max(at, 1))
            return
        for body in found.values():
            self.scene.controller.seen(plural, None, body)
        listed = {Key("team", path.rsplit("/", 1)[1]) for path in found}
        for key in set(self.scene.cache.trainjobs) - listed:
            self.scene.controller.vanished(key, str(at))

    def deliver(self, plural):
        """The next event of a watch."""
        event = self.streams[plural].popleft()
        body = event["object"]
        if plural == "trainjobs":
            self.scene.controller.seen(plural, event["type"], body)
        elif event["type"] == "DELETED":
            meta = body["metadata"]
            self.sink.remove(Key(meta["namespace"], meta["name"]), meta["uid"], meta["resourceVersion"])
        else:
            self.sink.upsert(*self.sink.decode(json.dumps(body).encode()))

    async def _work(self):
        queue = self.scene.queue
        for _ in range(20):
            if not queue.depth:
                return
            key = await queue.get()
            try:
                await self.workers._one(key)
            finally:
                queue.done(key)
        self.failures.append("the queue never becomes empty")

    async def _work_or_die(self):
        work = asyncio.create_task(self._work())
        death = asyncio.create_task(self.world.killed.wait())
        await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
        died = self.world.killed.is_set()
        for task in (work, death):
            task.cancel()
        results = await asyncio.gather(work, death, return_exceptions=True)
        if died:
            self.world.buried.set()
            await asyncio.sleep(0)
            self.world.killed, self.world.buried = asyncio.Event(), asyncio.Event()
        elif isinstance(results[0], BaseException):
            raise results[0]
        return died

    # What happens.

    @rule()
    def works(self):
        if self.do(self._work_or_die()):
            self.lead(self.world.objects)

    @rule()
    def all_is_told_and_done(self):
        for plural in STREAMS:
            self.watch_delivers(plural, all_of_it=True)
        self.works()

    @rule(name=NAMES, suspend=st.booleans(), deadline=st.sampled_from([None, 30]))
    def user_creates(self, name, suspend, deadline):
        path = f"{objects.JOBS}/{name}"
        if path not in self.world.objects:
            spec = {"suspend": suspend} | ({} if deadline is None else {"activeDeadlineSeconds": deadline})
            self.world.put(path, objects.trainjob(name, **spec))

    @rule(name=NAMES)
    def user_deletes(self, name):
        if (path := f"{objects.JOBS}/{name}") in self.world.objects:
            self.world.remove(path)

    @rule(name=NAMES, suspend=st.booleans())
    def user_suspends_or_resumes(self, name, suspend):
        self.change(f"{objects.JOBS}/{name}", "spec", suspend=suspend)

    @rule(name=NAMES, active=st.integers(0, 2))
    def jobset_counts(self, name, active):
        counts = {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": active, "suspended": 0}
        self.change(f"{objects.JOBSETS}/{name}", "status", replicatedJobsStatus=[counts])

    @rule(name=NAMES, end=st.sampled_from(sorted(ENDS)))
    def jobset_ends(self, name, end):
        path = f"{objects.JOBSETS}/{name}"
        if path in self.world.objects and not self.world.objects[path].get("status", {}).get("conditions"):
            at = "2026-01-01T12:00:00Z"
            said = {
                "type": end,
                "status": "True",
                "reason": ENDS[end][1],
                "message": "",
                "lastTransitionTime": at,
            }
            self.change(path, "status", conditions=[said])

    @rule(name=NAMES)
    def jobset_is_deleted_after_its_end(self, name):
        self.all_is_told_and_done()
        path = f"{objects.JOBSETS}/{name}"
        job = self.world.objects.get(f"{objects.JOBS}/{name}")
        if path in self.world.objects and job is not None and ended(job):
            self.world.remove(path)

    @rule(name=NAMES)
    def it_lives_its_life(self, name):
        """What takes many steps, in one."""
        self.user_creates(name, suspend=False, deadline=None)
        self.all_is_told_and_done()
        self.jobset_ends(name, "Completed")
        self.jobset_is_deleted_after_its_end(name)

    def change(self, path, part, **fields):
        if (old := self.world.objects.get(path)) is not None:
            self.world.put(path, {**old, part: {**old.get(part, {}), **fields}})

    @rule(plural=st.sampled_from(sorted(STREAMS)), all_of_it=st.booleans())
    def watch_delivers(self, plural, all_of_it):
        while self.streams[plural]:
            self.deliver(plural)
            if not all_of_it:
                break

    @rule(plural=st.sampled_from(sorted(STREAMS)))
    def watch_is_lost_and_listed_anew(self, plural):
        self.list(plural, self.world.objects)

    @rule()
    def garbage_is_collected(self):
        jobs = {body["metadata"]["uid"] for path, body in self.world.objects.items() if "/trainjobs/" in path}
        for path in [path for path in self.world.objects if "/jobsets/" in path]:
            if owner(self.world.objects[path]) not in jobs:
                self.world.remove(path)

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 40.0]))
    def time_passes(self, seconds):
        self.world.second += seconds
        self.scene.second = self.world.second

    @precondition(lambda self: len(self.world.faults) < 3)
    @rule(fault=st.sampled_from([409, 429, 500, "lost", "killed"]))
    def network_gets_worse(self, fault):
        self.world.faults.append(fault)

    @rule()
    def process_dies(self):
        self.lead(self.world.objects)

    @rule(steps=st.integers(1, 20))
    def process_dies_and_its_successor_is_shown_the_past(self, steps):
        _, shown = self.world.past[-min(steps, len(self.world.past))]
        self.lead(shown)
        self.works()

    # What holds.

    @invariant()
    def nothing_is_broken(self):
        assert self.world.broken == []
        assert self.failures == []

    def teardown(self):
        try:
            if hasattr(self, "scene"):
                self.come_to_rest()
        finally:
            self.loop.run_until_complete(self.stack.aclose())
            self.loop.close()

    def come_to_rest(self):
        """The faults end: all becomes as it should be, and then nothing is written."""
        self.world.faults.clear()
        for plural in STREAMS:
            self.list(plural, self.world.objects)
        quiet, rounds = 0, 0
        while quiet < 14:  # 70 seconds: whatever waits for its time has had it
            written = len(self.world.writes())
            self.garbage_is_collected()
            self.all_is_told_and_done()
            self.time_passes(5.0)
            quiet = quiet + 1 if len(self.world.writes()) == written else 0
            rounds += 1
            assert rounds < 100, f"it never rests: {self.world.writes()[-10:]}"
        self.nothing_is_broken()
        for path, job in self.world.objects.items():
            if "/trainjobs/" in path:
                self.is_right(job, self.world.objects.get(path.replace(objects.JOBS, objects.JOBSETS)))

    def is_right(self, job, jobset):
        conditions = {
            c["type"]: (c["status"], c["reason"]) for c in job.get("status", {}).get("conditions", ())
        }
        if ended(job):
            assert jobset is None or conditions.get("Failed") != ("True", "DeadlineExceeded"), "I-3"
            return
        suspended = job["spec"].get("suspend", False)
        assert jobset is not None, conditions
        assert owner(jobset) == job["metadata"]["uid"]
        assert jobset["spec"].get("suspend", False) is suspended
        assert conditions.get("Suspended", ("False", ""))[0] == str(suspended)
        assert "Blocked" not in conditions
        assert not jobset.get("status", {}).get("conditions"), "its end is passed on"


HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much]


HOURS = 10_000
"""Orders that `make soak` tries."""


FEW, MORE = pytest.param(20, 30), pytest.param(100, 30, marks=pytest.mark.long)
ALL = pytest.param(HOURS, 60, marks=pytest.mark.soak)
"""How many orders, of how many steps."""


def run(machine, orders, steps):
    """Try this many orders; a failure says its steps, and what repeats it."""
    chosen = settings(
        max_examples=orders,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=HEALTH,
        print_blob=True,
    )
    run_state_machine_as_test(machine, settings=chosen)
