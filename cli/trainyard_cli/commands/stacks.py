"""`trainyard stacks`: the stacks that a change touches, for pipelines.

Called by `main`, which adds `command` to the application. Queries git and
prints; `trainyard_delivery.stack_names` decides what touches what.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TextIO

import typer

from trainyard_api import places, similar
from trainyard_api.errors import UserError
from trainyard_delivery import stack_names

from ..files import stackfile
from ..files.git import changes_of_site
from ..output import FINE


def run(
    *,
    since: str | None = None,
    without: Sequence[str] = (),
    folder: Path | None = None,
    out: TextIO | None = None,
) -> int:
    """Print the names of the stacks as a JSON list on one line; returns the exit code.

    0: they are printed, even if there are none.

    Raises:
        UserError: There is a problem with a stack file, a name or git.
    """
    folder = folder or places.site().stacks
    names = stack_names.stacks(folder)
    for name in without:
        _require(name, names)
    chosen = [name for name in names if name not in without]
    if since is not None:
        folders = stackfile.vendored_of(chosen, folder)
        chosen = list(stack_names.touched(chosen, changes_of_site(since), folders))
    print(json.dumps(chosen), file=out or sys.stdout)
    return FINE


def command(
    since: Annotated[
        str | None,
        typer.Option(
            help="Only stacks touched by what has changed since this branch left REF.", metavar="REF"
        ),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="Leave a stack out; may be repeated.", metavar="NAME")
    ] = None,
) -> None:
    """Print the stacks, or those that a change affects, as JSON.

    They are those of the site that the current folder is in.
    """
    raise typer.Exit(run(since=since, without=without or ()))


def _require(name: str, names: Sequence[str]) -> None:
    # A site that has no use for a sandbox deletes its file, and its pipeline stays as it is.
    if name not in {*names, stack_names.SANDBOX}:
        hint = similar.hint(name, names)
        raise UserError(f"--without {name}: there is no such stack (there are: {', '.join(names)}){hint}")
