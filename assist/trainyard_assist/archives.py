"""Reads an untrusted tar archive piece by piece: its members, and their paths below the target.

Called by `trainyard cp`. The sender may be hostile: only a header and the name after it are kept, and a name
cannot lead out of the target. Pure.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trainyard_api.errors import UserError
from trainyard_api.printable import clean

_BLOCK: Final = tarfile.BLOCKSIZE
_LONGEST: Final = 64 * 1024
"""Bytes of a member's further attributes after its header, such as a long name."""
_LARGEST: Final = 2**63 - 1
_DIGITS: Final = 19
_FILES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_ATTRIBUTES: Final = frozenset({"path", "linkpath", "size"})
"""Attributes that are read from a pax header; others are dropped."""
_SPARSE: Final = "GNU.sparse"
"""How the attributes of a file with holes begin."""
_RECORDS: Final = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
_EMPTY: Final = (
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.DIRTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
)
"""No content follows them, whatever size they say."""


class Kind(StrEnum):
    """Type of a member."""

    FILE = "file"
    FOLDER = "folder"
    HARD_LINK = "hard link"
    OTHER = "other"
    """A symbolic link, a device, a pipe: nothing that is unpacked."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an archive."""

    name: str
    kind: Kind
    size: int = 0
    """Bytes of a file."""
    is_executable: bool = False
    target: str = ""
    """The member that a hard link is another name of."""


class Reader:
    """An archive that comes in pieces."""

    def __init__(self) -> None:
        self._header = b""
        self._member: Member | None = None
        self._record: bytearray | None = None
        self._type = b""
        self._left = 0
        self._padding = 0
        self._long: dict[str, str] = {}
        self.is_whole = False
        """Whether the archive has ended."""

    def feed(self, piece: bytes) -> Iterator[Member | bytes]:
        """The content of this piece: members, and after each file its bytes.

        Raises:
            UserError: It is not an archive that `tar` would send.
        """
        at = 0
        while at < len(piece) and not self.is_whole:
            if self._left:
                part = piece[at : at + self._left]
                self._left -= len(part)
                at += len(part)
                if self._record is not None:
                    self._record += part
                elif self._member is not None:
                    yield part
                if not self._left:
                    self._end_of_content()
            elif self._padding:
                skipped = min(self._padding, len(piece) - at)
                self._padding -= skipped
                at += skipped
            else:
                part = piece[at : at + _BLOCK - len(self._header)]
                self._header += part
                at += len(part)
                if len(self._header) == _BLOCK and (member := self._next()) is not None:
                    yield member

    def _next(self) -> Member | None:
        """Read a header; returns its member, unless it has attributes of the next one."""
        header, self._header = self._header, b""
        if not any(header):
            self.is_whole = True
            return None
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise UserError(f"what tar sent is not an archive: {error}") from error
        self._type = info.type
        if info.type in _RECORDS:
            if not 0 <= info.size <= _LONGEST:
                raise UserError(f"what tar sent has a name of {info.size} bytes")
            self._expect(info.size)
            self._record = bytearray()
            if not info.size:
                self._end_of_content()
            return None
        return self._described(info)

    def _described(self, info: tarfile.TarInfo) -> Member:
        long, self._long = self._long, {}
        name = long.get("path", info.name)
        size = long.get("size", str(info.size))
        is_sparse = info.type == tarfile.GNUTYPE_SPARSE or _SPARSE in long
        if is_sparse or not (size.isdecimal() and len(size) <= _DIGITS and int(size) <= _LARGEST):
            raise UserError(clean(f"what tar sent has a file with an invalid size: {name}"))
        self._expect(0 if info.type in _EMPTY else int(size))
        if info.type in _FILES:
            # Long ago, a folder was a file whose name ends so.
            kind = Kind.FOLDER if name.endswith("/") else Kind.FILE
            member = Member(name, kind, int(size), is_executable=bool(info.mode & 0o100))
        elif info.type == tarfile.DIRTYPE:
            member = Member(name, Kind.FOLDER)
        elif info.type == tarfile.LNKTYPE:
            member = Member(name, Kind.HARD_LINK, target=long.get("linkpath", info.linkname))
        else:
            member = Member(name, Kind.OTHER)
        self._member = member if member.kind is Kind.FILE else None
        return member

    def _expect(self, size: int) -> None:
        self._left, self._padding = size, -size % _BLOCK

    def _end_of_content(self) -> None:
        if self._record is None:
            return
        record, self._record = bytes(self._record), None
        if self._type == tarfile.GNUTYPE_LONGNAME:
            self._long["path"] = _text(record.rstrip(b"\0"))
        elif self._type == tarfile.GNUTYPE_LONGLINK:
            self._long["linkpath"] = _text(record.rstrip(b"\0"))
        elif self._type == tarfile.XHDTYPE:
            for key, value in _attributes(record):
                if key.startswith(_SPARSE):
                    self._long[_SPARSE] = value
                elif key in _ATTRIBUTES:
                    self._long[key] = value


def _text(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def _attributes(record: bytes) -> Iterator[tuple[str, str]]:
    """The records of a pax header: each `11 path=abc` with a line feed; the number counts its bytes."""
    at = 0
    while at < len(record):
        space = record.find(b" ", at, at + _DIGITS)
        length = record[at : max(at, space)]
        end = at + int(length) if length.isdigit() else at
        key, equals, value = record[space + 1 : end].partition(b"=")
        if not equals or not value.endswith(b"\n") or end > len(record):
            raise UserError("what tar sent is not an archive: bad pax header")
        yield _text(key), _text(value[:-1])
        at = end


def below(name: str, base: str) -> tuple[str, ...]:
    """The path of a member below the requested path, in parts; empty for the requested path itself.

    Args:
        name: As the archive has it.
        base: The requested path: one name, or `.`.

    Raises:
        UserError: It leads out of the target, which `tar` never sends.
    """
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    inside = parts if base == "." else parts[1:]
    if name.startswith("/") or ".." in parts or "\0" in name or (base != "." and parts[:1] != (base,)):
        raise UserError(clean(f"what tar sent leads out of the target: {name}: nothing of it was written"))
    return inside
