"""Manifests from files, for the commands that need no cluster.

Called by `render` and `validate`. Only reads; the operator's code interprets
the documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trainyard_api import documents, places
from trainyard_api.errors import UserError


def read(files: Iterable[Path]) -> list[documents.Document]:
    """The documents in the files; raises `UserError` or `DocumentError` with the place."""
    return [document for file in files for document in documents.parse(text(file), str(file))]


def text(file: Path) -> str:
    """What is in a file; raises `UserError` with the place."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{file}:1: not UTF-8") from error
    except OSError as error:
        raise UserError(f"{file}:1: {error.strerror}") from error


def catalog(folder: Path | None = None) -> list[documents.Document]:
    """The documents of a catalog; raises like `read`.

    Args:
        folder: Where it is; None: that of the site, or outside of one that which comes with Trainyard.
    """
    if folder is None:
        return read(places.site_or_shipped().catalog)
    return read(sorted(folder.rglob("*.yaml")))
