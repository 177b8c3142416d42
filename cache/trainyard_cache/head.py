"""The head: says which workers hold a rank's rows, once all of them hold theirs."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from . import rows
from .worker import HOLDS

_PATIENCE: Final = 5.0
"""Seconds in which a worker says what it holds."""
_PAUSE: Final = 2.0
"""Seconds between two looks at the workers."""
_MOST_RANKS: Final = 1_000_000
_WAY_OUT: Final = "delete the pods of the cache"

_log = logging.getLogger(__name__)


class Head(flight.FlightServerBase):  # type: ignore[misc]
    """Serves `GetFlightInfo` for the path `[rank, world size]`.

    Args:
        address: Where it serves, such as `grpc://0.0.0.0:50051`.
        total: How many rows the table has.
        workers: The address of each worker.
        fingerprint: Of the table.
    """

    def __init__(self, address: str, total: int, workers: Sequence[str], fingerprint: str) -> None:
        super().__init__(address)
        self._total, self._workers, self._fingerprint = total, workers, fingerprint
        self._lacks = f"{len(workers)} workers have not been seen yet"
        self._over = threading.Event()

    @property
    def lacks(self) -> str:
        """What is missing before ranks can be served, for people; empty: nothing."""
        return self._lacks

    def follow(self) -> None:
        """Look at the workers again and again, until `shutdown`."""
        while not self._over.is_set():
            self.settle()
            self._over.wait(_PAUSE)

    def settle(self) -> None:
        """Look at the workers once: from now on ranks are served, or no longer."""
        lacks = self._look()
        if lacks != self._lacks:
            _log.info("%s", lacks or f"all {len(self._workers)} workers hold their rows: ready")
            self._lacks = lacks

    def shutdown(self) -> None:
        """Serve no longer, and look at the workers no longer."""
        self._over.set()
        super().shutdown()

    def _look(self) -> str:
        for index, worker in enumerate(self._workers):
            about = f"worker {index + 1} of {len(self._workers)} ({worker})"
            try:
                held = _holds(worker)
            except Exception as error:  # pyarrow has more types; nothing may end the thread that looks
                return f"{about} does not hold its rows: {_line(error)}"
            expected = rows.share(self._total, index, len(self._workers))
            if held != {"first": expected.first, "end": expected.end, "table": self._fingerprint}:
                return f"{about} has read another table: its files have changed since; {_WAY_OUT}"
        return ""

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        """A ticket for a rank's rows, and the workers that hold some of them, in the rows' order."""
        if self._lacks:
            raise flight.FlightUnavailableError(f"the cache is not ready: {self._lacks}")
        rank, world = _rank(descriptor)
        share = rows.share(self._total, rank, world)
        ticket = flight.Ticket(share.ticket())
        endpoints = [
            flight.FlightEndpoint(ticket, [self._workers[index]])
            for index in rows.holders(share, self._total, len(self._workers))
        ]
        return flight.FlightInfo(pa.schema([]), descriptor, endpoints, share.count, -1)


def _rank(descriptor: flight.FlightDescriptor) -> tuple[int, int]:
    words = [word.decode(errors="replace") for word in descriptor.path or ()]
    sound = len(words) == 2 and all(word.isascii() and word.isdecimal() for word in words)
    rank, world = (int(word[:9]) for word in words) if sound else (0, 0)
    if not rank < world <= _MOST_RANKS:
        raise flight.FlightServerError(
            f"the path must be a rank and the world size, such as ['0', '2'], not {words[:3]}"
        )
    return rank, world


def _holds(worker: str) -> dict[str, Any]:
    with flight.connect(worker) as client:
        options = flight.FlightCallOptions(timeout=_PATIENCE)
        [answer] = client.do_action(flight.Action(HOLDS, b""), options)
        held = json.loads(answer.body.to_pybytes())
    if not isinstance(held, dict):
        raise ValueError("it answers something else")
    return held


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
