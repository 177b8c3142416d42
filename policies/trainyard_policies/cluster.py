"""The gate in the cluster: what the operator's webhook answers about a request.

It checks only what a request makes worse: what was wrong before still has to
be fixed, but keeps nobody from suspending a job. Nobody gets past the webhook:
admission policies of the platform see to that (docs/adr/0042).

Called by the operator. Values in, values out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Final

from trainyard_api.json_types import Json

from . import engine
from .engine import Violation
from .rule import MOST, at
from .settings import Policies

_Key = tuple[str, str, str]

_WITH_A_REST: Final = ("replicatedJobs", "containers", "initContainers", "securityContext")
"""Fields with more in them than a finding is about; the rest may change."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The webhook's answer: reasons to refuse, and warnings."""

    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def answer(value: Json, old: Json | None, user: str, today: date, policies: Policies) -> Answer:
    """The webhook's answer to a request of `user` that changes `old` (None: nothing) to `value`.

    Raises nothing, whatever the object holds, but `RuleError` for a rule that ends with an exception.
    """
    if user in policies.parameters.controllers:
        return Answer()
    violations = engine.check(value, today, policies)
    before = set() if old is None or not violations else _before(old, value, today, policies)
    refusals: list[str] = []
    warnings: list[str] = []
    for violation in violations:
        rule = violation.rule.id
        if violation.exemption is not None:
            warnings.append(f"{rule}: {violation.message}, excepted {violation.exemption}")
        elif _key(violation, value) not in before:
            (refusals if violation.refuses else warnings).append(f"{rule}: {violation.with_remedy}")
    return Answer(tuple(refusals[:MOST]), tuple(warnings[:MOST]))


def _before(old: Json, value: Json, today: date, policies: Policies) -> set[_Key]:
    """The violations of the old object that no exception covers."""
    keys = {
        _key(violation, old)
        for violation in engine.check(old, today, policies)
        if violation.exemption is None
    }
    if _changes_more_than_suspend(value, old):
        # Of too many findings some are not named, and one of those may be new.
        keys = {key for key in keys if not key[1].startswith(engine.MORE.message)}
    return keys


def _changes_more_than_suspend(value: Json, old: Json) -> bool:
    specs = (one.get("spec") for one in (value, old))
    new, before = ({**spec, "suspend": None} if isinstance(spec, dict) else spec for spec in specs)
    return bool(new != before)


def _key(violation: Violation, value: Json) -> _Key:
    """What makes it the same as another: also what is there, which not every message says."""
    path = violation.finding.path
    fields = [step for step in path.steps if not step.isdecimal()]
    has_a_rest = not fields or fields[-1] in _WITH_A_REST
    there = "" if has_a_rest else json.dumps(at(value, path), sort_keys=True)
    return violation.rule.id, violation.message, there
