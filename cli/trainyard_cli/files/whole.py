"""Writes a file so that its readers never see half of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write(file: Path, text: str) -> None:
    """Replace the file, and make its folder.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
