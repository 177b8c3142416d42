"""`trainyard ports`: ports of this machine that lead to a rank of a TrainJob, such as TensorBoard's.

Called by `main`, which adds `command` to the application. Prints; `cluster.forwards` forwards.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final, TextIO

import typer

from trainyard_api.errors import UserError
from trainyard_kube.credentials import Credentials

from ..cluster import connection, ranks
from ..cluster.forwards import ADDRESS, MOST, Forward, Forwards
from ..options import Context, JobNamespace, Kubeconfig, Printed, Rank
from ..output import FINE, Output, write_json
from .questions import Job, errors_named, require_names

API_VERSION: Final = "ports.trainyard.dev/v1alpha1"
_OTHERS: Final = 8
"""Further connections, in addition to the forwarded ones."""
_LAST: Final = 65_535


def run(
    job: str,
    ports: Sequence[str],
    *,
    rank: str | None = None,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: Output = Output.TEXT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Forward ports to a rank until the user ends it; returns the exit code.

    Args:
        job: The TrainJob's name.
        ports: `REMOTE`, `LOCAL:REMOTE`, or `:REMOTE` for a local one that is free.
        rank: A number, or a place such as `launcher-0`; None: the first.
        namespace: The TrainJob's; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        output: How to print which ports they are.
        out: Where that goes.
        err: Where what goes wrong goes.

    Raises:
        UserError: A port is none or taken, the rank does not run, or the right is missing.
    """
    out, err = out or sys.stdout, err or sys.stderr
    require_names(job, namespace)
    forwards = [_forward(port) for port in ports]
    credentials = connection.load(kubeconfig, context)
    with suppress(KeyboardInterrupt), errors_named(credentials):
        asyncio.run(_listen(credentials, namespace, job, rank, forwards, output=output, out=out, err=err))
    return FINE


def _forward(port: str) -> Forward:
    local, colon, remote = port.rpartition(":")
    numbers = [_number(text) for text in (local or "0", remote)] if colon else [_number(remote)] * 2
    if None in numbers or not numbers[1]:
        raise UserError(f"{port[:50]!r} is not a port: use 6006, 16006:6006 or :6006 (1 to {_LAST})")
    return Forward(*(number or 0 for number in numbers))


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_LAST))
    return int(text) if is_number and int(text) <= _LAST else None


async def _listen(
    credentials: Credentials,
    namespace: str | None,
    job: str,
    rank: str | None,
    forwards: Sequence[Forward],
    *,
    output: Output,
    out: TextIO,
    err: TextIO,
) -> None:
    def say(words: str) -> None:
        print(words, file=err, flush=True)

    async with connection.client(credentials, "ports", limit=MOST + _OTHERS) as client:
        target = await ranks.running(client, namespace or credentials.namespace, job, rank)
        async with Forwards(client, target, say).listening(forwards) as listening:
            if output is Output.JSON:
                write_json(_document(target, listening), out)
            else:
                for forward in listening:
                    print(f"{ADDRESS}:{forward.local} -> {target}, port {forward.remote}", file=out)
            out.flush()
            await asyncio.Event().wait()


def _document(target: ranks.Rank, listening: Sequence[Forward]) -> dict[str, object]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Ports",
        "namespace": target.namespace,
        "trainJob": target.job,
        "rank": target.label,
        "ports": [
            {"address": ADDRESS, "local": forward.local, "remote": forward.remote} for forward in listening
        ],
    }


def command(
    job: Job,
    ports: Annotated[
        list[str],
        typer.Argument(
            help="PORT of the rank, LOCAL:PORT, or :PORT for a free port of this machine.",
            metavar="[LOCAL:]REMOTE...",
        ),
    ],
    *,
    rank: Rank = None,
    namespace: JobNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Printed = Output.TEXT,
) -> None:
    """Forward ports of this machine to a rank of a TrainJob.

    Only this machine reaches them. Continues until Ctrl-C, even if the rank gets a new pod. Exit code 2:
    they could not be forwarded. Needs the right pods/portforward.

    Example: trainyard ports my-training 6006

    Example: trainyard ports my-training 16006:6006 5678 --rank 3
    """
    raise typer.Exit(
        run(
            job,
            ports,
            rank=rank,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
        )
    )
