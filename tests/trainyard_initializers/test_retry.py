"""What may pass is tried again, ever more slowly, and not for ever."""

from collections.abc import Callable

import pytest

from trainyard_initializers.failures import Corrupt, Failure, NotFound, Unreachable, from_status
from trainyard_initializers.progress import human
from trainyard_initializers.retry import Backoff, persist

QUICK = Backoff(attempts=4, corrupt=2, first=0.001, ceiling=0.002)


def failing(*outcomes: Failure | None) -> tuple[Callable[[], str], list[int]]:
    """A function that fails so, one after the other, and what counts its calls."""
    calls: list[int] = []

    def act() -> str:
        calls.append(1)
        outcome = outcomes[len(calls) - 1]
        if outcome is not None:
            raise outcome
        return "done"

    return act, calls


def test_what_passes_is_tried_again() -> None:
    act, calls = failing(Unreachable("1"), Corrupt("2"), Unreachable("3"), None)
    assert (persist(QUICK, act), len(calls)) == ("done", 4)


@pytest.mark.parametrize(
    ("outcomes", "attempts"),
    [([NotFound("x")], 1), ([Unreachable("x")] * 9, 4), ([Corrupt("x")] * 9, 2)],
)
def test_it_ends_when_there_is_no_hope(outcomes: list[Failure], attempts: int) -> None:
    act, calls = failing(*outcomes)
    with pytest.raises(type(outcomes[0])):
        persist(QUICK, act)
    assert len(calls) == attempts


def test_progress_starts_the_attempts_anew() -> None:
    act, calls = failing(*[Unreachable("x")] * 9, None)
    assert persist(QUICK, act, progress=lambda: len(calls)) == "done"
    assert len(calls) == 10


def test_the_wait_doubles_with_jitter_up_to_a_ceiling() -> None:
    backoff = Backoff(first=1, ceiling=60)
    for failures, longest in [(1, 1), (2, 2), (5, 16), (20, 60)]:
        delays = {backoff.delay(failures, None) for _ in range(50)}
        assert longest / 2 <= min(delays) <= max(delays) <= longest
        assert len(delays) > 1


@pytest.mark.parametrize(("asked", "waited"), [(30.0, 30.0), (1e9, 300.0)])
def test_a_source_is_left_alone_for_as_long_as_it_asks_within_reason(asked: float, waited: float) -> None:
    assert Backoff().delay(1, asked) == waited


@pytest.mark.parametrize(
    ("status", "text", "retry_after"),
    [
        (401, "Unauthorized: it answers 401; ask", None),
        (403, "Unauthorized: it answers 403; ask", None),
        (404, "NotFound: it does not exist (404)", None),
        (429, "Unreachable: it answers 429", 7.0),
        (503, "Unreachable: it answers 503", 7.0),
        (400, "InvalidSource: it refuses the request (400); ask", None),
    ],
)
def test_a_status_stands_for_a_failure(status: int, text: str, retry_after: float | None) -> None:
    failure = from_status(status, "it", retry_after="7", way_out="ask")
    assert (str(failure), failure.retry_after) == (text, retry_after)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 40, "3.0 TiB")],
)
def test_bytes_are_shown_for_people(size: int, text: str) -> None:
    assert human(size) == text
