"""Writes an archive that only its owner may read: all of it, or none.

Called by `trainyard dump`. Until it is whole it has another name, under which
nobody takes it for one; whatever ends the writing removes it.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainyard_api.errors import UserError

_MODE = 0o600


class Archive:
    """A tar.gz that is being written, with all files in one folder."""

    def __init__(self, tar: tarfile.TarFile, folder: str) -> None:
        self._tar = tar
        self._folder = folder
        self._time = int(time.time())
        self.files: dict[str, int] = {}
        """Bytes of each file, in the order in which they were added."""

    def add(self, path: str, text: str) -> None:
        """Add a file."""
        content = text.encode(errors="replace")
        entry = tarfile.TarInfo(f"{self._folder}/{path}")
        entry.size, entry.mode, entry.mtime = len(content), _MODE, self._time
        self._tar.addfile(entry, io.BytesIO(content))
        self.files[path] = len(content)


def require_free(path: Path, *, force: bool) -> None:
    """Raise `UserError` if an archive cannot be written there; with `force` it may replace a file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise _refused(path, error) from error
    if mode is not None and not stat.S_ISREG(mode):
        raise UserError(f"{path}: is not a file; name another with --output")
    if mode is not None and not force:
        raise UserError(f"{path}: already exists; name another with --output, or replace it with --force")
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: there is no such folder")


@contextmanager
def written(path: Path, folder: str, *, force: bool) -> Iterator[Archive]:
    """An archive that is at its path once this ends, with mode 0600, and nowhere if it ends by an error.

    Args:
        path: Where it goes.
        folder: The folder that all of its files are in.
        force: Replace an existing file.

    Raises:
        UserError: It cannot be written.
    """
    require_free(path, force=force)
    partial = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        try:
            with open(file, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as tar:
                yield Archive(tar, folder)
            if force:
                partial.replace(path)
            else:
                _move(partial, path)
        finally:
            with suppress(FileNotFoundError):
                partial.unlink()
    except OSError as error:
        raise _refused(path, error) from error


def _move(partial: Path, path: Path) -> None:
    """Give it its name, unless somebody has taken that in the meantime."""
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        require_free(path, force=False)
        partial.rename(path)


def _refused(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be written: {error.strerror or error}")
