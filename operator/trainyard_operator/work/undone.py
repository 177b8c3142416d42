"""Writes that somebody else undoes: how long the next one waits.

Two controllers that each want an object to be different would write as fast as
the API server answers, and each change can start and stop pods. So the same
content is written again and again only at first; then it waits, longer each
time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..core import model
from ..core.decide import revisions

UNDONE = 3
"""How often a write may be undone before it waits, and the log names the other client."""
FIRST, LONGEST = 5.0, 300.0
"""Seconds that it then waits: doubled each time."""
FORGOTTEN = 900.0
"""Seconds after which a write of the same content counts as a new one."""


@dataclass(slots=True)
class _Written:
    content: str
    at: float
    times: int


@dataclass(slots=True)
class Undone:
    """The updates of one TrainJob's children. Times are in seconds of one monotonic clock."""

    _last: dict[model.Identity, _Written] = field(default_factory=dict)

    def wait(self, writes: Iterable[model.Write], now: float) -> float:
        """Seconds until the writes may be carried out: 0 for now."""
        return max(
            (self._wait(write, now) for write in writes if isinstance(write, model.Update)), default=0.0
        )

    def wrote(self, update: model.Update, now: float) -> float:
        """An update has changed an object; returns the seconds that the same one waits if it is undone."""
        identity, content = _of(update)
        last = self._last.get(identity)
        repeated = last is not None and last.content == content and now - last.at < FORGOTTEN
        self._last[identity] = _Written(content, now, last.times + 1 if repeated and last else 1)
        return _pause(self._last[identity].times)

    def _wait(self, update: model.Update, now: float) -> float:
        identity, content = _of(update)
        last = self._last.get(identity)
        if last is None or last.content != content:
            return 0.0
        return max(0.0, last.at + _pause(last.times) - now)


def _of(update: model.Update) -> tuple[model.Identity, str]:
    manifest = update.manifest
    identity = model.Identity(manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"])
    return identity, revisions.digest(manifest)


def _pause(times: int) -> float:
    undone = times - 1
    return 0.0 if undone < UNDONE else min(FIRST * 2 ** (undone - UNDONE), LONGEST)
