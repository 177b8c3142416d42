"""Writes a file so that its readers never see half of it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def write(file: Path, text: str, *, like: os.stat_result | None = None) -> None:
    """Replace the file, and make its folder. It gets the owner and the rights of `like`.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        if like is not None:
            with suppress(PermissionError):
                os.chown(part, like.st_uid, like.st_gid)
            part.chmod(stat.S_IMODE(like.st_mode))
        part.replace(file)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
