"""What the rules say about documents, with the place of each finding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from trainyard_api import names, similar
from trainyard_api.documents import Document, Position

from .. import engine
from ..engine import Violation
from ..settings import Policies
from .files import CannotLintError

_KINDS = (*sorted(names.RUNTIME_KINDS), names.TRAINJOB)


@dataclass(frozen=True, slots=True)
class Entry:
    """A violation, and its place."""

    source: str
    position: Position
    violation: Violation


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found, by file and line, and how much was checked."""

    entries: tuple[Entry, ...]
    workloads: int
    """Runtimes and TrainJobs."""
    others: int
    """Other objects, which only the rules about all manifests check."""

    @property
    def refuses(self) -> bool:
        """Whether something is refused."""
        return any(entry.violation.refuses for entry in self.entries)

    def with_entries(self, more: Iterable[Entry]) -> Report:
        """This, and what else was found in the same files, in order of place."""
        return replace(self, entries=_in_order([*self.entries, *more]))


def of(
    documents: Sequence[Document], today: date, policies: Policies, beside: Sequence[Document] = ()
) -> Report:
    """The report on all documents that are Kubernetes objects.

    `beside`: further manifests for rules about all manifests. The report
    leaves out findings about them.
    """
    objects = [document for document in documents if _is_object(document)]
    entries = [
        Entry(document.source, document.position(violation.finding.path.steps), violation)
        for document in objects
        for violation in engine.check(document.value, today, policies)
    ]
    everything = [document.value for document in (*objects, *beside)]
    for at, violation in engine.check_all(everything, today, policies):
        if at >= len(objects):
            continue
        document = objects[at]
        place = document.position(violation.finding.path.steps)
        entries.append(Entry(document.source, place, violation))
    workloads = sum(engine.subject(document.value) is not None for document in objects)
    return Report(_in_order(entries), workloads, len(objects) - workloads)


def _in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(
        sorted(entries, key=lambda entry: (entry.source, entry.position.line, entry.position.column))
    )


def require_known(document: Document) -> None:
    """Refuse what only looks like something to lint; raises `CannotLintError`."""
    version, kind = document.value.get("apiVersion"), document.value.get("kind")
    if isinstance(version, str) and version.partition("/")[0] == names.TRAINER_GROUP:
        if version != names.TRAINER_API_VERSION:
            line = document.position(["apiVersion"]).line
            raise CannotLintError(
                f"{document.source}:{line}: {version} is unknown: use {names.TRAINER_API_VERSION}"
            )
        if kind not in _KINDS:
            line = document.position(["kind"]).line
            hint = similar.hint(str(kind), _KINDS)
            raise CannotLintError(
                f"{document.source}:{line}: {version} has no kind {kind} (it has {', '.join(_KINDS)}){hint}"
            )


def _is_object(document: Document) -> bool:
    value = document.value
    return isinstance(value.get("apiVersion"), str) and isinstance(value.get("kind"), str)
