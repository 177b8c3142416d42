"""One side under measurement: control plane, controller, driver, and the marks to measure between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from trainyard_api.names import JOBSET, OPERATOR, SYSTEM_NAMESPACE, TRAINJOB, TRAINJOBS
from trainyard_sandbox.paths import PROJECT

from . import audit, companions, controllers, webhooks
from .audit import Call
from .companions import Company
from .controllers import Controller
from .driver import KUBELET, KUEUE, NAMESPACE, Driver, job_of, trainjob
from .errors import BenchmarkError
from .figures import percentile
from .plane import Plane, control_plane

COMPONENTS = ("kube-apiserver", "etcd")
_RUNTIMES = ("torch/torch-distributed", "mpi/mpi-distributed")
_WEBHOOK_SECONDS = 60.0
_WARM_UP = 20
"""TrainJobs before the first measurement: connections are open and caches filled after them."""


@dataclass(frozen=True)
class Side:
    """One side of the comparison.

    Attributes:
        name: As the command line has it.
        title: For people.
        agent: Prefix of its User-Agent.
        start: Makes its controller, not yet running, from the kubeconfig, a folder, and whether the
            API server will call its webhooks; None: there is no controller.
        queue_holds: The kind that Kueue holds in its queues, where there are some.
    """

    name: str
    title: str
    agent: str
    start: Callable[[Path, Path, bool], Controller] | None
    queue_holds: str = TRAINJOB


OURS = Side(
    "ours",
    "Trainyard",
    OPERATOR,
    lambda k, f, w: controllers.ours(k, f, webhooks=w, queue_holds=JOBSET),
    queue_holds=JOBSET,
)
OF_TRAINJOBS = Side(
    "ours-trainjobs",
    "Trainyard, queues of TrainJobs",
    OPERATOR,
    lambda k, f, w: controllers.ours(k, f, webhooks=w),
)
REFERENCE = Side(
    "reference", "Trainer v2.3.0", "trainer-controller", lambda k, f, w: controllers.reference(k, f)
)
FAST = Side(
    "reference-fast",
    "Trainer v2.3.0, QPS 2000",
    "trainer-controller",
    lambda k, f, w: controllers.reference(k, f, qps=2000),
)
NOBODY = Side("nobody", "no operator", "nobody", None)
KUEUE_ALONE = Side("kueue", "Kueue alone, of JobSets", "nobody", None, queue_holds=JOBSET)


def of_checkout(checkout: Path) -> Side:
    """Our operator as another checkout has it, to see what a change gives.

    Raises `BenchmarkError` if the folder is no checkout.
    """
    # Before ADR 30, Kueue could hold nothing but TrainJobs.
    configuration = checkout / "api" / "trainyard_api" / "configuration.py"
    for file in (configuration, checkout / "requirements" / "operator.txt"):
        if not file.is_file():
            inside = file.relative_to(checkout)
            raise BenchmarkError(f"--against {checkout}: must be a checkout of Trainyard; it has no {inside}")
    queue_holds = JOBSET if "queue_holds" in configuration.read_text() else TRAINJOB

    def start(kubeconfig: Path, folder: Path, ask_webhooks: bool) -> Controller:
        return controllers.ours(
            kubeconfig, folder, webhooks=ask_webhooks, checkout=checkout, queue_holds=queue_holds
        )

    return Side("before", f"Trainyard in {checkout.name}", OURS.agent, start, queue_holds)


@dataclass
class Bench:
    """A side that is up and ready to be measured."""

    side: Side
    plane: Plane
    driver: Driver
    controller: Controller | None
    company: Mapping[str, Controller] = field(default_factory=dict)
    """The controllers beside it, by tool."""

    @property
    def running(self) -> Controller:
        """The controller; raises `BenchmarkError` where there is none."""
        if self.controller is None:
            raise BenchmarkError("nobody runs here")
        return self.controller

    @property
    def calls(self) -> Sequence[Call]:
        """The requests to the API server since the mark."""
        return self.plane.tail.calls

    def mark(self) -> dict[str, float]:
        """CPU seconds of each component until now; calls count from here on."""
        self.mark_calls()
        return self._cpu()

    def mark_calls(self) -> None:
        """Calls count from here on."""
        self.plane.tail.reset()

    def used(self, since: dict[str, float]) -> dict[str, float]:
        """CPU seconds of each component since the mark."""
        return {name: now - since[name] for name, now in self._cpu().items()}

    def _cpu(self) -> dict[str, float]:
        seconds = {name: self.plane.cpu(name) for name in COMPONENTS}
        measured = {} if self.controller is None else {"controller": self.controller}
        running = {**measured, **self.company}
        return seconds | {name: controller.cpu for name, controller in running.items()}

    async def warm_up(self) -> None:
        """Have the controller make its first JobSets, unmeasured."""
        names = [f"warm-{number}" for number in range(_WARM_UP)]
        await self.driver.submit(names, suspend=True)
        if self.controller is not None:
            await self.driver.until("warming up", lambda: len(self.driver.status_writes), _WARM_UP)
            await self.driver.quiet()

    def to_jobset(self, names: Sequence[str]) -> dict[str, float]:
        """Seconds from each TrainJob's creation to its JobSet, in milliseconds: p50 and p99."""
        jobs = audit.creation_times(self.calls, TRAINJOBS)
        jobsets = {name: [at] for name, at in audit.creation_times(self.calls, "jobsets").items()}
        starts = {key: jobs[key] for name in names if (key := f"{NAMESPACE}/{name}") in jobs}
        # A JobSet can be there before its user's answer is: then it took no time that the user could see.
        latencies = audit.latencies(
            {key: min(at, *jobsets.get(key, [at])) for key, at in starts.items()}, jobsets
        )
        return _quantiles("creation to JobSet", latencies)

    def to_status(self, changes: dict[str, float]) -> dict[str, float]:
        """The same from the changes to the controller's next write of the TrainJob's status."""
        answers = audit.write_times(self.calls, "trainjobs/status", self.side.agent)
        return _quantiles("JobSet change to status", audit.latencies(changes, answers))

    def to_pod(self, names: Sequence[str]) -> dict[str, float]:
        """From each TrainJob's creation to its first running pod, and how much of that is the operator's.

        The operator's is from the TrainJob's creation to its JobSet's where Kueue holds JobSets. Where it
        holds TrainJobs, it is from Kueue's last word on the TrainJob, which resumes it, to what the operator
        writes next into its JobSet.
        """
        created = audit.creation_times(self.calls, TRAINJOBS)
        running: dict[str, list[float]] = {}
        for pod, times in audit.write_times(self.calls, "pods/status", KUBELET).items():
            running.setdefault(job_of(pod), []).extend(times)
        starts = {key: created[key] for name in names if (key := f"{NAMESPACE}/{name}") in created}
        took = audit.latencies(starts, running)
        begins = starts
        if self.side.queue_holds == TRAINJOB:
            begins = {
                key: max(at for at in times if at < min(running[key]))
                for key, times in audit.write_times(self.calls, TRAINJOBS, KUEUE).items()
                if key in took
            }
        steps = audit.latencies(begins, audit.write_times(self.calls, "jobsets", self.side.agent))
        share = sum(steps.values()) / sum(took.values()) * 100
        return {**_quantiles("creation to running pod", took), "of it the operator's, %": share}


def _quantiles(title: str, seconds: dict[str, float]) -> dict[str, float]:
    values = [value * 1000 for value in seconds.values()]
    return {f"{title}, p{percent}, ms": percentile(values, percent) for percent in (50, 99)}


@asynccontextmanager
async def at_work(side: Side, *, ask_webhooks: bool, company: Company | None) -> AsyncIterator[Bench]:
    """A side on a fresh control plane, warm; with its webhooks asked, or in company."""
    with TemporaryDirectory(prefix="trainyard-bench-") as name, control_plane() as plane, ExitStack() as more:
        beside: Mapping[str, Controller] = {}
        if company is not None:
            beside = more.enter_context(companions.at_work(plane, company, side.queue_holds))
        plane.kubectl("create", "namespace", SYSTEM_NAMESPACE)
        for file in _RUNTIMES:
            plane.kubectl("apply", "--server-side", f"--filename={PROJECT / 'runtimes' / file}.yaml")
        controller = side.start(plane.kubeconfig, Path(name), ask_webhooks) if side.start else None
        try:
            if controller is not None:
                controller.start()
            async with Driver.of(plane.kubeconfig, plane.tail, side.agent, side.queue_holds) as driver:
                if ask_webhooks and controller is not None:
                    await _lead_to(controller, driver, plane)
                bench = Bench(side, plane, driver, controller, beside)
                await bench.warm_up()
                yield bench
        finally:
            if controller is not None:
                controller.stop()


async def _lead_to(controller: Controller, driver: Driver, plane: Plane) -> None:
    """Lead the API server to the controller's webhooks, and wait until it asks them."""
    group = "/apis/admissionregistration.k8s.io/v1/"
    for manifest in webhooks.configurations(controller):
        await driver.create(f"{group}{manifest['kind'].lower()}s", [manifest])
    end = time.monotonic() + _WEBHOOK_SECONDS
    wrong = yaml.safe_dump(trainjob("asks", runtime="nobody-has-made-this-runtime"))
    while True:
        answer = plane.kubectl("create", "--dry-run=server", "--filename=-", stdin=wrong, check=False)
        if "nobody-has-made-this-runtime" in answer.stderr:
            return
        if time.monotonic() > end:
            raise BenchmarkError(f"the webhooks were not asked in time: {answer.stderr}")
        await asyncio.sleep(0.2)
