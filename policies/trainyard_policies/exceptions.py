"""Exceptions: annotations that exempt a manifest from a rule for a time.

`policy.trainyard.dev/<rule-id>: "until=YYYY-MM-DD; reason"`. An exception is valid through its end date. It
removes a finding's consequence, never the finding:
a report shows what was let through, until when and why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from trainyard_api import similar
from trainyard_api.errors import FieldPath
from trainyard_api.json_reader import shown

from . import rules
from .manifest import Manifest
from .rule import Finding
from .rules import exception_due, exception_form, exception_unused

PREFIX: Final = "policy.trainyard.dev/"
SOON: Final = timedelta(days=60)

RULES: Final = frozenset(rule.RULE.id for rule in (exception_form, exception_due, exception_unused))
"""The rules about exceptions, from which there is none: it would have no limit."""
_LONGEST: Final = 300
"""Characters of an exception that are read: more may be an attack."""


@dataclass(frozen=True, slots=True)
class Exemption:
    """One exception, as it is written."""

    until: date
    reason: str

    def __str__(self) -> str:
        return f"until {self.until}: {self.reason}"

    def holds(self, today: date) -> bool:
        """Whether its last day has not passed."""
        return today <= self.until


def path(rule: str) -> FieldPath:
    """The path of the exception from a rule."""
    return FieldPath("metadata.annotations").key(PREFIX + rule)


def of(manifest: Manifest) -> dict[str, Exemption]:
    """The exceptions from a rule that can be read, by rule."""
    read = {rule: _parse(text) for rule, text in _written(manifest) if rule in rules.BY_ID.keys() - RULES}
    return {rule: exemption for rule, exemption in read.items() if exemption is not None}


def written(manifest: Manifest, rule: str) -> bool:
    """Whether there is an exception from a rule, readable or not."""
    return PREFIX + rule in manifest.annotations


def mistakes(manifest: Manifest, today: date, longest: int) -> Iterator[Finding]:
    """Invalid exceptions, and those for more than `longest` days."""
    for rule, text in _written(manifest):
        if rule not in rules.BY_ID:
            message = f"does not name a rule: there is no {shown(rule)}{similar.hint(rule, rules.BY_ID)}"
            yield Finding(path(rule), message)
        elif rule in RULES:
            yield Finding(path(rule), f"must be left out: there is no exception from {rule}")
        elif (exemption := _parse(text)) is None:
            yield Finding(path(rule), f'must be "until=YYYY-MM-DD; reason", is {text[:80]!r}')
        elif exemption.until - today > timedelta(days=longest):
            latest = today + timedelta(days=longest)
            message = f"must end within {longest} days, by {latest}, but ends on {exemption.until}"
            yield Finding(path(rule), message, against="longestException")


def due(made: Mapping[str, Exemption], today: date) -> Iterator[Finding]:
    """Exceptions that end soon."""
    for rule, exemption in made.items():
        if exemption.holds(today) and exemption.until - today <= SOON:
            yield Finding(path(rule), f"ends on {exemption.until}")


def unused(
    made: Mapping[str, Exemption], enabled: Collection[str], violated: Collection[str]
) -> Iterator[Finding]:
    """Exceptions without effect: from rules that are `enabled` and not `violated`."""
    for rule in made:
        if rule in enabled and rule not in violated:
            yield Finding(path(rule), f"has no effect: {rule} finds nothing here")


def _written(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for key, text in sorted(manifest.annotations.items()):
        if key.startswith(PREFIX):
            yield key.removeprefix(PREFIX), text


def _parse(text: str) -> Exemption | None:
    until, _, reason = (part.strip() for part in text[:_LONGEST].partition(";"))
    try:
        day = date.fromisoformat(until.removeprefix("until="))
    except ValueError:
        return None
    return Exemption(day, reason) if reason and until == f"until={day}" else None
