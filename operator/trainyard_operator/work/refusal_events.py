"""What is refused to a JobSet, read when the core asks for it.

Called by the controller, for a JobSet that should run but has no running pod. A
controller that cannot create a Job or a pod says so only in an Event. Nothing is
watched: a namespace has very many Events, and few of them are needed.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from trainyard_kube.client import ApiError, Client
from trainyard_kube.resources import EVENTS

from ..core import model
from ..core.decide import refusals as core
from .apply import refusal
from .jobs import Jobs


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


class Refusals:
    """Looks for what could not be created for a JobSet."""

    def __init__(self, client: Client, jobs: Jobs) -> None:
        self._client = client
        self._jobs = jobs

    async def of(self, jobset: model.JobSet) -> tuple[model.Refused, ...]:
        """Why the JobSet has no Jobs, or these have no pods; empty if no Event says so.

        Raises `RefusedError` if Jobs or Events may not be listed, and the
        client's errors for what a retry may fix.
        """
        jobs = await self._jobs.of(jobset)
        if jobs:
            events = await self._events(jobset, f"involvedObject.kind=Job,reason={core.JOB_EVENT}")
            if refused := core.of_jobset(jobset, jobs, events):
                return refused
        return core.of_jobset(jobset, (), await self._events(jobset, f"involvedObject.uid={jobset.uid}"))

    async def _events(self, jobset: model.JobSet, selector: str) -> list[core.Warned]:
        warnings = []
        params = {"fieldSelector": f"type=Warning,{selector}"}
        try:
            async for page in self._client.list(EVENTS.path(jobset.namespace), params=params):
                warnings += [_warned(_decoder.decode(raw)) for raw in page.items or ()]
        except ApiError as error:
            raise refusal(error, EVENTS, f"about JobSet {jobset.name}") from error
        return warnings


def _warned(event: _Event) -> core.Warned:
    first = event.first_timestamp or event.event_time or event.metadata.creation_timestamp
    last = (event.series and event.series.last_observed_time) or event.last_timestamp or first
    return core.Warned(event.involved_object.uid, event.reason, event.message, first, last)
