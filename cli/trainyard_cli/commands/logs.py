"""`trainyard logs`: what all ranks of a TrainJob print, as one log in the order of time.

Called by `main`, which adds `command` to the application. Prints; `cluster.logs`
reads the cluster, and `trainyard_assist.logs` puts the lines in order.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing
from typing import Annotated, TextIO

import msgspec
import typer

from trainyard_api import durations
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_assist import jobs
from trainyard_assist.logs import Place, is_called
from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials
from trainyard_operator.core.decide.last_lines import Kept, Lines
from trainyard_operator.core.status.display_state import State

from ..cluster import connection, last_lines
from ..cluster.attach import States
from ..cluster.logs import MOST, OTHERS, Logs, Printed, Source, Wanted
from ..options import Context, Grep, JobNamespace, Kubeconfig, OnlyRank
from ..output import FINE, REFUSED
from ..printer import Printer
from . import explain_logs
from .questions import Job, errors_named, require_names


def run(
    job: str,
    *,
    rank: str | None = None,
    follow: bool = False,
    since: str | None = None,
    grep: str = "",
    previous: bool = False,
    tail: int | None = None,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print the logs of the TrainJob's ranks; returns the exit code.

    0: they are printed, even if they are empty; 1: there are none.

    Args:
        job: Its name.
        rank: The number of a rank, or its place (`launcher-0`); None: all.
        follow: Continue until the TrainJob has ended.
        since: Only what was printed in the last so long (`10m`).
        grep: Only the lines that have this text.
        previous: The logs of the containers before the ones that run now.
        tail: Only so many lines of each rank, the last.
        namespace: Its namespace; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        out: Where the lines go.
        err: Where remarks go.

    Raises:
        UserError: The options contradict each other, there is no such TrainJob or rank, or the cluster
            could not be queried.
    """
    out, err = out or sys.stdout, err or sys.stderr
    require_names(job, namespace)
    if follow and previous:
        raise UserError("--previous prints what has ended: leave out --previous, or --follow")
    wanted = Wanted(rank=rank, since=seconds(since), tail=tail, previous=previous)
    credentials = connection.load_or_sandbox(kubeconfig, context)
    printer = Printer(out, grep, marked=rank is None)
    try:
        with errors_named(credentials):
            return asyncio.run(
                _print(credentials, namespace, job, wanted, printer=printer, err=err, follow=follow)
            )
    except KeyboardInterrupt:
        return FINE


def seconds(since: str | None) -> float | None:
    """The value of `--since`. Raises `UserError` for an invalid duration."""
    try:
        return None if since is None else durations.seconds(since)
    except ValueError as error:
        raise UserError(f"--since {error}") from error


async def _print(
    credentials: Credentials,
    namespace: str | None,
    job: str,
    wanted: Wanted,
    *,
    printer: Printer,
    err: TextIO,
    follow: bool,
) -> int:
    within = namespace or credentials.namespace
    async with connection.client(credentials, "logs", limit=MOST + OTHERS) as client:
        states = States(lambda line: print(clean(line), file=err))
        logs = Logs(client, within, job, wanted, changed=states.heard, unanswered=states.unanswered)
        trainjob = await logs.trainjob()
        row, sources = jobs.row(trainjob), await logs.sources()
        goes_on = follow and not row.is_over
        await show(logs.history(sources, goes_on=goes_on), printer)
        if goes_on:
            if not sources:
                print(clean(f"TrainJob {within}/{job} is {row.state}: waiting for its pods"), file=err)
            await show(logs.follow(sources), printer)
            _say_unread(logs.unread, err)
            end = "gone" if logs.row is None or not logs.row.is_over else logs.row.state
            print(clean(f"TrainJob {within}/{job} is {end}"), file=err)
            return FINE
        return await print_rest(client, trainjob, wanted, sources, printer=printer, err=err)


async def show(lines: AsyncGenerator[Printed, None], printer: Printer) -> None:
    """Print lines as they come."""
    async with aclosing(lines) as printed:
        async for batch in printed:
            printer.show(batch)


async def print_rest(
    client: Client,
    trainjob: Json,
    wanted: Wanted,
    sources: Sequence[Source],
    *,
    printer: Printer,
    err: TextIO,
) -> int:
    """Say which of these logs could not be read, and print the last lines kept of pods that are gone.

    Returns the exit code; 1: there is nothing of any.
    """
    row = jobs.row(trainjob)
    unread = [source for source in sources if source.unread]
    # A rank that is tried again has several pods, and the last one may have no log yet.
    read = {str(source.pod.place) for source in sources if not source.unread}
    if read:
        _say_unread(unread, err)
    # Of a job that has failed, Kubernetes deletes the pods that still ran.
    kept = await last_lines.kept(client, trainjob) if not read or row.state == State.FAILED else ""
    # A pod that was ended as soon as it was made has a log, and nothing in it.
    empty = {str(source.pod.place) for source in sources if source.log.is_empty and wanted.tail != 0}
    printed = read - empty
    places = _missing(kept, printed, wanted) if isinstance(kept, Kept) else {}
    if isinstance(kept, Kept) and places:
        which = "Other pods of it" if printed else "Its pods"
        print(f"{which} are gone, or cannot be read. These are their last lines:", file=err)
        printer.print(explain_logs.lines(msgspec.structs.replace(kept, pods=places)))
    elif not read:
        print(clean(_why_none(client, row, wanted, sources, kept)), file=err)
        return REFUSED
    return FINE


def _say_unread(sources: Iterable[Source], err: TextIO) -> None:
    for source in sources:
        print(clean(f"Could not read rank {source.label}: {source.unread}"), file=err)


def _missing(kept: Kept, read: Collection[str], wanted: Wanted) -> dict[str, Lines]:
    """The places whose last lines are kept and wanted, and whose logs have not been read."""
    return {
        place: lines
        for place, lines in kept.pods.items()
        if place not in read and (wanted.rank is None or _is_called(place, wanted.rank))
    }


def _is_called(place: str, rank: str) -> bool:
    of = Place(*explain_logs.split(place))
    return str(of) == place and is_called(of, rank)


def _why_none(
    client: Client, row: jobs.Row, wanted: Wanted, sources: Sequence[Source], kept: Kept | str
) -> str:
    """Why there is no log."""
    who = f"TrainJob {row.namespace}/{row.name} is {row.state}"
    if sources:
        return f"{who}, and has no log to read: {sources[0].unread}"
    pods = "pods" if wanted.rank is None else f"pod of rank {wanted.rank}"
    if not row.is_over:
        why = client.credentials.command("trainyard", "explain", row.name, "-n", row.namespace)
        return f"{who}, and has no {pods} yet. See why: {why}"
    return f"{who}, and has no {pods} any more" + (f"; {kept}" if isinstance(kept, str) else "")


def command(
    job: Job,
    *,
    rank: OnlyRank = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the job ends.")] = False,
    since: Annotated[
        str | None, typer.Option(help="Only lines of the last period, such as 5m.", metavar="10m")
    ] = None,
    grep: Grep = "",
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Logs of the previous containers, before their restart.")
    ] = False,
    tail: Annotated[int | None, typer.Option(help="Only the last lines of each rank.", min=0)] = None,
    namespace: JobNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print the logs of all ranks of a TrainJob.

    In the order of time, each line after its rank. With --follow it continues across restarts and ends with
    the job. Of pods that are gone it prints the last lines, where they are kept. Exit code 1:
    there is no log; 2: the cluster could not be queried.

    Example: trainyard logs my-training --follow

    Example: trainyard logs my-training --rank 3 --since 10m
    """
    raise typer.Exit(
        run(
            job,
            rank=rank,
            follow=follow,
            since=since,
            grep=grep,
            previous=previous,
            tail=tail,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
        )
    )
