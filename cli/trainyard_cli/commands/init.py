"""`trainyard init`: a site's own repository, in which everything of ours comes from the wheel.

Called by `main`, which adds `command` to the application; `files.new_site` says what a site consists of.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated, TextIO

import typer

from trainyard_api import places
from trainyard_api.errors import UserError
from trainyard_api.similar import hint
from trainyard_delivery import stack_names

from ..files import new_site, pin
from ..output import FINE


def run(
    folder: Path,
    *,
    stack: str | None = None,
    source: str | None = None,
    fork: Path | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Write a new site and print its folder; returns the exit code.

    Args:
        folder: Where to write it.
        stack: The name of its stack; None with a fork.
        source: The shipped stack that this one begins as.
        fork: A clone whose stacks, runtimes and rules become the site's, where they are its own.
        out: Where to print.
        err: Where to say what comes next.

    Raises:
        UserError: A name is wrong, the folder has something else, or it cannot be written.
    """
    out, err = out or sys.stdout, err or sys.stderr
    installed = distribution("trainyard")
    held = new_site.files(pin.written(installed.version, installed.read_text("direct_url.json")))
    if fork is None:
        stack = stack or ""
        own = _stack(stack, source or "")
        remarks = [
            f"Change stacks/{places.stack_file(stack)} to fit your cluster. Then, in {folder}: git init, "
            f"make verify, make stack STACK={stack}, and make preview STACK={stack}"
        ]
    else:
        clone = places.site(fork)
        if not clone.is_clone:
            raise UserError(f"--from-fork {fork}: is no clone of Trainyard")
        own, left_out = new_site.of_fork(clone), new_site.left_out(clone)
        remarks = [
            *(f"Taken over: {name}" for name in own),
            *(f"To leave out as before, in each stack: runtimes.{name}.enabled: false" for name in left_out),
            f"Then, in {folder}: git init, and make verify",
        ]
    new_site.write(folder, {**held, **own})
    print(folder, file=out)
    print(*remarks, sep="\n", file=err)
    return FINE


def _stack(name: str, source: str) -> Mapping[str, new_site.File]:
    if not stack_names.is_name(name):
        raise UserError(
            f"--stack {name!r}: a stack's name has at most 100 letters, digits, hyphens, underscores, periods"
        )
    if source not in (there := new_site.sources()):
        raise UserError(
            f"--from {source}: there is no such stack (there are: {', '.join(there)}){hint(source, there)}"
        )
    return new_site.stack_file(name, source)


def command(
    folder: Annotated[Path, typer.Argument(help="A new or an empty folder.", metavar="DIR")],
    stack: Annotated[str | None, typer.Option(help="Name of its stack.", metavar="NAME")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The shipped stack that it begins as.",
            metavar="STACK",
            autocompletion=new_site.sources,
        ),
    ] = None,
    from_fork: Annotated[
        Path | None,
        typer.Option(
            help="A clone of Trainyard: its own stacks, runtimes and rules become the site's.",
            metavar="CLONE",
        ),
    ] = None,
) -> None:
    """Make a repository for a site of your own.

    It has one stack, the folders for runtimes and rules of your own, and the workflows. All the rest comes
    from this version of Trainyard, which requirements.txt pins. A folder that has something else is refused.

    Example: trainyard init platform --stack prod --from eks

    Example: trainyard init platform --from-fork ~/trainyard
    """
    if from_fork is None:
        stack = stack or typer.prompt("Name of the stack", err=True)
        source = source or typer.prompt(f"Begin as ({', '.join(new_site.sources())})", err=True)
    elif stack or source:
        raise typer.BadParameter(
            "takes the clone's stacks: without --stack and --from.", param_hint="--from-fork"
        )
    raise typer.Exit(run(folder, stack=stack, source=source, fork=from_fork))
