"""Finished TrainJobs whose retention is over.

Called by the `reaper` with every TrainJob there is; what is decided depends on
nothing else but the settings and the time, so that a restart forgets nothing.
The annotation `trainyard.dev/retention` of a TrainJob takes precedence over the
settings, and excludes it from the count of its namespace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trainyard_api import durations, names

from ..model import TrainJob
from ..status import conditions
from . import reconcile

if TYPE_CHECKING:
    from trainyard_api.configuration import Retention

KEEP: Final = "keep"


@dataclass(frozen=True, slots=True)
class Decision:
    """TrainJobs to delete, the earliest end first, and the time of the next check."""

    delete: tuple[TrainJob, ...] = ()
    next_in: float | None = None
    """Seconds until the next TrainJob is due; None if none will be."""


def decide(jobs: Iterable[TrainJob], policy: Retention, now: datetime) -> Decision:
    """The jobs to delete now.

    Left alone: what has not finished, what is being deleted already, what is
    managed elsewhere (`spec.managedBy`), and what has an annotation that
    cannot be read, as if it said `keep`.
    """
    due: dict[str, tuple[datetime, TrainJob]] = {}
    counted: dict[str, list[tuple[datetime, TrainJob]]] = {}
    waits = []
    for job in jobs:
        ended = finished_at(job)
        if ended is None or job.deleting or not reconcile.is_managed(job):
            continue
        annotation = job.annotations.get(names.RETENTION_ANNOTATION)
        if annotation is None:
            stays = policy.after_finished
            counted.setdefault(job.namespace, []).append((ended, job))
        else:
            stays = lifetime(annotation)
        if stays is None:
            continue
        left = (ended + timedelta(seconds=stays) - now).total_seconds()
        if left <= 0:
            due[job.uid] = (ended, job)
        else:
            waits.append(left)
    if policy.max_finished_per_namespace is not None:
        for group in counted.values():
            group.sort(key=_order, reverse=True)
            due |= {job.uid: (ended, job) for ended, job in group[policy.max_finished_per_namespace :]}
    ordered = sorted(due.values(), key=_order)
    return Decision(tuple(job for _, job in ordered), min(waits, default=None))


def finished_at(job: TrainJob) -> datetime | None:
    """When the TrainJob finished; None if it has not, or does not say when."""
    for kind in (names.COMPLETE, names.FAILED):
        condition = conditions.find(conditions.of(job.status), kind)
        if condition is not None and condition.get("status") == "True":
            try:
                at = conditions.moment(condition["lastTransitionTime"])
            except (KeyError, TypeError, ValueError):
                return None
            return None if at.tzinfo is None else at
    return None


def readable(annotation: str) -> bool:
    """Whether the annotation is valid."""
    return annotation == KEEP or lifetime(annotation) is not None


def lifetime(annotation: str) -> float | None:
    """The seconds that an annotation asks for; None: it is to be kept, or cannot be read."""
    if annotation == KEEP:
        return None
    try:
        return durations.seconds(annotation)
    except ValueError:
        return None


def _order(entry: tuple[datetime, TrainJob]) -> tuple[datetime, str, str]:
    ended, job = entry
    return ended, job.name, job.uid
