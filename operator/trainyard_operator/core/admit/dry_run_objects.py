"""The Jobs and the JobSet that a TrainJob would get, for the API server to judge in a dry run.

JobSet creates the Jobs once a queue has given the TrainJob its quota.
Kubernetes refuses an invalid Job again and again while the TrainJob holds its
quota. So the webhook has the Jobs judged when a TrainJob or a runtime is sent,
and the JobSet, whose own webhooks do not look into its pods. This module builds
them and reads the answers; `dry_runs` asks. Values in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, InvalidFieldError

from ..build import plugins
from ..build.framework import UnsupportedPolicyError
from ..build.info import Settings
from ..decide import queueing, revisions
from ..model import Json, Runtime, TrainJob

NAME: Final = "trial"
"""The TrainJob's name here, so that those that differ only in their names share one trial."""

_COUNTS: Final = frozenset({"completions", "parallelism"})
_JOBSET_DEFAULTS: Final = {"completionMode": "Indexed"}
_POD_DEFAULTS: Final = {"restartPolicy": "OnFailure"}
_POLICIES: Final = FieldPath("spec.template.spec.volumeClaimPolicies")
_VOLUMES: Final = FieldPath("volumes")
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_JOB: Final = "Job"
_WEBHOOKS: Final = r"(?:validate-jobset-x-k8s-io-v1alpha2-jobset\.x-k8s\.io|vjobset\.kb\.io)"
"""JobSet's own webhook; and Kueue's, whose name that of earlier versions of JobSet has as well."""
_DENIED: Final = re.compile(rf'admission webhook "{_WEBHOOKS}" denied the request: (.*)', re.DOTALL)
_SITES: Final = re.compile(rf'admission webhook "(?!{_WEBHOOKS}")')
"""How what any other webhook says begins."""
_INTERNAL: Final = "InternalError"
_NO_FIELD: Final = "<nil>"
"""How Kubernetes writes that an error is of no field."""
_PARTS: Final = ("metadata.", "spec.")
_PATCHED: Final = "spec.replicatedJobs"
"""The part of a JobSet's spec that runtimePatches change."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A JobSet that the operator would create, or a Job that JobSet would."""

    manifest: Json
    in_runtime: str
    """Prefix of its fields' paths in errors about a runtime."""
    in_trainjob: str
    """Prefix of its fields' paths in errors about a TrainJob."""
    digest: str = ""
    """A digest of what its webhooks judge; empty for a Job, of which everything is judged."""

    @property
    def kind(self) -> str:
        """The kind of its manifest."""
        return str(self.manifest["kind"])


def trainjob_on(runtime: Runtime, namespace: str) -> TrainJob:
    """The plainest TrainJob on a runtime, in a namespace: in a queue, as without one tenants create none."""
    reference = {"apiGroup": names.TRAINER_GROUP, "kind": runtime.kind, "name": runtime.name}
    return TrainJob(
        namespace, NAME, "", "", _NEVER, {"runtimeRef": reference}, labels={names.QUEUE_LABEL: NAME}
    )


def of(job: TrainJob, runtime: Runtime, settings: Settings) -> tuple[Trial, ...]:
    """The JobSet, and one Job of each ReplicatedJob as JobSet would create it.

    There is none if the job cannot be built at all: that is reported elsewhere.
    """
    if not revisions.supported(job):
        return ()
    job = replace(job, name=NAME)
    try:
        children = plugins.ALL.build(job, runtime, settings)
    except (InvalidFieldError, UnsupportedPolicyError):
        return ()
    (jobset,) = (child for child in children if child["kind"] == names.JOBSET)
    if settings.queue_holds_jobset:
        jobset = queueing.queued(jobset, job, None)
    return (_of_jobset(jobset, runtime), *_of_jobs(jobset))


def is_judged(code: int, message: str) -> bool:
    """Whether the answer with which a trial failed is a judgement, and not trouble of the cluster's."""
    return code == 422 or (code == 403 and _DENIED.match(message) is not None)


def refusals(
    trial: Trial, code: int, message: str, details: Mapping[str, Any], *, of_runtime: bool
) -> tuple[str, ...]:
    """Errors in a Job by Kubernetes' own validation, or in a JobSet by its schema and webhooks.

    Args:
        trial: The Job or JobSet.
        code: The code of the Status with which it was refused.
        message: Its message.
        details: Its `details`.
        of_runtime: Whether the runtime itself is judged: fields are named as in the runtime.

    Returns:
        A sentence for each; nothing where something else refuses it.
    """
    texts: Iterator[str]
    denied = _DENIED.match(message) if trial.kind == names.JOBSET and code == 403 else None
    if denied is not None:
        texts = iter((denied[1] if denied[1].startswith(_PARTS) else f"spec: {denied[1]}",))
    elif code == 422 and details.get("kind") == trial.kind and not _SITES.match(message):
        texts = _of_causes(trial, details.get("causes"), of_runtime=of_runtime)
    else:
        texts = iter(())
    kind = trial.kind if trial.kind == names.JOBSET else f"{trial.kind}s"
    sentences = {
        f"Kubernetes would refuse the {kind}: {_place(trial, text, of_runtime=of_runtime)}{text}": None
        for text in texts
    }
    return tuple(sentences)


def _place(trial: Trial, text: str, *, of_runtime: bool) -> str:
    """Prefix of a text that begins with the path of a field."""
    if of_runtime or trial.kind != names.JOBSET:
        return trial.in_runtime if of_runtime else trial.in_trainjob
    if text.startswith("metadata."):
        return ""  # what Kueue reads of the JobSet is the TrainJob's own
    return f"{'spec.runtimePatches or ' if text.startswith(_PATCHED) else ''}{trial.in_trainjob}"


def _of_causes(trial: Trial, causes: Any, *, of_runtime: bool) -> Iterator[str]:
    """The field and what is wrong with it, of each cause that is a judgement.

    JobSet's webhook reports what is wrong with no one field as an internal error of none. An internal
    error of a field is trouble of its own.
    """
    for cause in causes if isinstance(causes, list) else ():
        if not isinstance(cause, Mapping) or (of_runtime and _is_the_jobs(cause)):
            continue
        field, message = str(cause.get("field") or ""), str(cause.get("message") or "")
        internal = cause.get("reason") == _INTERNAL
        if field not in ("", _NO_FIELD) and not internal:
            yield f"{field}: {message}"
        elif field == _NO_FIELD and internal and trial.kind == names.JOBSET:
            yield f"spec: {message.removeprefix('Internal error: ')}"


def _is_the_jobs(cause: Json) -> bool:
    """Whether a runtime may leave it to its TrainJobs."""
    return cause.get("reason") == "FieldValueRequired" and str(cause.get("field")).endswith("].image")


def _of_jobset(jobset: Json, runtime: Runtime) -> Trial:
    metadata = {name: value for name, value in jobset["metadata"].items() if name != "ownerReferences"}
    manifest = queueing.with_suspend({**jobset, "metadata": metadata}, True)
    judged = {"metadata": metadata, "spec": _without_pods(manifest["spec"])}
    return Trial(
        manifest,
        in_runtime="spec.template.",
        in_trainjob=f"{runtime.kind} {runtime.name}: spec.template.",
        digest=revisions.digest(judged),
    )


def _without_pods(spec: Json) -> Json:
    """A JobSet's spec as its webhooks see it: they count pods for a coordinator, and mounts for claims."""
    if spec.get("coordinator") or spec.get("volumeClaimPolicies"):
        return spec
    return {**spec, "replicatedJobs": [_without_pod(job) for job in spec["replicatedJobs"]]}


def _without_pod(job: Json) -> Json:
    """A ReplicatedJob without the number of its pods and their specs. Kueue reads their metadata."""
    template = job["template"]
    kept = {name: value for name, value in template["spec"].items() if name not in _COUNTS}
    pod = {name: value for name, value in template["spec"]["template"].items() if name != "spec"}
    return {**job, "template": {**template, "spec": {**kept, "template": pod}}}


def _of_jobs(jobset: Json) -> Iterator[Trial]:
    claims = tuple(_claims(jobset["spec"]))
    for position, replicated in enumerate(jobset["spec"]["replicatedJobs"]):
        template = replicated["template"]
        spec = {**_JOBSET_DEFAULTS, **template["spec"], "suspend": True}
        pod = spec["template"]
        spec["template"] = {**pod, "spec": _with_volumes({**_POD_DEFAULTS, **pod["spec"]}, claims)}
        metadata = template.get("metadata") or {}
        yield Trial(
            {
                "apiVersion": "batch/v1",
                "kind": _JOB,
                "metadata": {
                    **{part: metadata[part] for part in ("labels", "annotations") if metadata.get(part)},
                    "name": f"{NAME}-{replicated['name']}-0",
                    "namespace": jobset["metadata"]["namespace"],
                },
                "spec": spec,
            },
            in_runtime=f"spec.template.spec.replicatedJobs[{position}].template.",
            in_trainjob=f"Job {replicated['name']}: ",
        )


def _claims(spec: Json) -> Iterator[str]:
    """Names of the claims that JobSet creates, and mounts in pods as volumes of these names."""
    for policy in json_reader.objects(spec.get("volumeClaimPolicies"), _POLICIES):
        for template in json_reader.objects(policy.get("templates"), _POLICIES.child("templates")):
            name = json_reader.below(template, _POLICIES.child("templates"), "metadata")[0].get("name")
            if isinstance(name, str):
                yield name


def _with_volumes(pod: Json, claims: Sequence[str]) -> Json:
    declared = json_reader.objects(pod.get("volumes"), _VOLUMES)
    declared_names = {volume.get("name") for volume in declared}
    added = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for name in claims
        if name not in declared_names
    ]
    return {**pod, "volumes": [*declared, *added]} if added else pod
