"""Names and labels are ones that Kubernetes takes, down to the pods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainyard_api import fields
from trainyard_api.errors import FieldPath
from trainyard_api.fields import Json

from ..cel import Webhook
from ..manifest import ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity, Subject

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""RFC 1123, as Kubernetes has it for containers."""
_STRICT_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""RFC 1035, as it has it for what gives its name to a Service."""
_SUBDOMAIN: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_WORD: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""A label's value, and its key after the prefix."""
_LOWER: Final = "must be lower case letters, digits and '-', and fit into 63 characters"
_BEGINS: Final = f"{_LOWER}, the first a letter"
_WORDS: Final = "must be letters, digits, '-', '_' and '.', and fit into 63 characters"
_DOTTED: Final = "must be lower case letters, digits, '-' and '.', and fit into 253 characters"


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """The object's name, its ReplicatedJobs' and containers', and all labels and keys of annotations."""
    metadata = FieldPath("metadata")
    is_job = workload.subject is Subject.TRAINJOBS
    form, sentence = (_STRICT_LABEL, _BEGINS) if is_job else (_SUBDOMAIN, _DOTTED)
    if not workload.generated and not form.fullmatch(workload.name):
        yield Finding(metadata.child("name"), sentence)
    yield from _metadata(workload.value, FieldPath())
    for template, path in _jobsets(workload):
        yield from _metadata(template, path)
    for job in workload.jobs:
        if not _STRICT_LABEL.fullmatch(job.name):
            yield Finding(job.path.child("name"), _BEGINS)
        yield from _templates(job)
        for container in job.containers():
            if not _LABEL.fullmatch(container.name):
                yield Finding(container.path.child("name"), _LOWER)


def _jobsets(workload: Workload) -> Iterator[tuple[Json, FieldPath]]:
    spec = FieldPath("spec")
    yield fields.below(workload.spec, spec, "template")
    path = spec.child("runtimePatches")
    for position, patch in enumerate(fields.objects(workload.spec.get("runtimePatches"), path)):
        yield fields.below(patch, path.index(position), "trainingRuntimeSpec", "template")


def _templates(job: ReplicatedJob) -> Iterator[Finding]:
    template, path = fields.below(job.value, job.path, "template")
    yield from _metadata(template, path)
    yield from _metadata(*fields.below(template, path, "spec", "template"))


def _metadata(value: Json, path: FieldPath) -> Iterator[Finding]:
    labels, at = fields.below(value, path, "metadata", "labels")
    for key, text in fields.text_map(labels, at).items():
        if not _is_key(key):
            yield Finding(at.key(key), f"has a key that is none: {key!r}")
        elif text and not _WORD.fullmatch(text):
            yield Finding(
                at.key(key), "must be letters, digits, '-', '_' and '.', and fit into 63 characters"
            )
    annotations, at = fields.below(value, path, "metadata", "annotations")
    for key in annotations:
        if not _is_key(key):
            yield Finding(at.key(key), f"has a key that is none: {key!r}")


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(_WORD.fullmatch(name)) and (not slash or bool(_SUBDOMAIN.fullmatch(prefix)))


RULE = Rule(
    id="name-form",
    title="Names and labels are ones that Kubernetes takes",
    why="The API server asks about the object's own alone: with a wrong one inside, the TrainJob is taken, "
    "and its JobSet or its pods are refused.",
    remedy="Write names in lower case letters, digits and '-', label values without spaces or '/', and keys "
    "as prefix/name.",
    severity=Severity.MEDIUM,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    check=check,
    cluster=Webhook("it reads the maps of labels at four depths"),
)
