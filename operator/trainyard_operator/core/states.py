"""In one word where a TrainJob stands, for the column STATE of `kubectl get trainjobs`: docs/adr/0020.

Called by the controller for each status that it writes, and by the gauges. Trainer's conditions
say nothing while a job starts or runs, and a printer column shows one field.
The word is made of the rest of the status and never read back. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from trainyard_api import names

from . import conditions
from .model import Json, TrainJob

_INITIALIZERS: Final = (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER)


class State(StrEnum):
    """Where a TrainJob stands."""

    PENDING = "Pending"
    """Nothing is known of it yet."""
    QUEUED = "Queued"
    """It is suspended, and Kueue resumes it when there is quota."""
    SUSPENDED = "Suspended"
    BLOCKED = "Blocked"
    """The condition of that name says why."""
    STARTING = "Starting"
    """It has a JobSet, and not all of its pods are ready."""
    INITIALIZING = "Initializing"
    """Its dataset or its model is being fetched."""
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"


def of(job: TrainJob, status: Json) -> State:
    """Where the TrainJob stands if its status is this."""
    current = conditions.of(status)
    for condition, state in (
        (names.COMPLETE, State.COMPLETE),
        (names.FAILED, State.FAILED),
        (names.BLOCKED, State.BLOCKED),
    ):
        if conditions.is_true(current, condition):
            return state
    if conditions.is_true(current, names.SUSPENDED):
        return State.QUEUED if _resumed_by_kueue(job) else State.SUSPENDED
    counts = status.get("jobsStatus")
    return State.PENDING if counts is None else _of_counts(counts)


def _resumed_by_kueue(job: TrainJob) -> bool:
    """Whether Kueue resumes it: it is in a queue, and nobody keeps Kueue from admitting it."""
    return bool(job.labels.get(names.QUEUE_LABEL)) and not job.annotations.get(names.QUEUE_GATES_ANNOTATION)


def _of_counts(counts: list[Json]) -> State:
    active = [count for count in counts if count.get("active")]
    if any(count.get("name") in _INITIALIZERS for count in active):
        return State.INITIALIZING
    is_ready = bool(active) and all(count.get("ready", 0) >= count["active"] for count in active)
    return State.RUNNING if is_ready else State.STARTING


def changed(job: TrainJob, patch: Json | None) -> Json:
    """What to merge into the field of our own so that it is true of the patched status; empty: nothing."""
    state = of(job, {**job.status, **(patch or {})})
    told = (job.status.get(names.STATUS_FIELD) or {}).get("state")
    return {} if state == (told or State.PENDING) else {"state": str(state)}
