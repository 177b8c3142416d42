"""`pvc://claim/folder` and `file:///folder`: what is already mounted into the container.

Files are copied: a link would lead out of the volume, and a trainer that
writes would write into the source.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable
from pathlib import Path

from .failures import Failure, InvalidSource, NotFound, Unauthorized, Unreachable, UnsafeSource
from .request import Request
from .source import CHUNK, Checksum, RemoteFile

CLAIMS = Path("/mnt/pvc")
"""Where claims are mounted, each under its name."""

_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""Errors of a path that leads to no file."""
_KUBELETS = ".."
"""How names begin that the kubelet keeps to itself in the volumes that it fills."""
_CURRENT = "..data"
"""Its link to the folder with the files of a ConfigMap or Secret, into which their links lead."""


def open_claim(request: Request, claims: Path = CLAIMS) -> Local:
    """The folder or file in a claim that is mounted at /mnt/pvc/<claim>.

    Raises:
        InvalidSource: If the URI names no claim.
        NotFound: If it is not mounted.
    """
    claim = request.uri.authority
    if not claim or claim in (".", ".."):
        raise InvalidSource(f"{request.uri} names no claim: pvc://claim/folder")
    root = claims / claim
    if not root.is_dir():
        raise NotFound(f"the claim {claim!r} is not mounted at {root}: add the volume and its mount")
    return Local(root, request.uri.path, str(request.uri))


def open_file(request: Request) -> Local:
    """An absolute path in the container.

    Raises:
        InvalidSource: If the URI has a host.
    """
    if request.uri.authority or not request.uri.path:
        raise InvalidSource(f"{request.uri} must have three slashes and a path: file:///folder")
    return Local(Path("/"), request.uri.path, str(request.uri), at_path=True)


class Local:
    """A folder, or one file.

    Args:
        root: The folder that no link may lead out of.
        path: The path below it.
        place: Its name in messages.
        at_path: Whether links may not even lead out of `path`.

    Raises:
        Failure: It leads out of `root`, does not exist, or cannot be read.
    """

    def __init__(self, root: Path, path: str, place: str, *, at_path: bool = False) -> None:
        self._place = place
        root = _real(root)
        self._start = _real(root / path.lstrip("/"))
        if not self._start.is_relative_to(root):
            raise UnsafeSource(f"{place} leads out of {root}")
        try:
            self._is_folder = stat.S_ISDIR(self._start.stat().st_mode)
        except OSError as error:
            if error.errno in _NOWHERE:
                raise NotFound(f"{place} does not exist in the container") from error
            raise self._failure(error) from error
        self._root = (self._start if self._is_folder else self._start.parent) if at_path else root

    def files(self) -> Iterable[RemoteFile]:
        """Files, also those behind links; raises for links that lead out or in circles, pipes and devices."""
        if not self._is_folder:
            yield self._file(self._start, self._start.name)
            return
        for folder, folders, names in os.walk(self._start, onerror=self._refused, followlinks=True):
            here = Path(folder)
            if _CURRENT in folders and (here / _CURRENT).is_symlink():
                folders[:] = [name for name in folders if not name.startswith(_KUBELETS)]
            for name in folders:
                self._check(here / name)
            for name in names:
                path = here / name
                yield self._file(path, self._name(path))

    def _check(self, folder: Path) -> None:
        """Raises if a folder is a link that leads out, or to a folder that it is in."""
        if not folder.is_symlink():
            return
        name = self._name(folder)
        real = self._inside(folder, name)
        if any(real == _real(above) for above in folder.parents):
            raise UnsafeSource(f"{self._place}: {name!r} is a link to a folder around it: remove the link")

    def _file(self, path: Path, name: str) -> RemoteFile:
        real = self._inside(path, name)
        try:
            status = real.stat()
        except OSError as error:
            raise self._failure(error, name) from error
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeSource(f"{self._place}: {name!r} is not a regular file")
        return RemoteFile(name, status.st_size, str(status.st_mtime_ns), str(real))

    def _inside(self, path: Path, name: str) -> Path:
        real = _real(path)
        if not real.is_relative_to(self._root):
            raise UnsafeSource(f"{self._place}: {name!r} is a link that leads out of {self._root}")
        return real

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._start))

    def _refused(self, error: OSError) -> None:
        folder = Path(error.filename)
        raise self._failure(error, self._name(folder) if folder != self._start else "")

    def _failure(self, error: OSError, name: str = "") -> Failure:
        about = f"{self._place}: {name!r}" if name else self._place
        if isinstance(error, PermissionError):
            return Unauthorized(f"{about}: {error.strerror}: user {os.getuid()} needs the right to read it")
        if error.errno in _NOWHERE:
            return NotFound(f"{about} leads nowhere: {error.strerror}")
        return Unreachable(f"{about}: {error.strerror}")

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """None: a file system has no checksums."""
        return None

    def read(self, file: RemoteFile, offset: int) -> Generator[bytes, None, None]:
        """The content from `offset` on."""
        try:
            with open(os.open(file.address, os.O_RDONLY | os.O_NOFOLLOW), "rb") as content:
                content.seek(offset)
                while chunk := content.read(CHUNK):
                    yield chunk
        except OSError as error:
            raise self._failure(error, file.path) from error


def _real(path: Path) -> Path:
    """Where a path leads; unlike `Path.resolve`, of a link in a circle too."""
    return Path(os.path.realpath(path))
