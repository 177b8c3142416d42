"""Lists of Events, each of which serves all who need the Events of a namespace within a few seconds.

Nothing is watched: a namespace has very many Events, and few of them are needed.
But the API server reads all Events of a namespace for each list, whatever its
selector, and very many jobs may need them at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Generic, TypeVar

import msgspec

from trainyard_kube.client import ApiError, Client
from trainyard_kube.resources import EVENTS

logger = logging.getLogger(__name__)
T = TypeVar("T")

AGE: Final = 5.0
"""Seconds for which a list is good enough: nobody needs an Event before its job has waited much longer."""


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: datetime | None = None


class _About(msgspec.Struct):
    uid: str = ""


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: datetime | None = None


class Event(msgspec.Struct, rename="camel"):
    """An Event of core/v1, with either of its two generations of fields filled."""

    metadata: _Meta
    involved_object: _About
    reason: str = ""
    message: str = ""
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: _Series | None = None

    @property
    def first(self) -> datetime | None:
        """When it happened first."""
        return self.first_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def last(self) -> datetime | None:
        """When it happened last."""
        return (self.series and self.series.last_observed_time) or self.last_timestamp or self.first


_decoder = msgspec.json.Decoder(Event)


@dataclass(slots=True)
class _List(Generic[T]):
    """What is kept of a list of Events, and when they were read; None: not yet, or never."""

    at: float = 0.0
    kept: T | None = None
    error: ApiError | None = None
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class EventLists(Generic[T]):
    """Lists Events, and remembers of them only what is kept. Times of `clock` are in seconds.

    `keep` adds what is needed of an Event to what `nothing` has made.
    """

    def __init__(
        self,
        client: Client,
        nothing: Callable[[], T],
        keep: Callable[[T, Event], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._nothing = nothing
        self._keep = keep
        self._clock = clock
        self._lists: dict[tuple[str, str], _List[T]] = {}
        """By namespace and field selector."""

    async def of(self, namespace: str, selector: str) -> T:
        """What is kept of the Events with this field selector, read lately, or now.

        Raises the client's errors.
        """
        now, key = self._clock(), (namespace, selector)
        self._lists = {
            other: events
            for other, events in self._lists.items()
            if events.kept is None or now - events.at < AGE
        }
        events = self._lists.setdefault(key, _List())
        async with events.reading:
            if events.error is not None:
                raise events.error  # else each of those who wait would wait for a time-out of its own
            if events.kept is None:
                try:
                    events.kept = await self._read(namespace, selector)
                except ApiError as error:
                    events.error = error
                    del self._lists[key]
                    raise
                events.at = self._clock()
            return events.kept

    async def _read(self, namespace: str, selector: str) -> T:
        kept = self._nothing()
        params = {"fieldSelector": selector}
        async for page in self._client.list(EVENTS.path(namespace), params=params):
            for raw in page.items or ():
                try:
                    self._keep(kept, _decoder.decode(raw))
                except msgspec.DecodeError as error:
                    # Who may write Events may write a time that nobody can read; the others count.
                    logger.debug("an Event in %s cannot be read: %s", namespace, error)
        return kept
