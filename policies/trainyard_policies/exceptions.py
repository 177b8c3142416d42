"""Exceptions: annotations that exempt a manifest from a rule for a time.

`policy.trainyard.dev/<rule-id>: "until=YYYY-MM-DD; reason"`. One holds through
the day it names. It removes a finding's consequence, never the finding:
whoever reads a report sees what was let through, until when and why.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from difflib import get_close_matches
from typing import Final

from trainyard_api.errors import FieldPath

from . import rules
from .manifest import Manifest
from .rule import Finding

PREFIX: Final = "policy.trainyard.dev/"
SOON: Final = timedelta(days=60)

_FORM: Final = re.compile(r"\s*until=(\d{4}-\d{2}-\d{2})\s*;\s*(\S.*?)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Exemption:
    """One exception, as it is written."""

    until: date
    reason: str

    def holds(self, today: date) -> bool:
        """Whether its last day has not passed."""
        return today <= self.until


def path(rule: str) -> FieldPath:
    """The path of the exception from a rule."""
    return FieldPath("metadata.annotations").key(PREFIX + rule)


def of(manifest: Manifest) -> dict[str, Exemption]:
    """The exceptions that can be read, by rule."""
    found = {}
    for rule, text in _written(manifest):
        exemption = _parse(text)
        if exemption is not None:
            found[rule] = exemption
    return found


def mistakes(manifest: Manifest, today: date, longest: int) -> Iterator[Finding]:
    """Invalid exceptions, and those for more than `longest` days."""
    for rule, text in _written(manifest):
        if rule not in rules.BY_ID:
            near = get_close_matches(rule, list(rules.BY_ID), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Finding(path(rule), f"names no rule: there is no {rule}{hint}")
        elif (exemption := _parse(text)) is None:
            yield Finding(path(rule), f'must be "until=YYYY-MM-DD; reason", is {text[:80]!r}')
        elif exemption.until - today > timedelta(days=longest):
            latest = today + timedelta(days=longest)
            said = f"must end within {longest} days, by {latest}, and ends on {exemption.until}"
            yield Finding(path(rule), said)


def due(manifest: Manifest, today: date) -> Iterator[Finding]:
    """Exceptions that end soon."""
    for rule, exemption in of(manifest).items():
        if exemption.holds(today) and exemption.until - today <= SOON:
            yield Finding(path(rule), f"ends on {exemption.until}")


def unused(manifest: Manifest, asked: Collection[str], found: Collection[str]) -> Iterator[Finding]:
    """Exceptions without effect: from rules that were `asked` but have not `found` anything."""
    for rule in of(manifest):
        if rule in asked and rule not in found:
            yield Finding(path(rule), f"has no effect: {rule} finds nothing here")


def _written(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for key, text in sorted(manifest.annotations.items()):
        if key.startswith(PREFIX):
            yield key.removeprefix(PREFIX), text


def _parse(text: str) -> Exemption | None:
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    try:
        return Exemption(date.fromisoformat(found[1]), found[2])
    except ValueError:
        return None
