"""Settings of a run from its folder: `trainyard.yaml`, the head of its script, and its own name.

Called by `run`. Reads only regular files, and of a script only its head.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from trainyard_api import documents
from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_assist.run import settings
from trainyard_assist.run.settings import Settings
from trainyard_assist.run.starters import script_of

FILE: Final = "trainyard.yaml"
_HEAD: Final = 64 * 1024
"""Bytes of a script that are read."""
_LONGEST: Final = 40
_OTHERS: Final = re.compile(r"[^A-Za-z0-9]+")


def of_folder(folder: Path) -> Settings:
    """The settings of the folder's `trainyard.yaml`; none without one.

    Raises:
        UserError: It cannot be read, or is wrong; with `file:line`.
    """
    file = folder / FILE
    if not file.is_symlink() and not file.exists():
        return Settings()
    try:
        text = _beginning(file, documents.MAX_BYTES + 1).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{FILE}:1: not UTF-8") from error
    return settings.of_file(text, FILE)


def of_script(folder: Path, command: Sequence[str]) -> Settings:
    """The settings at the head of the script that a command runs; none if the folder has no such file.

    Raises:
        UserError: It cannot be read, or is wrong; with `file:line`.
    """
    script = script_of(command)
    if not script or not _is_file(folder / script):
        return Settings()
    head = _beginning(folder / script, _HEAD)
    whole = head if len(head) < _HEAD else head.rpartition(b"\n")[0]
    return settings.of_head(whole.decode("utf-8-sig", errors="replace").split("\n"), script)


def workspace(folder: Path, settings: Settings, *, is_copy: bool = False) -> Path | None:
    """The folder that travels with a run; None without one.

    It is the one that is named, else this one if there are requirements, or the script of the command is
    there. A copy has that of its model; TorchTune's recipes are in its image, and only their settings are
    files.

    Raises:
        UserError: The requirements are in it, and it is not to travel.
    """
    if settings.workspace == "" and settings.requirements:
        file = clean(settings.requirements)
        raise UserError(f"the requirements {file} travel with the folder: leave out --no-workspace")
    if settings.workspace is not None:
        return folder / settings.workspace if settings.workspace else None
    if settings.requirements:
        return folder
    if is_copy or settings.command[:1] == ["tune"]:
        return None
    return folder if script(folder, settings) else None


def script(workspace: Path, settings: Settings) -> str:
    """The script of the command, as the folder that travels has it; empty if it is not there."""
    path = PurePosixPath(script_of(settings.command))
    is_inside = bool(path.name) and not path.is_absolute() and ".." not in path.parts
    return str(path) if is_inside and _is_file(workspace / path) else ""


def requirements(folder: Path, workspace: Path, settings: Settings) -> str:
    """The file with the requirements, as the folder that travels has it; empty without one.

    Raises:
        UserError: It is not in that folder.
    """
    if not settings.requirements:
        return ""
    file, home = (os.path.abspath(path) for path in (folder / settings.requirements, workspace))
    if os.path.commonpath((file, home)) != home:
        raise UserError(
            clean(f"{settings.requirements}: is not in the folder that travels, {workspace.resolve()}")
        )
    return PurePosixPath(os.path.relpath(file, home)).as_posix()


def label(folder: Path) -> str:
    """The identity of a folder: its name, and a digest of its path."""
    path = folder.resolve()
    digest = hashlib.sha256(f"{socket.gethostname()}:{path}".encode(errors="surrogateescape")).hexdigest()
    return "-".join(filter(None, (_OTHERS.sub("-", path.name)[:_LONGEST].strip("-"), digest[:8])))


def _is_file(path: Path) -> bool:
    """Whether it is a regular file; a word of a command may be too long for the name of one."""
    try:
        return path.is_file()
    except OSError:
        return False


def _beginning(file: Path, size: int) -> bytes:
    if not _is_file(file):
        raise UserError(f"{file}: is not a regular file")
    try:
        with file.open("rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise UserError(f"{file}:1: {error.strerror}") from error
