"""The folder that travels with a TrainJob: packed, and what `trainyard run` says and asks about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from trainyard_api.printable import clean
from trainyard_assist.workspace import Packed, WorkspaceError

from ..files.copies import size
from ..files.git import GitError
from ..files.workspace import Suspect, Workspace, pack

MOST_REMARKS: Final = 10
"""Sentences of a plan about files."""
_WAY_OUT: Final = "To send the command without the folder: --no-workspace"


def packed(
    folder: Path, ask: Callable[[str], bool] | None, *, is_named: bool
) -> tuple[Packed, tuple[str, ...]]:
    """The folder, and what the plan says of it.

    Args:
        folder: Which.
        ask: The answer to a question, here about files that look like secrets; None: they are left out.
        is_named: Whether the user has named it; otherwise the way out is told.

    Raises:
        WorkspaceError, GitError: It cannot travel with a TrainJob.
    """
    try:
        workspace, left = _packed(folder, ask)
    except (WorkspaceError, GitError) as error:
        if is_named:
            raise
        raise WorkspaceError(f"{error}\n{_WAY_OUT}") from error
    return workspace.packed, tuple(_sentences(folder, workspace, left, is_named=is_named))


def _packed(folder: Path, ask: Callable[[str], bool] | None) -> tuple[Workspace, list[Suspect]]:
    """The folder, and which files of it are left out since they look like secrets."""
    left: list[Suspect] = []
    while True:
        workspace = pack(folder, without=[suspect.path for suspect in left])
        if not workspace.suspects or (ask is not None and ask(_question(workspace.suspects))):
            return workspace, left
        left += workspace.suspects


def _question(suspects: tuple[Suspect, ...]) -> str:
    rows = [f"  {suspect}" for suspect in suspects[:MOST_REMARKS]]
    rows += [f"  and {len(suspects) - MOST_REMARKS} more"] if len(suspects) > MOST_REMARKS else []
    return "\n".join(["Some files of the folder look like secrets:", *rows, "Send them too?"])


def _sentences(folder: Path, workspace: Workspace, left: list[Suspect], *, is_named: bool) -> list[str]:
    files = f"{workspace.files} file{'' if workspace.files == 1 else 's'}, {size(workspace.size)}"
    origin = f"; {workspace.packed.origin}" if workspace.packed.origin else ""
    first = f"{clean(str(folder.resolve()))}: {files}{origin}"
    why = [] if is_named else ["this folder has the script; --no-workspace does not send it"]
    remarks = [*(f"{suspect}: it is left out" for suspect in left), *workspace.remarks]
    more = len(remarks) - MOST_REMARKS
    return [first, *why, *remarks[:MOST_REMARKS], *([f"and {more} more"] if more > 0 else [])]
