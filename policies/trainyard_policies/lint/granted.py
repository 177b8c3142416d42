"""What a change of a runtime newly lets through: pure.

Called for reports on pull requests. A privilege is reported whether an
exception covers it, a level lets it pass, or a rule refuses it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

from trainyard_api.errors import FieldPath, InvalidFieldError
from trainyard_api.json_types import Json

from .. import engine, exceptions, manifest
from ..engine import Violation
from ..rule import at, member
from ..rules import host_access
from ..rules import privileges as privileged

_PRIVILEGES: Final = (privileged.RULE, host_access.RULE)
"""The rules that keep a pod from its node."""

_Key = tuple[str, tuple[str, ...], str, str]


def by(before: Json, after: Json, today: date) -> tuple[str, ...]:
    """A sentence for each exception and each privilege that is new, or extended; none for removed ones.

    Args:
        before: The manifest as it was; empty for one that is new.
        after: The manifest as it is to be; empty for one that is removed.
        today: The day that the ends of exceptions are compared with.
    """
    old, new = _exceptions(before), _exceptions(after)
    sentences = [
        f"exception from {rule} {exemption}"
        for rule, exemption in sorted(new.items())
        if rule not in old or exemption.until > old[rule].until
    ]
    # Of too many findings some are not named, and one of those may be new.
    named = (violation for violation in _violations(before, today) if violation.finding != engine.MORE)
    had = {_key(violation, before) for violation in named}
    newly = (
        sentence for violation, sentence in _described(after, today) if _key(violation, after) not in had
    )
    return (*sentences, *newly)


def privileges(value: Json, today: date) -> Iterator[str]:
    """A sentence for each privilege that a runtime asks for."""
    yield from (sentence for _, sentence in _described(value, today))


def _violations(value: Json, today: date) -> tuple[Violation, ...]:
    return engine.check(value, today, only=_PRIVILEGES)


def _described(value: Json, today: date) -> Iterator[tuple[Violation, str]]:
    """Each violation with its sentence, which names job and container if others would have the same."""
    violations = _violations(value, today)
    short = Counter((violation.rule.id, violation.short) for violation in violations)
    for violation in violations:
        finding = violation.finding
        place = finding.path.end or "elsewhere"
        if short[violation.rule.id, violation.short] > 1:
            owners = [field for field in _fields(finding.path, value) if field.endswith("]")]
            place = f"{place} in {'.'.join(owners)}"
        yield violation, f"privilege {place} ({violation.rule.id}: {finding.message})"


def _key(violation: Violation, value: Json) -> _Key:
    """What makes a privilege the same as another: where it is, and what is there."""
    path = violation.finding.path
    there = json.dumps(at(value, path), sort_keys=True)
    return violation.rule.id, _fields(path, value), violation.finding.message, there


def _fields(path: FieldPath, value: Json) -> tuple[str, ...]:
    """The fields of a path; a list's with the name of the element, if it has one, since positions change."""
    fields: list[str] = []
    there: Any = value
    for step in path.steps:
        holder, there = there, member(there, step)
        if isinstance(holder, list):
            name = there.get("name") if isinstance(there, Mapping) else None
            fields[-1] += f"[{name or step}]"
        else:
            fields.append(step)
    return tuple(fields)


def _exceptions(value: Json) -> dict[str, exceptions.Exemption]:
    try:
        return exceptions.of(manifest.read(value)) if value else {}
    except InvalidFieldError:
        return {}  # which the rules refuse, with its place
