"""The job's volume: what arrives is staged until it is complete, then one rename publishes it.

    <target>                       the published folder, with its marker inside
    <target's parent>/.trainyard/<name>/lock
    <target's parent>/.trainyard/<name>/<identity>/objects/    complete files and `.part`s, by hash
    <target's parent>/.trainyard/<name>/<identity>/tree-<hash of the files>/  while it is put together

Names from outside are used only while the tree is put together, in a folder
that is newly made for it: no earlier file or link can redirect them.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .failures import VolumeFull, VolumeUnusable
from .progress import human
from .source import MARKER, RemoteFile

_log = logging.getLogger(__name__)
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def errors(path: Path) -> Iterator[None]:
    """Turn errors of the volume into a failure that names it."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise VolumeFull(f"{path} has no space left: ask for a larger volume") from error
        raise VolumeUnusable(f"{error.filename or path}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Volume:
    """A target folder and its staging area for one request.

    Args:
        target: The folder to fill; its parent is on the same volume.
        identity: The request's identity: what another request has staged is removed.
    """

    target: Path
    identity: Mapping[str, Any]

    @property
    def _aside(self) -> Path:
        return self.target.parent / ".trainyard" / self.target.name

    @property
    def _staging(self) -> Path:
        text = json.dumps(self.identity, sort_keys=True)
        return self._aside / hashlib.sha256(text.encode()).hexdigest()[:16]

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Lock the target: a pod's successor may start before it has ended. False if there are no locks."""
        with errors(self._aside):
            self._aside.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._aside / "lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o644)
        try:
            yield _wait_for(lock)
        finally:
            os.close(lock)

    def published(self) -> bool:
        """Whether the target holds all of this request already.

        Raises:
            VolumeUnusable: If it holds files that no initializer has put there.
        """
        with errors(self.target):
            if self.target.is_symlink() or (self.target.exists() and not self.target.is_dir()):
                raise VolumeUnusable(f"{self.target} is not a folder: remove it")
            if self.target.is_mount():
                raise VolumeUnusable(
                    f"{self.target} is a mount point: mount the volume at {self.target.parent}"
                )
            if not self.target.exists() or not any(self.target.iterdir()):
                return False
        marker = self._marker()
        if marker is None:
            raise VolumeUnusable(
                f"{self.target} holds files that no initializer has put there: "
                "use an empty volume, or remove them"
            )
        return marker.get("request") == self.identity

    def _marker(self) -> dict[str, Any] | None:
        try:
            value = json.loads((self.target / MARKER).read_text())
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def prepare(self, files: Sequence[RemoteFile], *, alone: bool) -> None:
        """Prepare the staging area, remove what is of no use in it, and check that the rest will fit.

        Args:
            files: What will be published.
            alone: Whether no other initializer may be putting its files in place.

        Raises:
            VolumeFull: If it will not fit.
        """
        names = {self.object(file).name for file in files}
        objects = self._staging / "objects"
        with errors(self._aside):
            objects.mkdir(parents=True, exist_ok=True)
            for other in self._aside.iterdir():
                if other.is_dir() and other != self._staging:
                    shutil.rmtree(other)
            if alone:
                self._clear(files)
            for stale in objects.iterdir():
                if stale.stem not in names:
                    stale.unlink()
            here = sum(entry.stat().st_size for entry in objects.iterdir())
            status = os.statvfs(objects)
        missing = sum(file.size for file in files) - here
        free = status.f_bavail * status.f_frsize
        if missing > free:
            raise VolumeFull(
                f"{self.target.parent} has {human(free)} free, {human(missing)} more are needed: "
                "ask for a larger volume"
            )

    def _clear(self, files: Sequence[RemoteFile]) -> None:
        """Remove what killed initializers were putting together, but keep the files of it that are wanted."""
        tree = self._tree(files)
        for left in self._staging.iterdir():
            if left == tree:
                self._bring_back(left, {file.path: file for file in files})
            if left.name != "objects":
                shutil.rmtree(left)

    def _bring_back(self, tree: Path, wanted: Mapping[str, RemoteFile]) -> None:
        # Another pod of the volume may have put links there: `fwalk` and the open folders follow none.
        for folder, _, names, opened in os.fwalk(tree):
            for name in names:
                file = wanted.get(os.path.relpath(os.path.join(folder, name), tree))
                status = os.stat(name, dir_fd=opened, follow_symlinks=False)
                if file and stat.S_ISREG(status.st_mode) and status.st_size == file.size:
                    os.rename(name, self.object(file), src_dir_fd=opened)

    def _tree(self, files: Sequence[RemoteFile]) -> Path:
        """Where the folder is put together: by the versions of the files, which their places do not tell."""
        names = "".join(self.object(file).name for file in files)
        return self._staging / f"tree-{hashlib.sha256(names.encode()).hexdigest()[:16]}"

    def object(self, file: RemoteFile) -> Path:
        """Where a complete file is until it is published."""
        name = hashlib.sha256(f"{file.path}\0{file.size}\0{file.version}".encode()).hexdigest()
        return self._staging / "objects" / name

    def part(self, file: RemoteFile) -> Path:
        """Where it is while it is incomplete."""
        return self.object(file).with_suffix(".part")

    def publish(self, files: Sequence[RemoteFile]) -> None:
        """Put the folder together and publish it at the target, complete and with the marker."""
        tree = self._tree(files)
        marker = {"request": self.identity, "files": len(files), "bytes": sum(f.size for f in files)}
        with errors(self.target):
            shutil.rmtree(tree, ignore_errors=True)
            tree.mkdir()
            for remote in files:
                place = tree / remote.path
                place.parent.mkdir(parents=True, exist_ok=True)
                self.object(remote).rename(place)
            with (tree / MARKER).open("w") as file:
                json.dump(marker, file)
                file.flush()
                os.fsync(file.fileno())
            if self.target.exists():
                old = self._aside / "old"
                shutil.rmtree(old, ignore_errors=True)
                self.target.rename(old)
            tree.rename(self.target)
        # It is published: what is left in the staging area does no harm.
        for entry in self._aside.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)


def _wait_for(lock: int) -> bool:
    """Wait for the lock; False if there are none."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.info("another initializer is filling this folder: waiting until it ends")
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        # Some network file systems have no locks; the files are checked in any case.
        _log.warning("this volume has no locks (%s): continuing without", error.strerror)
        return False
    return True
