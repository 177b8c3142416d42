"""`trainyard run --interactive`: a shell in the first rank of a TrainJob, which ends with the shell.

Called by `run`. `attach` follows the TrainJob until the rank is ready, `exec`
opens the shell, and `cluster.stops` ends the TrainJob after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from trainyard_api import durations
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_assist import read
from trainyard_assist.run import interactive
from trainyard_assist.stops import Outcome, Seen
from trainyard_kube.client import ApiError, Client
from trainyard_kube.credentials import Credentials

from .. import interrupts
from ..cluster import connection, remote_command, stops
from ..cluster.attach import States
from ..cluster.logs import MOST as MOST_LOGS
from ..cluster.logs import Wanted
from ..printer import Marked, Printer
from . import attach
from . import exec as execution

MOST: Final = 30 * 86400
"""Seconds that such a job may wait for its user."""


@dataclass(frozen=True, slots=True)
class Shell:
    """What is opened in the first rank, and how long the job waits for it."""

    words: Sequence[str] = ()
    """A command; none: a shell."""
    waiting: interactive.Waiting = field(default_factory=interactive.Waiting)

    @classmethod
    def of(cls, words: Sequence[str], time_limit: str | None, idle_limit: str | None, *, keep: bool) -> Shell:
        """What the command line says of it. Raises `UserError` for what is no duration, or too long."""
        seconds = _seconds("--time-limit", time_limit or interactive.LIMIT)
        idle = _seconds("--idle-limit", idle_limit or interactive.IDLE)
        if not 0 < seconds <= MOST:
            raise UserError(f"--time-limit must be more than 0s, and at most 30d; is {time_limit}")
        return cls(words, interactive.Waiting(seconds, idle, keep))


def _seconds(option: str, text: str) -> float:
    try:
        return durations.seconds(text)
    except ValueError as error:
        raise UserError(f"{option} {error}") from error


class ReadyError(Exception):
    """The first rank is ready for its user."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


class UntilReady(Printer):
    """Prints what a job says while it gets ready, and then raises `ReadyError`."""

    def show(self, lines: Sequence[tuple[str, Marked, str]]) -> None:
        """Print these at once; see `Printer`."""
        super().show([each for each in lines if each[2] != interactive.READY])
        for _, source, line in lines:
            if line == interactive.READY and source.place.index == 0:
                raise ReadyError(str(source.place))


Create = Callable[[Client], Coroutine[Any, Any, dict[str, Any]]]
"""Creates a TrainJob, and returns it as it is stored."""


@interrupts.like_ctrl_c()
def run(
    credentials: Credentials, trainjob: Json, create: Create, shell: Shell, *, out: TextIO, err: TextIO
) -> int:
    """Send the TrainJob, and open the shell in it; see `send` and `open_shell`."""
    try:
        stored = send(credentials, trainjob, create, attach.Voice(err))
    except KeyboardInterrupt:
        return attach.LEFT
    return open_shell(credentials, stored, shell, out=out, err=err)


@interrupts.like_ctrl_c()
def send(
    credentials: Credentials, trainjob: Json, create: Create, say: Callable[[str], None]
) -> dict[str, Any]:
    """Send a TrainJob that this command runs commands in, and nobody needs afterwards; returns it as stored.

    Args:
        credentials: The cluster.
        trainjob: What is sent.
        create: Sends it. Raises what this raises.
        say: Says what became of it after an interrupt.

    Raises:
        UserError: The user may not run commands in pods there: nothing is sent.
        KeyboardInterrupt: It was interrupted, and the TrainJob is cancelled, or is said to run perhaps.
    """
    name, namespace = trainjob["metadata"]["name"], trainjob["metadata"]["namespace"]
    stored: list[dict[str, Any]] = []
    is_sent = False

    async def keep(client: Client) -> None:
        stored.append(await create(client))

    async def wait(client: Client) -> None:
        nonlocal is_sent
        await remote_command.require_right(client, namespace)
        is_sent = True
        creating = asyncio.ensure_future(keep(client))
        try:
            await asyncio.shield(creating)
        except asyncio.CancelledError:
            await creating  # it may have happened: only its answer tells
            raise

    try:
        connection.ask(credentials, "run", wait)
    except KeyboardInterrupt:
        if stored:
            say(cancelled(credentials, stored[0]))
        elif is_sent:
            say(f"Interrupted: TrainJob {namespace}/{name} may run. {end(credentials, trainjob)}")
        else:
            say(f"Interrupted: TrainJob {namespace}/{name} is not sent")
        raise
    return stored[0]


@interrupts.like_ctrl_c()
def open_shell(
    credentials: Credentials,
    trainjob: Json,
    shell: Shell,
    *,
    descriptors: tuple[int, int, int] = (0, 1, 2),
    out: TextIO,
    err: TextIO,
) -> int:
    """Say that the TrainJob is sent, open the shell once its first rank is ready, and end it with the shell.

    Returns the exit code of the shell; if the job has ended before, that of the job.

    Args:
        credentials: The cluster.
        trainjob: The TrainJob as it is stored.
        shell: What is opened.
        descriptors: The input, output and errors of the shell.
        out: Where the lines go that come before it.
        err: Where everything else goes.

    Raises:
        UserError: The shell could not be opened, or its connection was cut; says what became of the job.
    """
    name, namespace = trainjob["metadata"]["name"], trainjob["metadata"]["namespace"]
    say = attach.Voice(err)
    back = f"To come back: {credentials.command('trainyard', 'exec', name, '-n', namespace)}"
    limit = durations.words(shell.waiting.seconds)
    goes_on = f"TrainJob {namespace}/{name} continues, {limit} at most. {back}. {end(credentials, trainjob)}"
    rank = ""
    try:
        print(clean(f"TrainJob {namespace}/{name} is sent."), file=out, flush=True)
        printer = UntilReady(out, "", marked=True)
        # The launcher of an MPI job is a pod more.
        is_large = read.number(trainjob, "spec", "trainer", "numNodes") >= MOST_LOGS
        wanted = Wanted(first=is_large)
        follow = attach.follow(
            credentials, namespace, name, wanted, states=States(say), printer=printer, say=say
        )
        return asyncio.run(follow)
    except ReadyError as ready:
        rank = ready.place
    except KeyboardInterrupt:
        say(cancelled(credentials, trainjob))
        return attach.LEFT
    except OSError:  # nobody reads the lines any more, or there is no room for them: nobody would use it
        answer = cancelled(credentials, trainjob)
        with suppress(OSError):
            say(answer)
        raise
    except ApiError as error:
        raise UserError(clean(f"{credentials.source}: {error}\n{goes_on}")) from error
    except UserError:  # its logs or pods may not be read, so that nobody knows when a shell can be opened
        say(cancelled(credentials, trainjob))
        raise
    try:
        code = execution.run(
            name,
            shell.words,
            rank=rank,
            namespace=namespace,
            credentials=credentials,
            descriptors=descriptors,
        )
    except execution.CutError as error:
        raise UserError(f"{error}\n{goes_on}") from error
    except UserError:
        say(cancelled(credentials, trainjob))
        raise
    except OSError:  # nobody reads its output any more, or there is no room for it
        answer = goes_on if shell.waiting.keep else cancelled(credentials, trainjob)
        with suppress(OSError):
            say(answer)
        raise
    say(goes_on if shell.waiting.keep else cancelled(credentials, trainjob))
    return code


def cancelled(credentials: Credentials, trainjob: Json) -> str:
    """Cancel the TrainJob; returns what became of it, and the way out where it still runs.

    Args:
        credentials: The cluster.
        trainjob: It, as the API server has stored it.
    """
    name, namespace = trainjob["metadata"]["name"], trainjob["metadata"]["namespace"]
    way_out = end(credentials, trainjob)

    async def cancel(client: Client) -> str:
        seen = Seen(trainjob, None, client.time.now(), options=credentials.options)
        answer = await stops.cancel(client, seen)
        is_done = answer.outcome in (Outcome.CANCELLED, Outcome.UNCHANGED)
        return answer.message if is_done else f"{answer.message}. {way_out}"

    try:
        with interrupts.at_first(lambda: None):  # a terminal that is closed asks for nothing else
            return connection.ask(credentials, "run", cancel)
    except KeyboardInterrupt:
        return f"Interrupted: TrainJob {namespace}/{name} may still run. {way_out}"
    except ApiError as error:
        return f"TrainJob {namespace}/{name} may still run: {error}. {way_out}"


def end(credentials: Credentials, trainjob: Json) -> str:
    """How the user of a TrainJob ends it."""
    name, namespace = trainjob["metadata"]["name"], trainjob["metadata"]["namespace"]
    return f"To end it: {credentials.command('trainyard', 'cancel', name, '-n', namespace)}"
