"""The Jobs that a TrainJob would get, for the API server to judge in a dry run.

JobSet creates the Jobs once a queue has given the TrainJob its quota.
Kubernetes refuses an invalid Job again and again while the TrainJob holds its
quota. So the webhook has the Jobs judged when a TrainJob or a runtime is sent.
This module builds these Jobs and reads the answers; `trials` asks. Values in,
values out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from trainyard_api import fields, names
from trainyard_api.errors import FieldPath, InvalidFieldError

from . import plugins, revisions
from .framework import UnsupportedPolicyError
from .info import Settings
from .model import Json, Runtime, TrainJob

NAME: Final = "trial"
"""The TrainJob's name here, so that those that differ only in their names share one trial."""

_JOBSET_DEFAULTS: Final = {"completionMode": "Indexed"}
_POD_DEFAULTS: Final = {"restartPolicy": "OnFailure"}
_POLICIES: Final = FieldPath("spec.template.spec.volumeClaimPolicies")
_VOLUMES: Final = FieldPath("volumes")
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TEMPLATE: Final = "spec.template.spec.replicatedJobs"


@dataclass(frozen=True, slots=True)
class Trial:
    """A Job that JobSet would create."""

    replicated_job: str
    position: int
    """The position of its ReplicatedJob."""
    manifest: Json


def trainjob_on(runtime: Runtime, namespace: str) -> TrainJob:
    """The plainest TrainJob on a runtime, in a namespace."""
    reference = {"apiGroup": names.TRAINER_GROUP, "kind": runtime.kind, "name": runtime.name}
    return TrainJob(namespace, NAME, "", "", _NEVER, {"runtimeRef": reference})


def of(job: TrainJob, runtime: Runtime, settings: Settings) -> tuple[Trial, ...]:
    """One Job of each ReplicatedJob, as JobSet would create it.

    There is none if the job cannot be built at all: that is reported elsewhere.
    """
    if not revisions.supported(job):
        return ()
    try:
        children = plugins.ALL.build(replace(job, name=NAME), runtime, settings)
    except (InvalidFieldError, UnsupportedPolicyError):
        return ()
    return tuple(job for child in children if child["kind"] == names.JOBSET for job in _of_jobset(child))


def refusals(trial: Trial, details: Mapping[str, Any], *, of_runtime: bool) -> tuple[str, ...]:
    """What the API server finds wrong with the fields of a Job, a sentence for each.

    Args:
        trial: The Job.
        details: The `details` of the Status with which a 422 was answered.
        of_runtime: Whether the runtime itself is judged: fields are named as in the runtime.

    Returns:
        Nothing unless Kubernetes' own validation of a Job refuses it.
    """
    causes = details.get("causes")
    if details.get("kind") != "Job" or not isinstance(causes, list):
        return ()
    where = f"{_TEMPLATE}[{trial.position}].template." if of_runtime else f"Job {trial.replicated_job}: "
    said = {
        f"{where}{cause['field']}: {cause.get('message', '')}": None
        for cause in causes
        if isinstance(cause, Mapping) and cause.get("field") and not (of_runtime and _is_the_jobs(cause))
    }
    return tuple(said)


def _is_the_jobs(cause: Json) -> bool:
    """Whether a runtime may leave it to its TrainJobs."""
    return cause.get("reason") == "FieldValueRequired" and str(cause["field"]).endswith("].image")


def _of_jobset(jobset: Json) -> Iterator[Trial]:
    claims = tuple(_claims(jobset["spec"]))
    for position, replicated in enumerate(jobset["spec"]["replicatedJobs"]):
        template = replicated["template"]
        spec = {**_JOBSET_DEFAULTS, **template["spec"], "suspend": True}
        pod = spec["template"]
        spec["template"] = {**pod, "spec": _with_volumes({**_POD_DEFAULTS, **pod["spec"]}, claims)}
        metadata = template.get("metadata") or {}
        yield Trial(
            replicated["name"],
            position,
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    **{part: metadata[part] for part in ("labels", "annotations") if metadata.get(part)},
                    "name": f"{NAME}-{replicated['name']}-0",
                    "namespace": jobset["metadata"]["namespace"],
                },
                "spec": spec,
            },
        )


def _claims(spec: Json) -> Iterator[str]:
    """Names of the claims that JobSet creates, and mounts in pods as volumes of these names."""
    for policy in fields.objects(spec.get("volumeClaimPolicies"), _POLICIES):
        for template in fields.objects(policy.get("templates"), _POLICIES.child("templates")):
            name = fields.below(template, _POLICIES.child("templates"), "metadata")[0].get("name")
            if isinstance(name, str):
                yield name


def _with_volumes(pod: Json, claims: Sequence[str]) -> Json:
    declared = fields.objects(pod.get("volumes"), _VOLUMES)
    known = {volume.get("name") for volume in declared}
    added = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims if name not in known
    ]
    return {**pod, "volumes": [*declared, *added]} if added else pod
