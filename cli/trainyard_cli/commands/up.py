"""`trainyard up`: roll out a stack, after a preview.

Called by `main`, which adds `command` to the application; `rollout` runs Pulumi.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import Context, Keep, Kubeconfig, Replace, StackName, Verbose
from .rollout import run


def command(
    stack: StackName,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Then remove what other clients added to the stack's objects.")
    ] = False,
    keep: Keep = None,
    replace: Replace = None,
    verbose: Verbose = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Roll out a stack, after showing the changes.

    Does not ask for confirmation. Runs `pulumi preview --refresh`, then
    `pulumi up`, both with the policies. What others have added to the stack's
    objects stays, unless you add --repair: see `trainyard drift --repair`.
    Exit code: Pulumi's, 0 if all of it is done; with --repair then that of
    `drift`.

    Example: trainyard up --stack prod --repair
    """
    raise typer.Exit(
        run(
            stack,
            change=True,
            repair=repair,
            keep=keep or (),
            replace=replace or (),
            verbose=verbose,
            kubeconfig=kubeconfig,
            context=context,
        )
    )
