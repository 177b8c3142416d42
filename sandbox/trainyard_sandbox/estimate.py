"""How long work will take: expected before it begins, and corrected by how it goes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

_BYTES_A_SECOND = 10e6
"""Of a download, until it has begun."""


class Kind(Enum):
    """What a part of the work waits for; the kinds follow one another."""

    FETCH = "the network"
    BUILD = "processors"
    FINISH = "the machine"


@dataclass(frozen=True)
class Part:
    """A part of the work."""

    name: str
    kind: Kind
    seconds: float
    """What it is expected to take: of one core to build, of all the machine otherwise."""

    @classmethod
    def download(cls, name: str, size: int | None) -> Part:
        """A file of so many bytes."""
        return cls(name, Kind.FETCH, (size or 0) / _BYTES_A_SECOND)

    @property
    def size(self) -> int:
        """The bytes of a download."""
        return round(self.seconds * _BYTES_A_SECOND)


@dataclass(frozen=True)
class Seen:
    """What is seen of a part that has begun; times are seconds of one clock."""

    started: float
    ended: float | None = None
    share: float | None = None
    """How much of it is done, from 0 to 1, where that is known."""


_TRUST: Mapping[Kind, float] = {Kind.FETCH: 2.0, Kind.BUILD: 5.0, Kind.FINISH: 20.0}
"""For how many expected seconds the expectation counts as much as what is seen."""
_AT_MOST = 0.95
"""The share of a part that has not ended yet."""


def seconds_left(parts: Iterable[Part], seen: Mapping[str, Seen], now: float, cores: int) -> float:
    """How many seconds the rest of the work takes, at the pace of what is done.

    Args:
        parts: All of the work.
        seen: What is seen of the parts that have begun, by name.
        now: The present time.
        cores: How many cores there are to build with.
    """
    by_kind: dict[Kind, list[Part]] = {}
    for part in parts:
        by_kind.setdefault(part.kind, []).append(part)
    return sum(
        _left(kind, of_kind, seen, now, cores if kind is Kind.BUILD else 1)
        for kind, of_kind in by_kind.items()
    )


def _left(kind: Kind, parts: Iterable[Part], seen: Mapping[str, Seen], now: float, width: int) -> float:
    total = done = 0.0
    spans = []
    for part in parts:
        total += part.seconds
        if (of_part := seen.get(part.name)) is not None:
            done += part.seconds * _share(part, of_part, now)
            spans.append((of_part.started, now if of_part.ended is None else of_part.ended))
    pace = (_TRUST[kind] + _covered(spans) * width) / (_TRUST[kind] + done)
    return (total - done) * pace / width


def _share(part: Part, seen: Seen, now: float) -> float:
    if seen.ended is not None:
        return 1.0
    share = (now - seen.started) / max(part.seconds, 1.0) if seen.share is None else seen.share
    return min(share, _AT_MOST)


def _covered(spans: list[tuple[float, float]]) -> float:
    """The seconds in which anything ran."""
    covered = until = 0.0
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def about(seconds: float) -> str:
    """`about 9 min`: an estimate for people."""
    return f"about {math.ceil(seconds / 60)} min" if seconds > 50 else "less than a minute"
