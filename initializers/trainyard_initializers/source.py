"""What every source offers, and what is checked before anything is written."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .failures import NotFound, UnsafeSource
from .request import Patterns, plain

MARKER = ".trainyard-initializer.json"
"""The file in a published folder that says what it holds. Never fetched."""

CHUNK = 1 << 20
"""Bytes that are read and written at a time."""

_LONGEST_NAME = 255
_LONGEST_PATH = 1024


@dataclass(frozen=True)
class RemoteFile:
    """A file of a source.

    Args:
        path: Relative to the target folder, with `/`.
        size: In bytes.
        version: Changes with the content: an ETag, a hash, a time of change.
        address: The source's own name for it; `path` if empty.
    """

    path: str
    size: int
    version: str
    address: str = ""


class Hasher(Protocol):
    """The part of `hashlib` that is used."""

    def update(self, data: bytes, /) -> None:
        """Add content."""

    def hexdigest(self) -> str:
        """The digest of the content so far."""


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


@dataclass(frozen=True)
class Checksum:
    """A source's checksum of a file's content.

    Args:
        algorithm: `crc32`, `git` (of a blob), or a name that hashlib knows.
        hexdigest: In lower case.
    """

    algorithm: str
    hexdigest: str

    @classmethod
    def base64(cls, algorithm: str, text: str) -> Checksum:
        """The checksum in S3's notation."""
        return cls(algorithm, base64.b64decode(text).hex())

    def hasher(self, size: int) -> Hasher:
        """A hasher for a file of that size."""
        if self.algorithm == "crc32":
            return _Crc32()
        if self.algorithm == "git":
            return hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        return hashlib.new(self.algorithm, usedforsecurity=False)


class Source(Protocol):
    """Where files come from. Each method may raise a `Failure`; the caller retries passing ones."""

    def files(self) -> Iterable[RemoteFile]:
        """All files, in any order, before patterns."""

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """The checksum that its content must have; None if the source does not know it."""

    def read(self, file: RemoteFile, offset: int) -> Generator[bytes, None, None]:
        """The content from byte `offset` to the end."""


def choose(files: Iterable[RemoteFile], patterns: Patterns, place: str) -> Sequence[RemoteFile]:
    """The files to fetch, sorted by path, each safe to write below one folder.

    Raises:
        UnsafeSource: If a wanted name is absolute, has `..` or the like, or is both a file and a folder.
        NotFound: If there are none.
    """
    count = 0
    chosen = {}
    for file in files:
        count += 1
        if file.path != MARKER and patterns.want(file.path):
            _check(file.path, place)
            chosen[file.path] = file
    for path in chosen:
        for folder in _folders(path):
            if folder in chosen:
                raise UnsafeSource(
                    f"{place} holds {folder!r} as a file and as a folder: leave one out with IGNORE_PATTERNS"
                )
    if not chosen:
        why = f"none of its {count} files is left: check IGNORE_PATTERNS" if count else "it holds no file"
        raise NotFound(f"{place}: {why}")
    return sorted(chosen.values(), key=lambda file: file.path)


def _check(path: str, place: str) -> None:
    parts = path.split("/")
    sound = (
        plain(path)
        and len(path.encode()) <= _LONGEST_PATH
        and all(part not in ("", ".", "..") and len(part.encode()) <= _LONGEST_NAME for part in parts)
    )
    if not sound:
        raise UnsafeSource(
            f"{place} holds the name {path[:200]!r}, which is not a plain relative path: "
            "rename it, or leave it out with IGNORE_PATTERNS"
        )


def _folders(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
