"""Runs a command in a container, over `pods/exec`.

Called by `trainyard exec`, and by `cluster.copies`, which copies with `tar`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from trainyard_api.errors import UserError
from trainyard_kube.channels import V4, V5, Channels, channels
from trainyard_kube.client import ApiError, Client, ForbiddenError, RetriableError

from . import own_rights
from .ranks import Rank

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_SILENCE: Final = 60.0
"""Seconds after which a connection that nobody answers on counts as cut."""
_ABSENT: Final = ("executable file not found", "no such file or directory")
"""Messages of container runtimes about a missing program."""

Write = Callable[[bytes], Awaitable[None]]
"""Takes a piece of output; returns once there is room for the next one."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Input and output of a command."""

    stdout: Write
    stderr: Write
    stdin: AsyncIterator[bytes] | None = None
    """None: its input is empty."""
    sizes: AsyncIterator[tuple[int, int]] | None = None
    """Columns and lines of a terminal, at first and after each change; None: it has no terminal.
    A terminal has one output, which goes to `stdout`."""


class AbsentProgramError(UserError):
    """The container does not have the program."""


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    status: str = ""
    reason: str = ""
    message: str = ""
    details: _Details | None = None


async def execute(
    client: Client,
    rank: Rank,
    command: Sequence[str],
    streams: Streams,
    *,
    during: AbstractContextManager[None] | None = None,
) -> int:
    """Run a command where a rank runs; returns its exit code.

    Args:
        client: Whose rights are used.
        rank: Where it runs.
        command: The program and its arguments.
        streams: What it reads and writes.
        during: Is entered once the connection is open, and left before it ends.

    Raises:
        AbsentProgramError: The image does not have it.
        UserError: The right is missing, or an argument is not UTF-8.
        ApiError: The command could not be run, or the connection was cut: it may still run.
    """
    _require_utf8(command)
    is_terminal = streams.sizes is not None
    params = [
        ("container", rank.container),
        *(("command", argument) for argument in command),
        ("stdout", "true"),
        ("stdin", _flag(streams.stdin is not None)),
        ("stderr", _flag(not is_terminal)),
        ("tty", _flag(is_terminal)),
    ]
    try:
        async with channels(client, rank.path("exec"), params=params, protocols=(V5, V4)) as remote:
            with during or nullcontext():
                return await _run(remote, streams)
    except ForbiddenError as error:
        raise _not_allowed(rank.namespace) from error


async def require_right(client: Client, namespace: str) -> None:
    """Raise `UserError` if the user may not run commands in the pods of a namespace.

    Without an answer it raises nothing: the next request says why there is none.
    """
    with suppress(ApiError):
        if not await own_rights.may(client, namespace, "exec"):
            raise _not_allowed(namespace)


def _not_allowed(namespace: str) -> UserError:
    return UserError(
        f"you are not allowed to run commands in the pods of namespace {namespace} (create and "
        "get pods/exec): ask the platform team for your tenant's right pods/exec"
    )


def _require_utf8(command: Sequence[str]) -> None:
    """Refuse what would lose bytes on its way: without them, a path leads to another file."""
    for argument in command:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"{argument[:200]!a} is not UTF-8, and a pod takes nothing else: nothing was run there"
            ) from error


def _flag(value: bool) -> str:
    return "true" if value else "false"


async def _run(remote: Channels, streams: Streams) -> int:
    failures: list[Exception] = []
    senders = []
    if streams.stdin is not None:
        senders.append(asyncio.create_task(_feed(remote, streams.stdin, failures)))
    if streams.sizes is not None:
        senders.append(asyncio.create_task(_resize(remote, streams.sizes)))
    # Whoever types hears at once that nobody answers; a pipe may be full for as long as it likes.
    silence = None if streams.stdin is not None and streams.sizes is None else _SILENCE
    try:
        while (message := await remote.receive(silence)) is not None:
            channel, data = message
            if channel == _STDOUT:
                await streams.stdout(data)
            elif channel == _STDERR:
                await streams.stderr(data)
            elif channel == _ERROR and data:
                return _exit_code(data)
        raise failures[0] if failures else RetriableError("the connection was cut")
    finally:
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


async def _feed(remote: Channels, stdin: AsyncIterator[bytes], failures: list[Exception]) -> None:
    try:
        async for piece in stdin:
            await remote.send(_STDIN, piece)
        await remote.close(_STDIN)
    except RetriableError:
        return  # whoever receives says so
    except Exception as error:
        failures.append(error)
        await remote.end()


async def _resize(remote: Channels, sizes: AsyncIterator[tuple[int, int]]) -> None:
    try:
        async for columns, lines in sizes:
            await remote.send(_RESIZE, msgspec.json.encode({"Width": columns, "Height": lines}))
    except RetriableError:
        return


def _exit_code(data: bytes) -> int:
    """The end of a command, from the error stream."""
    try:
        status = msgspec.json.decode(data, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = _Status(message=data[:500].decode(errors="replace"))
    if status.status == "Success":
        return 0
    for cause in (status.details and status.details.causes) or ():
        if cause.reason == "ExitCode" and cause.message.isdecimal() and len(cause.message) <= 3:
            return int(cause.message)
    if any(words in status.message for words in _ABSENT):
        raise AbsentProgramError(status.message)
    raise ApiError(status.message or "the command ended without an exit code", reason=status.reason)
