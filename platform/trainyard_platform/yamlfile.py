"""YAML files with the line of every value, so that an error can say `file:line`.

Values are read as kubectl reads them (`trainyard_api.documents`); this adds
the place of each one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainyard_api import documents, places

from .errors import PlatformError

_Model = TypeVar("_Model", bound=BaseModel)


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
        return f"{places.shown(self.path)}:{self.document.position(field).line}"

    def error(self, message: str, field: Sequence[str | int] = ()) -> PlatformError:
        """An error about one field of this file."""
        return PlatformError(f"{self.where(field)}: {message}")

    def validated(self, model: type[_Model]) -> _Model:
        """The mapping as a model; raises `PlatformError` with the place of the first field that is wrong."""
        try:
            return model.model_validate(self.value)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(step) for step in first["loc"])
            raise self.error(f"{field}: {first['msg']}", first["loc"]) from error


def load(path: Path) -> YamlFile:
    """Read a file that holds exactly one mapping; every other file is an error with its place."""
    return parse(text(path), path)


def text(path: Path) -> str:
    """What a file holds; raises `PlatformError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlatformError(f"{places.shown(path)}: could not be read: {error}") from error


def parse(text: str, path: Path) -> YamlFile:
    """The one mapping in a text that was read at `path`; raises as `load`."""
    source = places.shown(path)
    try:
        contents = documents.parse(text, source)
    except documents.DocumentError as error:
        raise PlatformError(str(error)) from error
    if len(contents) != 1:
        raise PlatformError(f"{source}:1: must hold one YAML document, holds {len(contents)}")
    return YamlFile(path=path, document=contents[0])
