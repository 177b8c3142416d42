"""Turns off Kopf's memory of what it has handled: handlers of bare events need none.

Kopf keeps an object's last handled state and the progress of its handlers in
annotations, and copies every object several times over to compare them with
what it sees. `on.event` handlers never read either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import kopf


class NoDiff(kopf.DiffBaseStorage):
    """Treats every object as empty, as the last time."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        """The compared part of an object: none."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """What was compared last: nothing."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Write nothing."""


class NoProgress(kopf.ProgressStorage):
    """Knows of no handler that has started."""

    def fetch(self, *, key: Any, body: kopf.Body) -> None:
        """How far a handler is: nowhere."""

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        """Write nothing."""

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        """Remove nothing."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Write nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """What is compared, less what this storage put there: all of it."""
        return essence
