"""What is measured: one function a scenario, from a side at work to its figures.

Each takes a `Bench` that is warm, and numbers that say how much of it; the
names of the figures are those of the tables.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from trainyard_api.names import TRAINJOBS
from trainyard_kube.resources import CONFIGMAPS, SECRETS

from . import audit
from .bench import Bench
from .companions import TOOLS
from .driver import AGENT, NAMESPACE, QUEUE, Object

Figures = dict[str, float]

_SETTLED = 10.0
"""Seconds after it is ready, or has nothing left to do, for which a controller is watched for writes."""


async def burst(bench: Bench, *, sizes: Sequence[int]) -> Figures:
    """Suspended TrainJobs at once up to each size, until each has its JobSet and its first status."""
    figures: Figures = {}
    there = 0
    for size in sizes:
        wave = await _wave(bench, f"wave-{size}", size - there)
        figures |= {f"{size}: {name}": value for name, value in wave.items()}
        there = size
    return figures


async def _wave(bench: Bench, prefix: str, jobs: int) -> Figures:
    """So many suspended TrainJobs at once; leaves a controller that has nothing left to do."""
    names = _names(prefix, jobs)
    mark = bench.mark()
    await _until_status(bench, names, suspend=True)
    used = bench.used(mark)
    start = min(call.received for call in bench.calls if call.agent == AGENT and call.resource == TRAINJOBS)
    status_writes = audit.write_times(bench.calls, "trainjobs/status", bench.side.agent)
    figures = {
        "jobs/s": jobs / (max(status_writes[f"{NAMESPACE}/{name}"][0] for name in names) - start),
        **bench.to_jobset(names),
        **_each(used, jobs),
        "controller memory, MiB": bench.running.memory,
    }
    await bench.driver.quiet()
    return figures


async def steady(bench: Bench, *, rates: Sequence[float], seconds: float) -> Figures:
    """TrainJobs arrive at a rate for some seconds; each JobSet is done half a second after it was made."""
    figures: Figures = {}
    for rate in rates:
        at_rate = await _arriving(bench, rate, round(rate * seconds))
        figures |= {f"{rate:g}/s: {name}": value for name, value in at_rate.items()}
    return figures


async def _arriving(bench: Bench, rate: float, jobs: int) -> Figures:
    names = _names(f"at-{rate:g}", jobs)

    async def finish(name: str) -> None:
        await asyncio.sleep(0.5)
        await bench.driver.complete(name)

    bench.driver.on_jobset = finish
    mark = bench.mark()
    await _until_status(bench, names, rate=rate)
    bench.driver.on_jobset = None
    changes = await _until_told(bench, names)
    used = bench.used(mark)
    figures = {**bench.to_jobset(names), **bench.to_status(changes), **_each(used, jobs)}
    await bench.driver.quiet()
    return figures


async def _until_told(bench: Bench, names: Sequence[str]) -> dict[str, float]:
    """Wait until the controller has written the status of each TrainJob after its JobSet was done.

    Returns when that was, by `namespace/name`.
    """

    def done() -> dict[str, float]:
        times = audit.write_times(bench.calls, "jobsets/status", AGENT)
        return {key: times[key][0] for name in names if (key := f"{NAMESPACE}/{name}") in times}

    driver = bench.driver
    await driver.settled()
    await driver.until("done", lambda: len(done()), len(names))
    changes = done()
    # A fast controller answers a change before the API server has answered who made it.
    sent = audit.sent_times(bench.calls, "jobsets/status", AGENT)
    await driver.until(
        "with a status since",
        lambda: sum(driver.status_writes[name] >= sent[f"{NAMESPACE}/{name}"] for name in names),
        len(names),
    )
    return changes


async def life(bench: Bench, *, jobs: int, rate: float, seconds: float) -> Figures:
    """Whole lives at a rate: created, run for some seconds, completed.

    Where there is no operator, JobSets that were made before take the place of those that it would
    make, so that what is missing is what an operator does.
    """
    names, driver = _names("life", jobs), bench.driver
    over: set[str] = set()

    async def live(name: str) -> None:
        await driver.run(name)
        await asyncio.sleep(seconds)
        await driver.complete(name)
        over.add(name)

    if bench.controller is None:
        await driver.make_jobsets(names)
    else:
        driver.on_jobset = live
    mark = bench.mark()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(driver.submit(names, rate=rate))
        if bench.controller is None:  # at the same time, as where there is an operator
            tasks.create_task(driver.each(names, live, rate=rate))
    await driver.until("over", lambda: len(over), jobs)
    await asyncio.sleep(_SETTLED / 2)  # the last status writes
    used = bench.used(mark)
    figures = _each(used, jobs)
    if bench.controller is not None:
        requests = audit.request_counts(bench.calls, bench.side.agent)
        figures["controller writes a job"] = _writes(requests) / jobs
    return figures


async def end_to_end(bench: Bench, *, jobs: int) -> Figures:
    """TrainJobs of a queue at once, until a pod of each runs."""
    names, running = _names("queued", jobs), bench.driver.pods
    mark = bench.mark()
    await bench.driver.submit(names, nodes=1, queue=QUEUE)
    await bench.driver.until("with a running pod", lambda: sum(name in running for name in names), jobs)
    return {**bench.to_pod(names), **_each(bench.used(mark), jobs)}


async def queue(bench: Bench, *, jobs: int) -> Figures:
    """TrainJobs of a queue at once, each done as soon as it is resumed, until the last is resumed.

    Where there is no operator, users send JobSets to the queue: that is as fast as Kueue is here.
    """
    names, driver = _names("queued", jobs), bench.driver
    driver.on_resume = driver.complete
    mark = bench.mark()
    start = time.time()
    if bench.controller is None:
        await driver.make_jobsets(names, queue=QUEUE)
    else:
        await driver.submit(names, nodes=1, queue=QUEUE)
    await driver.until("resumed", lambda: sum(name in driver.resumed for name in names), jobs)
    await driver.settled()
    used = bench.used(mark)
    rate = jobs / (max(driver.resumed[name] for name in names) - start)
    return {"jobs/s": rate, **_each(used, jobs)}


async def standing(bench: Bench, *, jobs: int, restarts: int, seconds: float) -> Figures:
    """Many suspended TrainJobs: memory and restarts; then all are done, and it idles for some seconds."""
    names, driver = _names("standing", jobs), bench.driver
    await _until_status(bench, names, suspend=True)
    await asyncio.sleep(2.0)  # the last answers are in
    figures = {"controller memory, MiB": bench.running.memory}
    figures["API server memory, MiB"] = bench.plane.memory("kube-apiserver")
    turns = [await _restarted(bench) for _ in range(restarts)]
    figures |= {name: max(turn[name] for turn in turns) for name in turns[0]}
    before = dict(driver.status_writes)
    await driver.each(names, driver.complete)
    await driver.until("done", lambda: sum(driver.status_writes[name] > before[name] for name in names), jobs)
    await asyncio.sleep(_SETTLED)
    mark = bench.mark()
    await asyncio.sleep(seconds)
    used = bench.used(mark)
    return {
        **figures,
        "idle: controller CPU, % of a core": used["controller"] / seconds * 100,
        "idle: writes a minute": _writes(audit.request_counts(bench.calls, bench.side.agent)) / seconds * 60,
        "idle: controller memory, MiB": bench.running.memory,
    }


async def _restarted(bench: Bench) -> Figures:
    bench.running.stop()
    bench.mark_calls()
    ready = await asyncio.to_thread(bench.running.start)
    await asyncio.sleep(_SETTLED)
    requests = audit.request_counts(bench.calls, bench.side.agent)
    return {
        "restart: ready in, s": ready,
        "restart: lists and watches": sum(
            n for request, n in requests.items() if request.startswith(("list", "watch"))
        ),
        "restart: reads of one object": sum(
            n for request, n in requests.items() if request.startswith("get")
        ),
        "restart: writes": _writes(requests),
        "restart: controller CPU, s": bench.running.cpu,
        "restart: controller memory, MiB": bench.running.memory,
    }


async def fairness(bench: Bench, *, jobs: int, nodes: int) -> Figures:
    """Small TrainJobs by themselves, and then behind a giant that was created just before them."""
    alone = await _wave(bench, "alone", jobs)
    await bench.driver.submit(["giant"], suspend=True, runtime="mpi-distributed", nodes=nodes)
    beside = await _wave(bench, "beside", jobs)
    name = "creation to JobSet, p99, ms"
    return {
        f"alone: {name}": alone[name],
        f"beside a giant: {name}": beside[name],
        "times": beside[name] / alone[name],
    }


async def foreign(bench: Bench, *, objects: int, jobs: int) -> Figures:
    """A burst, and the same again among objects that are none of the controller's business."""
    before = await _wave(bench, "before", jobs)
    half = objects // 2
    for resource, kind in ((CONFIGMAPS, "ConfigMap"), (SECRETS, "Secret")):
        manifests = (_foreign(kind, number) for number in range(half))
        await bench.driver.create(resource.path(NAMESPACE), manifests)
    among = await _wave(bench, "among", jobs)
    figures = {f"before: {name}": before[name] for name in ("jobs/s", "controller memory, MiB")}
    return figures | {f"among them: {name}": among[name] for name in ("jobs/s", "controller memory, MiB")}


def _foreign(kind: str, number: int) -> Object:
    data = {"data": {"text": "x" * 500}} if kind == "ConfigMap" else {"stringData": {"text": "x" * 500}}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": f"foreign-{number}"}, **data}


async def _until_status(
    bench: Bench, names: Sequence[str], *, rate: float | None = None, **spec: Any
) -> None:
    """Submit TrainJobs and wait until the controller has written the status of each."""
    await bench.driver.submit(names, rate=rate, **spec)
    status_writes = bench.driver.status_writes
    await bench.driver.until(
        "with a status", lambda: sum(name in status_writes for name in names), len(names)
    )


def _each(used: dict[str, float], jobs: int) -> Figures:
    """CPU for each TrainJob; that of all controllers together, too, where there are others."""
    titles = {
        "kube-apiserver": "API server",
        "etcd": "etcd",
        "controller": "controller",
        "jobset": "JobSet's controller",
        "kueue": "Kueue",
    }
    figures = {f"{titles[name]} CPU a job, ms": seconds / jobs * 1000 for name, seconds in used.items()}
    beside = {name: seconds for name, seconds in used.items() if name in TOOLS}
    if beside:
        together = used.get("controller", 0.0) + sum(beside.values())
        figures["all controllers CPU a job, ms"] = together / jobs * 1000
    return figures


def _writes(requests: Counter[str]) -> int:
    return sum(count for request, count in requests.items() if request.split()[0] in audit.WRITES)


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


Measure = Callable[..., Awaitable[Figures]]
