"""An exception that ends soon is reported while there is time; the engine reads it."""

from __future__ import annotations

from ..rule import Level, Rule, Severity, nothing
from ..subject import Subject

RULE = Rule(
    id="exception-due",
    title="An exception does not end within 60 days",
    why="On the day after it ends the manifest is refused, in whichever pull request comes next.",
    remedy="Remove what needs the exception, or decide again and write a later date.",
    severity=Severity.LOW,
    levels={Subject.RUNTIMES: Level.ADVISORY, Subject.TRAINJOBS: Level.ADVISORY},
    check=nothing,
)
