"""Durations in words."""

from __future__ import annotations

import pytest

from trainyard_api import durations


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 s"),
        (0.9, "0 s"),
        (45, "45 s"),
        (60, "1 min"),
        (724.6, "12 min 4 s"),
        (3600, "1 h"),
        (3604, "1 h"),
        (11520, "3 h 12 min"),
        (86399, "23 h 59 min"),
        (2 * 86400 + 5 * 3600 + 59, "2 d 5 h"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert durations.words(seconds) == words
