"""Which bytes of a connection are the head of a request, within bounds. Pure.

aiohttp limits each header, but not all of them together: it keeps up to 2 MiB
for each connection, until its next request. So a connection brings a small
head, then the body whose length the head says, and then nothing until it is
answered. RFC 9112 has the format. Whatever is not well-formed is left to
aiohttp, which answers 400.
"""

from __future__ import annotations

import re
from typing import Final

MOST: Final = 16 * 1024
"""Bytes of a request's first line and headers. A ServiceAccount's token has about 1 KiB."""
_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(r"\r\ncontent-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*(?:\r\n|\Z)", re.IGNORECASE)
_OF_ANY_LENGTH: Final = re.compile(r"\r\n(?:transfer-encoding|upgrade)[ \t]*:", re.IGNORECASE)


class Framing:
    """Follows the requests of one connection."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._body: int | None = None
        """Bytes of the body that are still to come; None: the head is not complete."""

    def takes(self, data: bytes) -> bool:
        """Whether these bytes may be read too. If not, the connection is of no use any more."""
        if self._body is not None:
            self._body -= len(data)
            return self._body >= 0
        self._head += data
        # Empty lines before a request are not a head that has ended.
        del self._head[: len(self._head) - len(self._head.lstrip(b"\r\n"))]
        end = self._head.find(_END)
        if not 0 <= end <= MOST:
            return end < 0 and len(self._head) <= MOST
        head, after = self._head[:end].decode("latin-1"), len(self._head) - end - len(_END)
        self._head = bytearray()
        length = _LENGTH.search(head)
        self._body = (0 if length is None else int(length[1])) - after
        return self._body >= 0 and _OF_ANY_LENGTH.search(head) is None

    def answered(self) -> None:
        """The next bytes are those of another request, unless the rest of a body is left."""
        if self._body == 0:
            self._body = None
