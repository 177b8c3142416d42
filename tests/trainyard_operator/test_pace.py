"""How long each status waits: what says something new is quick, what counts is rare."""

from __future__ import annotations

from typing import Any

from trainyard_operator.watch.cache import Key
from trainyard_operator.work.pace import Pace

KEY = Key("team", "tj")
COUNTS: dict[str, Any] = {"jobsStatus": [{"name": "node"}]}
SUSPENDED: dict[str, Any] = {"conditions": [{"type": "Suspended", "status": "True"}], **COUNTS}
COMPLETE: dict[str, Any] = {"conditions": [{"type": "Complete", "status": "True"}], **COUNTS}


class Clock:
    second = 0.0

    def __call__(self) -> float:
        return self.second


def written_at(pace: Pace, clock: Clock, *statuses: dict[str, Any]) -> list[float]:
    """When each of the statuses is written, each following the one before without a pause."""
    seconds = []
    for status in statuses:
        clock.second += pace.wait(KEY, status)
        pace.written(KEY, status)
        seconds.append(clock.second)
    return seconds


def test_counts_are_written_at_once_then_held_for_two_four_eight_and_sixteen_seconds() -> None:
    clock = Clock()
    assert written_at(Pace(clock), clock, *[COUNTS] * 7) == [0, 2, 6, 14, 30, 46, 62]


def test_counts_are_held_from_their_first_change_on() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.written(KEY, COUNTS)
    clock.second = 100.0
    assert pace.wait(KEY, COUNTS) == 2
    clock.second = 101.5
    assert pace.wait(KEY, COUNTS) == 0.5


def test_counts_that_became_as_before_are_held_anew_when_they_change_again() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.written(KEY, COUNTS)
    assert pace.wait(KEY, COUNTS) == 2
    pace.unchanged(KEY)
    clock.second = 100.0
    assert pace.wait(KEY, COUNTS) == 2


def test_conditions_wait_a_second_and_let_counts_begin_anew() -> None:
    clock = Clock()
    wanted = [0, 2, 6, 7, 9, 13]
    assert written_at(Pace(clock), clock, COUNTS, COUNTS, COUNTS, SUSPENDED, COUNTS, COUNTS) == wanted


def test_the_end_of_a_trainjob_does_not_wait() -> None:
    clock = Clock()
    assert written_at(Pace(clock), clock, COUNTS, SUSPENDED, COMPLETE) == [0, 1, 1]


def test_a_trainjob_that_is_gone_is_forgotten() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.written(KEY, COUNTS)
    assert pace.wait(KEY, COUNTS) == 2
    pace.forget(KEY)
    assert pace.wait(KEY, COUNTS) == 0
