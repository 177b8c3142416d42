"""What a run of pytest came to, read from its report log (https://github.com/pytest-dev/pytest-reportlog)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

LOAD = "load"
"""The property of a failed report that has the machine's load at that time (tests/conftest.py)."""


@dataclass(frozen=True)
class Failure:
    """Where and why a test failed.

    Attributes:
        test: Its node id.
        when: `setup`, `call` or `teardown`; `collect` for a file that could not be read.
        place: File and line of what failed.
        reason: What was said there, as many lines as it had.
        at: Seconds since the epoch.
        load: Of the machine, as a minute's mean; empty if it is not known.
    """

    test: str
    when: str
    place: str
    reason: str
    at: float = 0.0
    load: str = ""

    @property
    def cause(self) -> tuple[str, ...]:
        """What it counts as: a fixture that fails takes all its tests along, and is one failure."""
        return (self.place, self.reason) if self.when == "setup" else (self.test,)


@dataclass(frozen=True)
class Results:
    """What came of each test.

    Attributes:
        seconds: Of each test that has begun, by node id: set-up and tear-down included.
        failures: The first of each test that failed.
        skipped: Why, of each test that did not run.
        unfinished: Tests that had begun when the run was ended.
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()

    @property
    def passed(self) -> list[str]:
        """The tests that ran to their end, in order, and did not fail."""
        others = {*self.failures, *self.skipped, *self.unfinished}
        return [test for test in self.seconds if test not in others]


def read(lines: Iterable[str]) -> Results:
    """What the lines of a report log come to; a last one that was cut off is left out."""
    seconds: dict[str, float] = {}
    failures: dict[str, Failure] = {}
    skipped: dict[str, str] = {}
    begun: dict[str, None] = {}
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            break
        kind, test = said.get("$report_type"), said.get("nodeid", "")
        if kind == "TestReport":
            seconds[test] = seconds.get(test, 0.0) + said["duration"]
            begun[test] = None
            if said["when"] == "teardown":
                del begun[test]
            if said["outcome"] == "skipped":
                why = said["longrepr"]  # path, line and reason
                skipped[test] = str(why[-1] if isinstance(why, list) else why)
        if kind in ("TestReport", "CollectReport") and said["outcome"] == "failed":
            failures.setdefault(test, _failure(test, said))
    return Results(seconds, failures, skipped, tuple(begun))


def _failure(test: str, said: Mapping[str, Any]) -> Failure:
    why = said["longrepr"]
    crash = why.get("reprcrash") if isinstance(why, dict) else None
    if crash:
        place, reason = f"{crash['path']}:{crash['lineno']}", crash["message"]
    else:
        place, reason = said.get("location", [test])[0], str(why).strip()
    properties = dict(said.get("user_properties", ()))
    when = said.get("when", "collect")
    return Failure(test, when, place, reason, said.get("stop", 0.0), properties.get(LOAD, ""))
