"""Why a TrainJob does not go on, in words: what is wrong with it, and the next step.

Called by `reconcile`, which decides when which of them is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from . import framework, revisions
from .framework import Plugin
from .model import EventNote, Observed, Rejection, Runtime, TrainJob

_LONGEST_MESSAGE: Final = 1000
"""An Event's message holds 1024 bytes."""

_NEXT_STEPS: Final = {
    "JobSetConflict": "delete it, or create the TrainJob again under another name",
    "JobSetRejected": "correct the runtime or the TrainJob's runtimePatches",
    "Forbidden": "see which admission policy or missing permission of the operator refuses it",
    "QuotaExceeded": "wait for other jobs to end, or have the namespace's ResourceQuota raised",
}
_SERVED_BY: Final = {
    "jobsets.jobset.x-k8s.io": "JobSet",
    "podgroups.scheduling.x-k8s.io": "the coscheduling plugin of scheduler-plugins",
    "podgroups.scheduling.volcano.sh": "Volcano",
}
"""Which installation brings a CRD."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Reason and message of a condition."""

    reason: str
    message: str


OVERDUE: Final = Cause("DeadlineExceeded", "TrainJob exceeded its active deadline")


def unsupported(job: TrainJob) -> Cause:
    """The runtime is of a kind that nobody serves."""
    group, kind, _ = revisions.reference(job)
    return Cause("TrainingRuntimeNotSupported", f"unsupported runtime: {kind}.{group}")


def runtime_missing(job: TrainJob) -> Cause:
    """There is no such runtime."""
    message = (
        f"{_reference(job)} is not found; create it, or create the TrainJob again with another runtimeRef"
    )
    return Cause("RuntimeNotFound", message)


def runtime_invalid(runtime: Runtime, what: str) -> Cause:
    """No JobSet can be built from the runtime."""
    where = f'{runtime.kind} "{runtime.name}"'
    step = "correct the runtime or the TrainJob"
    return Cause("RuntimeInvalid", _worded(f"no JobSet can be built from {where}: {what}", step))


def policy_unsupported(runtime: Runtime, what: str, using: Sequence[Plugin]) -> Cause:
    """The runtime has a policy that no plugin implements."""
    known = ", ".join(sorted(framework.implemented("mlPolicy", using)))
    message = _worded(f'{runtime.kind} "{runtime.name}": {what}', f"use a runtime with one of: {known}")
    return Cause("MLPolicyNotSupported", message)


def foreign(kind: str, name: str) -> Cause:
    """An object of the name that a child is to have belongs to somebody else."""
    message = f'{kind} "{name}" exists and belongs to another owner'
    return Cause("JobSetConflict", _worded(message, _NEXT_STEPS["JobSetConflict"]))


def rejected(rejection: Rejection) -> Cause:
    """The API server does not take what is written."""
    if rejection.reason == "CRDMissing":
        what = _SERVED_BY.get(rejection.resource, "what serves it")
        step = f"install {what}, or have the platform team do so"
    else:
        step = _NEXT_STEPS.get(rejection.reason, "see the operator's log")
    return Cause(rejection.reason, _worded(rejection.message, step))


def revision_lost(observed: Observed) -> tuple[EventNote, ...]:
    """The Event for a JobSet that is built from another runtime than the TrainJob began with."""
    if not observed.runtime_revision_lost:
        return ()
    message = (
        f"{_reference(observed.trainjob)} has changed since the TrainJob began, and its earlier content "
        "is not kept any more; the JobSet is built from the present one"
    )
    return (EventNote("Warning", "RuntimeRevisionLost", message),)


def _reference(job: TrainJob) -> str:
    _, kind, name = revisions.reference(job)
    return f'{kind} "{name}"'


def _worded(what: str, step: str) -> str:
    """The sentence with the next step at its end, whatever must be cut before."""
    room = _LONGEST_MESSAGE - len(step) - 5
    return f"{what if len(what) <= room else what[:room] + '...'}; {step}"
