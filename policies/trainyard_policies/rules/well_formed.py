"""A manifest has the shape of its kind, down to the pods; the engine reports what cannot be read at all."""

from __future__ import annotations

from collections.abc import Iterable

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..shapes import check as shapes
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterable[Finding]:
    """Each field exists and has a type, a value and a form that Kubernetes accepts; see `shapes`."""
    return shapes.check(workload.value)


RULE = Rule(
    id="well-formed",
    title="A manifest has the shape of its kind",
    why=(
        "The API server refuses some mistakes, silently drops some fields, and accepts others. Then no pod "
        "is ever created, and the job still holds its quota."
    ),
    remedy="Give the field the name, type or value that the message names.",
    severity=Severity.CRITICAL,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    fixes=True,
    check=check,
)
