"""Output of a roll-out, which continues after it has lost its reader."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import TextIO, cast


class Lasting(io.TextIOBase):
    """A stream that drops what it gets after its reader has gone, or its terminal.

    An error would end this command, and with it Pulumi in the middle of an update.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = False

    @property
    def text(self) -> TextIO:
        """Itself, as the type that functions take."""
        return cast("TextIO", self)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The number of the stream's file."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write, if there is still a reader."""
        if not self.lost:
            try:
                return self._stream.write(text)
            except OSError:
                self._lose()
        return len(text)

    def flush(self) -> None:
        """Flush, if there is still a reader: at its end, Python also does so where the stream is closed."""
        if not self.lost and not self._stream.closed:
            try:
                self._stream.flush()
            except OSError:
                self._lose()

    def _lose(self) -> None:
        self.lost = True
        # What the stream has buffered is written once more when Python ends.
        with suppress(OSError), open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), self._stream.fileno())


def raise_if_lost(*streams: Lasting) -> None:
    """End a command that has changed nothing yet, as if the write had failed now.

    Raises:
        BrokenPipeError: One of the streams has lost its reader.
    """
    if any(stream.lost for stream in streams):
        raise BrokenPipeError
