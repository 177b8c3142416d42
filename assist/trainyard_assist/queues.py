"""LocalQueues as `trainyard queue` prints them: quota, what is used of it, and what becomes of who waits.

Called by `trainyard queue`, and by `trainyard nodes` where nodes cannot be
seen. The place in a queue is that of `queue_place`, the forecast that of
`quota`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trainyard_api.json_types import Json
from trainyard_api.printable import clean

from . import queue_place, quota, read
from .queue_place import QueuePlace
from .quota.model import Answer, Job, Queue, State, Verdict
from .quota.read import closed, job_of

FORECASTS: Final = 64
"""Jobs of a queue whose forecast is made, the next ones."""
_LAST: Final = 2**31

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits in a LocalQueue."""

    name: str
    """The job's, with its kind if it is no TrainJob."""
    priority: int
    created: datetime
    place: QueuePlace | None
    verdict: Verdict | None
    """None behind the first so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A LocalQueue, and the ClusterQueue behind it."""

    namespace: str
    name: str
    cluster_queue: str
    queue: Queue | None = None
    """None if it cannot be seen."""
    closed: str = ""
    """Why it admits nothing, in words."""
    running: int = 0
    """Jobs of this LocalQueue that have quota."""
    lines: Sequence[quota.Line] = ()
    waiting: Sequence[Waiting] = ()
    waits: int = 0
    """How many wait; if they cannot be seen, as it says itself."""


def doors(
    local_queues: Iterable[Json],
    workloads: Sequence[Json] | None,
    state: State,
    places: Mapping[Key, QueuePlace],
) -> list[Door]:
    """The LocalQueues by name.

    Args:
        local_queues: Which.
        workloads: Those of their namespaces, and perhaps others; None if they cannot be seen.
        state: The quota behind them.
        places: Where Workloads wait.
    """
    inside: dict[Key, list[Json]] = {}
    for workload in workloads or ():
        if queue_place.waits(workload):
            inside.setdefault(read.local_queue(workload), []).append(workload)
    listed = []
    for local_queue in sorted(local_queues, key=read.key):
        namespace, name = read.key(local_queue)
        behind = read.text(local_queue, "spec", "clusterQueue")
        queue = state.queues.get(behind)
        its = inside.get((namespace, name), ())
        counted = read.number(local_queue, "status", "pendingWorkloads")
        listed.append(
            Door(
                namespace=namespace,
                name=name,
                cluster_queue=behind,
                queue=queue,
                closed=closed(local_queue) or ("" if queue is None else queue.closed),
                running=read.number(local_queue, "status", "reservingWorkloads"),
                lines=quota.lines(state, behind),
                waiting=_waiting(local_queue, its, state, places),
                waits=counted if workloads is None else len(its),
            )
        )
    return listed


def _waiting(
    local_queue: Json, workloads: Sequence[Json], state: State, places: Mapping[Key, QueuePlace]
) -> list[Waiting]:
    def turn(workload: Json) -> tuple[int, str, str]:
        place = places.get(read.key(workload))
        created = read.text(workload, "metadata", "creationTimestamp")
        return _LAST if place is None else place.position, created, read.name(workload)

    waiting = []
    for index, workload in enumerate(sorted(workloads, key=turn)):
        job = job_of(workload, local_queue)
        waiting.append(
            Waiting(
                name=queue_place.job(workload).replace(f"{read.key(local_queue)[0]}/", "", 1),
                priority=job.priority,
                created=read.moment(workload, "metadata", "creationTimestamp"),
                place=places.get(read.key(workload)),
                verdict=_verdict(workload, job, state) if index < FORECASTS else None,
            )
        )
    return waiting


def _verdict(workload: Json, job: Job, state: State) -> Verdict:
    """The forecast; Kueue's words where it did not admit what its quota would hold."""
    verdict = quota.forecast(state, job)
    message = read.text(read.condition(workload, "QuotaReserved"), "message")
    if verdict.answer is Answer.STARTS and message:
        return Verdict(answer=Answer.WAITS, why=clean(message), sure=verdict.sure)
    return verdict
