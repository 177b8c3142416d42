"""Effects of a pull request on stacks and TrainJobs, as values for the report; pure.

`report` makes them from what git, `make preview` and `make impact` say, and
`report_markdown` puts them into words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard_api import places
from trainyard_delivery.impact import Field, Ref
from trainyard_delivery.rollout.outcome import Outcome
from trainyard_policies.lint.report import Report


@dataclass(frozen=True, slots=True)
class Preview:
    """The kept result of `make preview` for a stack."""

    code: int
    output: str
    outcome: Outcome
    not_read: str = ""
    """Why the outcome is unknown; empty if it is known."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The effects of the change on one stack."""

    name: str
    is_new: bool = False
    """Whether the stack had no file where the branch left; then nothing counts as a change."""
    changes: Sequence[Mapping[str, Any]] = ()
    """As in a document of `impact`."""
    settings: Sequence[Field] = ()
    """Other changes in the stack file."""
    replaced: Sequence[str] = ()
    """Changes that recreate the whole stack, or leave it behind: a sentence each."""
    granted: Sequence[str] = ()
    """Newly allowed violations: a sentence each."""
    runtimes: frozenset[str] = frozenset()
    """Names of the runtimes that it has or had."""
    not_compared: str = ""
    """Why the change could not be determined from git."""
    was_invalid: bool = False
    """Whether that is because its files were invalid before the change, which they no longer are."""
    not_seen: str = ""
    """Why the TrainJobs that it reaches are unknown; empty if they are known."""
    preview: Preview | None = None
    """None if there was no preview."""

    @property
    def file(self) -> str:
        """The path of its file from the site."""
        return f"stacks/{places.stack_file(self.name)}"

    @property
    def passes(self) -> bool:
        """Whether the preview succeeded, and refuses nothing."""
        return self.preview is not None and not self.preview.code and not self.warns

    @property
    def warns(self) -> bool:
        """Whether the preview succeeded, and says what a roll-out refuses unless an option names it."""
        return self.preview is not None and not self.preview.code and bool(self.preview.outcome.refusals)

    @property
    def fails(self) -> bool:
        """Whether the preview failed."""
        return self.preview is not None and bool(self.preview.code)

    @property
    def outcome(self) -> str:
        """The preview in a few words: what refuses, or how much would change."""
        if self.preview is None or self.preview.not_read:
            return "see below"
        outcome = self.preview.outcome
        worst = (
            [*outcome.refusals, *outcome.errors, outcome.summary] if not self.passes else [outcome.summary]
        )
        return worst[0] or "see below"


@dataclass(frozen=True, slots=True)
class Change:
    """Everything that a pull request does."""

    findings: Report
    """What `verify` says."""
    stacks: Sequence[Stack]
    not_installed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Changed runtimes that no stack has, and what is newly let through in each."""
    removed: Sequence[str] = ()
    """Stacks whose file is gone."""
    versions: tuple[str, str] | None = None
    """The version of Trainyard that the site had, and the one that it gets; None if it stays."""
    unjudged: Sequence[str] = ()
    """Folders that have also changed and affect all stacks."""
    has_results: bool = False
    """Whether there should be previews."""
    run: str = ""
    """Address of the pipeline's run."""


@dataclass(slots=True)
class Row:
    """An object that changes in the same way on some stacks."""

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
        """The object in words."""
        return str(Ref(self.change["kind"], self.change["namespace"], self.change["name"]))


def rows_of(stacks: Sequence[Stack]) -> list[Row]:
    """The changes of all stacks, equal ones together, those that lose the most first."""
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
    """Newly allowed violations, each with its stacks."""
    stacks_of: dict[str, list[str]] = {}
    for stack in change.stacks:
        for sentence in stack.granted:
            stacks_of.setdefault(sentence, []).append(stack.name)
    of_no_stack = (sentence for sentences in change.not_installed.values() for sentence in sentences)
    return stacks_of | {sentence: [] for sentence in of_no_stack}
