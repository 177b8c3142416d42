"""A worker: holds its share of a table in memory and streams rows of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from .rows import Rows

HOLDS: Final = "holds"
"""The action that answers which rows of which table a worker holds."""
_BATCH: Final = 8192
"""Rows that are sent at a time, at most."""
_BYTES: Final = 64 << 20
"""Bytes that are sent at a time, if they are more than one row: Flight refuses more than 2 GiB."""


class Worker(flight.FlightServerBase):  # type: ignore[misc]
    """Serves `DoGet` for tickets of the head, and `holds` for the head.

    Args:
        address: Where it serves, such as `grpc://0.0.0.0:50051`.
        held: The rows that it holds.
        first: The number of the first of them in the table.
        fingerprint: Of the table that it has read.
    """

    def __init__(self, address: str, held: pa.Table, first: int, fingerprint: str) -> None:
        super().__init__(address)
        self._held = held
        self._rows = Rows(first, first + held.num_rows)
        self._fingerprint = fingerprint

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Those rows of the ticket that are held here."""
        try:
            requested = Rows.of_ticket(ticket.ticket)
        except ValueError as error:
            raise flight.FlightServerError(f"not a ticket of this cache: {error}") from error
        rows = requested.shared(self._rows)
        part = self._held.slice(max(0, rows.first - self._rows.first), rows.count)
        batches = (piece for batch in part.to_batches(max_chunksize=_BATCH) for piece in _pieces(batch))
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(part.schema, batches))

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        """`holds`: the rows and the table, as JSON."""
        if action.type != HOLDS:
            raise flight.FlightServerError(f"there is no action {action.type!r}; there is {HOLDS!r}")
        holds = {"first": self._rows.first, "end": self._rows.end, "table": self._fingerprint}
        return [json.dumps(holds).encode()]

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """What it can be requested."""
        return [(HOLDS, "which rows of which table are held")]


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch, in halves of halves until each is small enough to be sent."""
    half = batch.num_rows // 2
    # A dictionary is as large in each half; a stream has it once.
    if not half or batch.nbytes - batch.slice(0, 0).nbytes <= _BYTES:
        yield batch
        return
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))
