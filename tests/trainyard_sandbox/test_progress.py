"""Whoever waits sees what runs, and how much is left of all that was said."""

import io
import time

import pytest
from rich.console import Console

from trainyard_sandbox.estimate import Kind, Part
from trainyard_sandbox.progress import Progress


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def shown(progress: Progress) -> list[str]:
    """The lines of the table, without its bar."""
    console = Console(file=io.StringIO(), width=120)
    console.print(progress._table())
    printed = console.file
    assert isinstance(printed, io.StringIO)
    return [" ".join(line.replace("━", "").split()) for line in printed.getvalue().splitlines()]


def test_what_is_left_is_under_what_runs_until_all_of_it_is_over(clock: Clock) -> None:
    progress = Progress(Console(file=io.StringIO()))
    assert progress.expect([Part.download("a", 600_000_000), Part.download("b", 600_000_000)]) == 120
    with progress.step("fetch a", "a") as at:
        clock.now += 60
        at(0.5)
        assert shown(progress) == ["working fetch a 50%, 1m00s", "26% about 3 min left"]
    with progress.step("fetch b", "b"):
        pass
    assert shown(progress) == ["done fetch a 1m00s", "done fetch b 0s"]


def test_work_that_nobody_expected_is_added_to_what_is_left() -> None:
    progress = Progress(Console(file=io.StringIO()))
    progress.expect([Part.download("a", 100_000_000)])
    assert progress.expect([Part("b", Kind.FINISH, 20)]) == pytest.approx(30)


def test_nothing_is_left_once_nothing_is_expected(clock: Clock) -> None:
    progress = Progress(Console(file=io.StringIO()))
    progress.expect([Part.download("a", 100_000_000)])
    progress.expect_nothing()
    assert shown(progress) == [""]


def test_where_there_is_no_terminal_it_is_said_with_what_still_runs(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.StringIO()
    progress = Progress(Console(file=said, width=100, highlight=False))
    progress.expect([Part.download("a", 600_000_000)])
    ticks = iter([False, True])
    monkeypatch.setattr(progress._stop, "wait", lambda seconds: next(ticks))
    with progress.step("fetch a", "a") as at:
        at(0.5)
        clock.now += 31
        progress._beat()
    assert said.getvalue().splitlines() == [
        "... fetch a",
        "... fetch a (still running, 50%, 31s)",
        "... 50% of all, less than a minute left",
        "ok  fetch a (31s)",
    ]
