"""What the operator notes on a TrainJob's children, so that it later knows what they are.

Called by `reconcile`. Notes say how a child was built, never what to do:
without them, the next reconciliation would decide the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trainyard_api import names

from . import revisions
from .info import Settings
from .model import JobSet, Json, TrainJob


def digest(annotations: Mapping[str, str]) -> str | None:
    """The digest of the manifest that was written last."""
    return annotations.get(names.RENDERED_ANNOTATION)


def labelled(manifest: Json, job: TrainJob) -> Json:
    """A child beside the JobSet with the label that it is found by, and a digest of it all."""
    metadata = manifest["metadata"]
    labels = {**metadata.get("labels", {}), names.TRAINJOB_UID_LABEL: job.uid}
    return marked({**manifest, "metadata": {**metadata, "labels": labels}})


def marked(manifest: Json, revision: str | None = None, gates: Iterable[str] = ()) -> Json:
    """The child with the revision and gates it was built with, if given, and a digest of it all."""
    given = manifest["metadata"].get("annotations", {})
    annotations = {name: text for name, text in given.items() if not name.startswith(names.OWN_PREFIX)}
    if revision is not None:
        annotations[names.RUNTIME_REVISION_ANNOTATION] = revision
    if on := ",".join(sorted(gates)):
        annotations[names.FEATURE_GATES_ANNOTATION] = on
    result = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
    annotations[names.RENDERED_ANNOTATION] = revisions.digest(result)
    return result


def as_begun(settings: Settings, jobset: JobSet | None) -> Settings:
    """The settings with the feature gates that the JobSet was created with.

    Its pods are immutable: what a gate adds to them that is turned on later
    would be refused, and would block a suspended TrainJob.
    """
    if jobset is None:
        return settings
    noted = jobset.annotations.get(names.FEATURE_GATES_ANNOTATION, "")
    return replace(settings, feature_gates=frozenset(filter(None, noted.split(","))))
