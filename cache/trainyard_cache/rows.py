"""Which rows of a table are whose: pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

_TICKET: Final = struct.Struct("<QQ")
"""First row, and first row behind them, each as eight bytes, little-endian."""


@dataclass(frozen=True)
class Rows:
    """Neighbouring rows of a table, counted from 0.

    Args:
        first: The first of them.
        end: The first behind them; not less than `first`.
    """

    first: int
    end: int

    @property
    def count(self) -> int:
        """How many they are."""
        return self.end - self.first

    def shared(self, other: Rows) -> Rows:
        """The rows that are in both; none of them, somewhere, if they have none in common."""
        first = max(self.first, other.first)
        return Rows(first, max(first, min(self.end, other.end)))

    def within(self, runs: Iterable[T], size: Callable[[T], int]) -> Iterator[tuple[T, Rows]]:
        """The runs that hold some of the rows, each with these rows, counted from the run's first one.

        Args:
            runs: Of neighbouring rows, from row 0 on; taken no further than the rows reach.
            size: How many rows a run has.
        """
        before = 0
        for run in runs:
            count = size(run)
            shared = self.shared(Rows(before, before + count))
            if shared.count:
                yield run, Rows(shared.first - before, shared.end - before)
            before += count
            if before >= self.end:
                return

    def ticket(self) -> bytes:
        """The rows as the bytes of a Flight ticket."""
        return _TICKET.pack(self.first, self.end)

    @classmethod
    def of_ticket(cls, ticket: bytes) -> Rows:
        """The rows of a ticket.

        Raises:
            ValueError: It is no ticket of a cache.
        """
        if len(ticket) != _TICKET.size:
            raise ValueError(f"a ticket has {_TICKET.size} bytes, not {len(ticket)}")
        first, end = _TICKET.unpack(ticket)
        if end < first:
            raise ValueError(f"a ticket ends at row {end}, before its first row {first}")
        return cls(first, end)


def share(total: int, index: int, of: int) -> Rows:
    """A fair share of rows: no two shares differ by more than one row, and all of them are all rows.

    Args:
        total: How many rows there are.
        index: Which share, from 0.
        of: How many shares, at least 1.
    """
    size, more = divmod(total, of)
    first = index * size + min(index, more)
    return Rows(first, first + size + (index < more))


def holders(rows: Rows, total: int, workers: int) -> Sequence[int]:
    """Which workers hold some of the rows, where each holds its share of the table."""
    return [index for index in range(workers) if rows.shared(share(total, index, workers)).count]
