"""`trainyard preview`: what `up` would change in a stack, object by object.

Called by `main`, which adds `command` to the application; `rollout` runs Pulumi.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Context, Kubeconfig, StackName, Verbose
from .rollout import run


def command(
    stack: StackName,
    *,
    expect_no_changes: Annotated[
        bool, typer.Option("--expect-no-changes", help="Fail if anything would change; checks no policy.")
    ] = False,
    outcome: Annotated[
        Path | None, typer.Option(help="Also write the result, as JSON for `report`.", metavar="FILE")
    ] = None,
    verbose: Verbose = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Preview what `up` would change, and its effect on TrainJobs.

    Runs `pulumi preview --refresh` with the policies, after the cluster has judged
    the runtimes in a dry run, if your rights allow that.
    Exit code: Pulumi's, 0 if it can be rolled out; 1 if the cluster would refuse a runtime.

    Example: trainyard preview --stack prod
    """
    raise typer.Exit(
        run(
            stack,
            change=False,
            expect_no_changes=expect_no_changes,
            verbose=verbose,
            kubeconfig=kubeconfig,
            context=context,
            outcome=outcome,
        )
    )
