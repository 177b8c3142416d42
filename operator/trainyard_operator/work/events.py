"""core/v1 Events about TrainJobs, one object for each message, counted when it is repeated.

An Event is a courtesy: no failure to write one ever fails a reconciliation.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from trainyard_api import names
from trainyard_kube.client import ApiError, Client, ConflictError, NotFoundError
from trainyard_kube.resources import EVENTS

from ..core import model

logger = logging.getLogger(__name__)

REMEMBERED = 4096
"""Events whose count is kept; the one used longest ago is forgotten first."""
QUIET = 60.0
"""Seconds between two updates of one Event; repetitions in between are counted."""
MAX_MESSAGE = 1024
"""Characters; the API server refuses longer ones."""


@dataclass(slots=True)
class _Said:
    count: int
    pending: int
    written_at: float


class Events:
    """Writes Events. `now` is what they are stamped with, `clock` what they are spaced by."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._clock = clock
        self._now = now
        self._said: OrderedDict[tuple[str, str], _Said] = OrderedDict()

    async def post(self, trainjob: model.TrainJob, note: model.EventNote) -> None:
        """Write the Event `note` about the TrainJob."""
        name = event_name(trainjob, note)
        key = (trainjob.namespace, name)
        record = self._said.get(key)
        if record is not None:
            self._said.move_to_end(key)
            record.pending += 1
            if self._clock() - record.written_at < QUIET:
                return
        try:
            count = await self._write(trainjob, note, name, record)
        except ApiError as error:
            logger.warning("event %s about %s/%s: %s", note.reason, trainjob.namespace, trainjob.name, error)
            return
        self._said[key] = _Said(count, 0, self._clock())
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)

    async def _write(
        self, trainjob: model.TrainJob, note: model.EventNote, name: str, record: _Said | None
    ) -> int:
        path = EVENTS.path(trainjob.namespace, name)
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        if record is not None:
            count = record.count + record.pending
            try:
                await self._client.patch(path, {"count": count, "lastTimestamp": now})
                return count
            except NotFoundError:
                logger.debug("event %s has expired, creating it again", name)
        try:
            await self._client.create(EVENTS.path(trainjob.namespace), _manifest(trainjob, note, name, now))
            return 1
        except ConflictError:
            # Created before a restart: the name is a hash of the content, so it is the same Event.
            count = int((await self._client.get(path)).get("count") or 1) + 1
            await self._client.patch(path, {"count": count, "lastTimestamp": now})
            return count


def event_name(trainjob: model.TrainJob, note: model.EventNote) -> str:
    """The same name for the same thing said about the same TrainJob."""
    content = "\0".join((trainjob.uid, note.type, note.reason, note.message))
    return f"{trainjob.name}.{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _manifest(trainjob: model.TrainJob, note: model.EventNote, name: str, now: str) -> model.Json:
    message = note.message if len(note.message) <= MAX_MESSAGE else note.message[: MAX_MESSAGE - 4] + " ..."
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": trainjob.namespace},
        "involvedObject": {
            "apiVersion": names.TRAINER_API_VERSION,
            "kind": names.TRAINJOB,
            "namespace": trainjob.namespace,
            "name": trainjob.name,
            "uid": trainjob.uid,
            "resourceVersion": trainjob.resource_version,
        },
        "type": note.type,
        "reason": note.reason,
        "message": message,
        "source": {"component": names.OPERATOR},
        "reportingComponent": names.OPERATOR,
        "reportingInstance": names.OPERATOR,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
