"""Plays everybody but the controller: users who make TrainJobs, and the JobSet controller that runs them.

It reads progress only from the audit log, so that measuring adds no load.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from trainyard_api.names import QUEUE_LABEL, TRAINJOB
from trainyard_kube import credentials
from trainyard_kube.client import Client
from trainyard_kube.resources import JOBSETS, TRAINJOBS

from .audit import Call, Tail
from .errors import BenchmarkError

AGENT = "trainyard-benchmarks"
KUEUE = "kueue/"
"""How the User-Agent of Kueue's controller begins."""
KUBELET = "kwok"
"""Prefix of the User-Agent of KWOK, which plays the kubelets of simulated nodes."""
NAMESPACE = "default"
RUNTIME = "torch-distributed"
QUEUE = "everybody"
"""The queue, where there is Kueue."""
AT_ONCE = 16
"""Requests of users at a time where they are not spread over time."""
_LOOK_SECONDS = 0.03
_PATIENCE = 300.0
"""Seconds without progress after which a wait fails: a controller that hangs gives no result."""
_QUIET_SECONDS = 2.0
"""A controller that has not written for so long has worked off what there was."""
_QUIET_WITHIN = 180.0
"""Seconds after which a controller that still writes gives no result."""
_ALWAYS_WRITTEN = frozenset({"leases", "events", "nodes/status"})
"""Resources that are written even where nothing gets any further."""

T = TypeVar("T")
Object = dict[str, Any]


class Driver:
    """Users and the JobSet controller of one control plane.

    `agent` is the prefix of the measured controller's User-Agent, and `queue_holds` the kind that Kueue
    holds in its queues.
    """

    def __init__(self, client: Client, tail: Tail, agent: str, queue_holds: str = TRAINJOB) -> None:
        self.jobsets: set[str] = set()
        """TrainJobs that have got a JobSet, by name."""
        self.pods: set[str] = set()
        """TrainJobs of which a pod runs on a simulated node, by name."""
        self.status_writes: dict[str, float] = {}
        """When the controller last wrote the status of each TrainJob, by name."""
        self.on_jobset: Callable[[str], Awaitable[None]] | None = None
        """Called in a task of its own with the name of each JobSet that is new."""
        self.resumed: dict[str, float] = {}
        """When each TrainJob's JobSet was resumed after Kueue had admitted it, by name."""
        self.on_resume: Callable[[str], Awaitable[None]] | None = None
        """Called in a task of its own with the name of each JobSet that is resumed."""
        self._client = client
        self._tail = tail
        self._tail.heard = self._notice
        self._agent = agent
        self._admitted: set[str] | None = None if queue_holds != TRAINJOB else set()
        """TrainJobs that Kueue admitted, for their controller to resume; None where Kueue resumes JobSets."""
        self.written = 0.0
        """When the controller last wrote anything, in seconds since the epoch."""
        self._progress = 0
        """How many writes have been seen, by whomever."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        """What was raised by what was called for JobSets."""

    @classmethod
    @asynccontextmanager
    async def of(
        cls, kubeconfig: Path, tail: Tail, agent: str, queue_holds: str = TRAINJOB
    ) -> AsyncIterator[Driver]:
        """A driver that follows the audit log until the end of the block."""
        loaded = credentials.load(str(kubeconfig), None)
        async with Client(replace(loaded, headers={"User-Agent": AGENT})) as client:
            driver = cls(client, tail, agent, queue_holds)
            following = asyncio.create_task(driver._follow())
            try:
                yield driver
            finally:
                following.cancel()
                with suppress(asyncio.CancelledError):
                    await following

    async def create(self, path: str, manifests: Iterable[Object], *, rate: float | None = None) -> None:
        """POST objects to a collection, 16 at a time, or so many a second."""
        await self.each(manifests, lambda manifest: self._client.create(path, manifest), rate=rate)

    async def submit(self, names: Sequence[str], *, rate: float | None = None, **spec: Any) -> None:
        """Create TrainJobs of these names; `spec` goes over what they have."""
        manifests = (trainjob(name, **spec) for name in names)
        await self.create(TRAINJOBS.path(NAMESPACE), manifests, rate=rate)

    async def make_jobsets(self, names: Iterable[str], *, queue: str | None = None) -> None:
        """Create JobSets without TrainJobs, in a queue if one is named."""
        await self.create(JOBSETS.path(NAMESPACE), (_jobset(name, queue) for name in names))

    async def run(self, name: str) -> None:
        """The JobSet's pods become ready."""
        await self._status(name, {"replicatedJobsStatus": [_counts(ready=1, active=1)]})

    async def complete(self, name: str) -> None:
        """The JobSet completes."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        done = {
            "type": "Completed",
            "status": "True",
            "reason": "AllJobsCompleted",
            "message": "jobset completed successfully",
            "lastTransitionTime": at,
        }
        counts = [_counts(succeeded=1)]
        await self._status(name, {"conditions": [done], "replicatedJobsStatus": counts})

    async def each(
        self, items: Iterable[T], do: Callable[[T], Awaitable[object]], *, rate: float | None = None
    ) -> None:
        """Do something for each of `items`, 16 at a time, or so many a second however long each takes."""
        if rate is not None:
            began = asyncio.get_running_loop().time()
            async with asyncio.TaskGroup() as tasks:
                for number, item in enumerate(items):
                    await asyncio.sleep(began + number / rate - asyncio.get_running_loop().time())
                    tasks.create_task(_awaited(do(item)))
            return
        waiting = iter(items)

        async def work() -> None:
            for item in waiting:
                await do(item)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(work())

    async def until(self, title: str, count: Callable[[], int], target: int) -> None:
        """Wait until a count reaches its target. Raises `BenchmarkError` if nobody writes for too long.

        A controller that works off what comes first may begin with thousands before it ends with any.
        Raises, too, what was raised by what was called for JobSets.
        """
        last, since = self._progress, time.monotonic()
        while (counted := count()) < target:
            await asyncio.sleep(_LOOK_SECONDS)
            self._raise_failure()
            if self._progress != last:
                last, since = self._progress, time.monotonic()
            elif time.monotonic() - since > _PATIENCE:
                raise BenchmarkError(f"{title}: {counted} of {target}, and no writes for {_PATIENCE:.0f} s")

    async def quiet(self) -> None:
        """Wait until the controller has nothing left to do: what is measured next pays for itself alone.

        Raises `BenchmarkError` if it still writes after minutes.
        """
        end = time.time() + _QUIET_WITHIN
        await asyncio.sleep(_LOOK_SECONDS)  # the log of what was just seen
        while (now := time.time()) - self.written < _QUIET_SECONDS:
            if now > end:
                raise BenchmarkError(f"the controller still writes after {_QUIET_WITHIN:.0f} s")
            await asyncio.sleep(_LOOK_SECONDS)

    async def settled(self) -> None:
        """Wait until what was called for JobSets has ended. Raises what the first of it raised."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    async def _status(self, name: str, status: Object) -> None:
        await self._client.patch(JOBSETS.path(NAMESPACE, name, "status"), {"status": status})

    async def _follow(self) -> None:
        while True:
            self._tail.read()
            await asyncio.sleep(_LOOK_SECONDS)

    def _notice(self, call: Call) -> None:
        if call.is_write and call.resource not in _ALWAYS_WRITTEN:
            self._progress += call.done
            if call.agent.startswith(self._agent):
                self.written = call.answered
        if call.resource == "jobsets" and call.code == 201 and call.name not in self.jobsets:
            self.jobsets.add(call.name)
            self._call(self.on_jobset, call.name)
        elif call.resource == "trainjobs" and call.done and call.agent.startswith(KUEUE):
            # Before the patch that resumes it, an update says what its pods shall have.
            if self._admitted is not None and call.verb == "patch":
                self._admitted.add(call.name)
        elif call.resource == "jobsets" and call.code == 200 and call.is_write and self._resumes(call):
            self.resumed[call.name] = call.answered
            self._call(self.on_resume, call.name)
        elif call.resource == "pods/status" and call.done and call.agent.startswith(KUBELET):
            self.pods.add(job_of(call.name))
        elif call.resource == "trainjobs/status" and call.done and call.agent.startswith(self._agent):
            self.status_writes[call.name] = call.answered

    def _resumes(self, call: Call) -> bool:
        """Whether this write is the first to a JobSet since Kueue has admitted it."""
        if call.name in self.resumed:
            return False
        if self._admitted is None:
            return call.agent.startswith(KUEUE)
        return call.name in self._admitted and call.agent.startswith(self._agent)

    def _call(self, do: Callable[[str], Awaitable[None]] | None, name: str) -> None:
        if do is not None:
            task = asyncio.create_task(_awaited(do(name)))
            self._tasks.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failures.append(failure)


def job_of(pod: str) -> str:
    """The TrainJob of a pod of its `node` step."""
    return pod.partition("-node-")[0]


def trainjob(
    name: str, *, runtime: str = RUNTIME, nodes: int = 2, queue: str | None = None, **spec: Any
) -> Object:
    """A TrainJob as users write them."""
    labels = {"team": "vision"} if queue is None else {"team": "vision", QUEUE_LABEL: queue}
    trainer = {
        "numNodes": nodes,
        "command": ["torchrun", "/workspace/train.py"],
        "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}},
        "env": [{"name": "EPOCHS", "value": "10"}],
    }
    return {
        "apiVersion": TRAINJOBS.api_version,
        "kind": TRAINJOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": trainer, **spec},
    }


def _jobset(name: str, queue: str | None) -> Object:
    limits = {"nvidia.com/gpu": 8}
    container = {"name": "node", "image": "none", "resources": {"limits": limits, "requests": limits}}
    job = {
        "name": "node",
        "template": {
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        },
    }
    return {
        "apiVersion": JOBSETS.api_version,
        "kind": JOBSETS.kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            **({} if queue is None else {"labels": {QUEUE_LABEL: queue}}),
        },
        "spec": {"replicatedJobs": [job]},
    }


def _counts(**counts: int) -> Object:
    nothing = {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
    return {"name": "node", **nothing, **counts}


async def _awaited(awaitable: Awaitable[object]) -> None:
    await awaitable
