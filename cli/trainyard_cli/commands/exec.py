"""`trainyard exec`: a shell, or another command, where a rank of a TrainJob runs.

Called by `main`, which adds `command` to the application. `cluster.ranks` finds
the rank, `cluster.remote_command` runs the command, `cluster.terminal` is this side of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Final

import typer

from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_assist.run import interactive
from trainyard_kube.client import ApiError
from trainyard_kube.credentials import Credentials

from ..cluster import connection, ranks, terminal
from ..cluster.remote_command import AbsentProgramError, Streams, execute
from ..options import Context, JobNamespace, Kubeconfig, Rank
from .questions import Job, errors_named, require_names

_REFUSED: Final = range(400, 500)
"""HTTP status of a request of which nothing was started."""
_SIGNALLED: Final = 128
"""The number that shells add to a signal in exit codes."""


class CutError(UserError):
    """The connection to a command was cut: it may still run."""


def run(
    job: str,
    arguments: Sequence[str] = (),
    *,
    rank: str | None = None,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    credentials: Credentials | None = None,
    descriptors: tuple[int, int, int] = (0, 1, 2),
) -> int:
    """Run a command where a rank runs; returns its exit code.

    Args:
        job: The TrainJob's name.
        arguments: The command; none: a shell.
        rank: A number, or a place such as `launcher-0`; None: the first.
        namespace: The TrainJob's; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        credentials: A cluster that is known already; None: that of the two above.
        descriptors: Its input, output and errors. It has a terminal if the first two are one.

    Raises:
        UserError: The command could not be run, or its end is not known.
    """
    require_names(job, namespace)
    credentials = credentials or connection.load(kubeconfig, context)
    is_terminal = os.isatty(descriptors[0]) and os.isatty(descriptors[1])
    try:
        return terminal.run(
            _execute(
                credentials, namespace, job, rank, arguments, descriptors=descriptors, is_terminal=is_terminal
            )
        )
    except KeyboardInterrupt:
        print(f"interrupted: what was started in {job} may still run", file=sys.stderr)
        return _SIGNALLED + signal.SIGINT
    except asyncio.CancelledError:
        return _SIGNALLED + signal.SIGTERM
    except ApiError as error:
        if error.code in _REFUSED:
            raise UserError(clean(f"{credentials.source}: {error}")) from error
        if is_terminal:
            terminal.quiet(descriptors[1])
        raise CutError(
            clean(f"{credentials.source}: {error}: what was started in {job} may still run")
        ) from error


async def _execute(
    credentials: Credentials,
    namespace: str | None,
    job: str,
    rank: str | None,
    arguments: Sequence[str],
    *,
    descriptors: tuple[int, int, int],
    is_terminal: bool,
) -> int:
    stdin, stdout, stderr = descriptors
    streams = Streams(
        stdout=partial(terminal.write, stdout),
        stderr=partial(terminal.write, stderr),
        stdin=terminal.pieces(stdin),
        sizes=terminal.sizes(stdout) if is_terminal else None,
    )
    async with connection.client(credentials, "exec") as client:
        with errors_named(credentials):  # nothing is started yet
            target = await ranks.running(client, namespace or credentials.namespace, job, rank)
        try:
            # An image that a folder was unpacked in has sh; another one may have no shell at all.
            is_inside = target.has_folder or not arguments
            return await execute(
                client,
                target,
                interactive.shell(arguments) if is_inside else arguments,
                streams,
                during=terminal.raw(stdin) if is_terminal else nullcontext(),
            )
        except AbsentProgramError as error:
            if arguments:
                raise UserError(clean(f"the image of {target} has no {arguments[0]}")) from error
            again = credentials.command("trainyard", "exec", job, "-n", target.namespace)
            raise UserError(
                f"the image of {target} has no shell, neither bash nor sh: name a command that it has, such "
                f"as {again} -- python3"
            ) from error


def command(
    job: Job,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="The command, after --; by default a shell.", metavar="[-- COMMAND...]"),
    ] = None,
    *,
    rank: Rank = None,
    namespace: JobNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Open a shell in the pod of a rank.

    Or run another command there. On a terminal it is yours to type in; otherwise it reads what is piped
    to it. The exit code is that of the command; 2 also if it could not be run. Needs the right pods/exec.

    Example: trainyard exec my-training --rank 3

    Example: trainyard exec my-training -- nvidia-smi
    """
    raise typer.Exit(
        run(
            job,
            arguments or (),
            rank=rank,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
        )
    )
