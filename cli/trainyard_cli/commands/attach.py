"""`trainyard attach`: a TrainJob from here on, its states and its logs, to its end and exit code.

Called by `main`, which adds `command` to the application, and by commands that have just sent a TrainJob,
which call `attach`. Prints; `cluster.logs` and
`cluster.attach` read the cluster.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Annotated, Final, TextIO

import typer

from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_assist import jobs
from trainyard_assist.attach import exit_code
from trainyard_assist.read import uid
from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials

from ..cluster import connection
from ..cluster.attach import States, end
from ..cluster.logs import MOST, OTHERS, HiddenLogsError, Logs, ManyPodsError, Wanted
from ..options import Context, Grep, JobNamespace, Kubeconfig, OnlyRank, same_place
from ..output import REFUSED
from ..printer import Printer
from .logs import print_rest, seconds, show
from .questions import Job, errors_named, require_names

LEFT: Final = 130
"""The exit code after Ctrl-C, as in shells: the job continues, so it has no exit code yet."""


def run(
    job: str,
    *,
    rank: str | None = None,
    grep: str = "",
    since: str | None = None,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Follow the TrainJob to its end; returns its exit code.

    0: it is complete; if it has failed, the exit code of the rank that failed first, and 1 if that is
    unknown or the job was deleted; 130: the user has left, and the job continues.

    Args:
        job: Its name.
        rank: Only the log of this rank: its number, or its place (`launcher-0`); None: of all.
        grep: Only the lines that have this text.
        since: Of what was printed before, only the last so long (`10m`); None: all.
        namespace: Its namespace; None: that of the context.
        kubeconfig: None: KUBECONFIG or ~/.kube/config.
        context: None: the current one.
        out: Where the lines go.
        err: Where the states go.

    Raises:
        UserError: There is no such TrainJob or rank, or the cluster could not be queried.
    """
    require_names(job, namespace)
    wanted = Wanted(rank=rank, since=seconds(since))
    try:
        credentials = connection.load_or_sandbox(kubeconfig, context)
    except KeyboardInterrupt:
        return LEFT
    again = same_place(namespace, kubeconfig, context)
    return attach(credentials, namespace, job, wanted, again=again, grep=grep, out=out, err=err)


def attach(
    credentials: Credentials,
    namespace: str | None,
    job: str,
    wanted: Wanted | None = None,
    *,
    again: Sequence[str] = (),
    grep: str = "",
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Follow a TrainJob of a known cluster, such as after sending it.

    Args:
        credentials: The cluster.
        namespace: Of the TrainJob; None: that of the credentials.
        job: Its name.
        wanted: What of the logs is wanted; None: all.
        again: The options with which the user finds the TrainJob again.
        grep: Only the lines that have this text.
        out: Where the lines go.
        err: Where the states go.

    Raises:
        UserError: There is no such TrainJob or rank, or the cluster could not be queried.
    """
    out, err = out or sys.stdout, err or sys.stderr
    within, wanted = namespace or credentials.namespace, wanted or Wanted()
    say = Voice(err)
    states = States(say)
    printer = Printer(out, grep, marked=wanted.rank is None)
    following = _follow_as_allowed(credentials, within, job, wanted, states=states, printer=printer, say=say)
    try:
        with errors_named(credentials):
            return asyncio.run(following)
    except KeyboardInterrupt:
        say(_left(within, job, states.row, again))
        return LEFT
    except BrokenPipeError:  # nobody reads the lines any more
        with suppress(BrokenPipeError):
            say(_left(within, job, states.row, again))
        raise
    except ManyPodsError as error:
        way_out = _left(within, job, states.row, ["--rank", "0", *again])
        raise UserError(f"{error}\n{clean(way_out)}") from error


class Voice:
    """Says what is no line of a log: each sentence on a line of its own."""

    def __init__(self, err: TextIO) -> None:
        self.err = err

    def __call__(self, sentence: str) -> None:
        """Say it."""
        print(clean(sentence), file=self.err, flush=True)


def _left(namespace: str, job: str, row: jobs.Row | None, again: Sequence[str]) -> str:
    """The message for a user who leaves."""
    stands = "is as it was" if row is None else f"is {row.state}{'' if row.is_over else ', and continues'}"
    words = shlex.join(["trainyard", "attach", job, *again])
    return f"TrainJob {namespace}/{job} {stands}. To come back: {words}"


async def _follow_as_allowed(
    credentials: Credentials,
    namespace: str,
    job: str,
    wanted: Wanted,
    *,
    states: States,
    printer: Printer,
    say: Voice,
) -> int:
    """Like `follow`, but without the logs if the user may not read them: the TrainJob tells how it ends."""
    try:
        return await follow(credentials, namespace, job, wanted, states=states, printer=printer, say=say)
    except HiddenLogsError as error:
        say(f"{error}: only the states and the outcome of the job follow")
    async with connection.client(credentials, "attach") as client:
        logs = Logs(client, namespace, job, wanted, changed=states.heard, unanswered=states.unanswered)
        trainjob = await logs.trainjob()
        row = jobs.row(trainjob)
        if not row.is_over:
            async with _saying(states, client, row):
                await logs.ended()
        return await _end(client, namespace, job, trainjob, states=states, say=say)


async def follow(
    credentials: Credentials,
    namespace: str,
    job: str,
    wanted: Wanted,
    *,
    states: States,
    printer: Printer,
    say: Voice,
) -> int:
    """Follow the TrainJob to its end; returns its exit code.

    Args:
        credentials: The cluster.
        namespace: Of the TrainJob.
        job: Its name.
        wanted: What of the logs is wanted.
        states: What is heard of it.
        printer: Prints the lines; what it raises ends this.
        say: Says the states, and how it has ended.

    Raises:
        UserError: There is no such TrainJob or rank.
        ApiError: The cluster could not be queried.
    """
    async with connection.client(credentials, "attach", limit=MOST + OTHERS) as client:
        wanted = replace(wanted, earlier=True)
        logs = Logs(client, namespace, job, wanted, changed=states.heard, unanswered=states.unanswered)
        trainjob = await logs.trainjob()
        row = jobs.row(trainjob)
        if row.is_over:
            sources = await logs.sources()
            await show(logs.history(sources), printer)
            await print_rest(client, trainjob, wanted, sources, printer=printer, err=say.err)
        else:
            async with _saying(states, client, row):
                sources = await logs.sources()
                await show(logs.history(sources, goes_on=True), printer)
                await show(logs.follow(sources), printer)
            for source in logs.unread:
                say(f"Could not read all of rank {source.label}: {source.unread}")
        return await _end(client, namespace, job, trainjob, states=states, say=say)


@asynccontextmanager
async def _saying(states: States, client: Client, row: jobs.Row) -> AsyncGenerator[None]:
    """Say the states of the TrainJob meanwhile."""
    telling = asyncio.create_task(states.tell(client, row))
    try:
        yield
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


async def _end(
    client: Client, namespace: str, job: str, trainjob: Json, *, states: States, say: Voice
) -> int:
    """Say how it has ended; the exit code is the job's."""
    how = await end(client, namespace, job, uid(trainjob), states.unanswered)
    if how is None:
        say(f"TrainJob {namespace}/{job} was deleted")
        return REFUSED
    observation, diagnosis = how
    say(diagnosis.answer)
    if diagnosis.finding is not None:
        say(f"Next step: {diagnosis.finding.next_step}")
    return exit_code(observation, diagnosis)


def command(
    job: Job,
    *,
    rank: OnlyRank = None,
    grep: Grep = "",
    since: Annotated[
        str | None,
        typer.Option(help="Earlier lines only of the last period, such as 5m.", metavar="10m"),
    ] = None,
    namespace: JobNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Follow a TrainJob to its end: its states, then its logs.

    Says what the job waits for as `explain` does, and prints what all ranks print, over restarts and
    cut connections. Ctrl-C leaves the job running: exit code 130. Else the exit code is the job's: 0
    if it is complete, that of the rank that failed first, or 1. 2: the cluster could not be queried.

    Example: trainyard attach my-training

    Example: trainyard attach my-training --rank 0 --since 10m
    """
    raise typer.Exit(
        run(
            job,
            rank=rank,
            grep=grep,
            since=since,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
        )
    )
