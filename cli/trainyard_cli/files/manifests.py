"""Manifests from files, for the commands that need no cluster.

Called by `render` and `validate`. Only reads; the operator's code interprets
the documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from trainyard_api import documents
from trainyard_api.errors import UserError

CATALOG: Final = Path(__file__).resolve().parents[3] / "runtimes"
"""The catalog of the clone that this package runs from."""


def read(files: Iterable[Path]) -> list[documents.Document]:
    """The documents in the files; raises `UserError` or `DocumentError` with the place."""
    given: list[documents.Document] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{file}:1: not UTF-8") from error
        except OSError as error:
            raise UserError(f"{file}:1: {error.strerror}") from error
        given += documents.parse(text, str(file))
    return given


def catalog(folder: Path) -> list[documents.Document]:
    """The documents of a catalog; raises like `read`."""
    return read(sorted(folder.rglob("*.yaml")))
