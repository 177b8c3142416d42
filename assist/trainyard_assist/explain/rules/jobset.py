"""What the JobSet and its controller show."""

from __future__ import annotations

from typing import Final

from trainyard_api import names
from trainyard_api.reasons import Reason
from trainyard_operator.core import refusals

from .. import read
from ..model import Finding, Observation, Subject
from .found import found
from .trainjob import stepped

_PATIENCE: Final = 5.0
"""Seconds in which the operator creates a JobSet, and JobSet's controller its Jobs."""
_REFUSALS: Final = ("JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed")
_NAMESPACE: Final = "jobset-system"


def controller_down(o: Observation) -> Finding | None:
    """No controller creates the JobSet's Jobs, or serves the webhook when a JobSet is created."""
    if is_served(o):
        return None
    seen = o.jobset_controller
    if seen is not None:
        if read.number(seen, "status", "availableReplicas") > 0:
            return None
        wanted = read.number(seen, "spec", "replicas", default=1)
        message = f"it has no available pods, of {wanted} wanted"
        about, within = read.ref(seen, "Deployment"), read.text(seen, "metadata", "namespace")
        return found(o, Reason.JOBSET_CONTROLLER_DOWN, about, message, namespace=within)
    if o.jobset is None or read.age(o, o.jobset) < _PATIENCE:
        return None
    message = f"it was created {read.age(o, o.jobset):.0f} s ago, and its controller has not acted on it"
    about = read.ref(o.jobset, names.JOBSET)
    return found(o, Reason.JOBSET_CONTROLLER_DOWN, about, message, namespace=_NAMESPACE)


def not_created(o: Observation) -> Finding | None:
    """There is no JobSet, though nothing known prevents it."""
    if read.own_jobset(o) is not None or Subject.JOBSET in o.unseen:
        return None
    if read.age(o, o.trainjob) < _PATIENCE:
        return None
    message = f"there is no JobSet {read.age(o, o.trainjob):.0f} s after the TrainJob was created"
    return found(o, Reason.JOBSET_NOT_CREATED, read.ref(o.trainjob, names.TRAINJOB), message)


def jobs_refused(o: Observation) -> Finding | None:
    """Admission refused a Job, the Service or a claim of the JobSet."""
    if o.jobset is None or o.jobs or read.suspended(o.jobset):
        return None
    for event in reversed(read.warnings(o, o.jobset, *refusals.JOBSET_EVENTS)):
        about = read.ref(o.jobset, names.JOBSET)
        return stepped(o, found(o, Reason.JOBS_REFUSED, about, read.text(event, "message")))
    return None


def has_failed(o: Observation) -> Finding | None:
    """The TrainJob has failed with the JobSet's own reason."""
    condition = read.condition(o.trainjob, names.FAILED)
    reason, message = read.text(condition, "reason"), read.text(condition, "message")
    about = read.ref(o.trainjob, names.TRAINJOB)
    if o.jobset is not None:
        about = read.ref(o.jobset, names.JOBSET)
    said = [f"{reason}: {message}"]
    for job in o.jobs:
        if failed := read.condition(job, "Failed"):
            said.append(
                f"Job {read.name(job)}: {read.text(failed, 'reason')}: {read.text(failed, 'message')}"
            )
    return found(
        o, Reason.JOBSET_FAILED, about, "; ".join(said[:3]), name=about.name, namespace=read.namespace(o)
    )


def is_served(o: Observation) -> bool:
    """Whether JobSet's controller has acted on the JobSet, or that cannot be known."""
    if o.jobset is None:
        return Subject.JOBSET in o.unseen
    said = read.warnings(o, o.jobset, *refusals.JOBSET_EVENTS)
    return bool(o.jobs or said or read.at(o.jobset, "status")) or Subject.JOBS in o.unseen
