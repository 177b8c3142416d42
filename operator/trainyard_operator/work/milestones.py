"""How long TrainJobs take to reach milestones, as the controller's writes show it.

Each milestone of a TrainJob is counted by the replica that leads when it is
reached, and once while that replica runs; what the TrainJob's status says
already was counted before. Pods that run are not watched: `running` is when the
JobSet first says that one of its Jobs is ready (all its pods are) or has ended,
as late as the status is written.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from trainyard_api import names

from ..core import model
from ..core.status import conditions
from ..metrics import Metrics
from .memory import Memory

_RAN: Final = ("ready", "succeeded", "failed")
_ENDS: Final = ((names.COMPLETE, "complete"), (names.FAILED, "failed"))


class Milestones:
    """Tells the metrics of each milestone that a TrainJob reaches."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def wrote(self, memory: Memory, job: model.TrainJob, write: model.Write, now: datetime) -> None:
        """A write of the TrainJob's plan was carried out."""
        creates = isinstance(write, model.Create) and write.manifest["kind"] == names.JOBSET
        if creates and not _had_jobset_or_waits(job.status):
            self._reach(memory, job, "jobset", now)

    def wrote_status(self, memory: Memory, job: model.TrainJob, status: model.Json, now: datetime) -> None:
        """These fields of its status were written."""
        if _ran(status) and not _ran(job.status):
            self._reach(memory, job, "running", now)
        after = status.get("conditions") or ()
        for type_, milestone in _ENDS:
            if conditions.is_true(after, type_) and not conditions.is_true(conditions.of(job.status), type_):
                self._reach(memory, job, milestone, now)

    def _reach(self, memory: Memory, job: model.TrainJob, milestone: str, now: datetime) -> None:
        if milestone in memory.milestones:
            return
        memory.milestones |= {milestone}
        took = (now - job.created).total_seconds()
        self._metrics.trainjob_seconds.labels(milestone).observe(max(0.0, took))


def _had_jobset_or_waits(status: model.Json) -> bool:
    """Whether its JobSet is recreated, or was late because the TrainJob was blocked."""
    return "jobsStatus" in status or conditions.is_true(conditions.of(status), names.BLOCKED)


def _ran(status: model.Json) -> bool:
    return any(counts.get(field) for counts in status.get("jobsStatus") or () for field in _RAN)
