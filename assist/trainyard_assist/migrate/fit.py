"""Whether a runtime of the catalog does exactly what a job asks for, and where it differs.

Called by `target`. Knows runtimes, and no kind of job.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.documents import Document
from trainyard_api.errors import FieldPath, InvalidFieldError
from trainyard_api.json_types import Json
from trainyard_operator.core.build import templates

_SPEC: Final = FieldPath("spec")
_LABELS: Final = FieldPath("metadata.labels")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Requirements of a job for a runtime."""

    framework: str
    policy: Json
    """mlPolicy without the number of nodes."""
    beside: Mapping[str, int]
    """Pods of each other ReplicatedJob that runs the trainer's program."""
    success: Json | None
    """successPolicy of the JobSet; with only one ReplicatedJob there is none."""
    program: Set[str]
    """The fields of the container that the TrainJob sets."""
    tokens: Set[str]
    """The ReplicatedJobs whose pods have the token of a service account that the job names."""


def difference(runtime: Document | None, wanted: Wanted) -> str | None:
    """The difference of the runtime, as `which ...`; None if there is none."""
    if runtime is None:
        return "the catalog lacks"
    try:
        return _difference(runtime.value, wanted)
    except InvalidFieldError:
        return "cannot be read"


def _difference(runtime: Json, wanted: Wanted) -> str | None:
    spec = json_reader.mapping(runtime.get("spec"), _SPEC)
    policy = json_reader.mapping(spec.get("mlPolicy"), _SPEC.child("mlPolicy"))
    metadata = json_reader.mapping(runtime.get("metadata"), FieldPath("metadata"))
    framework = json_reader.mapping(metadata.get("labels"), _LABELS).get(names.FRAMEWORK_LABEL)
    by_label = {wanted.framework, framework} & names.FRAMEWORKS_BY_LABEL
    if policy.keys() - {"numNodes"} != wanted.policy.keys() or (by_label and framework != wanted.framework):
        return "is for another framework"
    template = json_reader.mapping(spec.get("template"), _SPEC.child("template"))
    jobset = json_reader.mapping(template.get("spec"), templates.SPEC_PATH)
    jobs = {job["name"]: job for job in templates.checked(jobset, templates.SPEC_PATH)["replicatedJobs"]}
    beside = {name: _pods(job) for name, job in jobs.items() if name != names.NODE}
    if names.NODE not in jobs or beside != wanted.beside:
        return f"has {_listed(beside)} beside its nodes, where the job has {_listed(wanted.beside)}"
    if beside and jobset.get("successPolicy") != wanted.success:
        return "is complete when other pods are"
    containers = {name: templates.container(job, names.NODE) for name, job in jobs.items()}
    if not all(containers.values()):
        return f"has pods without a container {names.NODE}"
    own = {name: _commands(container or {}) for name, container in containers.items()}
    if own.pop(names.NODE) - wanted.program or any(own.values()):
        return "would run a command of its own"
    if wanted.tokens & {name for name, job in jobs.items() if _is_without_token(job)}:
        return "gives its pods no token of the service account that the job names"
    return None


def _is_without_token(job: Json) -> bool:
    """Whether no patch can give the pods a token for the Kubernetes API."""
    return templates.pod_template(job)["spec"].get("automountServiceAccountToken") is False


def _commands(container: Json) -> set[str]:
    return {key for key in ("command", "args") if container.get(key)}


def _pods(job: Json) -> int:
    spec: Any = job["template"]["spec"]
    parallelism = json_reader.integer(spec.get("parallelism"), templates.SPEC_PATH)
    replicas = json_reader.integer(job.get("replicas"), templates.SPEC_PATH)
    return (1 if parallelism is None else parallelism) * (1 if replicas is None else replicas)


def _listed(counts: Mapping[str, int]) -> str:
    return " and ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing"
