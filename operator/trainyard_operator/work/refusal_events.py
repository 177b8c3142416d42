"""What is refused to a JobSet, read when the core asks for it.

Called by the controller, for a JobSet that should run but has no running pod. A
controller that cannot create a Job or a pod says so only in an Event. If JobSet's
controller is down, very many JobSets need their Events at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from trainyard_kube.client import ApiError, Client
from trainyard_kube.resources import EVENTS

from ..core import model
from ..core.decide import refusals as core
from .apply import refusal
from .event_lists import Event, EventLists
from .jobs import Jobs

_OF_JOBS: Final = f"type=Warning,involvedObject.kind=Job,reason={core.JOB_EVENT}"
_OF_JOBSETS: Final = "type=Warning,involvedObject.kind=JobSet"


class Refusals:
    """Looks for what could not be created for a JobSet. Times of `clock` are in seconds."""

    def __init__(self, client: Client, jobs: Jobs, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._jobs = jobs
        self._events = EventLists[list[core.Warned]](client, list, _keep, clock=clock)

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
        """The warnings in the JobSet's namespace."""
        try:
            return await self._events.of(jobset.namespace, selector)
        except ApiError as error:
            raise refusal(error, EVENTS, f"about JobSet {jobset.name}") from error


def _keep(warnings: list[core.Warned], event: Event) -> None:
    if event.reason in core.EVENTS:
        about = event.involved_object.uid
        warnings.append(core.Warned(about, event.reason, event.message, event.first, event.last))
