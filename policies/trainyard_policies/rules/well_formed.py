"""A manifest can be read; the engine says where it cannot."""

from __future__ import annotations

from ..cel import Webhook
from ..rule import Level, Rule, Severity, Subject, nothing

RULE = Rule(
    id="well-formed",
    title="A manifest has the shape of its kind",
    why="What a rule cannot read it cannot check, and the API server refuses it.",
    remedy="Give the field the type that the message names.",
    severity=Severity.CRITICAL,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    check=nothing,
    cluster=Webhook("the API server's schema has refused most of it before any policy is asked"),
)
