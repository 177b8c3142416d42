"""JSON objects kept as bytes, because a tenant decides how large they are.

The specs of TrainJobs and runtimes are by far the most that the cache holds,
and few looks need them. Decoded, a spec of 250 KB can take 13 MiB; as bytes it
takes its size, compressed usually a tenth of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

COMPRESSED_FROM: Final = 2048
"""Bytes; what is smaller stays as it is, since compression would cost more time than it saves memory."""
DECODED: Final = 8
"""Objects that stay decoded, those used last: one look needs the same ones many times."""


class Packed(Mapping[str, Any]):
    """A JSON object, decoded when anything beyond its head is read.

    Args:
        value: The object. It is not kept.
        head: Names of the small fields that each look needs. They stay decoded.
    """

    __slots__ = ("_bytes", "_head", "_names")

    def __init__(self, value: Mapping[str, Any], head: frozenset[str] = frozenset()) -> None:
        try:
            content = msgspec.json.encode(dict(value))
        except RecursionError:
            raise ValueError("nested too deep") from None
        self._bytes = zlib.compress(content, 1) if len(content) >= COMPRESSED_FROM else content
        self._names = head
        self._head = {name: value[name] for name in head if name in value}

    def __getitem__(self, name: str) -> Any:
        return self._head[name] if name in self._names else _decoded(self._bytes)[name]

    def __contains__(self, name: object) -> bool:
        return name in self._head if name in self._names else name in _decoded(self._bytes)

    def __iter__(self) -> Iterator[str]:
        return iter(_decoded(self._bytes))

    def __len__(self) -> int:
        return len(_decoded(self._bytes))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Packed) and self._bytes == other._bytes:
            return True
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # like dict's

    def __repr__(self) -> str:
        return f"Packed({len(self._bytes)} bytes)"


@lru_cache(maxsize=DECODED)
def _decoded(content: bytes) -> dict[str, Any]:
    """The object; never change it, for others get it too."""
    found: dict[str, Any] = msgspec.json.decode(content if content[:1] == b"{" else zlib.decompress(content))
    return found
