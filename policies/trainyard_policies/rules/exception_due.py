"""An exception that ends soon is reported while there is time; the engine reads it."""

from __future__ import annotations

from ..rule import Level, Rule, Severity, nothing
from ..subject import Subject

RULE = Rule(
    id="exception-due",
    title="An exception does not end within 60 days",
    why="On the day after its end, the manifest is refused in the next pull request.",
    remedy="Remove the need for the exception, or decide again and set a later date.",
    severity=Severity.LOW,
    levels={Subject.RUNTIMES: Level.ADVISORY, Subject.TRAINJOBS: Level.ADVISORY},
    check=nothing,
)
