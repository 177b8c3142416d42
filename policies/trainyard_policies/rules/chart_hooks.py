"""No required step depends on a chart's hooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import names
from trainyard_api.errors import FieldPath

from ..manifest import Manifest
from ..parameters import Parameters
from ..rule import Finding, Level, Severity, StackRule
from ..subject import Subject

_PATH: Final = FieldPath("metadata.annotations").key(names.HELM_HOOK)
_ASKED_FOR: Final = frozenset({"test", "test-success", "test-failure"})
"""Run only by `helm test`."""


def check(manifests: Sequence[Manifest], parameters: Parameters) -> Iterator[tuple[Manifest, Finding]]:
    """No object is a hook, except for tests."""
    for manifest in manifests:
        hooks = str(manifest.annotations.get(names.HELM_HOOK, ""))
        if {hook.strip() for hook in hooks.split(",")} - _ASKED_FOR - {""}:
            yield manifest, Finding(_PATH, f"must not be set: helm.v4.Chart leaves out {manifest.title}")


RULE = StackRule(
    id="chart-hooks",
    title="No required step depends on a chart's hooks",
    why="Pulumi's helm.v4.Chart runs no hooks: the Job that creates a certificate or moves data is left out, "
    "without a warning, and the chart waits for it forever.",
    remedy=(
        "Install the chart with helm.v3.Release, which runs its hooks, or declare the hook's objects as "
        "resources of the component and turn the hook off in the chart's values."
    ),
    severity=Severity.HIGH,
    levels={Subject.STACK: Level.MANDATORY},
    check=check,
)
