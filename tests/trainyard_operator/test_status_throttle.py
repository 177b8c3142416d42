"""How long each status waits: what says something new is quick, what counts is rare."""

from __future__ import annotations

from typing import Any

from trainyard_operator.work.status_throttle import Pace

COUNTS: dict[str, Any] = {"jobsStatus": [{"name": "node"}]}
SUSPENDED: dict[str, Any] = {"conditions": [{"type": "Suspended", "status": "True"}], **COUNTS}
COMPLETE: dict[str, Any] = {"conditions": [{"type": "Complete", "status": "True"}], **COUNTS}


class Clock:
    second = 0.0


def written_at(pace: Pace, clock: Clock, *statuses: dict[str, Any]) -> list[float]:
    """When each of the statuses is written, each following the one before without a pause."""
    seconds = []
    for status in statuses:
        clock.second += pace.wait(status, clock.second)
        pace.written(status, clock.second)
        seconds.append(clock.second)
    return seconds


def test_counts_are_written_at_once_then_held_for_two_four_eight_and_ten_seconds() -> None:
    clock = Clock()
    assert written_at(Pace(), clock, *[COUNTS] * 7) == [0, 2, 6, 14, 24, 34, 44]


def test_counts_are_held_from_their_first_change_on() -> None:
    clock = Clock()
    pace = Pace()
    pace.written(COUNTS, clock.second)
    clock.second = 100.0
    assert pace.wait(COUNTS, clock.second) == 2
    clock.second = 101.5
    assert pace.wait(COUNTS, clock.second) == 0.5


def test_counts_that_became_as_before_are_held_anew_when_they_change_again() -> None:
    clock = Clock()
    pace = Pace()
    pace.written(COUNTS, clock.second)
    assert pace.wait(COUNTS, clock.second) == 2
    pace.unchanged()
    clock.second = 100.0
    assert pace.wait(COUNTS, clock.second) == 2


def test_conditions_wait_a_second_and_let_counts_begin_anew() -> None:
    clock = Clock()
    wanted = [0, 2, 6, 7, 9, 13]
    assert written_at(Pace(), clock, COUNTS, COUNTS, COUNTS, SUSPENDED, COUNTS, COUNTS) == wanted


def test_the_end_of_a_trainjob_does_not_wait() -> None:
    clock = Clock()
    assert written_at(Pace(), clock, COUNTS, SUSPENDED, COMPLETE) == [0, 1, 1]
