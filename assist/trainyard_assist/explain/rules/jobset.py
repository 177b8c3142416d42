"""Findings about the JobSet and its controller."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.reasons import Reason
from trainyard_operator.core.decide import refusals

from ... import read
from .. import facts
from ..model import Finding, Observation, Subject
from . import kueue
from .finding import finding_of
from .trainjob import with_reported_step

_PATIENCE: Final = 5.0
"""Seconds in which the operator creates a JobSet, and JobSet's controller its Jobs."""
_LOOK_FOR_IT: Final = (
    "have the platform team look for the JobSet controller: kubectl get deployments,pods -A -l "
    "app.kubernetes.io/name=jobset"
)
"""The next step where its Deployment has not been seen: a site's own JobSet may be in any namespace."""


def controller_down(observation: Observation) -> Finding | None:
    """No controller acts on the JobSet, or serves the webhook when a JobSet is created or changed."""
    if is_served(observation):
        return None
    deployment = observation.jobset_controller
    if deployment is not None:
        if read.number(deployment, "status", "availableReplicas") > 0:
            return None
        replicas = read.number(deployment, "spec", "replicas", default=1)
        message = f"it has no available pods (replicas: {replicas})"
        about, within = facts.ref(deployment, "Deployment"), read.text(deployment, "metadata", "namespace")
        return finding_of(observation, Reason.JOBSET_CONTROLLER_DOWN, about, message, namespace=within)
    if observation.jobset is None or _is_touched(observation, observation.jobset):
        return None
    age = facts.age(observation, observation.jobset)
    if age < _PATIENCE:
        return None
    message = f"it was created {age:.0f} s ago, and its controller has not acted on it"
    about = facts.ref(observation.jobset, names.JOBSET)
    finding = finding_of(
        observation, Reason.JOBSET_CONTROLLER_DOWN, about, message, namespace=names.JOBSET_NAMESPACE
    )
    return replace(finding, next_step=" ".join((_LOOK_FOR_IT, *map(shlex.quote, observation.options))))


def not_created(observation: Observation) -> Finding | None:
    """There is no JobSet, though nothing known prevents it."""
    if facts.own_jobset(observation) is not None or Subject.JOBSET in observation.unseen:
        return None
    age = facts.age(observation, observation.trainjob)
    if age < _PATIENCE:
        return None
    message = f"there is no JobSet {age:.0f} s after the TrainJob was created"
    return finding_of(
        observation, Reason.JOBSET_NOT_CREATED, facts.ref(observation.trainjob, names.TRAINJOB), message
    )


def jobs_refused(observation: Observation) -> Finding | None:
    """Admission refused a Job, the Service or a claim of the JobSet."""
    if observation.jobset is None or observation.jobs or read.suspended(observation.jobset):
        return None
    for event in reversed(facts.warnings(observation, observation.jobset, *refusals.JOBSET_EVENTS)):
        about = facts.ref(observation.jobset, names.JOBSET)
        return with_reported_step(
            observation, finding_of(observation, Reason.JOBS_REFUSED, about, read.text(event, "message"))
        )
    return None


def has_failed(observation: Observation) -> Finding | None:
    """The TrainJob has failed with the JobSet's own reason."""
    condition = read.condition(observation.trainjob, names.FAILED)
    reason, message = read.text(condition, "reason"), read.text(condition, "message")
    about = facts.ref(observation.trainjob, names.TRAINJOB)
    if observation.jobset is not None:
        about = facts.ref(observation.jobset, names.JOBSET)
    failures = [f"{reason}: {message}"]
    for job in observation.jobs:
        if failed := read.condition(job, "Failed"):
            failures.append(
                f"Job {read.name(job)}: {read.text(failed, 'reason')}: {read.text(failed, 'message')}"
            )
    return finding_of(
        observation,
        Reason.JOBSET_FAILED,
        about,
        "; ".join(failures[:3]),
        name=about.name,
        namespace=facts.namespace(observation),
    )


def is_served(observation: Observation) -> bool:
    """Whether JobSet's controller has nothing to do for the JobSet, or that cannot be known.

    Without it, nobody resumes a JobSet either: it serves the webhook of that update.
    """
    jobset = observation.jobset
    if jobset is None:
        return Subject.JOBSET in observation.unseen
    if not _is_touched(observation, jobset):
        return False
    if not read.suspended(jobset):
        resumed = bool(observation.jobs) and not any(map(read.suspended, observation.jobs))
        return resumed or Subject.JOBS in observation.unseen
    if facts.queue_of_jobset(observation):
        return kueue.admitted_for(observation) is None
    return read.suspended(observation.trainjob)


def _is_touched(observation: Observation, jobset: Json) -> bool:
    """Whether JobSet's controller has ever acted on the JobSet, or that cannot be known."""
    events = facts.warnings(observation, jobset, *refusals.JOBSET_EVENTS)
    return bool(observation.jobs or events or read.at(jobset, "status")) or Subject.JOBS in observation.unseen
