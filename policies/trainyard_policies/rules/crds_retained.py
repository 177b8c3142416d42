"""A CRD outlives the installation that created it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import names
from trainyard_api.errors import FieldPath

from ..manifest import Manifest
from ..parameters import Parameters
from ..rule import Finding, Level, Severity, StackRule
from ..subject import Subject

_PATH: Final = FieldPath("metadata.annotations").key(names.HELM_RESOURCE_POLICY)


def check(manifests: Sequence[Manifest], parameters: Parameters) -> Iterator[tuple[Manifest, Finding]]:
    """Each CustomResourceDefinition has the annotation that keeps it."""
    for manifest in manifests:
        if manifest.kind != "CustomResourceDefinition":
            continue
        value = manifest.annotations.get(names.HELM_RESOURCE_POLICY)
        if value != names.HELM_KEEP:
            was = "is not there" if value is None else f"is {value!r}"
            yield manifest, Finding(_PATH, f"must be {names.HELM_KEEP}; {was}")


RULE = StackRule(
    id="crds-retained",
    title="A CRD outlives the installation that created it",
    why=(
        "When a CRD is deleted, the API server deletes every object of its kind: all TrainJobs, queues or "
        "JobSets, and with them all running pods."
    ),
    remedy=f"Set the annotation {names.HELM_RESOURCE_POLICY}: {names.HELM_KEEP}, with which Helm and "
    "Pulumi's helm.v4.Chart do not delete it. A resource of your own program also needs retain_on_delete.",
    severity=Severity.CRITICAL,
    levels={Subject.STACK: Level.MANDATORY},
    check=check,
)
