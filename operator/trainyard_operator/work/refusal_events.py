"""What is refused to a JobSet, read when the core asks for it.

Called by the controller, for a JobSet that should run but has no running pod. A
controller that cannot create a Job or a pod says so only in an Event. Nothing is
watched: a namespace has very many Events, and few of them are needed. The API
server reads all Events of a namespace for each list, so one list serves all
JobSets of the namespace: if JobSet's controller is down, very many ask at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from trainyard_kube.client import ApiError, Client
from trainyard_kube.resources import EVENTS

from ..core import model
from ..core.decide import refusals as core
from .apply import refusal
from .jobs import Jobs

AGE: Final = 5.0
"""Seconds for which a list is good enough: a JobSet is looked at after `core.PATIENCE` without a pod."""
_OF_JOBS: Final = f"involvedObject.kind=Job,reason={core.JOB_EVENT}"
_OF_JOBSETS: Final = "involvedObject.kind=JobSet"


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: datetime | None = None


class _About(msgspec.Struct):
    uid: str = ""


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: datetime | None = None


class _Event(msgspec.Struct, rename="camel"):
    """An Event of core/v1, with either of its two generations of fields filled."""

    metadata: _Meta
    involved_object: _About
    reason: str = ""
    message: str = ""
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: _Series | None = None


_decoder = msgspec.json.Decoder(_Event)


@dataclass(slots=True)
class _Look:
    """The warnings of a namespace, and when they were read; None: not yet."""

    at: float = 0.0
    warnings: list[core.Warned] | None = None
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Refusals:
    """Looks for what could not be created for a JobSet. Times of `clock` are in seconds."""

    def __init__(self, client: Client, jobs: Jobs, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._jobs = jobs
        self._clock = clock
        self._looks: dict[tuple[str, str], _Look] = {}
        """By namespace and field selector."""

    async def of(self, jobset: model.JobSet) -> tuple[model.Refused, ...]:
        """Why the JobSet has no Jobs, or these have no pods; empty if no Event says so.

        Raises `RefusedError` if Jobs or Events may not be listed, and the
        client's errors for what a retry may fix.
        """
        jobs = await self._jobs.of(jobset)
        if jobs and (refused := core.of_jobset(jobset, jobs, await self._warnings(jobset, _OF_JOBS))):
            return refused
        return core.of_jobset(jobset, (), await self._warnings(jobset, _OF_JOBSETS))

    async def _warnings(self, jobset: model.JobSet, selector: str) -> list[core.Warned]:
        """The warnings in the JobSet's namespace, read lately, or now."""
        now = self._clock()
        self._looks = {
            key: look for key, look in self._looks.items() if look.warnings is None or now - look.at < AGE
        }
        look = self._looks.setdefault((jobset.namespace, selector), _Look())
        async with look.reading:
            if look.warnings is None:
                look.warnings = await self._list(jobset, selector)
                look.at = self._clock()
            return look.warnings

    async def _list(self, jobset: model.JobSet, selector: str) -> list[core.Warned]:
        warnings = []
        params = {"fieldSelector": f"type=Warning,{selector}"}
        try:
            async for page in self._client.list(EVENTS.path(jobset.namespace), params=params):
                events = [_decoder.decode(raw) for raw in page.items or ()]
                warnings += [_warned(event) for event in events if event.reason in core.EVENTS]
        except ApiError as error:
            raise refusal(error, EVENTS, f"about JobSet {jobset.name}") from error
        return warnings


def _warned(event: _Event) -> core.Warned:
    first = event.first_timestamp or event.event_time or event.metadata.creation_timestamp
    last = (event.series and event.series.last_observed_time) or event.last_timestamp or first
    return core.Warned(event.involved_object.uid, event.reason, event.message, first, last)
