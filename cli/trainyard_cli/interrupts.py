"""Signals that end a command which has something to take back first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class _First:
    """A handler that acts on the first signal, and makes those around it wait for no other."""

    def __init__(self, act: Callable[[], object], around: list[_First]) -> None:
        self._act = act
        self._around = around
        self.is_over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Act unless a signal has come before."""
        if self.is_over:
            return
        self.end()
        self._act()

    def end(self) -> None:
        """Whatever comes after this is ignored, here and around it."""
        self.is_over = True
        for handler in self._around:
            handler.end()


@contextmanager
def at_first(act: Callable[[], object]) -> Iterator[None]:
    """Act on the first SIGTERM, or SIGHUP as of a terminal that is closed; ignore those after it.

    A terminal that is closed sends several: its shell does, and then the kernel. A signal that is ignored,
    as under nohup, stays so. Outside of the main thread, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: handler
        for number in _ENDS
        if (handler := signal.getsignal(number)) is signal.SIG_DFL or isinstance(handler, _First)
    }
    first = _First(act, [handler for handler in before.values() if isinstance(handler, _First)])
    for number in before:
        signal.signal(number, first)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def like_ctrl_c() -> Iterator[None]:
    """Treat the first SIGTERM or SIGHUP like Ctrl-C; see `at_first`."""
    with at_first(lambda: signal.raise_signal(signal.SIGINT)):
        yield
