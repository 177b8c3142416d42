"""Files and folders of this machine, packed for `tar` and unpacked from it.

Called by `cluster.copies`. What is packed is looked at before anything is sent.
The archive is not trusted: only files and folders below the target are unpacked.
"""

from __future__ import annotations

import os
import posixpath
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_assist.archives import Kind, Member, below

MOST: Final = 200_000
"""Files and folders of a copy."""
_PIECE: Final = 64 * 1024
_END: Final = bytes(2 * tarfile.BLOCKSIZE)
_FEW: Final = 5
_PREFIX: Final = ".trainyard-"
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: int) -> str:
    """Bytes as people read them: `1.5 GiB`."""
    power = min(max(0, count.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{count / 1024**power:.{1 if power else 0}f} {_UNITS[power]}"


@dataclass(slots=True)
class Tally:
    """How far a copy is."""

    files: int = 0
    bytes: int = 0
    expected: int = 0
    """Bytes in the end; 0 where nobody knows."""
    left_out: list[str] = field(default_factory=list)
    """The first names of what is neither a file nor a folder."""
    others: int = 0
    """How many more."""

    def leave_out(self, name: str) -> None:
        """Count what is not copied."""
        if len(self.left_out) < _FEW:
            self.left_out.append(clean(name))
        else:
            self.others += 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder that is sent."""

    path: str
    name: str
    """Below what is copied; empty for that itself."""
    is_folder: bool = False
    size: int = 0
    mode: int = 0o644
    modified: int = 0
    """Seconds since 1970."""


def entries(source: Path, *, most_bytes: int, tally: Tally) -> list[Entry]:
    """The files to send, with links within the folder resolved.

    Args:
        source: A file or a folder.
        most_bytes: Of all files together.
        tally: Takes what is left out.

    Raises:
        UserError: It is not there, cannot be read, is too much, or has a link that leads out of it.
    """
    root = os.path.realpath(source)
    whole: list[Entry] = []
    pending = [(str(source), "", frozenset[str]())]
    while pending:
        path, member, above = pending.pop()
        real = os.path.realpath(path)
        if os.path.commonpath((root, real)) != root:
            raise UserError(
                clean(f"{path} is a link out of {source}, to {real}: copy that by itself, or remove the link")
            )
        try:
            status = os.stat(path)
        except OSError as error:
            if not whole:
                raise UserError(clean(f"{path}: {error.strerror}")) from error
            tally.leave_out(member)
            continue
        is_folder, modified = stat.S_ISDIR(status.st_mode), max(0, int(status.st_mtime))
        if real in above or not (is_folder or stat.S_ISREG(status.st_mode)):
            tally.leave_out(member)
        elif not os.access(path, os.R_OK | (os.X_OK if is_folder else 0)):
            raise UserError(clean(f"{path} cannot be read: nothing was sent"))
        elif is_folder:
            whole.append(Entry(path, member, is_folder=True, mode=0o755, modified=modified))
            for child in sorted(os.listdir(path), reverse=True):
                pending.append((os.path.join(path, child), posixpath.join(member, child), above | {real}))
        else:
            tally.expected += status.st_size
            mode = stat.S_IMODE(status.st_mode) & 0o755
            whole.append(Entry(path, member, size=status.st_size, mode=mode, modified=modified))
        if len(whole) + len(pending) > MOST:
            raise UserError(clean(f"{source} has more than {MOST} files: pack it, and copy the archive"))
        if tally.expected > most_bytes:
            raise UserError(clean(f"{source} has more than {size(most_bytes)}: see --max-size"))
    if not whole:
        raise UserError(clean(f"{source} is neither a file nor a folder"))
    return whole


def packed(whole: Iterable[Entry], name: str, tally: Tally) -> Iterator[bytes]:
    """The archive under a name, in pieces. Raises `UserError` where a file is no longer what it was."""
    for entry in whole:
        info = tarfile.TarInfo(posixpath.join(name, entry.name) if entry.name else name)
        info.mode, info.mtime = entry.mode, entry.modified
        if entry.is_folder:
            info.type = tarfile.DIRTYPE
            yield info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
            continue
        info.size = entry.size
        yield info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        yield from _content(entry, tally)
        yield bytes(-entry.size % tarfile.BLOCKSIZE)
        tally.files += 1
    yield _END


def _content(entry: Entry, tally: Tally) -> Iterator[bytes]:
    left = entry.size
    try:
        with open(entry.path, "rb") as file:
            while left:
                piece = file.read(min(left, _PIECE))
                if not piece:
                    raise UserError(clean(f"{entry.path} became shorter while it was copied: copy it again"))
                left -= len(piece)
                tally.bytes += len(piece)
                yield piece
    except OSError as error:
        raise UserError(clean(f"{entry.path}: {error.strerror}")) from error


class Unpacking:
    """Writes what an archive has. Use as a context manager: a file that is not whole goes with it."""

    def __init__(self, target: Path, base: str, *, most_bytes: int, tally: Tally) -> None:
        self._target = target
        self._base = base
        self._most_bytes = most_bytes
        self._tally = tally
        self._members = 0
        self._expected = 0
        self.folders: set[Path] = set()
        """Those that are there."""
        self._file: IO[bytes] | None = None
        self._path = target
        self._left = 0
        self._mode = 0
        self._umask = os.umask(0)
        os.umask(self._umask)

    def __enter__(self) -> Unpacking:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            # Where the disk is full, closing it fails once more.
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                os.unlink(self._file.name)
            self._file = None

    def take(self, part: Member | bytes) -> None:
        """Write what comes next.

        Raises:
            UserError: It leads out of the target or through a link, is too much, or cannot be written.
        """
        try:
            if isinstance(part, bytes):
                self._write(part)
            else:
                self._begin(part)
        except OSError as error:
            raise UserError(clean(f"{self._path}: {error.strerror}")) from error

    def _begin(self, member: Member) -> None:
        parts = below(member.name, self._base)
        self._members += 1
        self._expected += member.size
        # Also folders that no member is: a path of one brings all that are above it.
        if self._members > MOST or len(self.folders) > MOST:
            raise UserError(f"there are more than {MOST} files: pack them in the pod, and copy the archive")
        if self._expected > self._most_bytes:
            raise UserError(clean(f"more than {size(self._most_bytes)}, with {member.name}: see --max-size"))
        self._path = self._target.joinpath(*parts)
        if member.kind is Kind.OTHER:
            self._tally.leave_out(member.name)
        elif member.kind is Kind.FOLDER:
            self._folder(parts)
        elif member.kind is Kind.HARD_LINK:
            self._link(parts, below(member.target, self._base))
        else:
            if parts:
                self._folder(parts[:-1])
            self._open(member)

    def _folder(self, parts: tuple[str, ...]) -> None:
        """Make a folder and those above it, through no link below the target."""
        for depth in range(len(parts) + 1):
            folder = self._target.joinpath(*parts[:depth])
            if folder in self.folders:
                continue
            with suppress(FileExistsError):
                folder.mkdir()
            if not stat.S_ISDIR((folder.lstat() if depth else folder.stat()).st_mode):
                raise UserError(clean(f"{folder} is not a folder: nothing was written to it"))
            self.folders.add(folder)

    def _open(self, member: Member) -> None:
        # Under its own name once it is whole: nobody reads half a checkpoint.
        self._file = tempfile.NamedTemporaryFile(prefix=_PREFIX, dir=self._path.parent, delete=False)  # noqa: SIM115
        self._left = member.size
        self._mode = (0o777 if member.is_executable else 0o666) & ~self._umask
        self._write(b"")

    def _write(self, piece: bytes) -> None:
        file = self._file
        if file is None:
            raise UserError("what tar sent has content of no file")
        file.write(piece)
        self._left -= len(piece)
        self._tally.bytes += len(piece)
        if not self._left:
            os.fchmod(file.fileno(), self._mode)
            file.close()
            os.replace(file.name, self._path)
            self._file = None
            self._tally.files += 1

    def _link(self, parts: tuple[str, ...], target: tuple[str, ...]) -> None:
        """A hard link to an existing file."""
        file = self._target.joinpath(*target)
        if not parts or file.parent not in self.folders or not stat.S_ISREG(file.lstat().st_mode):
            raise UserError(clean(f"{self._path}: what tar sent links it to {file}, which it has not sent"))
        self._folder(parts[:-1])
        if file != self._path:
            self._path.unlink(missing_ok=True)
            os.link(file, self._path)
        self._tally.files += 1
