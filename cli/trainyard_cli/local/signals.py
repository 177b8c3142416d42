"""Signals to this process as bytes of a socket, so that one `select` waits for them and for output.

Used by `together`, in the main thread.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Final, Self

STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the processes, unless this process ignores them from its start, as under nohup."""

_Handler = Callable[[int, FrameType | None], object] | int | None


class Signals:
    """While entered, no signal interrupts anything: `received` has the numbers."""

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        numbers = (n for n in STOPS if signal.getsignal(n) is not signal.SIG_IGN)
        # If it were ignored, nobody would learn how a child ended.
        self._before: dict[int, _Handler] = {
            number: signal.signal(number, _note) for number in (signal.SIGCHLD, *numbers)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakeup)
        self._reader.close()
        self._writer.close()

    def fileno(self) -> int:
        """What `select` waits for."""
        return self._reader.fileno()

    def received(self) -> list[int]:
        """Ending signals since the last call."""
        numbers = b""
        while True:
            try:
                numbers += self._reader.recv(4096)
            except BlockingIOError:
                return [number for number in numbers if number in STOPS]


def _note(_number: int, _frame: FrameType | None) -> None:
    """Python tells the socket before it calls this."""
