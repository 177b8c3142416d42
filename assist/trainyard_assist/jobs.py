"""TrainJobs as rows: what runs, what waits and where in its queue, what has ended.

Called by `trainyard jobs`, which reads the cluster with the rights of its
user. It makes no decisions: the operator writes the state into the TrainJob, and `queue_place` finds
the place in a queue. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_operator.core import model
from trainyard_operator.core.build.resources import gpu_count
from trainyard_operator.core.status import display_state
from trainyard_operator.core.status.display_state import State

from . import read
from .queue_place import QueuePlace

RUNNING: Final = frozenset(
    {State.RUNNING, State.INITIALIZING, State.STARTING, State.UNSCHEDULABLE, State.NODE_LOST}
)
"""States of a job that has its pods, or is getting them."""
ENDED: Final = frozenset({State.COMPLETE, State.FAILED})
_LONGEST: Final = 64
"""Characters of a word in the status, which others than the operator may have written."""
_LAST: Final = 2**31
"""The place in a queue if it is unknown."""

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row about a TrainJob."""

    namespace: str
    name: str
    state: str
    """A `State`, or the word of a newer operator."""
    created: datetime
    nodes: str = ""
    """How many are ready, of those that it wants: `3/4`; empty if nobody has counted them."""
    queue: str = ""
    """The LocalQueue that holds it or its JobSet; empty for none."""
    place: QueuePlace | None = None
    """Its place in the queue."""
    gpus: int | None = None
    """GPUs of all its nodes; None if unknown."""
    progress: int | None = None
    """Percent, as the job reports it."""
    ends: datetime | None = None
    """When it will be done, as it reports while it runs."""
    ended: datetime | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and never starts again."""
        return self.state in ENDED

    @property
    def waits(self) -> bool:
        """Whether it waits for quota."""
        return self.state == State.QUEUED


def row(trainjob: Json, workload: Json | None = None, place: QueuePlace | None = None) -> Row:
    """The row of a TrainJob; tolerates anything that is missing.

    Args:
        trainjob: As much of it as is read here.
        workload: Its Workload that has not finished, if it has one.
        place: Where that waits.
    """
    state = _state(trainjob)
    ours = read.at(trainjob, "status", names.STATUS_FIELD)
    nodes = clean(read.text(ours, "nodes"), _LONGEST)
    named = read.texts(trainjob, "metadata", "labels").get(names.QUEUE_LABEL, "")
    return Row(
        namespace=read.text(trainjob, "metadata", "namespace"),
        name=read.name(trainjob),
        state=state,
        created=read.moment(trainjob, "metadata", "creationTimestamp"),
        nodes=nodes,
        queue=clean(read.text(ours, "queue") or named or read.text(workload, "spec", "queueName")),
        place=place if state == State.QUEUED else None,
        gpus=_gpus(trainjob, workload, nodes),
        progress=_progress(trainjob),
        ends=_ends(trainjob) if state == State.RUNNING else None,
        ended=_ended(trainjob) if state in ENDED else None,
    )


def rows(
    trainjobs: Iterable[tuple[Json, Row]],
    workloads: Iterable[Json] = (),
    places: Mapping[Key, QueuePlace] = {},
) -> list[Row]:
    """The row of each: what runs, the oldest first; what waits, by its place; what has ended, the last first.

    Args:
        trainjobs: In any order, each with the row that it has without a Workload.
        workloads: Those of their namespaces, and perhaps others.
        places: Where Workloads wait.
    """
    own = current(workloads)
    listed = []
    for trainjob, bare in trainjobs:
        workload = own.get((bare.namespace, bare.name))
        listed.append(bare if workload is None else row(trainjob, workload, places.get(read.key(workload))))
    return sorted(listed, key=_order)


def current(workloads: Iterable[Json]) -> dict[Key, Json]:
    """By TrainJob: the newest Workload of it or of its JobSet that has not finished."""
    own: dict[Key, Json] = {}
    for workload in sorted(workloads, key=_created):
        owner = next(iter(read.objects(workload, "metadata", "ownerReferences")), {})
        ours = read.text(owner, "kind") in (names.TRAINJOB, names.JOBSET)
        if ours and not read.holds(workload, "Finished"):
            own[read.key(workload)[0], read.text(owner, "name")] = workload
    return own


def _state(trainjob: Json) -> str:
    """The operator's word; without one, as on a MultiKueue manager, what it would say of the status."""
    status = read.at(trainjob, "status")
    status = status if isinstance(status, Mapping) else {}
    word = clean(read.text(status, names.STATUS_FIELD, "state"), _LONGEST)
    return word or str(display_state.of(_as_the_operator_sees_it(trainjob, status), status, None))


def _as_the_operator_sees_it(trainjob: Json, status: Json) -> model.TrainJob:
    namespace, name = read.key(trainjob)
    patches = read.objects(trainjob, "spec", "runtimePatches")
    return model.TrainJob(
        namespace,
        name,
        read.uid(trainjob),
        read.text(trainjob, "metadata", "resourceVersion"),
        read.moment(trainjob, "metadata", "creationTimestamp"),
        {},
        status,
        read.texts(trainjob, "metadata", "labels"),
        read.texts(trainjob, "metadata", "annotations"),
        held_by_kueue=any(patch.get("manager") == names.KUEUES_PATCHES for patch in patches),
    )


def _gpus(trainjob: Json, workload: Json | None, nodes: str) -> int | None:
    """The request of its Workload; without one, the TrainJob's own request, if any."""
    try:
        if (asks := _asks(workload)) is not None:
            return asks
        resources = read.at(trainjob, "spec", "trainer", "resourcesPerNode")
        of_all = _with_resources(trainjob, nodes)
        return gpu_count(resources) * of_all if isinstance(resources, Mapping) and of_all else None
    except (AttributeError, TypeError, ValueError):  # no quantities, which an API server does not let in
        return None


def _with_resources(trainjob: Json, nodes: str) -> int:
    """How many pods have `resourcesPerNode`; 0 if unknown.

    `nodes` also counts a chief and parameter servers, which have their own. A launcher has the same: with one
    node, there are two such pods.
    """
    number = read.number(trainjob, "spec", "trainer", "numNodes", default=0)
    jobs = read.objects(trainjob, "status", "jobsStatus")
    has_launcher = any(job.get("name") == names.LAUNCHER for job in jobs)
    count = nodes.rpartition("/")[2]
    return int(count) if count.isdecimal() and (has_launcher or not number) else number


def _asks(workload: Json | None) -> int | None:
    """The GPUs of all pods of a Workload: those that it got, or would get."""
    assigned = read.objects(workload, "status", "admission", "podSetAssignments")
    waiting = read.objects(workload, "status", "resourceRequests")
    amounts = [read.at(pods, "resourceUsage") for pods in assigned]
    amounts = amounts or [read.at(pods, "resources") for pods in waiting]
    return sum(gpu_count({"requests": amount or {}}) for amount in amounts) if amounts else None


def _progress(trainjob: Json) -> int | None:
    percent = read.at(trainjob, "status", "trainerStatus", "progressPercentage")
    return percent if isinstance(percent, int) else None


def _ends(trainjob: Json) -> datetime | None:
    report = read.at(trainjob, "status", "trainerStatus")
    seconds = read.at(report, "estimatedRemainingSeconds")
    if not isinstance(seconds, int) or not read.text(report, "lastUpdatedTime"):
        return None
    try:
        return read.moment(report, "lastUpdatedTime") + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _ended(trainjob: Json) -> datetime | None:
    kind = names.COMPLETE if read.holds(trainjob, names.COMPLETE) else names.FAILED
    condition = read.condition(trainjob, kind)
    return None if condition is None else read.moment(condition, "lastTransitionTime")


def _created(of: Json) -> str:
    return read.text(of, "metadata", "creationTimestamp")


def _order(of: Row) -> tuple[int, int, float, str, str]:
    group = 0 if of.state in RUNNING else 2 if of.is_over else 1
    # What waits for something else than its turn comes behind.
    turn = (of.place.position if of.place else _LAST - of.waits) if group == 1 else 0
    time = -(of.ended or of.created).timestamp() if of.is_over else of.created.timestamp()
    return group, turn, time, of.namespace, of.name
