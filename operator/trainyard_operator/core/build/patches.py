"""A TrainJob's runtimePatches, and the rules for them that hold for any runtime (Trainer v2.3).

Called by the JobSet plugin's `validate`, and by `validation` where there is no
runtime to look at; `info`, `limits` and the Volcano plugin take the patches
apart with `parts`. Upstream
also has rules against names that the runtime does not know, but validates the
runtime after merging the patches into it, so these rules never apply. They are
left out here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import ErrorType, FieldError, FieldPath

from ..model import JobSet, Json, TrainJob

PATH: Final = FieldPath("spec.runtimePatches")

_TIME: Final = "time"
_GRACE: Final = "terminationGracePeriodSeconds"
_OWN_CONTAINERS: Final = (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER, names.NODE)
"""Containers whose variables are the TrainJob's initializer and trainer."""

_SAYS_NOTHING: Final[Mapping[str, Any]] = {"readOnly": False, "subPath": "", "subPathExpr": "", "value": ""}
"""Values that Kubernetes' types leave out when they are written."""

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_SUBDOMAIN: Final = 253
_SUBDOMAIN_DETAIL: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN.pattern}')"
)
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def validate(job: TrainJob, old: TrainJob | None, jobset: JobSet | None) -> Iterator[FieldError]:
    """The errors of the patches; `old` and `jobset` are what they were and what runs, on an update.

    Raises `InvalidFieldError` for patches that cannot be read.
    """
    patches = _patches(job)
    if old is not None and _without_times(patches) != _without_times(_patches(old)):
        yield from _change_errors(job, old, jobset)
    for position, patch in enumerate(patches):
        yield from _manager_errors(patch)
        yield from _env_errors(patches, patch, PATH.index(position))


def parts(spec: Json, *steps: str) -> Iterator[tuple[Json, FieldPath]]:
    """What each patch of a TrainJob's spec says below these steps of the JobSet template, with its path."""
    for position, patch in enumerate(json_reader.objects(spec.get("runtimePatches"), PATH)):
        yield json_reader.below(patch, PATH.index(position), "trainingRuntimeSpec", "template", *steps)


def only_withdrawn(job: TrainJob, old: TrainJob) -> bool:
    """Whether the patches are those of `old`, or some of them."""
    before = iter(_without_times(_patches(old)))
    return all(patch in before for patch in _without_times(_patches(job)))


def what_is_said(patch: Any) -> Any:
    """A patch, or part of one, as Trainer merges it: what is empty changes nothing.

    Trainer reads a patch into Kubernetes' types and writes it again, and these
    leave out empty lists and the zero values of fields that are not pointers.
    So `tolerations: []` keeps the runtime's, and does not take them away.
    """
    if isinstance(patch, list):
        return [what_is_said(item) for item in patch]
    if isinstance(patch, str) or not isinstance(patch, dict | Mapping):
        return patch
    return {
        name: what_is_said(value)
        for name, value in patch.items()
        if value != [] and not (name in _SAYS_NOTHING and value == _SAYS_NOTHING[name])
    }


def _patches(job: TrainJob) -> Sequence[Json]:
    return json_reader.objects(job.spec.get("runtimePatches"), PATH)


def _without_times(patches: Sequence[Json]) -> list[Any]:
    """The patches without their times, which admission itself sets."""
    return [{name: value for name, value in patch.items() if name != _TIME} for patch in patches]


def _change_errors(job: TrainJob, old: TrainJob, jobset: JobSet | None) -> Iterator[FieldError]:
    """Kueue patches and resumes in one request, hence suspended before or after is enough."""
    if not old.suspended and not job.suspended:
        detail = (
            "RuntimePatches can only be modified when the TrainJob is suspended before or after the update"
        )
        yield FieldError(ErrorType.FORBIDDEN, str(PATH), None, detail)
        return
    for counts in () if jobset is None else jobset.replicated_jobs_status:
        if counts.active > 0:
            detail = (
                "RuntimePatches cannot be modified when the JobSet's ReplicatedJob "
                f"{counts.name} is still active"
            )
            yield FieldError(ErrorType.FORBIDDEN, str(PATH), None, detail)


def _manager_errors(patch: Json) -> Iterator[FieldError]:
    path = PATH.child("manager")
    manager = json_reader.text(patch.get("manager"), path) or ""
    if not manager:
        yield FieldError(ErrorType.REQUIRED, str(path), None)
        return
    host, _, name = manager.partition("/")
    if not host or not name:
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield FieldError(ErrorType.INVALID, str(path), manager, detail)
        return
    if len(host) > _LONGEST_SUBDOMAIN:
        detail = f"must be no more than {_LONGEST_SUBDOMAIN} characters"
        yield FieldError(ErrorType.INVALID, str(path), host, detail)
    if _SUBDOMAIN.fullmatch(host) is None:
        yield FieldError(ErrorType.INVALID, str(path), host, _SUBDOMAIN_DETAIL)
    if _HTTP_PATH.fullmatch(name) is None:
        detail = f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')"
        yield FieldError(ErrorType.INVALID, str(path), name, detail)


def grace_periods(job: TrainJob) -> Iterator[FieldPath]:
    """Where the patches say how long pods may take to end, which Trainer v2.2 does not know."""
    for position, patch in enumerate(_patches(job)):
        for pod, path in _pods(patch, PATH.index(position)):
            if pod.get(_GRACE) is not None:
                yield path.child(_GRACE)


def _pods(patch: Json, path: FieldPath) -> Iterator[tuple[Json, FieldPath]]:
    """The pod specs of a patch, each with its path."""
    spec, path = json_reader.below(patch, path, "trainingRuntimeSpec", "template", "spec")
    path = path.child("replicatedJobs")
    for position, job in enumerate(json_reader.objects(spec.get("replicatedJobs"), path)):
        yield json_reader.below(job, path.index(position), "template", "spec", "template", "spec")


def _env_errors(patches: Sequence[Json], patch: Json, path: FieldPath) -> Iterator[FieldError]:
    for pod, pod_path in _pods(patch, path):
        at = pod_path.child("containers")
        for place, container in enumerate(json_reader.objects(pod.get("containers"), at)):
            if container.get("env") is None:
                continue
            env = json_reader.objects(container.get("env"), at.index(place).child("env"))
            if env and container.get("name") in _OWN_CONTAINERS:
                detail = f"must not have envs for the {', '.join(_OWN_CONTAINERS)} containers"
                yield FieldError(ErrorType.INVALID, str(PATH), patches, detail)
