"""`trainyard operator`: the operator from a shell, for development."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="The operator, run from a shell.", no_args_is_help=True)


@app.callback()
def operator() -> None:
    """Keep `run` a subcommand, though it is the only one."""


@app.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
def run(
    arguments: Annotated[list[str] | None, typer.Argument(help="The operator's own options.")] = None,
) -> None:
    """Run the operator until it is interrupted.

    `--help` lists the operator's options.

    Example: trainyard operator run --kubeconfig .sandbox/default/kubeconfig
    """
    # Importing Kopf and its Kubernetes client would slow down the start of every command by a third.
    from trainyard_operator import main, settings  # noqa: PLC0415

    raise typer.Exit(main.run(settings.parse(arguments or [])))
