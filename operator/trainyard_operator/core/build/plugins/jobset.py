"""JobSet: the one child that every TrainJob has, and what it says about the TrainJob.

Follows plugin `JobSet` of Trainer v2.3: Kueue computes the same JobSet by
itself, so names, order and counts of the ReplicatedJobs must not differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from trainyard_api import json_reader, names, runtime_ref
from trainyard_api.errors import FieldError, FieldPath, required

from ...model import Condition, JobSet, Json, TrainJob
from .. import patches, resources, retries, templates
from ..info import Child, Info
from . import owned, program

_INITIALIZERS: Final = {names.DATASET_INITIALIZER: "dataset", names.MODEL_INITIALIZER: "model"}
"""By ancestor label, which is also the container's name: the field in `spec.initializer`."""
_URI: Final = "STORAGE_URI"
_CACHE_SCHEME: Final = "cache://"
_TERMINAL: Final = {names.JOBSET_COMPLETED: names.COMPLETE, names.JOBSET_FAILED: names.FAILED}


class JobSetPlugin:
    """Builds the JobSet of a TrainJob."""

    name = "jobset"
    implements: frozenset[str] = frozenset()

    def validate(self, info: Info, old: TrainJob | None, jobset: JobSet | None) -> Sequence[FieldError]:
        """Initializers for which the runtime has no place, and what runtimePatches may not do."""
        errors = (error for which in _INITIALIZERS for error in _initializer_errors(info, which))
        return (*errors, *patches.validate(info.trainjob, old, jobset))

    def warnings(self, info: Info) -> Sequence[str]:
        """Warnings about a request and a limit of a node that Kubernetes refuses together."""
        return tuple(resources.contradictions(info))

    def identify_network(self, info: Info) -> Info:
        """`info` with the subdomain: the template's own, else the JobSet's name; none without DNS names."""
        network = json_reader.mapping(info.spec.get("network"), templates.SPEC_PATH.child("network"))
        if network.get("enableDNSHostnames") is False and not info.settings.as_trainer_builds:
            return info
        return replace(info, subdomain=network.get("subdomain") or info.trainjob.name)

    def build(self, info: Info) -> Sequence[Child]:
        """The JobSet.

        Raises `InvalidFieldError` if the runtime has no place for `spec.trainer`, or allows fewer retries.
        """
        info = retries.limited(info)
        if info.trainer is not None:
            _require_trainer(info)
        metadata = owned.metadata(info.trainjob)
        if info.labels:
            metadata["labels"] = dict(info.labels)
        if info.annotations:
            metadata["annotations"] = dict(info.annotations)
        steps = {templates.ancestor(job) for job in info.jobs}
        edits = {
            step: _initializer_edit(info.trainjob, field)
            for step, field in _INITIALIZERS.items()
            if step in steps
        }
        if names.ANCESTOR_TRAINER in steps:
            edits[names.ANCESTOR_TRAINER] = program.edit(info)
        jobs = [
            _replicated_job(job, pods.count, edits)
            for job, pods in zip(info.jobs, info.pod_sets, strict=True)
        ]
        suspend = json_reader.boolean(info.trainjob.spec.get("suspend"), FieldPath("spec.suspend"))
        manifest = {
            "apiVersion": names.JOBSET_API_VERSION,
            "kind": names.JOBSET,
            "metadata": metadata,
            "spec": {**info.spec, "replicatedJobs": jobs, "suspend": suspend},
        }
        return (Child(manifest),)


def terminal_of(jobset: JobSet) -> Condition | None:
    """The condition of its TrainJob that says how the JobSet has ended; None until it has."""
    ended = {condition.type: condition for condition in jobset.conditions if condition.status == "True"}
    for type_, own in _TERMINAL.items():
        if (condition := ended.get(type_)) is not None:
            return replace(condition, type=own)
    return None


def has_ended(jobset: JobSet) -> bool:
    """Whether the JobSet has completed or failed."""
    return any(condition.type in _TERMINAL and condition.status == "True" for condition in jobset.conditions)


def counts_of(jobset: JobSet) -> tuple[Json, ...]:
    """The JobSet's counts, as they stand in its TrainJob's `jobsStatus`."""
    return tuple(
        {
            "name": counts.name,
            "ready": counts.ready,
            "succeeded": counts.succeeded,
            "failed": counts.failed,
            "active": counts.active,
            "suspended": counts.suspended,
        }
        for counts in jobset.replicated_jobs_status
    )


def _initializer_errors(info: Info, name: str) -> Iterator[FieldError]:
    """By the ReplicatedJob's name, though the JobSet is built by label: as in Trainer v2.3."""
    path = FieldPath("spec.initializer")
    field = _INITIALIZERS[name]
    initializer = json_reader.mapping(info.trainjob.spec.get("initializer"), path)
    path = path.child(field)
    download = json_reader.optional_mapping(initializer.get(field), path)
    if download is None:
        return
    uri = json_reader.text(download.get("storageUri"), path.child("storageUri"))
    job = next((job for job in info.jobs if job["name"] == name), None)
    detail = _initializer_problem(job, name, field, uri)
    if detail:
        yield runtime_ref.refused(info.trainjob.spec, detail)


def _initializer_problem(job: Json | None, name: str, field: str, uri: str | None) -> str:
    if job is None:
        return f"must have {name} job when trainJob is configured with input {field}Config"
    pods = templates.pod_template(job)["spec"]
    if not any(c["name"] == name for c in (*pods.get("initContainers", ()), *pods.get("containers", ()))):
        return f"must have container with name - {name} in the {name} job"
    volume = names.INITIALIZER_VOLUME
    container = templates.container(job, name) or {}
    if not _is_cached(container, uri) and not any(
        mount.get("name") == volume for mount in container.get("volumeMounts") or ()
    ):
        return f"must have volumeMount with name - {volume} in container {name} of the {name} job"
    return ""


def _is_cached(container: Json, uri: str | None) -> bool:
    """Whether the data goes into a cache of its own and so needs no volume.

    Trainer v2.3 still requires the volume, and refuses its own runtime with a cache.
    """
    uris = [variable.get("value") for variable in container.get("env") or () if variable["name"] == _URI]
    return str(uri if uri is not None else next(iter(uris), "")).startswith(_CACHE_SCHEME)


def _require_trainer(info: Info) -> None:
    path = templates.SPEC_PATH.child("replicatedJobs")
    trainers = [
        (i, job) for i, job in enumerate(info.jobs) if templates.ancestor(job) == names.ANCESTOR_TRAINER
    ]
    if not trainers:
        label = f"{names.ANCESTOR_LABEL}: {names.ANCESTOR_TRAINER}"
        raise required(
            path, f"one job template must have the label {label}, because the TrainJob sets spec.trainer"
        )
    for position, job in trainers:
        if templates.container(job, names.NODE) is None:
            where = path.index(position).child("template", "spec", "template", "spec", "containers")
            raise required(
                where, f"must have the container {names.NODE}, because the TrainJob sets spec.trainer"
            )


def _replicated_job(job: Json, count: int, edits: Mapping[str, templates.Edit]) -> Json:
    ancestor = templates.ancestor(job)
    if ancestor is not None and ancestor in edits:
        container = names.NODE if ancestor == names.ANCESTOR_TRAINER else ancestor
        job = templates.with_container({**job, "replicas": 1}, container, edits[ancestor])
    return templates.with_job_spec(job, lambda spec: {**spec, "parallelism": count, "completions": count})


def _initializer_edit(trainjob: TrainJob, which: str) -> templates.Edit:
    """Changes of the TrainJob's initializer to its container."""
    path = FieldPath("spec.initializer")
    initializer = json_reader.mapping(trainjob.spec.get("initializer"), path)
    path = path.child(which)
    download = json_reader.mapping(initializer.get(which), path)
    uri = json_reader.text(download.get("storageUri"), path.child("storageUri"))
    env = list(templates.environment(download.get("env"), path.child("env")))
    if uri is not None:
        env.insert(0, {"name": _URI, "value": uri})
    secret = json_reader.optional_mapping(download.get("secretRef"), path.child("secretRef"))

    def edit(container: Json) -> Json:
        edited = templates.with_env(container, env)
        if secret is None:
            return edited
        sources = [*(container.get("envFrom") or ()), {"secretRef": {"name": secret.get("name", "")}}]
        return {**edited, "envFrom": sources}

    return edit
