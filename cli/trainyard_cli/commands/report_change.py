"""What a pull request does to stacks and TrainJobs, as a report tells it: pure.

Made by `report` of what git, `make preview` and `make impact` say, and put into
words by `report_markdown`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard_platform.impact import Field, Ref
from trainyard_platform.rollout import words
from trainyard_policies.lint.report import Report


@dataclass(frozen=True, slots=True)
class Preview:
    """What `make preview` has said of a stack."""

    code: int
    said: str


@dataclass(frozen=True, slots=True)
class Stack:
    """What the change is to one stack."""

    name: str
    is_new: bool = False
    """Whether it has no file yet where the branch left; then nothing of it is a change."""
    changes: Sequence[Mapping[str, Any]] = ()
    """As in a document of `impact`."""
    settings: Sequence[Field] = ()
    """What else the stack file says otherwise than before."""
    granted: Sequence[str] = ()
    """What is let through that was not before: a sentence each."""
    runtimes: frozenset[str] = frozenset()
    """Names of those that it has or had."""
    not_compared: str = ""
    """Why git does not say what changes."""
    not_seen: str = ""
    """Why it is not known which TrainJobs it reaches; empty if it is."""
    preview: Preview | None = None
    """None if nobody has asked."""

    @property
    def passes(self) -> bool:
        """Whether the preview has."""
        return self.preview is not None and not self.preview.code

    @property
    def fails(self) -> bool:
        """Whether the preview does."""
        return self.preview is not None and bool(self.preview.code)

    @property
    def outcome(self) -> str:
        """What the preview comes to: what refuses, or how much is to change."""
        told, worst = words.outcome(self.preview.said if self.preview else "", self.name)
        return (worst[0] if worst and self.fails else told) or "see below"


@dataclass(frozen=True, slots=True)
class Change:
    """All that a pull request does."""

    found: Report
    """What `verify` says."""
    stacks: Sequence[Stack]
    not_installed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Runtimes that have changed and that no stack has, and what is let through in each."""
    removed: Sequence[str] = ()
    """Stacks whose file is gone."""
    unjudged: Sequence[str] = ()
    """What else has changed and reaches all stacks, by folder."""
    asked: bool = False
    """Whether previews were asked for."""
    run: str = ""
    """Address of the run that has made this."""


@dataclass(slots=True)
class Row:
    """An object that becomes the same on some stacks."""

    change: Mapping[str, Any]
    stacks: list[str] = field(default_factory=list)
    jobs: list[Mapping[str, Any]] = field(default_factory=list)
    """Each with the stack that it is on."""
    not_seen: bool = False
    """Whether TrainJobs on one of the stacks could not be seen."""

    @property
    def losing(self) -> int:
        """How many of the jobs lose something."""
        return sum(bool(job["loses"]) for job in self.jobs)

    @property
    def name(self) -> str:
        """Which object it is."""
        return str(Ref(self.change["kind"], self.change["namespace"], self.change["name"]))


def rows_of(stacks: Sequence[Stack]) -> list[Row]:
    """The changes of all stacks, alike ones together, those with the most to lose first."""
    rows: dict[str, Row] = {}
    for stack in stacks:
        for change in stack.changes:
            alike = {key: value for key, value in change.items() if key != "trainJobs"}
            row = rows.setdefault(json.dumps(alike, sort_keys=True), Row(change))
            row.stacks.append(stack.name)
            row.jobs += [{**job, "stack": stack.name} for job in change["trainJobs"]]
            row.not_seen |= bool(stack.not_seen)
    order = ["removed", "changed", "added"]
    return sorted(
        rows.values(),
        key=lambda row: (
            -row.losing,
            order.index(row.change["change"]) if row.change["change"] in order else len(order),
            -len(row.jobs),
            row.name,
        ),
    )


def let_through(change: Change) -> dict[str, list[str]]:
    """What is let through, with the stacks on which it is."""
    found: dict[str, list[str]] = {}
    for stack in change.stacks:
        for one in stack.granted:
            found.setdefault(one, []).append(stack.name)
    return found | {one: [] for said in change.not_installed.values() for one in said}
