"""Fetch files in parallel: resume, verify, and retry what may succeed later."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from .failures import Corrupt, Failure, Unreachable
from .progress import Progress, human
from .request import Request
from .retry import Backoff, persist
from .source import CHUNK, Hasher, RemoteFile, Source, choose
from .volume import Volume, errors

_log = logging.getLogger(__name__)

_WORKERS = 8


def fetch(request: Request, source: Source, target: Path, backoff: Backoff) -> None:
    """Fill `target` with what is requested, or leave it as it is.

    Args:
        request: What to fetch.
        source: Where it comes from.
        target: The folder to fill, on the job's volume.
        backoff: How to retry.

    Raises:
        Failure: Why there is nothing in `target`.
    """
    volume = Volume(target, request.identity())
    with volume.locked() as alone:
        if volume.published():
            _log.info("%s holds %s already: nothing to fetch", target, request.uri)
            return
        files = persist(backoff, lambda: choose(source.files(), request.patterns, str(request.uri)))
        size = sum(file.size for file in files)
        _log.info("fetching %d files, %s, from %s", len(files), human(size), request.uri)
        volume.prepare(files, alone=alone)
        progress = Progress(len(files), size)
        _Transfer(source, volume, progress, backoff).fetch_all(files)
        volume.publish(files)
        _log.info("%s is ready: %s", target, progress.line())


@dataclass
class _Transfer:
    source: Source
    volume: Volume
    progress: Progress
    backoff: Backoff
    stop: threading.Event = field(default_factory=threading.Event)

    def fetch_all(self, files: Sequence[RemoteFile]) -> None:
        """Fetch all files; the first failure stops the others."""
        # A task for each file would need more memory than the files' names.
        waiting = iter(files)
        with ThreadPoolExecutor(_WORKERS) as pool:
            try:
                for done in as_completed([pool.submit(self._fetch_next, waiting) for _ in range(_WORKERS)]):
                    done.result()
            except BaseException:
                self.stop.set()
                raise

    def _fetch_next(self, waiting: Iterator[RemoteFile]) -> None:
        """Fetch files until none is waiting; other threads draw from the same iterator."""
        for file in waiting:
            if self.stop.is_set():
                return
            self.fetch_file(file)

    def fetch_file(self, file: RemoteFile) -> None:
        place, part = self.volume.object(file), self.volume.part(file)
        with errors(self.volume.target.parent):
            if place.exists():
                self.progress.here(file.size)
            else:
                persist(
                    self.backoff,
                    lambda: self._attempt(file, part),
                    progress=lambda: part.stat().st_size if part.exists() else 0,
                    stop=self.stop,
                )
                part.rename(place)
        self.progress.finished()

    def _attempt(self, file: RemoteFile, part: Path) -> None:
        """Fetch the missing rest of `part`, and remove it if the result does not match."""
        checksum = self.source.checksum(file)
        hasher = checksum.hasher(file.size) if checksum else None
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644), "r+b") as output:
            size = _resume(output, file, hasher)
            self.progress.here(size)
            try:
                size = self._append(file, output, hasher, size)
            except Failure:
                self.progress.here(-output.tell())
                raise
        if size != file.size or (checksum and hasher and hasher.hexdigest() != checksum.hexdigest):
            self.progress.here(-size)
            part.unlink()
            difference = checksum.algorithm if checksum and size == file.size else "size"
            raise Corrupt(f"{file.path} is not what the source says it is: its {difference} differs")

    def _append(self, file: RemoteFile, output: BinaryIO, hasher: Hasher | None, size: int) -> int:
        """Fetch from byte `size` on, and return the new size; stops at more than announced."""
        if size < file.size:
            with closing(self.source.read(file, size)) as chunks:
                for chunk in chunks:
                    output.write(chunk)
                    if hasher:
                        hasher.update(chunk)
                    size += len(chunk)
                    self.progress.arrived(len(chunk))
                    if size > file.size:
                        return size
                    if self.stop.is_set():
                        raise Unreachable(f"{file.path}: stopped, because another file has failed")
        output.flush()
        os.fsync(output.fileno())
        if size < file.size:
            raise Unreachable(f"{file.path} was cut off after {human(size)} of {human(file.size)}")
        return size


def _resume(output: BinaryIO, file: RemoteFile, hasher: Hasher | None) -> int:
    """Read what an earlier attempt has left, and return its size."""
    size = os.fstat(output.fileno()).st_size
    if size > file.size:
        output.truncate(0)
        return 0
    while hasher and (chunk := output.read(CHUNK)):
        hasher.update(chunk)
    output.seek(size)
    return size
