"""Which files are linted, and what they contain.

Folders are searched for `*.yaml` and `*.yml`, hidden ones left out. A symbolic
link that is named is followed; one that is found in a folder is not, because
its target is linted where it is, or does not belong to this folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from trainyard_api.errors import UserError

SUFFIXES: Final = (".yaml", ".yml")


class CannotLintError(UserError):
    """The files cannot be linted; the message is for the user."""


def find(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The named files, and those in the named folders, each once; raises `CannotLintError`."""
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            files |= dict.fromkeys(_inside(path))
        elif path.is_file():
            files[path] = None
        elif path.exists():
            raise CannotLintError(f"{path}: neither a file nor a folder")
        else:
            raise CannotLintError(f"{path}: no such file or folder")
    return tuple(files)


def read(path: Path) -> str:
    """The text of a file; raises `CannotLintError` with its place."""
    try:
        # Unchanged: a repair must not change all line ends.
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise CannotLintError(f"{path}:1: not UTF-8") from error
    except OSError as error:
        raise CannotLintError(f"{path}:1: {error.strerror}") from error


def _inside(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _inside(path)
        elif path.suffix in SUFFIXES and path.is_file():
            yield path
