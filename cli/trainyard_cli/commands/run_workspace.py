"""The folder that travels with a TrainJob: packed, and what `trainyard run` says and asks about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from trainyard_api.printable import clean
from trainyard_api.shown import capped
from trainyard_assist.workspace import Packed, WorkspaceError

from ..files.copies import size
from ..files.git import GitError
from ..files.workspace import IN_SECRET, ON_VOLUME, LargeFolderError, Limits, Suspect, Workspace, pack

MOST_REMARKS: Final = 10
"""Sentences of a plan about files."""
_WAY_OUT: Final = "To send the command without the folder: --no-workspace"
_BY_VOLUME: Final = "To send the folder over a PersistentVolumeClaim of yours: --workspace-volume CLAIM"


def packed(
    folder: Path,
    ask: Callable[[str], bool] | None,
    *,
    reason: str = "",
    script: str = "",
    requirements: str = "",
    claim: str = "",
) -> tuple[Packed, tuple[str, ...]]:
    """The folder, and what the plan says of it.

    Args:
        folder: Which.
        ask: The answer to a question, here about files that look like secrets; None: they are left out.
        reason: Why it travels though the user has not named it; then the way out is told. Empty: they have.
        script: The file of it that the command starts; empty for none.
        requirements: The file of it whose requirements the nodes install; empty for none.
        claim: The PersistentVolumeClaim over which it travels if a Secret has no room for it; empty for none.

    Raises:
        WorkspaceError, GitError: It cannot travel with a TrainJob.
    """
    try:
        workspace, left = _packed(folder, ask, ON_VOLUME if claim else IN_SECRET, requirements)
    except (WorkspaceError, GitError) as error:
        by_volume = [_BY_VOLUME] if isinstance(error, LargeFolderError) and not claim else []
        ways = [*by_volume, *([_WAY_OUT] if reason else [])]
        raise WorkspaceError("\n".join([str(error), *ways])) from error
    if script and not _travels(folder, script, workspace.paths):
        raise WorkspaceError(f"{clean(str(folder / script))}: {_why_not(script, left)}")
    if requirements and (why := _why_left(folder, requirements, workspace, left)):
        raise WorkspaceError(f"{clean(str(folder / requirements))}: {why}")
    if len(workspace.packed.archive) <= IN_SECRET.packed:
        claim = ""
    over = [f"it travels over PersistentVolumeClaim {claim}"] if claim else []
    sentences = (*_sentences(folder, workspace, left, reason), *over, *_costs(folder, requirements))
    return replace(workspace.packed, requirements=requirements, claim=claim), sentences


def _packed(
    folder: Path, ask: Callable[[str], bool] | None, limits: Limits, requirements: str
) -> tuple[Workspace, list[Suspect]]:
    """The folder, and which files of it are left out since they look like secrets.

    If the requirements are one of these, nothing will be sent, and the folder is as it was found.
    """
    left: list[Suspect] = []
    while True:
        workspace = pack(folder, without=[suspect.path for suspect in left], limits=limits)
        if not workspace.suspects or (ask is not None and ask(_question(workspace.suspects))):
            return workspace, left
        left += workspace.suspects
        if any(suspect.path == requirements for suspect in left):
            return workspace, left


def _why_left(folder: Path, requirements: str, workspace: Workspace, left: list[Suspect]) -> str:
    """Why the file with the requirements does not travel, and the way out; empty if it does."""
    for suspect in left:
        if suspect.path == requirements:
            return (
                f"{suspect.reason}, so it does not travel: name a file with requirements that looks like no "
                "secret; an index that needs a password can be in a Secret: --secret NAME:PIP_EXTRA_INDEX_URL"
            )
    if _travels(folder, requirements, workspace.paths):
        return ""
    return (
        "is not among the files that travel: name a file with requirements that is there, that git does not "
        "ignore and that is no link out of the folder"
    )


def _travels(folder: Path, file: str, paths: Collection[str]) -> bool:
    """Whether the nodes have the file: what is in it, and its own name or a link that leads to it."""
    content = os.path.relpath(os.path.realpath(folder / file), os.path.realpath(folder))
    return content in paths and any(str(part) in paths for part in (file, *PurePosixPath(file).parents))


def _why_not(script: str, left: Collection[Suspect]) -> str:
    for suspect in left:
        if suspect.path == script:
            return (
                f"the command starts it, and it {suspect.reason}: take that out of it, as with --secret, "
                "or leave out --yes, and say yes when you are asked about it"
            )
    return (
        "the command starts it, and it does not travel: git ignores it, or it is in a cache or behind a link "
        "out of the folder: name another script, or have git track this one"
    )


def _question(suspects: tuple[Suspect, ...]) -> str:
    rows = (f"  {row}" for row in capped(suspects, MOST_REMARKS))
    return "\n".join(["Some files of the folder look like secrets:", *rows, "Send them too?"])


def _sentences(folder: Path, workspace: Workspace, left: list[Suspect], reason: str) -> list[str]:
    count = len(workspace.paths)
    files = f"{count} file{'' if count == 1 else 's'}, {size(workspace.size)}"
    origin = f"; {workspace.packed.origin}" if workspace.packed.origin else ""
    first = f"{clean(str(folder.resolve()))}: {files}{origin}"
    why = [f"{reason}; --no-workspace leaves the folder here"] if reason else []
    remarks = [*(f"{suspect}: it is left out" for suspect in left), *workspace.remarks]
    return [first, *why, *capped(remarks, MOST_REMARKS)]


def _costs(folder: Path, requirements: str) -> Iterator[str]:
    """What it costs to install requirements at each start."""
    if requirements:
        text = (folder / requirements).read_text(encoding="utf-8", errors="replace")
        yield (
            f"each node installs {_counted(text, clean(requirements))} with pip before the command "
            "starts, and again after a restart; an image that has them starts sooner"
        )


def _counted(text: str, file: str) -> str:
    """The requirements of a file, and how many they are as pip reads it."""
    lines = ("" if line.lstrip().startswith("#") else line for line in text.splitlines())
    # A line that ends with a backslash continues, such as with hashes.
    words = [line.split() for line in "\n".join(lines).replace("\\\n", " ").split("\n")]
    firsts = [line[0] for line in words if line]
    if any(first.startswith(("-r", "--requirement")) for first in firsts):
        return f"the requirements of {file} and of the files that it names"
    count = sum(1 for first in firsts if not first.startswith("-") or first.startswith(("-e", "--editable")))
    return f"the {count} requirements of {file}"
