"""Kubernetes accepts the names and labels, down to the pods."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from ..manifest import Workload
from ..name_patterns import LABEL, STRICT_LABEL, SUBDOMAIN, WORD
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """The names of the object, its ReplicatedJobs and containers, all labels, and all keys of annotations."""
    metadata = FieldPath("metadata")
    is_job = workload.subject is Subject.TRAINJOBS
    form = STRICT_LABEL if is_job else SUBDOMAIN
    if not workload.generated and not form.fits(workload.name):
        yield Finding(metadata.child("name"), form.sentence)
    yield from _metadata(workload.value, FieldPath())
    for template, path in workload.templates:
        yield from _metadata(template, path)
    for job in workload.jobs:
        if not STRICT_LABEL.fits(job.name):
            yield Finding(job.path.child("name"), STRICT_LABEL.sentence)
        for template, path in job.templates():
            yield from _metadata(template, path)
        for container in job.containers():
            if not LABEL.fits(container.name):
                yield Finding(container.path.child("name"), LABEL.sentence)


def _metadata(value: Json, path: FieldPath) -> Iterator[Finding]:
    labels, at = json_reader.below(value, path, "metadata", "labels")
    for key, text in json_reader.text_map(labels, at).items():
        if not _is_key(key):
            yield Finding(at.key(key), f"has an invalid key: {key!r}")
        elif text and not WORD.fits(text):
            yield Finding(at.key(key), WORD.sentence)
    annotations, at = json_reader.below(value, path, "metadata", "annotations")
    for key in annotations:
        if not _is_key(key.lower()):  # as the API server has it, for annotations only
            yield Finding(at.key(key), f"has an invalid key: {key!r}")


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return WORD.fits(name) and (not slash or SUBDOMAIN.fits(prefix))


RULE = Rule(
    id="name-form",
    title="Names and labels are valid in Kubernetes",
    why=(
        "The API server checks only the object's own name and labels. It accepts an invalid name inside, and "
        "later refuses the JobSet or the pods."
    ),
    remedy="Write names in lower case letters, digits and '-', label values without spaces or '/', and keys "
    "as prefix/name.",
    severity=Severity.MEDIUM,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    check=check,
)
