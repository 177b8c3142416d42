"""No object is declared twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard_api.errors import FieldPath

from ..manifest import Manifest
from ..parameters import Parameters
from ..rule import Finding, Level, Severity, StackRule
from ..subject import Subject


def check(manifests: Sequence[Manifest], parameters: Parameters) -> Iterator[tuple[Manifest, Finding]]:
    """Only one object has the same kind, namespace and name."""
    seen: set[tuple[str, str, str | None, str]] = set()
    for manifest in manifests:
        if manifest.generated:
            continue
        group = manifest.api_version.rpartition("/")[0]
        identity = (group, manifest.kind, manifest.namespace, manifest.name)
        if identity in seen:
            yield (
                manifest,
                Finding(FieldPath("metadata.name"), f"must be unique: {manifest.title} is declared twice"),
            )
        seen.add(identity)


RULE = StackRule(
    id="unique-names",
    title="No object is declared twice",
    why="If two objects have the same name, the cluster keeps the one that was applied last.",
    remedy="Give one of them another name, or remove it.",
    severity=Severity.HIGH,
    levels={Subject.STACK: Level.MANDATORY},
    check=check,
)
