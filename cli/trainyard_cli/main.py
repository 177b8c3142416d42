"""Assembles the `trainyard` command, and turns its errors into exit codes.

0: fine. 1: the answer is no. 2: there is no answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from trainyard_api.errors import UserError

from . import on_demand
from .on_demand import Listed

COMMANDS: Final = {
    "adopt": Listed("adopt:command", "Take a cluster over from Kubeflow Trainer's own controller."),
    "destroy": Listed(
        "destroy:command",
        "Remove a stack's platform from its cluster; TrainJobs, their pods and their CRDs stay.",
    ),
    "drift": Listed(
        "drift:command", "Say where the cluster differs from git, field by field, and who wrote it."
    ),
    "impact": Listed(
        "impact:command", "Say which TrainJobs a change of runtimes, queues, pools and tenants touches."
    ),
    "lint": Listed(
        "lint:command", "Check runtimes and TrainJobs against the policy rules, without a cluster."
    ),
    "manifests": Listed(
        "plain:command", "Write a stack as plain manifests, a folder for each wave, without a cluster."
    ),
    "migrate": Listed(
        "migrate:command",
        "Turn jobs of older APIs into TrainJobs, with a TrainingRuntime where the catalog has none"
        " that fits.",
    ),
    "preview": Listed(
        "rollout:preview_command",
        "Say what `up` would change in a stack, object by object, and what that does to TrainJobs.",
    ),
    "render": Listed(
        "render:command",
        "Print the objects that the operator would create for a TrainJob, without a cluster.",
    ),
    "report": Listed(
        "report:command", "Write what a pull request does, as Markdown for those who review it."
    ),
    "stacks": Listed(
        "stacks:command", "Print the stacks of this clone, or those that a change touches, as JSON."
    ),
    "up": Listed(
        "rollout:up_command",
        "Roll out a stack, after saying what that does, without asking for confirmation.",
    ),
    "validate": Listed(
        "validate:command",
        "Print what admission would answer about a TrainJob or a runtime, without a cluster.",
    ),
    "verify": Listed(
        "verify:command",
        "Check all that a site keeps in git: stack files, runtimes, and the rules on each stack; no cluster.",
    ),
    "explain": Listed(
        "explain:command", "Say why a TrainJob does not run: the first cause, and the next step."
    ),
    "sandbox": Listed("sandbox:app", "A real Kubernetes on this machine, without Docker."),
    "operator": Listed("operator:app", "The operator, run from a shell."),
    "runtimes": Listed("runtimes:app", "The catalog: what TrainJobs can run on."),
}
"""Each command. Help lists them in this order."""

app = typer.Typer(
    cls=on_demand.group(COMMANDS),
    help="Distributed AI training on Kubernetes, declared in git.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(flag: bool) -> None:
    if flag:
        from importlib.metadata import version  # noqa: PLC0415 - nobody else needs it

        typer.echo(f"trainyard {version('trainyard')}")
        raise typer.Exit


@app.callback()
def trainyard(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Keep this a group, though commands are registered only on demand."""


def main() -> None:
    """Entry point of the command."""
    sys.exit(exit_code(app))


def exit_code(command: Callable[[], int]) -> int:
    """The exit code of a command; that of the error that ends it, which goes to stderr."""
    try:
        return command()
    except UserError as error:
        print(error.shown, file=sys.stderr)
        return error.exit_code
