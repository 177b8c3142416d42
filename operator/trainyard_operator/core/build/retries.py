"""How often what failed is tried again: what a TrainJob asks for, within what its runtime allows.

Called by the JobSet plugin, `reconcile` and `validation`. The annotation
`trainyard.dev/max-restarts` of a TrainJob takes the place of the runtime's own
numbers: JobSet's `failurePolicy.maxRestarts`, and `backoffLimit` of Jobs whose
pods are replaced one by one. Initializers keep theirs: they fetch data, and
are no attempt to train. JobSet lets neither number change, so the one that a
JobSet was made with is noted on it and counts as long as it exists. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import ErrorType, FieldError, FieldPath, invalid

from ..model import JobSet, Json, TrainJob
from . import templates
from .info import Info

PATH: Final = FieldPath("metadata.annotations").key(names.MAX_RESTARTS_ANNOTATION)
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_SHOWN: Final = 64
_POLICY: Final = templates.SPEC_PATH.child("failurePolicy")
_JOBS: Final = templates.SPEC_PATH.child("replicatedJobs")
_IN_PLACE: Final = "InPlaceRestart"
"""JobSet's strategy that needs a `backoffLimit` without an end."""
_OF_KUBERNETES: Final = 6
"""The `backoffLimit` of a Job that names none."""


def max_restarts(job: TrainJob) -> str | None:
    """The TrainJob's annotation as written; None: the runtime's number applies."""
    return job.annotations.get(names.MAX_RESTARTS_ANNOTATION)


def noted(jobset: JobSet) -> str | None:
    """The TrainJob's number when its JobSet was created."""
    return jobset.annotations.get(names.MAX_RESTARTS_ANNOTATION)


def as_begun(job: TrainJob, jobset: JobSet | None) -> TrainJob:
    """The TrainJob with the number that its JobSet was made with, if it has one."""
    if jobset is None or max_restarts(job) == noted(jobset):
        return job
    others = {name: text for name, text in job.annotations.items() if name != names.MAX_RESTARTS_ANNOTATION}
    text = noted(jobset)
    made_with = {} if text is None else {names.MAX_RESTARTS_ANNOTATION: text}
    return replace(job, annotations=others | made_with)


def limited(info: Info) -> Info:
    """`info` with the TrainJob's number in place of the runtime's, if it asks for one.

    Raises `InvalidFieldError` for what is not a number, or more than the runtime allows.
    """
    text = max_restarts(info.trainjob)
    if text is None:
        return info
    most = _most(info)
    number = int(text) if _NUMBER.fullmatch(text) else None
    if number is None or number > most:
        runtime = f'{info.runtime.kind} "{info.runtime.name}"'
        allowed = f"a whole number from 0 to {most}" if most else "0"
        raise invalid(PATH, text[:_SHOWN], f"must be {allowed}: {runtime} allows no more restarts")
    policy = _policy(info)
    spec = info.spec if policy is None else {**info.spec, "failurePolicy": {**policy, "maxRestarts": number}}
    if _in_place(policy):
        return replace(info, spec=spec)
    train = frozenset(job["name"] for job in _not_initializers(info))
    return replace(info, spec=spec).with_jobs(train, lambda job: _with_backoff(job, number))


def is_new(job: TrainJob, old: TrainJob) -> bool:
    """Whether an update asks for a number that has not been looked at."""
    return max_restarts(job) is not None and max_restarts(job) != max_restarts(old)


def changes(job: TrainJob, old: TrainJob | None, jobset: JobSet | None) -> Iterator[FieldError]:
    """Why an update may not change the number: a JobSet was made with another."""
    if (
        old is None
        or jobset is None
        or max_restarts(job) == max_restarts(old)
        or max_restarts(job) == noted(jobset)
    ):
        return
    text = noted(jobset)
    made = "without it" if text is None else f'with "{text}"'
    detail = (
        f"JobSet {jobset.name} was made {made}, and cannot be changed; leave it as it was, "
        "or send the TrainJob under another name"
    )
    yield FieldError(ErrorType.FORBIDDEN, str(PATH), None, detail)


def _most(info: Info) -> int:
    """The most that the runtime allows: restarts of all Jobs, else of single pods."""
    policy = _policy(info)
    if policy is not None:
        return json_reader.integer(policy.get("maxRestarts"), _POLICY.child("maxRestarts")) or 0
    return max((limit for _, limit in map(_backoff, _not_initializers(info))), default=0)


def _policy(info: Info) -> Json | None:
    return json_reader.optional_mapping(info.spec.get("failurePolicy"), _POLICY)


def _in_place(policy: Json | None) -> bool:
    return policy is not None and policy.get("restartStrategy") == _IN_PLACE


def _not_initializers(info: Info) -> Iterator[Json]:
    return (job for job in info.jobs if templates.ancestor(job) not in names.INITIALIZERS)


def _backoff(job: Json) -> tuple[str, int]:
    """The field that limits how often pods of a ReplicatedJob are replaced, and its value."""
    spec = job["template"]["spec"]
    path = _JOBS.key(job["name"]).child("template", "spec")
    for field in ("backoffLimitPerIndex", "backoffLimit"):
        limit = json_reader.integer(spec.get(field), path.child(field))
        if limit is not None:
            return field, limit
    return "backoffLimit", _OF_KUBERNETES


def _with_backoff(job: Json, most: int) -> Json:
    field, limit = _backoff(job)
    return job if limit <= most else templates.with_job_spec(job, lambda spec: {**spec, field: most})
