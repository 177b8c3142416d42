"""The position of a Workload in its queue."""

from __future__ import annotations

from collections.abc import Sequence

from . import read
from .model import Json, QueuePlace


def told(workload: Json, pending: Json, cluster_queue: str) -> QueuePlace | None:
    """The position as Kueue's visibility API reports it (`PendingWorkloadsSummary`, which counts from 0)."""
    for item in read.objects(pending, "items"):
        if read.name(item) == read.name(workload):
            return QueuePlace(
                read.number(item, "positionInClusterQueue") + 1, f"ClusterQueue {cluster_queue}"
            )
    return None


def counted(
    workload: Json, workloads: Sequence[Json], queues: Sequence[Json], *, partial: bool
) -> QueuePlace:
    """The position by priority and age among the Workloads that wait for the same ClusterQueue.

    `partial`: `workloads` are only those of the Workload's own namespace.
    """
    behind = {_place(queue): read.text(queue, "spec", "clusterQueue") for queue in queues}
    wanted = _queue(workload)
    cluster_queue = behind.get(wanted)

    def competes(other: Json) -> bool:
        same = _queue(other) == wanted or (cluster_queue and behind.get(_queue(other)) == cluster_queue)
        return bool(same) and _waits(other)

    before = sum(competes(other) and _order(other) < _order(workload) for other in workloads)
    words = f"ClusterQueue {cluster_queue}" if cluster_queue else f"LocalQueue {wanted[1]}"
    return QueuePlace(before + 1, words, partial)


def _place(of: Json) -> tuple[str, str]:
    return read.text(of, "metadata", "namespace"), read.name(of)


def _queue(workload: Json) -> tuple[str, str]:
    return read.text(workload, "metadata", "namespace"), read.text(workload, "spec", "queueName")


def _waits(workload: Json) -> bool:
    ended = any(read.holds(workload, kind) for kind in ("QuotaReserved", "Finished"))
    return not ended and read.at(workload, "spec", "active") is not False


def _order(workload: Json) -> tuple[int, str, str]:
    created = read.text(workload, "metadata", "creationTimestamp")
    return -read.number(workload, "spec", "priority"), created, read.name(workload)
