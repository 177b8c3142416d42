"""An exception has an effect; the engine reads it."""

from __future__ import annotations

from ..rule import Level, Rule, Severity, nothing
from ..subject import Subject

RULE = Rule(
    id="exception-unused",
    title="An exception has an effect",
    why="An exception without an effect today may later allow something that nobody has decided.",
    remedy="Remove the annotation.",
    severity=Severity.LOW,
    levels={Subject.RUNTIMES: Level.ADVISORY, Subject.TRAINJOBS: Level.ADVISORY},
    check=nothing,
)
