"""The logs of all ranks of a TrainJob as one: each line once, in the order of time.

Called by `trainyard logs`, which reads them as the API server sends them, with
timestamps, and by `run --local` for what its processes print. The author of a log may be hostile: lines are
bounded, and cannot control a terminal.
Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Final, TypeVar

from trainyard_api import names
from trainyard_api.printable import printable

LONGEST: Final = 64 * 1024
"""Bytes of a line; the rest of a longer one is left out, unless it writes over what comes before it."""
_OVERLAP: Final = timedelta(seconds=1)
"""How far before its last line a log that was cut is read again: output and errors come by two ways."""
_MOST: Final = 100_000
"""Lines of the last seconds that are remembered, so that none is printed again."""
_WORDS: Final = 100
"""Lines without a date, of the kubelet's own, that are remembered."""
_SECONDS: Final = 4096
"""Seconds whose text is remembered: a thousand lines have the same."""
_STAMP: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
"""How the kubelet dates a line, in the time zone of its node."""

_NO_LOG: Final = b"unable to retrieve container logs for "
"""The kubelet's answer, without a date, instead of the log of a deleted container."""
_EPOCH: Final = 1970
_TO_THE_SECOND: Final = len("2026-01-01T10:00:00")

Line = tuple[str, str]
"""When it was printed, in UTC and so that texts compare as times do; and the line."""
Of = TypeVar("Of")


class Log:
    """The read part of the log of one run of a container, which arrives in pieces.

    `start` is the time from which on it is read (`2026-01-01T00:00:00Z`), empty for its beginning;
    `only_end`: whether the first lines are not its first ones, and none before them is wanted.
    """

    def __init__(self, start: str = "", *, only_end: bool = False) -> None:
        self._start = start
        self._only_end = only_end
        self._first = ""
        self._last = ""
        self._is_cut = False
        self._in_doubt = False
        self._rest = b""
        self._recent: list[tuple[str, int]] = []
        self._repeated: Counter[tuple[str, int]] = Counter()
        self._undated: set[str] = set()
        self.other = b""
        """What came after a cut and is of another log, that of the container's next run: none of its lines
        was read before, as the last one of this log was."""

    def feed(self, chunk: bytes) -> list[Line]:
        """The lines that are complete with this piece, without those that were there before a cut."""
        *whole, rest = (self._rest + chunk).split(b"\n")
        if self.other or (self._in_doubt and self._is_other(whole)):
            self.other, self._rest = self.other + self._rest + chunk, b""
            return []
        self._rest = _cut(rest, is_dated=True)
        return self._fresh(whole) if whole else []

    def end(self) -> list[Line]:
        """The line at the end of the log that no line feed follows, if there is one."""
        rest, self._rest = self._rest, b""
        return self._fresh([rest]) if rest and not self._in_doubt else []

    @property
    def is_empty(self) -> bool:
        """Whether no line of it has been read."""
        return not self._last

    @property
    def is_caught_up(self) -> bool:
        """Whether all that was read before the cut has come again, so that the rest is new."""
        return not any(self._repeated.values())

    @property
    def since(self) -> str:
        """From which time on it is to be read, as `sinceTime` has it; empty: from its beginning."""
        if not self._last:
            return self._start
        return f"{datetime.fromisoformat(self._last[:_TO_THE_SECOND]) - _OVERLAP:%Y-%m-%dT%H:%M:%SZ}"

    def cut(self) -> None:
        """What comes next begins at `since`, with lines that were there already."""
        self._rest = self.other = b""
        since = self.since[:_TO_THE_SECOND]
        self._repeated = Counter(key for key in self._recent if key[0] >= since)
        self._is_cut, self._in_doubt = True, bool(self._repeated)

    def _is_other(self, raw: Iterable[bytes]) -> bool:
        """Whether these are lines of another log: the first that could tell is none that was read."""
        for line in raw:
            at, text = _dated(_cut(line, is_dated=True))
            if at and not self._is_before(at):
                self._in_doubt = False
                return not self._repeated.get((at, hash(text)))
        return False

    def _is_before(self, at: str) -> bool:
        """Whether it is a line before the first one that is wanted."""
        return self._only_end and self._is_cut and at < self._first

    def _fresh(self, raw: Iterable[bytes]) -> list[Line]:
        lines = []
        for line in raw:
            if line.startswith(_NO_LOG):
                continue
            at, text = _dated(_cut(line, is_dated=True))
            if not at:
                if not (self._is_cut and text in self._undated):
                    lines.append((self._last, text))
                if len(self._undated) < _WORDS:
                    self._undated.add(text)
                continue
            key = (at, hash(text))
            if self._is_repeated(key) or self._is_before(at):
                continue
            self._first = self._first or at
            self._recent.append(key)
            # Where output and errors cross, a line keeps its place in its log.
            self._last = max(self._last, at)
            lines.append((self._last, text))
        self._forget()
        return lines

    def _is_repeated(self, key: tuple[str, int]) -> bool:
        if not self._repeated.get(key):
            return False
        self._repeated[key] -= 1
        return True

    def _forget(self) -> None:
        since = self.since[:_TO_THE_SECOND]
        if self._recent and self._recent[0][0] < since:
            self._recent = [key for key in self._recent if key[0] >= since]
        del self._recent[:-_MOST]


def _cut(line: bytes, *, is_dated: bool = False) -> bytes:
    """A line that is not too long. What is shown of it is the same in whichever pieces it arrives."""
    if len(line) <= LONGEST:
        return line
    stamp = _STAMP.match(line) if is_dated else None
    start = stamp.end() + 1 if stamp is not None and line.startswith(b" ", stamp.end()) else 0
    last = line[start:].rstrip(b"\r")
    is_over = start + len(last) < len(line)
    return line[:start] + last[last.rfind(b"\r") + 1 :][: LONGEST - start] + (b"\r" if is_over else b"")


def _dated(line: bytes) -> Line:
    """Its time and what is shown of it; no time for the kubelet's own words, such as why there is no log."""
    stamp, _, text = line.partition(b" ")
    at = _time(stamp)
    return at, _shown((text if at else line).decode(errors="replace"))


def _time(stamp: bytes) -> str:
    """The time in UTC with nine digits of a second; empty for what is none."""
    match = _STAMP.fullmatch(stamp)
    second = "" if match is None else _second(match[1], match[3])
    return f"{second}.{(match[2] or b'').ljust(9, b'0').decode()}" if match and second else ""


@lru_cache(_SECONDS)
def _second(text: bytes, zone: bytes) -> str:
    try:
        moment = datetime.fromisoformat((text + zone).decode()).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}" if moment.year >= _EPOCH else ""


def _shown(line: str) -> str:
    """As a terminal would show it: a progress bar writes over its own line."""
    return line if line.isprintable() else printable(line.rstrip("\r").rpartition("\r")[2])


class Output:
    """The read part of the output of a process on this machine, which arrives in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that are complete with this piece."""
        *whole, rest = (self._rest + chunk).split(b"\n")
        self._rest = _cut(rest)
        return [_shown(_cut(line).decode(errors="replace")) for line in whole]

    def end(self) -> list[str]:
        """The line at the end that no line feed follows, if there is one."""
        return self.feed(b"\n") if self._rest else []


def in_order(pending: Mapping[Of, list[Line]], still_read: Collection[Of]) -> list[tuple[str, Of, str]]:
    """Takes from several logs the lines that come next in time: when, whose, and what.

    Args:
        pending: What has been read and not taken. It is shortened by what is taken.
        still_read: Of whom more may come. Each has a line pending: nothing before it can come.
    """
    bound = min((pending[of][-1][0] for of in still_read), default=None)
    taken = []
    for of, lines in pending.items():
        count = len(lines) if bound is None else bisect_right(lines, bound, key=itemgetter(0))
        taken += [(at, of, line) for at, line in lines[:count]]
        del lines[:count]
    return sorted(taken, key=itemgetter(0))


@dataclass(frozen=True, slots=True)
class Place:
    """Which pod of a TrainJob it is: as the key of its last lines has it, `node-0`."""

    job: str
    """Its ReplicatedJob."""
    index: int

    def __str__(self) -> str:
        return f"{self.job}-{self.index}"

    @property
    def is_rank(self) -> bool:
        """Whether it trains, or starts what trains."""
        return self.job not in names.INITIALIZERS


def label(place: Place, jobs: Iterable[str]) -> str:
    """The mark before its lines: its number, if all ranks are of one ReplicatedJob.

    Args:
        place: The pod's.
        jobs: The ReplicatedJobs of the TrainJob.
    """
    alone = place.is_rank and set(jobs) - names.INITIALIZERS <= {place.job}
    return str(place.index) if alone else str(place)


def is_called(place: Place, rank: str) -> bool:
    """Whether a user means this pod: by its number, or by its place."""
    return rank == str(place) or (place.is_rank and rank == str(place.index))
