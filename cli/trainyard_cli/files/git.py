"""Queries git: files that differ from another revision, and their content there."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from trainyard_api import places
from trainyard_api.errors import UserError
from trainyard_api.places import NoSiteError

EVERYTHING_DEPENDS_ON: Final = ("stacks", "policies")
"""Folders that change what the rules say about files that have not changed."""

_GIT: Final = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false")
"""Nothing is written, and the program that a repository's settings name to watch its files is not started."""
_CHUNK: Final = 64 * 1024


class GitError(UserError):
    """Git cannot tell; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Head:
    """The commit of a folder's files."""

    commit: str = ""
    """Empty before the first one."""
    branch: str = ""
    """Empty where a commit is checked out, and no branch."""
    dirty: bool = True
    """Whether the folder has changes that the commit has not, new files included."""


def changed(files: Sequence[Path], since: str) -> tuple[Path, ...]:
    """The files that differ from where this branch left `since`, including those that git does not track.

    All of them if a stack or a rule has changed. Raises `GitError` if
    git cannot tell.
    """
    top = _compared(since)
    names = _changes(since, top)
    if any(Path(name).parts[0] in EVERYTHING_DEPENDS_ON for name in _from_site(names, top)):
        return tuple(files)
    return _named(files, names, top)


def touched(files: Sequence[Path], since: str) -> tuple[Path, ...]:
    """As `changed`, whatever else has changed."""
    top = _compared(since)
    return _named(files, _changes(since, top), top)


def _named(files: Sequence[Path], names: Sequence[str], top: Path) -> tuple[Path, ...]:
    paths = {top / name for name in names}
    return tuple(file for file in files if file.resolve() in paths)


def changes(since: str) -> tuple[str, ...]:
    """Paths from `root()` of files that differ from where this branch left `since`, new and removed ones too.

    Raises `GitError` if git cannot tell.
    """
    return _changes(since, _compared(since))


def _changes(since: str, top: Path) -> tuple[str, ...]:
    base, folder = _left(since, top), str(top)
    # A moved file also counts as removed from its old path.
    names = _git("-C", folder, "diff", "--name-only", "--no-renames", "-z", base, "--").split("\0")
    names += _git("-C", folder, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return tuple(name for name in names if name)


def changes_of_site(since: str) -> tuple[str, ...]:
    """As `changes`, but as paths from the site of the current folder, if it is in one."""
    top = _compared(since)
    return _from_site(_changes(since, top), top)


def _from_site(names: tuple[str, ...], top: Path) -> tuple[str, ...]:
    try:
        inside = places.site().root.relative_to(top)
    except (NoSiteError, ValueError):
        return names
    return tuple(os.path.relpath(name, inside) for name in names)


def at_revision(revision: str, paths: Sequence[Path], target: Path) -> list[Path]:
    """Write what a revision has at `paths` into the folder `target`; returns the new path of each.

    A path that the revision lacks is not written, nor is a link that leads out of `target`. Raises
    `GitError` if git cannot tell, and if the first path's folder is in no repository.
    """
    if revision.startswith("-"):
        raise GitError(f"{revision}: must name a commit, a branch or a tag")
    top = Path(_git("-C", str(paths[0].parent), "rev-parse", "--show-toplevel").strip()).resolve()
    inside = [str((path.parent.resolve() / path.name).relative_to(top)) for path in paths]
    there = [path for path in inside if _git("-C", str(top), "ls-tree", revision, "--", path)]
    if there:
        packed = target / "revision.tar"
        _git("-C", str(top), "archive", "--output", str(packed), revision, "--", *there)
        with tarfile.open(packed) as archive:
            if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and newer
                archive.extraction_filter = _without_links_outside
            archive.extractall(target)  # noqa: S202 (git has just written it)
        packed.unlink()
    return [target / path for path in inside]


def _without_links_outside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None


def left(since: str) -> str:
    """The commit where this branch left `since`; raises `GitError` if git cannot tell."""
    return _left(since, _compared(since))


def _compared(since: str) -> Path:
    """`root`, for a comparison with `since`; raises `GitError` for what git would take for an option, too."""
    if since.startswith("-"):
        raise GitError(f"--since {since}: must name a commit, a branch or a tag")
    return root()


def _left(since: str, top: Path) -> str:
    try:
        return _git("-C", str(top), "merge-base", since, "HEAD").strip()
    except GitError as error:
        if not isinstance(error.__cause__, subprocess.CalledProcessError) or error.__cause__.stderr:
            raise
        raise GitError(
            f"{since} and this branch have no commit in common, as in a clone without its whole history: "
            "fetch that (git fetch --unshallow; for actions/checkout, fetch-depth: 0)"
        ) from error


def root() -> Path:
    """The root folder of the repository; raises `GitError` outside of one."""
    return Path(_git("rev-parse", "--show-toplevel").strip()).resolve()


def is_in_repository(folder: Path) -> bool:
    """Whether git has a say about the folder; does not run it."""
    resolved = folder.resolve()
    return any((parent / ".git").exists() for parent in (resolved, *resolved.parents))


def files(folder: Path) -> Generator[str, None, None]:
    """The paths in a folder, relative to it, that git tracks or does not ignore, as git finds them.

    A path may come several times, or be deleted. A repository inside is one path: git does not look into it.
    Raises `GitError` if git cannot tell.
    """
    arguments = ("ls-files", "--cached", "--others", "--exclude-standard", "-z")
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                (*_GIT, "-C", str(folder), *arguments), stdout=subprocess.PIPE, stderr=errors
            )
        except OSError as error:
            raise GitError(f"git cannot be run: {error.strerror}") from error
        with process:
            try:
                yield from _names(cast(IO[bytes], process.stdout))
            except GeneratorExit:  # nobody wants more
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            raise _error("ls-files", errors.read(_CHUNK), process.returncode)


def head(folder: Path) -> Head:
    """The commit of the folder; raises `GitError` if git does not know it."""
    at = ("-C", str(folder))
    changed = bool(_git(*at, "status", "--porcelain", "--untracked-files=normal", "-z", "--", "."))
    try:
        commit = _git(*at, "rev-parse", "--verify", "--quiet", "HEAD").strip()
    except GitError:
        return Head()
    try:
        branch = _git(*at, "symbolic-ref", "--quiet", "--short", "HEAD").strip()
    except GitError:
        branch = ""
    return Head(commit, branch, dirty=changed)


def _names(output: IO[bytes]) -> Iterator[str]:
    rest = b""
    while chunk := output.read(_CHUNK):
        *names, rest = (rest + chunk).split(b"\0")
        yield from (name.decode(errors="surrogateescape") for name in names)


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run([*_GIT, *arguments], capture_output=True, check=True)
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        verb = arguments[2] if arguments[0] == "-C" else arguments[0]
        raise _error(verb, error.stderr, error.returncode) from error
    return answer.stdout.decode(errors="surrogateescape")


def _error(verb: str, stderr: bytes, code: int) -> GitError:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return GitError(f"git {verb}: {lines[0] if lines else code}")
