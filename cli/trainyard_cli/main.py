"""Assembles the `trainyard` command, and turns its errors into exit codes.

0: fine. 1: the answer is no. 2: it could not be asked.
"""

from __future__ import annotations

import sys

import typer

from trainyard_sandbox.errors import SandboxError

from . import (
    adopt,
    drift,
    explain,
    impact,
    lint,
    migrate,
    plain,
    render,
    report,
    rollout,
    runtimes_diff,
    runtimes_jobs,
    runtimes_new,
    stacks,
    validate,
    verify,
)
from .operator import app as operator_app
from .runtimes import app as runtimes_app
from .sandbox import app as sandbox_app

app = typer.Typer(
    help="Distributed AI training on Kubernetes, declared in git.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(operator_app, name="operator")
app.add_typer(runtimes_app, name="runtimes")
app.command(name="adopt")(adopt.command)
app.command(name="drift")(drift.command)
app.command(name="impact")(impact.command)
app.command(name="lint")(lint.command)
app.command(name="manifests")(plain.command)
app.command(name="migrate")(migrate.command)
app.command(name="preview")(rollout.preview_command)
app.command(name="render")(render.command)
app.command(name="report")(report.command)
app.command(name="stacks")(stacks.command)
app.command(name="up")(rollout.up_command)
app.command(name="validate")(validate.command)
app.command(name="verify")(verify.command)
app.command(name="explain")(explain.command)
runtimes_app.command(name="diff")(runtimes_diff.command)
runtimes_app.command(name="jobs")(runtimes_jobs.command)
runtimes_app.command(name="new")(runtimes_new.command)


def main() -> None:
    """Entry point of the command."""
    try:
        app()
    except SandboxError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
