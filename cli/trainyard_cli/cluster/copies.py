"""Copies files and folders from and to the container of a rank, with the `tar` that is in it.

Called by `trainyard cp`. `files.copies` packs and unpacks.
"""

from __future__ import annotations

import posixpath
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Final

from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_assist.archives import Reader
from trainyard_kube.client import Client

from ..files.copies import Entry, Tally, Unpacking, packed
from .ranks import Rank
from .remote_command import AbsentProgramError, Streams, execute

HERE: Final = "."
_WORDS: Final = 2_000
"""Bytes of what `tar` says that are kept."""

Progress = Callable[[], None]
"""Is called as the tally grows."""


class Words:
    """A program's messages, cut to a readable length."""

    def __init__(self) -> None:
        self._bytes = b""

    async def take(self, data: bytes) -> None:
        """Keep it."""
        self._bytes += data[: _WORDS - len(self._bytes)]

    def __str__(self) -> str:
        return clean(self._bytes.decode(errors="replace").strip().replace("\n", "; "))


async def fetch(
    client: Client, rank: Rank, path: str, target: Path, *, most_bytes: int, tally: Tally, progress: Progress
) -> str:
    """Copy from a rank; returns what `tar` complains of, empty if of nothing.

    Args:
        client: Whose rights are used.
        rank: From where.
        path: Of a file or a folder there. A link is followed.
        target: Where it goes, under this name.
        most_bytes: Of all files together.
        tally: Counts what is copied.
        progress: Is called for each piece.

    Raises:
        UserError: There is nothing to copy, or it was not copied whole.
        ApiError: The cluster could not be queried.
    """
    parent, base = _split(path)
    reader, words = Reader(), Words()
    with Unpacking(target, base, most_bytes=most_bytes, tally=tally) as unpacking:

        async def unpack(data: bytes) -> None:
            for part in reader.feed(data):
                unpacking.take(part)
            progress()

        command = ("tar", "-c", "-h", "-f", "-", "-C", parent, "--", base)
        code = await _tar(client, rank, command, Streams(stdout=unpack, stderr=words.take))
        if code and not tally.files and not unpacking.folders:
            raise UserError(clean(f"{path} of {rank} was not copied: {words}"))
        if not reader.is_whole:
            raise UserError(clean(f"{path} of {rank} was not copied whole: {words}"))
    return str(words) or f"exit code {code}" if code else ""


async def send(
    client: Client, rank: Rank, whole: Sequence[Entry], path: str, *, tally: Tally, progress: Progress
) -> None:
    """Copy to a rank.

    Args:
        client: Whose rights are used.
        rank: To where.
        whole: What there is to send.
        path: Under which name it goes there.
        tally: Counts what is copied.
        progress: Is called for each piece.

    Raises:
        UserError: It was not copied whole.
        ApiError: The cluster could not be queried.
    """
    parent, base = _split(path)
    words = Words()

    async def archive() -> AsyncGenerator[bytes]:
        for piece in packed(whole, base, tally):
            yield piece
            progress()

    command = ("tar", "-x", "-f", "-", "-C", parent)
    if await _tar(client, rank, command, Streams(stdout=words.take, stderr=words.take, stdin=archive())):
        raise UserError(clean(f"{path} of {rank} was not copied whole: {words}"))


async def is_folder(client: Client, rank: Rank, path: str) -> bool:
    """Whether there is a folder of this name where a rank runs."""
    words = Words()
    try:
        return not await execute(
            client, rank, ("test", "-d", path), Streams(stdout=words.take, stderr=words.take)
        )
    except AbsentProgramError:
        return False


async def _tar(client: Client, rank: Rank, command: Sequence[str], streams: Streams) -> int:
    try:
        return await execute(client, rank, command, streams)
    except AbsentProgramError as error:
        raise UserError(
            f"the image of {rank} has no tar, which copies: add it to the image, or write to a volume"
        ) from error


def _split(path: str) -> tuple[str, str]:
    """The folder that a path is in, and its name there; `.` for what has none."""
    parent, base = posixpath.split(path.rstrip("/") or path)
    if base in ("", HERE, ".."):
        return path, HERE
    return parent or HERE, base


def name(path: str) -> str:
    """The last name of a path; `HERE` if it has none."""
    return _split(path)[1]
