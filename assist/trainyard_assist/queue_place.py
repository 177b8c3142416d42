"""The position of a Workload in its queue, who is before it, and who holds the quota that it lacks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.printable import clean

from . import read

NAMED: Final = 3
"""Jobs that are named, at most."""
_LACKS: Final = re.compile(r"insufficient unused quota for (\S{1,253}) in flavor ([^\s,]{1,253})")
"""How Kueue (0.19) says which resource of which flavor it lacks."""
_NOT_QUEUED: Final = ("QuotaReserved", "Finished", "WaitingForReplacementPods")
"""Conditions of a Workload that does not wait for quota."""
_OURS: Final = (names.TRAINJOB, names.JOBSET, "")


@dataclass(frozen=True, slots=True)
class Holder:
    """A job with quota that another job waits for."""

    job: str
    """In words, such as `team-a/my-training`."""
    since: datetime


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The position of a Workload in its queue, counted from 1."""

    position: int
    queue: str
    """In words, such as `ClusterQueue gpus`."""
    partial: bool = False
    """Whether only the Workloads of one namespace could be counted."""
    before: Sequence[str] = ()
    """The first jobs before it, in words, of those that can be seen."""
    holders: Sequence[Holder] = ()
    """The jobs that hold the quota that it lacks, of those that can be seen; the oldest first."""
    only_own: bool = False
    """Whether only the jobs of one namespace could be looked at for that."""
    total: int | None = None
    """How many wait in the queue; None if nobody has counted them."""


def reported_place(workload: Json, pending: Json, cluster_queue: str) -> QueuePlace | None:
    """The position as Kueue's visibility API reports it (`PendingWorkloadsSummary`, which counts from 0)."""
    return reported_places(pending, cluster_queue).get(read.name(workload))


def reported_places(pending: Json, cluster_queue: str) -> dict[str, QueuePlace]:
    """The place of each Workload in the summary, by name."""
    items = sorted(read.objects(pending, "items"), key=_position)
    first = [job(item) for item in items[:NAMED]]
    words = f"ClusterQueue {cluster_queue}"
    return {
        read.name(item): QueuePlace(_position(item) + 1, words, before=tuple(first[:index]))
        for index, item in enumerate(items)
    }


def expected_place(workload: Json, pending: Json, cluster_queue: str) -> QueuePlace:
    """The position of a Workload that is not there yet: behind all of its priority or a higher one.

    Partial, as the summary has only those of one LocalQueue, though their positions count the others.
    """
    priority = read.number(workload, "spec", "priority")
    items = sorted(read.objects(pending, "items"), key=_position)
    before = [item for item in items if read.number(item, "priority") >= priority]
    position = _position(before[-1]) + 2 if before else 1
    words = f"ClusterQueue {cluster_queue}"
    return QueuePlace(position, words, partial=True, before=tuple(job(item) for item in before[:NAMED]))


def counted_place(
    workload: Json, workloads: Sequence[Json], queues: Sequence[Json], *, partial: bool
) -> QueuePlace:
    """The position by priority and age among the Workloads that wait for the same ClusterQueue.

    `partial`: `workloads` are only those of the Workload's own namespace.
    """
    behind = _behind(queues)
    line = _line(workload, behind)
    before = sorted(
        (
            other
            for other in workloads
            if waits(other) and _line(other, behind) == line and _order(other) < _order(workload)
        ),
        key=_order,
    )
    return QueuePlace(len(before) + 1, _words(line), partial, tuple(job(other) for other in before[:NAMED]))


def counted_places(
    workloads: Iterable[Json], queues: Sequence[Json], *, partial: bool
) -> dict[tuple[str, str], QueuePlace]:
    """The place of each pending Workload, by namespace and name, and how many wait with it."""
    behind = _behind(queues)
    lines: defaultdict[tuple[str, ...], list[Json]] = defaultdict(list)
    for workload in workloads:
        if waits(workload):
            lines[_line(workload, behind)].append(workload)
    places = {}
    for line, waiting in lines.items():
        waiting.sort(key=_order)
        words, first = _words(line), [job(workload) for workload in waiting[:NAMED]]
        for index, workload in enumerate(waiting):
            before = tuple(first[:index])
            place = QueuePlace(index + 1, words, partial, before, total=len(waiting))
            places[read.key(workload)] = place
    return places


def with_holders(
    place: QueuePlace, workload: Json, workloads: Sequence[Json], queues: Collection[str], *, only_own: bool
) -> QueuePlace:
    """The place with the jobs that hold what the Workload lacks.

    Args:
        place: Where it stands.
        workload: What waits.
        workloads: All that can be seen.
        queues: The ClusterQueues that share their quota with its own, and that one.
        only_own: Whether `workloads` are only those of the Workload's own namespace.
    """
    message = read.text(read.condition(workload, "QuotaReserved"), "message")
    lacks = set(_LACKS.findall(message))
    holders = [
        Holder(job(other), _since(other))
        for other in workloads
        if _holds(other) and read.text(other, "status", "admission", "clusterQueue") in queues
        # Without Kueue's usual words, whatever is admitted may hold it.
        if not lacks or lacks & _uses(other)
    ]
    ordered = sorted(holders, key=lambda holder: (holder.since, holder.job))
    return replace(place, holders=tuple(ordered), only_own=only_own)


def sharing(cluster_queue: str, queues: Sequence[Json], cohorts: Sequence[Json]) -> frozenset[str]:
    """The ClusterQueues under the same topmost cohort, and the one itself."""
    parents = {read.name(cohort): read.text(cohort, "spec", "parentName") for cohort in cohorts}
    tops = {read.name(queue): _top(read.text(queue, "spec", "cohortName"), parents) for queue in queues}
    top = tops.get(cluster_queue)
    return frozenset({cluster_queue, *(name for name in tops if top and tops[name] == top)})


def _top(cohort: str, parents: Mapping[str, str]) -> str:
    seen: set[str] = set()
    while cohort not in seen and parents.get(cohort):
        seen.add(cohort)
        cohort = parents[cohort]
    return cohort


def job(workload: Json) -> str:
    """The job that a Workload belongs to: `team-a/my-training`, with its kind if it is no TrainJob."""
    owner = next(iter(read.objects(workload, "metadata", "ownerReferences")), {})
    kind = read.text(owner, "kind")
    within, name = read.text(workload, "metadata", "namespace"), read.text(owner, "name")
    named = f"{within}/{name or read.name(workload)}"
    return named if kind in _OURS else f"{kind} {named}"


def _behind(queues: Sequence[Json]) -> dict[tuple[str, str], str]:
    """The ClusterQueue of each LocalQueue."""
    return {read.key(queue): read.text(queue, "spec", "clusterQueue") for queue in queues}


def _line(workload: Json, behind: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """The queue that it waits in: the ClusterQueue, or if unknown, the LocalQueue of its namespace."""
    local_queue = read.local_queue(workload)
    cluster_queue = behind.get(local_queue)
    return (cluster_queue,) if cluster_queue else local_queue


def _words(line: tuple[str, ...]) -> str:
    return f"ClusterQueue {line[0]}" if len(line) == 1 else f"LocalQueue {line[1]}"


def _position(item: Json) -> int:
    return read.number(item, "positionInClusterQueue")


def waits(workload: Json) -> bool:
    """Whether Kueue has a Workload in its queue (0.19: `IsAdmissible`), if only for later (`backoff`)."""
    gated = read.texts(workload, "metadata", "annotations").get(names.QUEUE_GATES_ANNOTATION)
    on_hold = read.text(read.condition(workload, "QuotaReserved"), "reason") == "OnHold"
    if gated or on_hold or read.at(workload, "spec", "active") is False:
        return False
    return not any(read.holds(workload, kind) for kind in _NOT_QUEUED)


def backoff(workload: Json) -> str:
    """When Kueue tries a Workload again that it has evicted, and why not now, in words; empty if it does.

    Until then, others start before it, also in a strict queue.
    """
    requeued = read.condition(workload, "Requeued")
    if read.text(requeued, "status") != "False":
        return ""
    at = read.moment(workload, "status", "requeueState", "requeueAt")
    when = f"at {at:%H:%M} UTC" if read.text(workload, "status", "requeueState", "requeueAt") else "later"
    why = clean(f"{read.text(requeued, 'reason')}: {read.text(requeued, 'message')}")
    return f"Kueue has evicted it, and tries it again {when} ({why})"


def _holds(workload: Json) -> bool:
    return read.holds(workload, "QuotaReserved") and not read.holds(workload, "Finished")


def _uses(workload: Json) -> set[tuple[str, str]]:
    """Resources with their flavors that were assigned to it."""
    return {
        pair
        for pods in read.objects(workload, "status", "admission", "podSetAssignments")
        for pair in read.texts(pods, "flavors").items()
    }


def _since(workload: Json) -> datetime:
    return read.moment(read.condition(workload, "QuotaReserved"), "lastTransitionTime")


def _order(workload: Json) -> tuple[int, str, str]:
    created = read.text(workload, "metadata", "creationTimestamp")
    return -read.number(workload, "spec", "priority"), created, read.name(workload)
