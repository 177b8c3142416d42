"""An exception says until when it holds, and why; the engine reads it."""

from __future__ import annotations

from ..rule import Level, Rule, Severity, nothing
from ..subject import Subject

RULE = Rule(
    id="exception-form",
    title="An exception names a rule, an end date in the near future, and a reason",
    why="An exception without an end or a reason turns off a rule without a decision.",
    remedy='Write policy.trainyard.dev/<rule-id>: "until=YYYY-MM-DD; reason", or remove the annotation.',
    severity=Severity.MEDIUM,
    parameters=("longest_exception",),
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    check=nothing,
)
