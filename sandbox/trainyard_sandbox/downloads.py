"""Files from a folder or a web server, whole or not at all: shared by `bundle` and `releases`.

A download that breaks continues where it was, also in the next process. The
caller checks the digest of a file, which it knows from elsewhere: nothing here
trusts a server.
"""

from __future__ import annotations

import errno
import hashlib
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Final, Protocol
from urllib.parse import urlsplit

from .errors import SandboxError

PROBLEMS: Final = (OSError, HTTPException)
"""What a place raises when it cannot give a file."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""What a write says on a full disk."""

_TRIES: Final = 3
_PAUSE_SECONDS: Final = 2.0
_STALLED_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 5.0
_AT_ONCE: Final = 1 << 20
_TOTAL: Final = re.compile(r"bytes \d+-\d+/(\d+)")


class BrokenError(Exception):
    """A download broke at every try.

    Args:
        problem: Why, as a part of a sentence.
        done: The bytes that are here; the next `fetch` goes on from there.
    """

    def __init__(self, problem: str, done: int) -> None:
        self.problem = problem
        self.done = done
        super().__init__(problem)


class Place(Protocol):
    """Where files are."""

    def open(self, name: str, start: int) -> IO[bytes]:
        """The file from a byte on; raises `FileNotFoundError` without it, and others of `PROBLEMS`."""
        ...


@dataclass(frozen=True)
class Folder:
    """A folder on this machine."""

    path: Path

    def open(self, name: str, start: int) -> IO[bytes]:
        """As `Place` says."""
        file = (self.path / name).open("rb")
        file.seek(start)
        return file

    def size(self, name: str) -> int | None:
        """The bytes of the file; raises as `open`."""
        return (self.path / name).stat().st_size


@dataclass(frozen=True)
class Address:
    """A folder that a web server has. Proxies and certificates are those of the environment."""

    url: str

    def open(self, name: str, start: int) -> IO[bytes]:
        """As `Place` says."""
        answer = self._ask(name, f"bytes={start}-" if start else None, _STALLED_SECONDS)
        if start and getattr(answer, "status", 206) != 206:  # a server that knows no ranges
            _skip(answer, start)
        return answer

    def size(self, name: str) -> int | None:
        """The bytes of the file, None if the server does not say; raises as `open`, within seconds."""
        # One byte of it: of a HEAD, some servers and proxies know nothing.
        with self._ask(name, "bytes=0-0", _ANSWER_SECONDS) as answer:
            headers = getattr(answer, "headers", {})
            if total := _TOTAL.fullmatch(headers.get("Content-Range") or ""):
                return int(total[1])
            length = headers.get("Content-Length")
        return int(length) if length and length.isdigit() else None

    def _ask(self, name: str, span: str | None, timeout: float) -> IO[bytes]:
        request = urllib.request.Request(  # noqa: S310 (`require_safe` admits https, and http on loopback)
            f"{self.url}/{name}", headers={"Range": span} if span else {}
        )
        try:
            # Not `urlopen`, which keeps the proxies of the first request of the process.
            answer: IO[bytes] = urllib.request.build_opener().open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                raise FileNotFoundError(name) from error
            raise
        return answer


def require_safe(url: str, setting: str) -> None:
    """Refuse an address at which others could read along or answer.

    Raises:
        SandboxError: It is neither https nor on loopback.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not (
        parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost")
    ):
        raise SandboxError(f"{setting}: must begin with https://.")


def fetch(place: Place, name: str, size: int | None, partial: Path, at: Callable[[float], None]) -> None:
    """Bring a file here, going on from where the last try or process ended.

    Args:
        place: Where it is.
        name: Its name there.
        size: Its bytes. Without them each try starts at the beginning, and ends where the server ends.
        partial: The file that grows here. It is the caller's to check, and to move or remove.
        at: Gets the share that is done, from 0 to 1.

    Raises:
        FileNotFoundError: The place does not have it.
        BrokenError: It did not come whole.
        OSError: There is no room for it here.
    """
    partial.parent.mkdir(parents=True, exist_ok=True)
    problem = "it ended early"
    done = 0
    for left in reversed(range(_TRIES)):
        done = partial.stat().st_size if size is not None and partial.exists() else 0
        ended = False
        try:
            with place.open(name, done) as source, partial.open("ab" if done else "wb") as kept:
                # What has come by now: a full block would be lost if the rest of it does not come.
                read = getattr(source, "read1", source.read)
                while size is None or done < size:
                    if not (block := read(_AT_ONCE)):
                        break
                    kept.write(block)
                    done += len(block)
                    if size:
                        at(min(done / size, 1.0))
                ended = True
        except FileNotFoundError:
            raise
        except PROBLEMS as error:
            if getattr(error, "errno", None) in _FULL:  # another try, or building it, would need more room
                raise
            problem = reason(error)
        if ended if size is None else done >= size:
            return
        if left:
            time.sleep(_PAUSE_SECONDS)
    raise BrokenError(problem, done)


def digest_of(file: Path, algorithm: str) -> str:
    """The digest of a file, as hexadecimal digits; `algorithm` is sha256 or sha512."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, algorithm).hexdigest()


def reason(error: Exception) -> str:
    """Why a place cannot give a file, as a part of a sentence."""
    cause = getattr(error, "reason", None)
    if isinstance(cause, Exception):
        return reason(cause)
    return str(cause or getattr(error, "strerror", None) or error) or type(error).__name__


def human(size: float) -> str:
    """Bytes for people: `12 MB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6))} MB"


def _skip(file: IO[bytes], count: int) -> None:
    while count and (block := file.read(min(count, _AT_ONCE))):
        count -= len(block)
