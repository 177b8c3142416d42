"""The terminal and the pipes of the user, read and written without blocking the event loop.

Called by `trainyard exec`.
"""

from __future__ import annotations

import asyncio
import os
import select
import selectors
import signal
import sys
import termios
import tty
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from .. import interrupts

T = TypeVar("T")

_PIECE: Final = 32 * 1024
_NEVER_BLOCKS: Final = select.PIPE_BUF
"""Bytes that a pipe takes at once, if it takes any."""
_QUIET: Final = b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m\r\n"
"""No reports of the mouse or of what is pasted; the cursor and the usual colours are back, on a new line."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, in a loop that also waits for files and for /dev/null, which a shell may redirect to.

    That of macOS refuses /dev/null and some terminals, and does not wake up at the end of a file.
    """
    with asyncio.Runner(loop_factory=_selecting if sys.platform == "darwin" else None) as runner:
        return runner.run(coroutine)


def _selecting() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


@contextmanager
def raw(descriptor: int) -> Iterator[None]:
    """Each key goes to the program as it is typed, Ctrl-C too; afterwards the terminal is as it was.

    Also after SIGTERM and SIGHUP, which cancel the task that is in it.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 - an event loop runs
    before = termios.tcgetattr(descriptor)
    with interrupts.at_first(lambda: loop.call_soon_threadsafe(task.cancel)):
        try:
            tty.setraw(descriptor, termios.TCSANOW)
            yield
        finally:
            # A terminal that is gone needs nothing.
            with suppress(termios.error):
                termios.tcsetattr(descriptor, termios.TCSANOW, before)


def quiet(descriptor: int) -> None:
    """Undo what a program may have asked of a terminal which it could not take leave of."""
    with suppress(OSError):
        os.write(descriptor, _QUIET)


async def sizes(descriptor: int) -> AsyncGenerator[tuple[int, int]]:
    """Columns and lines of a terminal, at first and after each change."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            size = os.get_terminal_size(descriptor)
            if size.columns and size.lines:
                yield size.columns, size.lines
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def pieces(descriptor: int) -> AsyncGenerator[bytes]:
    """The input, piece by piece, to its end; none if it is closed."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            await _ready(loop.add_reader, loop.remove_reader, descriptor)
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:
            continue
        except OSError:
            return
        if not piece:
            return
        yield piece


async def write(descriptor: int, data: bytes) -> None:
    """Write all of it, and wait where there is no room."""
    loop, rest = asyncio.get_running_loop(), memoryview(data)
    while rest:
        await _ready(loop.add_writer, loop.remove_writer, descriptor)
        with suppress(BlockingIOError):
            rest = rest[os.write(descriptor, rest[:_NEVER_BLOCKS]) :]


async def _ready(
    add: Callable[[int, Callable[[], Any]], Any], remove: Callable[[int], Any], descriptor: int
) -> None:
    ready = asyncio.Event()
    os.fstat(descriptor)  # one that is closed fails here: `select` would fail in the loop
    try:
        add(descriptor, ready.set)
    except PermissionError:
        return  # a file always is
    try:
        await ready.wait()
    finally:
        remove(descriptor)
