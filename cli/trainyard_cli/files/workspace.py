"""A folder as a TrainJob takes it along: what git sees of it, as one archive.

Called by `trainyard run --workspace`, which asks about what looks like a
secret. The same content always gives the same archive. Sizes are looked at before contents; nothing outside
the folder is read.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import posixpath
import stat
import tarfile
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainyard_api.printable import clean
from trainyard_assist.workspace import MOST, Packed, WorkspaceError

from . import git, secret_files
from .copies import size as in_words


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a folder may be."""

    files: int
    size: int
    """Bytes of all files, as they are."""
    packed: int
    """Bytes of the archive."""


IN_SECRET: Final = Limits(10_000, 32 * 2**20, MOST)
"""No sources of more would fit when packed."""
ON_VOLUME: Final = Limits(50_000, 256 * 2**20, 256 * 2**20)
"""It is packed in memory."""
_TRIES: Final = 3
"""How often a file is read that changes meanwhile."""
_NAMED: Final = 5
"""Files or folders that a message names."""
_CACHES: Final = frozenset(
    {
        *(".cache", ".DS_Store", ".git", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
        *(".tox", ".venv", "__pycache__", "node_modules", "venv"),
    }
)
"""Names that are left out of a folder outside of git."""
_WAY_OUT: Final = (
    "Have git ignore what the training does not need (.gitignore), load data with an initializer (s3://, "
    "hf://, pvc://) or from a volume, and put what never changes into the image."
)
_KINDS: Final = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a submodule that is not checked out",
}


class LargeFolderError(WorkspaceError):
    """A folder is too large; says what of it is the largest, and the way out."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A file that looks like a secret."""

    path: str
    """Relative to the folder, as it is: clean it before it is printed."""
    reason: str
    """The end of a sentence about it."""

    def __str__(self) -> str:
        return f"{clean(self.path)} {self.reason}"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder, ready to be sent."""

    packed: Packed
    paths: frozenset[str]
    """Of all files, relative to the folder."""
    size: int
    """Bytes of all files, as they are."""
    suspects: tuple[Suspect, ...] = ()
    """Files to ask the user about; they are packed."""
    remarks: tuple[str, ...] = ()
    """A sentence on each file that is left out, or changed while it was read."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    size: int
    link: str = ""
    """Target of a symbolic link; empty for a file."""


@dataclass(frozen=True, slots=True)
class _Content:
    data: bytes
    is_executable: bool
    stamp: _Stamp


_Stamp = tuple[int, int, int]
"""Identity, time of change and size of a file: equal for equal content."""


def pack(folder: Path, *, without: Collection[str] = (), limits: Limits | None = None) -> Workspace:
    """The folder as git sees it: what it tracks or does not ignore, as it is now.

    Of a folder in no repository it is all but the usual caches. Other than files, and links that lead out of
    the folder, are left out, with a remark.

    Args:
        folder: Which; it may be a part of a repository.
        without: Paths of files to leave out, such as those of `Workspace.suspects`.
        limits: How large it may be; None: as large as a Secret has room for.

    Raises:
        WorkspaceError: It is not a folder, is empty, has too many files or too large ones, or changes all the
            time; says which, and the way out.
        GitError: Git cannot tell.
    """
    if not folder.is_dir():
        raise WorkspaceError(f"{clean(str(folder))}: there is no such folder")
    limits = limits or IN_SECRET
    remarks: list[str] = []
    there = _paths(folder, limits.files) - set(without)
    there -= _behind_links(folder, there)
    entries = [entry for path in sorted(there) if (entry := _entry(folder, path, remarks)) is not None]
    size = sum(entry.size for entry in entries)
    if size > limits.size:
        raise _too_large(folder, f"has {in_words(size)}", limits.size, entries)
    contents = _contents(folder, entries, remarks, limits.size)
    if not contents:
        ignored = " that git does not ignore" if git.is_in_repository(folder) else ""
        others = " besides those that look like secrets" if without else ""
        raise WorkspaceError(f"{clean(str(folder))}: has no file{ignored}{others}: name another folder")
    tar = _tar(contents)
    archive = gzip.compress(tar, mtime=0)
    if len(archive) > limits.packed:
        raise _too_large(folder, f"has {in_words(len(archive))} when packed", limits.packed, entries)
    head = git.head(folder) if git.is_in_repository(folder) else git.Head(dirty=False)
    dirty = head.dirty or bool(head.commit and without)
    packed = Packed(archive, hashlib.sha256(tar).hexdigest(), head.commit, head.branch, dirty=dirty)
    paths = frozenset(entry.path for entry in contents)
    return Workspace(packed, paths, size, tuple(_suspects(contents)), tuple(remarks))


def _paths(folder: Path, most: int) -> set[str]:
    """The paths in the folder, relative to it; raises `WorkspaceError` for too many, without seeing all."""
    paths: set[str] = set()
    with closing(_all_paths(folder)) as unbounded:
        for path in unbounded:
            paths.add(path)
            if len(paths) > most:
                raise _too_many(folder, paths, most)
    return paths


def _all_paths(folder: Path) -> Generator[str, None, None]:
    """As git has them, also those of repositories inside, which git does not look into."""
    for entry in git.files(folder) if git.is_in_repository(folder) else _walk(folder):
        path = entry.rstrip("/")
        # A link to a repository is a link.
        if (folder / path / ".git").exists() and not (folder / path).is_symlink():
            yield from (f"{path}/{inside}" for inside in _all_paths(folder / path))
        else:
            yield path


def _behind_links(folder: Path, paths: Collection[str]) -> set[str]:
    """Paths that git still has, though a link has taken the place of a folder above them.

    The file at this path is now another one.
    """
    root = os.path.realpath(folder)
    parents = {posixpath.dirname(path) for path in paths}
    elsewhere = {
        parent
        for parent in parents
        if os.path.realpath(os.path.join(root, parent)) != os.path.normpath(os.path.join(root, parent))
    }
    return {path for path in paths if posixpath.dirname(path) in elsewhere}


def _walk(folder: Path) -> Iterator[str]:
    """The files below a folder of which git knows nothing; a repository inside is one path."""
    folders = [""]
    while folders:
        parent = folders.pop()
        try:
            with os.scandir(folder / parent) as entries:
                for entry in entries:
                    path = posixpath.join(parent, entry.name)
                    if entry.name in _CACHES or entry.name.endswith(".pyc"):
                        continue
                    if entry.is_dir(follow_symlinks=False) and not (folder / path / ".git").exists():
                        folders.append(path)
                    else:
                        yield path
        except OSError as error:
            raise _unreadable(folder / parent, error) from error


def _entry(folder: Path, path: str, remarks: list[str]) -> _Entry | None:
    """The entry to pack for a path; None with a remark, or without one for a deleted file."""
    try:
        status = os.lstat(folder / path)
        link = os.readlink(folder / path) if stat.S_ISLNK(status.st_mode) else ""
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(folder / path, error) from error
    if stat.S_ISREG(status.st_mode):
        return _Entry(path, status.st_size)
    if link and not _leads_out(folder, path, link):
        return _Entry(path, 0, link)
    kind = (
        f"a link out of the folder ({clean(link)})"
        if link
        else _KINDS.get(stat.S_IFMT(status.st_mode), "no file")
    )
    remarks.append(f"{clean(path)} is {kind}: it is left out")
    return None


def _leads_out(folder: Path, path: str, link: str) -> bool:
    root = os.path.realpath(folder)
    target = os.path.realpath(os.path.join(root, posixpath.dirname(path), link))
    return posixpath.isabs(link) or os.path.commonpath((root, target)) != root


def _contents(
    folder: Path, entries: Iterable[_Entry], remarks: list[str], most: int
) -> dict[_Entry, _Content]:
    """What is in the files, each as it was at one moment; remarks tell which have changed since."""
    contents: dict[_Entry, _Content] = {}
    total = 0
    for entry in entries:
        try:
            content = _Content(b"", False, (0, 0, 0)) if entry.link else _read(folder / entry.path, most)
        except FileNotFoundError:
            remarks.append(f"{clean(entry.path)} was deleted while the folder was read: it is left out")
            continue
        except OSError as error:
            raise _unreadable(folder / entry.path, error) from error
        contents[entry] = content
        total += len(content.data)
        if total > most:
            raise _growing(folder / entry.path)
    remarks += [
        f"{clean(entry.path)} changed while the folder was read: it is sent as it was"
        for entry, content in contents.items()
        if not entry.link and _stamp_now(folder / entry.path) != content.stamp
    ]
    return contents


def _read(file: Path, most: int) -> _Content:
    """The file as it was at one moment; never waits for a pipe that has taken its place."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        for _ in range(_TRIES):
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                break
            stream.seek(0)
            data = stream.read(most + 1)
            if _stamp(os.fstat(descriptor)) == _stamp(before) and len(data) == before.st_size:
                return _Content(data, bool(before.st_mode & stat.S_IXUSR), _stamp(before))
    raise _growing(file)


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _stamp_now(file: Path) -> _Stamp | None:
    try:
        return _stamp(os.lstat(file))
    except OSError:
        return None


def _tar(contents: Mapping[_Entry, _Content]) -> bytes:
    """An archive in which nothing tells who made it, where or when."""
    target = io.BytesIO()
    with tarfile.open(
        fileobj=target, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for entry, content in contents.items():
            member = tarfile.TarInfo(entry.path)
            member.mode = 0o755 if content.is_executable else 0o644
            member.size = len(content.data)
            if entry.link:
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.link, 0o777
            tar.addfile(member, io.BytesIO(content.data))
    return target.getvalue()


def _suspects(contents: Mapping[_Entry, _Content]) -> Iterator[Suspect]:
    for entry, content in contents.items():
        if not entry.link and (reason := secret_files.reason(entry.path, content.data)):
            yield Suspect(entry.path, reason)


def _too_many(folder: Path, paths: Collection[str], most: int) -> WorkspaceError:
    counts = Counter(path.partition("/")[0] for path in paths if "/" in path)
    largest = [(f"{count} files", f"{name}/") for name, count in counts.most_common(_NAMED)]
    return _refused(folder, f"has more than {most} files, and no more", "Of the first ones", largest)


def _too_large(folder: Path, size: str, most: int, entries: Sequence[_Entry]) -> WorkspaceError:
    by_size = sorted(entries, key=lambda entry: -entry.size)[:_NAMED]
    largest = [(in_words(entry.size), entry.path) for entry in by_size]
    return _refused(folder, f"{size}, and at most {in_words(most)}", "The largest files", largest)


def _refused(folder: Path, size: str, title: str, largest: Sequence[tuple[str, str]]) -> WorkspaceError:
    rows = [f"  {amount:>10}  {clean(path)}" for amount, path in largest]
    about = f" {title}:" if rows else ""
    first = f"{clean(str(folder))}: {size} can travel with a TrainJob.{about}"
    return LargeFolderError("\n".join([first, *rows, _WAY_OUT]))


def _unreadable(path: Path, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"{clean(str(path))}: cannot be read: {error.strerror}; make it readable, or have git ignore it"
    )


def _growing(file: Path) -> WorkspaceError:
    return WorkspaceError(
        f"{clean(str(file))}: changes while it is read: end what writes it, or have git ignore it"
    )
