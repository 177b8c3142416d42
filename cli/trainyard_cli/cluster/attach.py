"""Tells where a TrainJob stands while somebody waits for it, and asks `explain` what it waits for.

Called by `trainyard attach`. `cluster.logs` watches the TrainJob and calls
`heard`. It runs `explain` when the state changes, and again while the job does not run: soon at first, then
less and less often.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from trainyard_api import names
from trainyard_assist import attach, jobs
from trainyard_assist.explain import Diagnosis, Observation, explain
from trainyard_assist.read import uid
from trainyard_kube.client import ApiError, Client, NotFoundError, RetriableError, UnauthorizedError

from .observe import observe
from .watched import EVERY

AGAIN: Final = 5.0
"""Seconds until `explain` runs again if the state stays the same; doubled each time."""
_SELDOM: Final = 60.0
"""Seconds between two such questions, at most."""
_APART: Final = 2.0
"""Seconds between two questions, at least: a job may change its state all the time."""
READING: Final = 5.0
"""Seconds after its end in which its last lines are read without a word."""


class States:
    """Where one TrainJob stands.

    Args:
        say: Called with each line about it.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.row: jobs.Row | None = None
        """What was heard last."""
        self._say = say
        self._changed = asyncio.Event()
        self._mark: tuple[Any, ...] = ()
        self._is_silent = False

    def heard(self, row: jobs.Row) -> None:
        """The TrainJob has changed."""
        self.row = row
        self._is_silent = False
        self._changed.set()

    def unanswered(self, error: ApiError) -> None:
        """The API server does not answer, and the request is repeated."""
        if not self._is_silent:
            self._say(f"{error}; trying again")
        self._is_silent = True

    async def tell(self, client: Client, row: jobs.Row) -> None:
        """Print its state, and continue until it has ended."""
        self.heard(row)
        state, pause, due = "", AGAIN, 0.0
        while self.row is not None and not self.row.is_over:
            self._changed.clear()
            row = self.row
            if row.state != state:
                state, pause, due = row.state, AGAIN, min(due, time.monotonic() + _APART)
            if not attach.is_explained(row):
                self._tell(row, client)
                await self._until_changed(None)
            elif (left := due - time.monotonic()) > 0:
                await self._until_changed(left)
            else:
                await self._explain(row, client)
                due, pause = time.monotonic() + pause, min(_SELDOM, 2 * pause)
        await asyncio.sleep(READING)
        if self.row is not None:
            self._say(f"{attach.line(self.row, client.time.now())}: reading its last lines")

    async def _explain(self, row: jobs.Row, client: Client) -> None:
        """Print what it waits for; nothing if there is no answer, because the next look knows more."""
        with suppress(ApiError):
            observation = await observe(client, row.namespace, row.name, names.SYSTEM_NAMESPACE)
            place = observation.queue_place
            now = jobs.row(observation.trainjob)
            if not now.is_over:
                self._tell(now, client, explain(observation), None if place is None else place.position)

    def _tell(
        self,
        row: jobs.Row,
        client: Client,
        diagnosis: Diagnosis | None = None,
        position: int | None = None,
    ) -> None:
        mark = attach.mark(row, diagnosis, position)
        if mark != self._mark:
            self._mark = mark
            self._say(attach.line(row, client.time.now(), diagnosis))

    async def _until_changed(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


async def end(
    client: Client, namespace: str, job: str, job_uid: str, unanswered: Callable[[ApiError], None]
) -> tuple[Observation, Diagnosis] | None:
    """How the TrainJob with this uid has ended; None if it is gone.

    `unanswered`: called while the API server does not answer; the request is repeated.

    Raises:
        ApiError: The credentials are no longer accepted, or the TrainJob may no longer be seen.
    """
    while True:
        try:
            observation = await observe(client, namespace, job, names.SYSTEM_NAMESPACE)
        except NotFoundError:
            return None
        except UnauthorizedError:
            raise
        except RetriableError as error:
            unanswered(error)
            await asyncio.sleep(EVERY)
        else:
            is_same = uid(observation.trainjob) == job_uid
            return (observation, explain(observation)) if is_same else None
