"""What a change of a runtime newly lets through: pure.

Called for reports on pull requests. A privilege is reported whether an
exception covers it, a level lets it pass, or a rule refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from trainyard_api.errors import InvalidFieldError
from trainyard_api.json_types import Json

from .. import engine, exceptions, manifest
from ..rules import host_access
from ..rules import privileges as privileged

_PRIVILEGES: Final = (privileged.RULE, host_access.RULE)
"""The rules that keep a pod from its node."""


def by(before: Json, after: Json, today: date) -> tuple[str, ...]:
    """A sentence for each exception and each privilege that is new, or extended; none for removed ones.

    Args:
        before: The manifest as it was; empty for one that is new.
        after: The manifest as it is to be; empty for one that is removed.
        today: The day that the ends of exceptions are compared with.
    """
    old, new = _exceptions(before), _exceptions(after)
    sentences = [
        f"exception from {rule} until {exemption.until}: {exemption.reason}"
        for rule, exemption in sorted(new.items())
        if rule not in old or exemption.until > old[rule].until
    ]
    had = set(privileges(before, today))
    return (*sentences, *(privilege for privilege in privileges(after, today) if privilege not in had))


def privileges(value: Json, today: date) -> Iterator[str]:
    """A sentence for each privilege that a runtime asks for."""
    for violation in engine.check(value, today, only=_PRIVILEGES):
        finding = violation.finding
        yield f"privilege {finding.path.end} ({violation.rule.id}: {finding.message})"


def _exceptions(value: Json) -> dict[str, exceptions.Exemption]:
    try:
        return exceptions.of(manifest.read(value)) if value else {}
    except InvalidFieldError:
        return {}  # which the rules refuse, with its place
