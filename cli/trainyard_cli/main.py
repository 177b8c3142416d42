"""Assembles the `trainyard` command, and turns its errors into exit codes.

0: fine. 1: the answer is no. 2: there is no answer.
"""

from __future__ import annotations

import sys
from typing import Final

import typer

from trainyard_sandbox.errors import SandboxError

from . import on_demand

COMMANDS: Final = {
    "adopt": "adopt:command",
    "drift": "drift:command",
    "impact": "impact:command",
    "lint": "lint:command",
    "manifests": "plain:command",
    "migrate": "migrate:command",
    "preview": "rollout:preview_command",
    "render": "render:command",
    "report": "report:command",
    "stacks": "stacks:command",
    "up": "rollout:up_command",
    "validate": "validate:command",
    "verify": "verify:command",
    "explain": "explain:command",
    "sandbox": "sandbox:app",
    "operator": "operator:app",
    "runtimes": "runtimes:app",
}
"""Each command: its module, and what it is called there. Help lists them in this order."""

app = typer.Typer(
    cls=on_demand.group(COMMANDS),
    help="Distributed AI training on Kubernetes, declared in git.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def trainyard() -> None:
    """Keep this a group, though commands are registered only on demand."""


def main() -> None:
    """Entry point of the command."""
    try:
        app()
    except SandboxError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
