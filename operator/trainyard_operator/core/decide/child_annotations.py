"""Annotations and labels with which the operator recognizes a TrainJob's children.

Called by `reconcile`. Notes say how a child was built, never what to do:
without them, the next reconciliation would decide the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from trainyard_api import names

from ..build.info import Settings
from ..model import JobSet, Json, TrainJob
from . import revisions

_BUILT_AS: Final = {"2": 2, "3": 3}
"""By the annotation's text: how pods are built. Without it: as Trainer v2.3 builds them."""


def digest(annotations: Mapping[str, str]) -> str | None:
    """The digest of the manifest that was written last."""
    return annotations.get(names.RENDERED_ANNOTATION)


def labelled(manifest: Json, job: TrainJob) -> Json:
    """The companion with the label that the operator selects it by, and a digest of the manifest."""
    metadata = manifest["metadata"]
    labels = {**metadata.get("labels", {}), names.TRAINJOB_UID_LABEL: job.uid}
    return _marked({**manifest, "metadata": {**metadata, "labels": labels}})


def built(manifest: Json, revision: str | None, settings: Settings, restarts: str | None = None) -> Json:
    """The JobSet with what it was built with, the revision and the number of restarts if there are such, and
    a digest of it all."""
    noted = {} if settings.as_trainer_builds else {names.BUILT_AS_ANNOTATION: str(settings.built_as)}
    if revision is not None:
        noted[names.RUNTIME_REVISION_ANNOTATION] = revision
    if on := ",".join(sorted(settings.feature_gates)):
        noted[names.FEATURE_GATES_ANNOTATION] = on
    if restarts is not None:
        noted[names.MAX_RESTARTS_ANNOTATION] = restarts
    return _marked(manifest, noted)


def _marked(manifest: Json, noted: Mapping[str, str] = MappingProxyType({})) -> Json:
    """The child with these annotations, none other of the operator's, and a digest of it all."""
    given = manifest["metadata"].get("annotations", {})
    annotations = {name: text for name, text in given.items() if not name.startswith(names.OWN_PREFIX)}
    annotations |= noted
    result = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
    annotations[names.RENDERED_ANNOTATION] = revisions.digest(result)
    return result


def as_begun(settings: Settings, jobset: JobSet | None) -> Settings:
    """The settings with the feature gates that the JobSet was created with.

    Its pods are immutable: what a gate adds to them that is turned on later
    would be refused, and would block a suspended TrainJob. So would what
    Trainer v2.3 leaves out, in a JobSet that Trainer or an earlier version has made.
    """
    if jobset is None:
        return settings
    noted = jobset.annotations.get(names.FEATURE_GATES_ANNOTATION, "")
    gates = frozenset(filter(None, noted.split(",")))
    built_as = _BUILT_AS.get(jobset.annotations.get(names.BUILT_AS_ANNOTATION, ""), 1)
    if (gates, built_as) == (settings.feature_gates, settings.built_as):
        return settings
    return replace(settings, feature_gates=gates, built_as=built_as)
