"""A bundle: what was built once, so that other machines fetch it in place of building it.

A folder with `index.json` and a file for each piece, or a plain tar of that
folder, or an address that serves it. A piece is what `toolchain` or `images`
would otherwise build, named by its path in the cache, which holds the hash of
all that it was built from: so a bundle of another commit serves for whatever
has not changed since. The index says the SHA-256 of each file, and whoever
names an address says the SHA-256 of the index.

`TRAINYARD_BUNDLE` names the bundle; `take` fetches a piece of it into the
cache. `bundle_writer` makes bundles.
"""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import os
import platform
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Annotated, Final
from urllib.parse import urldefrag

from pydantic import Field, StringConstraints, ValidationError

from trainyard_api.strict import StrictModel, sentences

from .downloads import (
    PROBLEMS,
    Address,
    BrokenError,
    Folder,
    Place,
    digest_of,
    fetch,
    human,
    reason,
    require_safe,
)
from .errors import SandboxError
from .paths import cache_dir
from .progress import Progress

VARIABLE: Final = "TRAINYARD_BUNDLE"
INDEX: Final = "index.json"
API_VERSION: Final = "bundle.trainyard.dev/v1alpha1"

_SHA256: Final = r"^[0-9a-f]{64}$"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_FRAGMENT: Final = re.compile(r"sha256=([0-9a-f]{64})")
_INDEX_AT_MOST: Final = 4 << 20
_OTHERWISE: Final = f"Without {VARIABLE}, it is built here."


class Piece(StrictModel):
    """A file of a bundle: a gzipped tar of a folder in the cache, or a file in the cache as it is."""

    file: Annotated[str, StringConstraints(pattern=f"^{_NAME}$")]
    """Its name beside the index."""
    sha256: Annotated[str, StringConstraints(pattern=_SHA256)]
    """The SHA-256 of the file."""
    size: Annotated[int, Field(ge=0)]
    """Its bytes."""


class Index(StrictModel):
    """What a bundle holds."""

    api_version: Annotated[str, Field(pattern=f"^{re.escape(API_VERSION)}$")] = API_VERSION
    """The format of the bundle."""
    machine: str
    """What its programs run on, as `platform.machine()` says it: x86_64."""
    pieces: dict[Annotated[str, StringConstraints(pattern=rf"^(bin|artifacts|images)(/{_NAME})+$")], Piece]
    """By path in the cache."""


def take(path: str, progress: Progress) -> bool:
    """Fetch a piece into the cache, from the bundle that the environment names, if it has the piece.

    Args:
        path: What is wanted, as a path in the cache, such as `bin/etcd/v3.6.6-...`.
        progress: Shows how far it is.

    Raises:
        SandboxError: The bundle cannot be read, or the piece is not what the index says.
    """
    where = os.environ.get(VARIABLE)
    return bool(where) and _bundle(str(where)).take(path, progress)


def sizes(paths: Iterable[str]) -> dict[str, int]:
    """What the bundle has that the environment names, with the bytes of each; nothing without one.

    Args:
        paths: Pieces, as paths in the cache; `?` stands for any character.

    Raises:
        SandboxError: The bundle cannot be read.
    """
    where = os.environ.get(VARIABLE)
    pieces = _bundle(where).index.pieces if where else {}
    return {path: pieces[path].size for pattern in paths for path in fnmatch.filter(pieces, pattern)}


@cache
def _bundle(where: str) -> Bundle:
    return Bundle.read(where)


@dataclass(frozen=True)
class Archive:
    """A tar of such a folder, not compressed."""

    path: Path

    def open(self, name: str, start: int) -> IO[bytes]:
        """As `Place` says."""
        try:
            archive = tarfile.open(self.path, "r:")  # noqa: SIM115 (the file that is returned needs it)
            member = next((each for each in archive if Path(each.name).name == name and each.isfile()), None)
        except tarfile.TarError as error:
            raise OSError(f"it is no tar: {error}") from error
        file = None if member is None else archive.extractfile(member)
        if file is None:
            raise FileNotFoundError(name)
        file.seek(start)
        return file


@dataclass(frozen=True)
class Bundle:
    """A bundle that is there."""

    where: str
    """As the user named it."""
    place: Place
    index: Index

    @classmethod
    def read(cls, where: str) -> Bundle:
        """Find a bundle and read its index.

        Args:
            where: A folder, a tar, or an address with `#sha256=` and the digest of its index.

        Raises:
            SandboxError: There is none, it is for another machine, or the index is not the one that is meant.
        """
        place, digest = _place(where)
        try:
            with place.open(INDEX, 0) as file:
                text = file.read(_INDEX_AT_MOST)
        except FileNotFoundError:
            raise _unusable(where, f"there is no {INDEX}") from None
        except PROBLEMS as error:
            raise _unusable(where, reason(error)) from error
        if digest is not None and (actual := hashlib.sha256(text).hexdigest()) != digest:
            raise _unusable(
                where,
                f"the SHA-256 of its {INDEX} is {actual}. This is not the bundle that is meant, so nothing of"
                " it is used",
            )
        try:
            index = Index.model_validate_json(text, by_alias=True, by_name=False)
        except ValidationError as error:
            location, sentence = next(sentences(error, Index))
            at = "".join(f".{step}" for step in location)
            raise _unusable(where, f"{INDEX}{at}: {sentence}") from None
        if index.machine != platform.machine():
            raise _unusable(where, f"it is for {index.machine}, and this machine is {platform.machine()}")
        return cls(where, place, index)

    def take(self, path: str, progress: Progress) -> bool:
        """Fetch a piece into the cache; False if the bundle does not have it. Raises as `take`."""
        piece = self.index.pieces.get(path)
        if piece is None:
            return False
        target = cache_dir() / path
        partial = cache_dir() / "bundle" / f"{piece.sha256}.partial"
        with progress.step(f"fetch {piece.file} ({human(piece.size)})", path) as at:
            try:
                fetch(self.place, piece.file, piece.size, partial, at)
            except FileNotFoundError:
                progress.console.print(f"{piece.file} is no longer in the bundle, so it is built here.")
                return False
            except BrokenError as error:
                raise SandboxError(
                    f"{piece.file} of {VARIABLE}={self.where}: {error.problem}, after {human(error.done)} of"
                    f" {human(piece.size)}. Run it again, and it goes on from there. {_OTHERWISE}"
                ) from error
            _check(piece, partial, self.where)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.startswith("images/"):
                partial.replace(target)
            else:
                _unpack(piece, partial, target, self.where)
                partial.unlink()
        return True


def _unusable(where: str, problem: str) -> SandboxError:
    return SandboxError(f"{VARIABLE}={where}: {problem}. {_OTHERWISE}")


def _place(where: str) -> tuple[Place, str | None]:
    """Where a bundle is, and the SHA-256 of its index if that is said."""
    if "://" not in where:
        path = Path(os.path.expanduser(where))
        if not path.exists():
            raise _unusable(where, "there is no such file or folder")
        return (Folder(path) if path.is_dir() else Archive(path)), None
    url, fragment = urldefrag(where)
    require_safe(url, f"{VARIABLE}={where}")
    if (digest := _FRAGMENT.fullmatch(fragment)) is None:
        raise SandboxError(
            f"{VARIABLE}={where}: must end with #sha256= and the SHA-256 of the bundle's {INDEX}, "
            "which `trainyard sandbox bundle` prints."
        )
    return Address(url.removesuffix(INDEX).rstrip("/")), digest[1]


def _check(piece: Piece, partial: Path, where: str) -> None:
    if (actual := digest_of(partial, "sha256")) != piece.sha256:
        partial.unlink()
        raise SandboxError(
            f"{piece.file} of {VARIABLE}={where}: its SHA-256 is {actual}, and the index says {piece.sha256}."
            f" It is not used. Get the bundle anew. {_OTHERWISE}"
        )


def _unpack(piece: Piece, archive: Path, target: Path, where: str) -> None:
    folder = target.with_name(f".{target.name}.partial")
    for old in (folder, target):
        shutil.rmtree(old, ignore_errors=True)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extraction_filter = checks = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
            tar.extractall(folder, None if checks else _inside(tar, folder))  # noqa: S202 (they are checked)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise SandboxError(f"{piece.file} of {VARIABLE}={where}: {error}. {_OTHERWISE}") from error
    folder.rename(target)


def _inside(members: Iterable[tarfile.TarInfo], folder: Path) -> Iterator[tarfile.TarInfo]:
    """Members, each checked when those before it are in the folder, for a link may lead out of it.

    Raises `tarfile.TarError` at the first that would leave it, or that is no file, folder or link.
    """
    top = os.path.realpath(folder)
    for member in members:
        place = os.path.join(top, member.name)
        places = [place]
        if member.issym():
            places.append(os.path.join(os.path.dirname(place), member.linkname))
        elif member.islnk():
            places.append(os.path.join(top, member.linkname))
        elif not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} is no file, folder or link")
        if any(os.path.commonpath([top, os.path.realpath(path)]) != top for path in places):
            raise tarfile.TarError(f"{member.name!r} would be outside of its folder")
        yield member
