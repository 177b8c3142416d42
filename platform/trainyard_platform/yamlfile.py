"""YAML files with the line of every value, so that an error can say `file:line`.

Values are read as kubectl reads them (`trainyard_api.documents`); this adds
the place of each one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard_api import documents

from .errors import PlatformError

_PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class YamlFile:
    """One YAML document that holds a mapping, with the place of each part."""

    path: Path
    document: documents.Document

    @property
    def value(self) -> dict[str, Any]:
        """What the file holds."""
        return dict(self.document.value)

    def where(self, field: Sequence[str | int] = ()) -> str:
        """`file:line` of a field, or of the nearest parent that exists."""
        return f"{display(self.path)}:{self.document.position(field).line}"

    def error(self, message: str, field: Sequence[str | int] = ()) -> PlatformError:
        """An error about one field of this file."""
        return PlatformError(f"{self.where(field)}: {message}")


def display(path: Path) -> str:
    """A path as the user would write it: relative to the project's folder, if it is inside."""
    return str(path.relative_to(_PROJECT) if path.is_relative_to(_PROJECT) else path)


def load(path: Path) -> YamlFile:
    """Read a file that holds exactly one mapping; every other file is an error with its place."""
    return parse(text(path), path)


def text(path: Path) -> str:
    """What a file holds; raises `PlatformError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlatformError(f"{display(path)}: could not be read: {error}") from error


def parse(text: str, path: Path) -> YamlFile:
    """The one mapping in a text that was read at `path`; raises as `load`."""
    source = display(path)
    try:
        contents = documents.parse(text, source)
    except documents.DocumentError as error:
        raise PlatformError(str(error)) from error
    if len(contents) != 1:
        raise PlatformError(f"{source}:1: must hold one YAML document, holds {len(contents)}")
    return YamlFile(path=path, document=contents[0])
