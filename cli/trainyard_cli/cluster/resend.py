"""A TrainJob that is sent again, under its own name or another one, with the rights of its user.

Called by `trainyard retry`. `trainyard_assist.resend` makes the manifest. Under
the same name nothing may be lost between the deletion and the creation: a dry run checks first that the API
server accepts the new one, and the caller keeps the manifest in a file meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from trainyard_api.json_types import Json, Manifest
from trainyard_assist import read, workspace
from trainyard_assist.stops import Answer, Outcome, Seen
from trainyard_kube.client import (
    METADATA,
    ApiError,
    Client,
    ConflictError,
    NotFoundError,
    RetriableError,
    UnauthorizedError,
)
from trainyard_kube.resources import TRAINJOBS

from . import stops
from .belongings import Belongings
from .patience import in_time

WAIT: Final = 120.0
"""Seconds in which the old TrainJob must have gone with its pods."""
SEND: Final = 30.0
"""Seconds in which the new one is sent again while the API server does not answer."""
EVERY: Final = 1.0
"""Seconds between two requests."""
_TELL_EVERY: Final = 15.0


class Stage(Enum):
    """The progress, to print on an interrupt."""

    BEFORE = auto()
    """The old TrainJob is there."""
    BETWEEN = auto()
    """The old one is deleted, or is about to be."""
    AFTER = auto()
    """The new one is there, or may be."""


class Resending:
    """Sends one TrainJob again."""

    def __init__(self, client: Client, seen: Seen, manifest: Manifest, tell: Callable[[str], None]) -> None:
        """Write nothing yet.

        Args:
            client: Whose rights are used.
            seen: The TrainJob.
            manifest: The new one.
            tell: Gets a sentence when it takes long, or when something is left.
        """
        self._client = client
        self._seen = seen
        self._manifest = manifest
        self._name = read.name(manifest)
        self._tell = tell
        self._belongings: Belongings | None = None
        self.stage = Stage.BEFORE

    @property
    def released(self) -> list[str]:
        """Objects of the old TrainJob, without an owner until the new one exists."""
        return [] if self._belongings is None else self._belongings.released

    async def refusal(self) -> Answer | None:
        """The API server's refusal of the new one, apart from its name; None if it would accept it."""
        try:
            await in_time(self._client.create(self._collection, self._manifest, dry_run=True))
        except UnauthorizedError:
            raise
        except ApiError as error:
            return None if _is_taken(error) else self._refused(error)
        return None

    async def beside(self) -> Answer:
        """Send it under another name; the old one stays."""
        belongings = await self._find()
        if refusal := self._without_folder(belongings):
            return refusal
        self.stage = Stage.AFTER
        new = await self._create()
        if not isinstance(new, Answer):
            return await self._sent(belongings, new, shared=True)
        if new.outcome is Outcome.REFUSED:
            self.stage = Stage.BEFORE
        return new

    async def instead(self) -> Answer:
        """Delete the old one, wait until it has gone with its pods, and send the new one."""
        belongings = await self._find()
        if refusal := self._without_folder(belongings):
            return refusal
        if problem := await belongings.release():
            return self._seen.answer(Outcome.REFUSED, f"is not sent again: {problem}")
        self.stage = Stage.BETWEEN
        answer = await self._delete()
        if answer is not None:
            await belongings.give_back()
            self.stage = Stage.BEFORE
            return answer
        if not await self._has_gone_in_time():
            return self._seen.answer(
                Outcome.FAILED, f"is deleted, but has not gone within {WAIT:.0f} s: the new one is not sent"
            )
        new = await self._create()
        return new if isinstance(new, Answer) else await self._sent(belongings, new)

    async def _find(self) -> Belongings:
        self._belongings = await Belongings.find(self._client, self._seen.trainjob)
        return self._belongings

    def _without_folder(self, belongings: Belongings) -> Answer | None:
        """The refusal if the new one would lose the folder with the old one; None if it keeps it."""
        folder = f"Secret {workspace.secret_of(self._seen.trainjob)}"
        if folder not in belongings.hidden:
            return None
        lost = f"{folder} holds its folder and may be deleted with it, and you are not allowed to keep it"
        return self._seen.answer(Outcome.REFUSED, f"is not sent again: {lost}")

    # --- the old one --------------------------------------------------------------

    async def _delete(self) -> Answer | None:
        """Delete it with all that belongs to it; says why it is still there."""
        if read.deleting(self._seen.trainjob):
            return None
        answer = await stops.delete(self._client, self._seen, propagation="Foreground")
        if answer is None:
            return None
        # A deletion without an answer may have been one.
        old = await self._old()
        if old is None or read.deleting(old):
            return None
        return answer if answer.outcome is Outcome.FAILED else replace(answer, outcome=Outcome.REFUSED)

    async def _old(self) -> Json | None:
        """Its metadata, while it is there: None also if another TrainJob has its name."""
        try:
            there = await in_time(self._client.get(self._path_of(self._seen.name), accept=METADATA))
        except NotFoundError:
            return None
        return there if read.uid(there) == read.uid(self._seen.trainjob) else None

    async def _has_gone(self) -> bool:
        try:
            return await self._old() is None
        except UnauthorizedError:
            raise
        except RetriableError:
            return False

    async def _has_gone_in_time(self) -> bool:
        clock = asyncio.get_running_loop()
        end, next_line = clock.time() + WAIT, clock.time()
        while not await self._has_gone():
            now = clock.time()
            if now >= end:
                return False
            if now >= next_line:
                self._tell(f"Waiting until its pods have gone: {end - now:.0f} s at most")
                next_line = now + _TELL_EVERY
            await asyncio.sleep(EVERY)
        return True

    # --- the new one --------------------------------------------------------------

    async def _create(self) -> Json | Answer:
        """The new one, as it is there; or why it is not. Without an answer it is sent again for a while."""
        clock = asyncio.get_running_loop()
        end, is_first = clock.time() + SEND, True
        while True:
            try:
                return await in_time(self._client.create(self._collection, self._manifest))
            except UnauthorizedError:
                raise
            except ApiError as error:
                if _is_taken(error) and is_first:
                    return self._taken()
                if _is_taken(error):  # what had no answer was created nevertheless
                    return await in_time(self._client.get(self._path_of(self._name)))
                if not isinstance(error, RetriableError) or clock.time() >= end:
                    return self._refused(error)
                self._tell(f"{error}; trying again")
            is_first = False
            await asyncio.sleep(EVERY)

    async def _sent(self, belongings: Belongings, new: Json, *, shared: bool = False) -> Answer:
        self.stage = Stage.AFTER
        try:
            await belongings.hand_over(new, shared=shared)
        except UnauthorizedError:
            raise
        except ApiError as error:
            self._tell(
                f"Not all that belonged to TrainJob {self._seen.name} belongs to {self._name} now: {error}"
            )
        name = "" if self._name == self._seen.name else f" as {self._name}"
        answer = self._seen.answer(Outcome.SENT, f"is sent again{name}{self._how_to_resume()}")
        return replace(answer, name=self._name)

    def _how_to_resume(self) -> str:
        if not read.suspended(self._manifest):
            return ""
        words = ("trainyard", "resume", self._name, "-n", self._seen.namespace)
        return f"; it is suspended; to resume it: {self._client.credentials.command(*words)}"

    def _taken(self) -> Answer:
        there = f"there is a TrainJob {self._name} already, which is left as it is"
        return self._seen.answer(Outcome.REFUSED, f"is not sent again: {there}")

    def _refused(self, error: ApiError) -> Answer:
        return stops.refused(self._seen, error, "create")

    @property
    def _collection(self) -> str:
        return TRAINJOBS.path(self._seen.namespace)

    def _path_of(self, name: str) -> str:
        return TRAINJOBS.path(self._seen.namespace, name)


def _is_taken(error: ApiError) -> bool:
    return isinstance(error, ConflictError) and error.reason == "AlreadyExists"
