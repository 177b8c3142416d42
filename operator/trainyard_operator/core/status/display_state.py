"""Where a TrainJob stands, for the columns of `kubectl get trainjobs` that Trainyard adds: docs/adr/0020.

Called by the controller for each status that it writes, and by the gauges. Trainer's conditions
say nothing while a job starts or runs, and a printer column shows one field.
The state follows from the rest of the status, and from what the pods show while the job starts. It is
read back only if nobody has looked at the pods yet. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from trainyard_api import names
from trainyard_api.reasons import Reason

from ..model import JobSet, Json, TrainJob
from . import conditions, pod_readiness


class State(StrEnum):
    """Where a TrainJob stands."""

    PENDING = "Pending"
    """Nothing is known of it yet."""
    QUEUED = "Queued"
    """It, or its JobSet, is suspended, and Kueue resumes it when there is quota."""
    SUSPENDED = "Suspended"
    BLOCKED = "Blocked"
    """The condition of that name says why."""
    STARTING = "Starting"
    """It has a JobSet, and not all of its pods are ready."""
    UNSCHEDULABLE = pod_readiness.UNSCHEDULABLE
    """A pod of it fits no node."""
    NODE_LOST = Reason.NODE_LOST
    """A pod of it ran on a node that does not answer any more."""
    INITIALIZING = "Initializing"
    """Its dataset or its model is being fetched."""
    RUNNING = "Running"
    COMPLETE = names.COMPLETE
    FAILED = names.FAILED


def of(job: TrainJob, status: Json, jobset: JobSet | None, seen: pod_readiness.Nodes | None = None) -> State:
    """Where the TrainJob stands if its status is this.

    Args:
        job: The TrainJob.
        status: Its status, as it is or will be.
        jobset: Its JobSet; None: it has none.
        seen: What its pods have shown since it began to start; None: nobody has looked.
    """
    state = _of(job, status, jobset)
    if not _starts(state, status):
        return state
    if seen is not None and jobset is not None and 0 < jobset.nodes <= seen.ready:
        return State.RUNNING  # JobSet's controller has not counted them yet.
    return _shown_by_pods(job, seen) or state


def is_starting(job: TrainJob, status: Json, jobset: JobSet | None) -> bool:
    """Whether it has pods that are not all ready, so that a look at them tells more than the counts."""
    return _starts(_of(job, status, jobset), status)


def _starts(state: State, status: Json) -> bool:
    return state in (State.STARTING, State.INITIALIZING) and has_unready(status["jobsStatus"])


def _of(job: TrainJob, status: Json, jobset: JobSet | None) -> State:
    current = conditions.of(status)
    for state in (State.COMPLETE, State.FAILED):
        if conditions.is_true(current, state):
            return state
    if conditions.is_true(current, names.BLOCKED) and not _says_only_what_it_waits_for(current):
        return State.BLOCKED
    if conditions.is_true(current, names.SUSPENDED):
        return State.QUEUED if resumed_by_kueue(job, jobset) else State.SUSPENDED
    if jobset is not None and jobset.queue and jobset.suspend:
        return State.QUEUED
    counts = status.get("jobsStatus")
    return State.PENDING if counts is None else _of_counts(counts)


def resumed_by_kueue(job: TrainJob, jobset: JobSet | None) -> bool:
    """Whether Kueue holds the TrainJob itself, and resumes it: its user has not sent it suspended.

    It stays in its queue while others keep Kueue from admitting it, as one does whose quota is in use.
    """
    holds_jobset = jobset is not None and bool(jobset.queue)
    in_queue = job.held_by_kueue and bool(job.labels.get(names.QUEUE_LABEL)) and not holds_jobset
    gates = job.annotations.get(names.QUEUE_GATES_ANNOTATION, "").split(",")
    return in_queue and names.SENT_SUSPENDED not in gates


def _shown_by_pods(job: TrainJob, seen: pod_readiness.Nodes | None) -> State | None:
    """What only its pods tell; until somebody has looked, what was told of them last."""
    if seen is None:
        recorded = _recorded(job).get("state")
        return next((state for state in (State.UNSCHEDULABLE, State.NODE_LOST) if state == recorded), None)
    if seen.unschedulable:
        return State.UNSCHEDULABLE
    return State.NODE_LOST if seen.lost else None


def _says_only_what_it_waits_for(current: conditions.Conditions) -> bool:
    """Whether its pods have their nodes, and are tried again by themselves: it starts still."""
    blocked = conditions.find(current, names.BLOCKED) or {}
    return blocked.get("reason") in pod_readiness.REASONS


def has_unready(counts: Sequence[Json]) -> bool:
    """Whether a Job among these counts has pods that are not ready."""
    return any(count.get("ready", 0) < count.get("active", 0) for count in counts)


def _of_counts(counts: Sequence[Json]) -> State:
    active = [count for count in counts if count.get("active")]
    if any(count.get("name") in names.INITIALIZERS for count in active):
        return State.INITIALIZING
    return State.RUNNING if active and not has_unready(counts) else State.STARTING


def _recorded(job: TrainJob) -> Json:
    return job.status.get(names.STATUS_FIELD) or {}


def changed(
    job: TrainJob, patch: Json | None, jobset: JobSet | None = None, seen: pod_readiness.Nodes | None = None
) -> Json:
    """What to merge into our own field so that it matches the patched status; empty: nothing.

    Args:
        job: The TrainJob.
        patch: The fields of its status that change otherwise.
        jobset: Its JobSet; None: it has none. Nodes are reported once its controller has counted it.
        seen: See `of`.
    """
    ours, status = _recorded(job), {**job.status, **(patch or {})}
    state = of(job, status, jobset, seen)
    counted = jobset if status.get("jobsStatus") is not None else None
    values = {
        "state": str(state),
        "nodes": _nodes(state, ours, counted, seen, starts=is_starting(job, status, jobset)),
        "queue": _queue(job, state, ours, jobset),
    }
    before = {**ours, "state": ours.get("state") or State.PENDING}
    return {name: value for name, value in values.items() if value != before.get(name)}


def _queue(job: TrainJob, state: State, ours: Json, jobset: JobSet | None) -> str | None:
    """The LocalQueue that holds it or its JobSet; None for none, or if it is unknown."""
    if state is State.PENDING:
        return ours.get("queue")
    named = job.labels.get(names.QUEUE_LABEL) or ours.get("queue")
    return named if jobset is None else jobset.queue or named


def _nodes(
    state: State, ours: Json, jobset: JobSet | None, seen: pod_readiness.Nodes | None, *, starts: bool
) -> str | None:
    """Nodes that are ready, of those that it wants; None once it has ended.

    Until somebody has looked at its pods, as recorded: also if it ran, and one of them is no longer ready.
    """
    if state in (State.COMPLETE, State.FAILED):
        return None
    if jobset is None or not jobset.nodes:
        return ours.get("nodes")
    before = ours.get("state")
    stays = before == state or (before == State.RUNNING and starts)
    if seen is None and stays and str(ours.get("nodes")).endswith(f"/{jobset.nodes}"):
        return str(ours["nodes"])
    ready = jobset.nodes if state is State.RUNNING else 0 if seen is None else seen.ready
    return f"{ready}/{jobset.nodes}"
