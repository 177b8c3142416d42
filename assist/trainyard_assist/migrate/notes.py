"""Notes about a migrated job: the place, the result, and the reason.

Used by every module of this package. A note never stops a conversion; what
cannot be converted at all raises `InvalidFieldError`, which `convert` turns
into a note too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from trainyard_api.documents import Document
from trainyard_api.errors import FieldPath


class Level(StrEnum):
    """The result for a field."""

    CHANGED = "changed"
    """Carried over in another form."""
    LOST = "lost"
    """Not carried over."""
    REFUSED = "refused"
    """The whole object is not carried over."""
    NOTE = "note"
    """Nothing is missing: a remark about the object in the cluster."""


@dataclass(frozen=True, slots=True)
class Note:
    """One remark about one field of one source object."""

    level: Level
    source: str
    """The file."""
    line: int
    path: str
    """The field, from the root of the document."""
    message: str

    def __str__(self) -> str:
        field_path = f"{_printable(self.path)}: " if self.path else ""
        return f"{self.source}:{self.line}: {self.level}: {field_path}{_printable(self.message)}"


@dataclass(frozen=True, slots=True)
class Notes:
    """Collects the notes about one object, which is at `base` in its document."""

    document: Document
    base: FieldPath = field(default_factory=FieldPath)
    collected: list[Note] = field(default_factory=list)

    @property
    def line(self) -> int:
        """Where the object begins."""
        return self.document.position(self.base.steps).line

    @property
    def place(self) -> str:
        """`source:line` of the object, for messages."""
        return f"{self.document.source}:{self.line}"

    def changed(self, path: FieldPath | str, message: str) -> None:
        """The field is carried over in another form."""
        self._add(Level.CHANGED, path, message)

    def lost(self, path: FieldPath | str, message: str) -> None:
        """The field is not carried over."""
        self._add(Level.LOST, path, message)

    def note(self, path: FieldPath | str, message: str) -> None:
        """The cluster says this about the object."""
        self._add(Level.NOTE, path, message)

    def refused(self, path: FieldPath | str, message: str) -> None:
        """Because of the field, the object is not carried over."""
        self._add(Level.REFUSED, path, message)

    def sorted(self) -> tuple[Note, ...]:
        """The notes, from the top of the file to its bottom."""
        return tuple(sorted(self.collected, key=lambda note: note.line))

    def _add(self, level: Level, path: FieldPath | str, message: str) -> None:
        whole = FieldPath(".".join(part for part in (str(self.base), str(path)) if part))
        line = self.document.position(whole.steps).line
        self.collected.append(Note(level, self.document.source, line, str(whole), message))


def _printable(text: str) -> str:
    """The text on one line, whatever characters a field's name has."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
