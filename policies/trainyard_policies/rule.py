"""The types of rules and their findings.

A rule looks at values and returns values: no file, no cluster, no clock. What
it finds names a field by its path, so that each gate can show the place in its
own way, and if the remedy is certain, it includes the edits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from trainyard_api import json_reader, similar
from trainyard_api.errors import FieldError, FieldPath, InvalidFieldError
from trainyard_api.json_types import copied

from .manifest import Manifest, Workload
from .parameters import Parameters
from .subject import Subject

Value = TypeVar("Value")

REFERENCE = "docs/policies/rules.md"
MOST: Final = 50
"""Findings of a rule about one manifest: nobody reads more, and more may be an attack."""
LONGEST: Final = 300
"""Characters of what is wrong with a field."""
_SHOWN: Final = 60
_LISTED: Final = 10
"""The most names in a list of choices."""


class Level(StrEnum):
    """The consequence of a finding: none, a warning, a repair, or a refusal.

    `remediate` repairs where a gate can write (`pulumi up`, `lint --fix`) and
    refuses elsewhere.
    """

    DISABLED = "disabled"
    ADVISORY = "advisory"
    REMEDIATE = "remediate"
    MANDATORY = "mandatory"

    @property
    def refuses(self) -> bool:
        """Whether a gate that cannot repair refuses a manifest for a finding of this level."""
        return self in (Level.REMEDIATE, Level.MANDATORY)


class Severity(StrEnum):
    """Severity of a finding that nobody fixes."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a manifest: the field at `path` becomes `value`; None removes it."""

    path: FieldPath
    value: Any = None

    def __str__(self) -> str:
        end = self.path.end
        return f"{end} removed" if self.value is None else f"{end} set to {_short(self.value)}"


@dataclass(frozen=True, slots=True)
class Rename:
    """One change of a manifest: the field at `path` is renamed to `name`, and keeps its place and value."""

    path: FieldPath
    name: str

    def __str__(self) -> str:
        return f"{self.path.end} renamed to {self.name}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with one field, as a sentence, and the edits that fix it, if they are certain."""

    path: FieldPath
    message: str
    """At most `LONGEST` characters: the middle of a longer text is left out."""
    edits: tuple[Edit | Rename, ...] = ()
    against: str = field(default="", compare=False)
    """The parameter that the field is compared with, as a stack file spells it, such as `registries` or
    `pools.h100`; empty if a stack has no say."""

    def __post_init__(self) -> None:
        if len(self.message) > LONGEST:
            half = LONGEST // 2
            short = f"{self.message[:half]} ... {self.message[5 - half :]}"
            object.__setattr__(self, "message", short)

    @classmethod
    def of(cls, error: FieldError) -> Finding:
        """What a field error says."""
        return cls(FieldPath(error.path), str(error).removeprefix(f"{error.path}: "))


@dataclass(frozen=True, kw_only=True)
class About:
    """The description of a rule."""

    id: str
    """Kebab-case; never renamed, because stack files and exceptions name it."""
    title: str
    """The required state, as a sentence without a full stop."""
    why: str
    """The consequence of a violation."""
    remedy: str
    """The way out, in the imperative."""
    severity: Severity
    levels: Mapping[Subject, Level]
    """The default by subject; the rule does not apply to a missing subject."""
    parameters: Sequence[str] = ()
    """Fields of `Parameters` that it reads."""
    fixes: bool = False
    """Whether some of its findings include edits."""
    page: str = ""
    """Where to read more; if left out, its section of the reference."""

    @property
    def docs(self) -> str:
        """Where to read more."""
        return self.page or f"{REFERENCE}#{self.id}"


@dataclass(frozen=True, kw_only=True)
class Rule(About):
    """A rule about one runtime or TrainJob."""

    check: Callable[[Workload, Parameters], Iterable[Finding]] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class StackRule(About):
    """A rule about all manifests together; a finding comes with the manifest that it is about, not a copy."""

    check: Callable[[Sequence[Manifest], Parameters], Iterable[tuple[Manifest, Finding]]] = field(repr=False)


def edited(manifest: Value, edits: Iterable[Edit | Rename]) -> Value:
    """A copy of the manifest with the edits made; missing parents are created."""
    result = copied(manifest)
    for edit in edits:
        apply(result, edit)
    return result


def apply(manifest: Any, edit: Edit | Rename) -> None:
    """Make an edit in place; an edit whose place no longer exists is left out."""
    *parents, last = edit.path.steps
    holder = manifest
    for step in parents:
        child = member(holder, step)
        if child is None:
            if isinstance(edit, Rename) or edit.value is None or not isinstance(holder, MutableMapping):
                return
            child = holder[step] = {}
        holder = child
    if isinstance(edit, Edit):
        _set(holder, last, edit.value)
    elif isinstance(holder, MutableMapping) and last in holder:
        holder[edit.name] = holder.pop(last)


def at(manifest: Any, path: FieldPath) -> Any:
    """What a manifest has at a path; None if it has nothing there."""
    for step in path.steps:
        manifest = member(manifest, step)
    return manifest


def member(holder: Any, step: str) -> Any:
    """The field or the element of that name or position; None if there is none."""
    if isinstance(holder, MutableMapping):
        return holder.get(step)
    if isinstance(holder, MutableSequence) and step.isdecimal() and int(step) < len(holder):
        return holder[int(step)]
    return None


def _set(holder: Any, step: str, value: Any) -> None:
    if isinstance(holder, MutableMapping):
        if value is None:
            holder.pop(step, None)
        else:
            holder[step] = copied(value)
    elif isinstance(holder, MutableSequence) and step.isdecimal() and int(step) < len(holder):
        if value is None:
            del holder[int(step)]
        else:
            holder[int(step)] = copied(value)


def _short(value: Any) -> str:
    """A value as one line of YAML in flow style, its end left out if it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def listed(items: Sequence[str], separator: str = ", ", *, none: str = "none") -> str:
    """Names from a manifest, in one line: the first ones, each shortened."""
    text = separator.join(str(json_reader.shown(item)) for item in items[:_LISTED])
    return (text or none) + (f" and {len(items) - _LISTED} more" if len(items) > _LISTED else "")


def among(name: str, choices: Sequence[str]) -> str:
    """The choices and the nearest one, as the end of a sentence about an unknown name."""
    allowed = listed(choices, none="there is none")
    return f" ({allowed}), is {json_reader.shown(name)}{similar.hint(name, choices)}"


def unreadable(manifest: Manifest, error: InvalidFieldError) -> Iterator[tuple[Manifest, Finding]]:
    """What a rule about all manifests could not read of one of them, as findings."""
    yield from ((manifest, Finding.of(problem)) for problem in error.errors)


def nothing(*_: Any) -> Iterator[Finding]:
    """The check of a rule that the engine itself implements."""
    yield from ()
