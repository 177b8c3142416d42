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

    __slots__ = ("_bytes", "_head", "_names", "length")

    def __init__(self, value: Mapping[str, Any], head: frozenset[str] = frozenset()) -> None:
        try:
            content = msgspec.json.encode(dict(value))
        except RecursionError:
            raise ValueError("nested too deep") from None
        self._bytes = zlib.compress(content, 1) if len(content) >= COMPRESSED_FROM else content
        self.length = len(content)
        """Bytes of the object as JSON: the cost of reading it."""
        self._names = head
        self._head = {name: value[name] for name in head if name in value}

    @property
    def size(self) -> int:
        """Bytes that it takes; 0 once it is dropped."""
        return len(self._bytes)

    def drop(self) -> None:
        """Keep only the head: reading anything else raises a KeyError from now on."""
        self._bytes = b""

    def held(self) -> Packed | None:
        """The same, which no `drop` reaches; None if it is dropped already."""
        if not self._bytes:
            return None
        held = object.__new__(Packed)  # without encoding anything: each look at a job holds one
        for field in Packed.__slots__:
            setattr(held, field, getattr(self, field))
        return held

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


class Contents:
    """Keeps the contents used last, by name, up to a number of bytes; drops the others.

    Args:
        most: Bytes of all together.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[str, Packed] = {}
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of all that are kept."""
        return self._size

    def use(self, name: str, content: Packed) -> None:
        """Keep this one, in place of an earlier one of its name; it is dropped after all others."""
        earlier = self._kept.get(name)
        if earlier is not content:
            self.forget(name)
            self._size += content.size
        self._kept.pop(name, None)
        self._kept[name] = content
        while self._size > self._most and len(self._kept) > 1:
            self.forget(next(iter(self._kept)))

    def forget(self, name: str) -> None:
        """Drop it."""
        if (content := self._kept.pop(name, None)) is not None:
            self._size -= content.size
            content.drop()


@lru_cache(maxsize=DECODED)
def _decoded(content: bytes) -> dict[str, Any]:
    """The object; never change it, for others get it too."""
    if not content:
        raise KeyError("the content is not kept")
    value: dict[str, Any] = msgspec.json.decode(content if content[:1] == b"{" else zlib.decompress(content))
    return value
