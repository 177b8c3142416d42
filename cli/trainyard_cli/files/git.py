"""What git says: which files differ from another revision, and what it has at their paths."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trainyard_api.errors import UserError

EVERYTHING_DEPENDS_ON: Final = ("stacks", "policies")
"""Folders that change what the rules say about files that have not changed."""


class GitError(UserError):
    """Git cannot tell; the message is for the user."""


def changed(files: Sequence[Path], since: str) -> tuple[Path, ...]:
    """The files that differ from where this branch left `since`, including those that git does not track.

    All of them if a stack or a rule has changed. Raises `GitError` if
    git cannot tell.
    """
    if any(Path(name).parts[0] in EVERYTHING_DEPENDS_ON for name in changes(since)):
        return tuple(files)
    return touched(files, since)


def touched(files: Sequence[Path], since: str) -> tuple[Path, ...]:
    """As `changed`, whatever else has changed."""
    paths = {root() / name for name in changes(since)}
    return tuple(file for file in files if file.resolve() in paths)


def changes(since: str) -> tuple[str, ...]:
    """What differs from where this branch left `since`, new and removed files too, as paths from `root()`.

    Raises `GitError` if git cannot tell.
    """
    base, top = left(since), str(root())
    # A moved file also counts as removed from its old path.
    names = _git("-C", top, "diff", "--name-only", "--no-renames", "-z", base, "--").split("\0")
    names += _git("-C", top, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return tuple(name for name in names if name)


def at_revision(revision: str, paths: Sequence[Path], target: Path) -> list[Path]:
    """Write what a revision has at `paths` into the folder `target`; returns the new path of each.

    A path that the revision lacks is not written. Raises `GitError` if
    git cannot tell, and if the first path's folder is in no repository.
    """
    if revision.startswith("-"):
        raise GitError(f"{revision}: must name a commit, a branch or a tag")
    top = Path(_git("-C", str(paths[0].parent), "rev-parse", "--show-toplevel").strip()).resolve()
    inside = [str(path.resolve().relative_to(top)) for path in paths]
    there = [path for path in inside if _git("-C", str(top), "ls-tree", revision, "--", path)]
    if there:
        packed = target / "revision.tar"
        _git("-C", str(top), "archive", "--output", str(packed), revision, "--", *there)
        with tarfile.open(packed) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
            archive.extractall(target)  # noqa: S202 (git has just written it)
        packed.unlink()
    return [target / path for path in inside]


def left(since: str) -> str:
    """The commit where this branch left `since`; raises `GitError` if git cannot tell."""
    if since.startswith("-"):
        raise GitError(f"--since {since}: must name a commit, a branch or a tag")
    return _git("-C", str(root()), "merge-base", since, "HEAD").strip()


def root() -> Path:
    """The root folder of the repository; raises `GitError` outside of one."""
    return Path(_git("rev-parse", "--show-toplevel").strip()).resolve()


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(["git", *arguments], capture_output=True, check=True)
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        verb = arguments[2] if arguments[0] == "-C" else arguments[0]
        raise GitError(f"git {verb}: {lines[0] if lines else error.returncode}") from error
    return answer.stdout.decode(errors="surrogateescape")
