"""Waiting: for as long as the machine is slow, with the last word and the last error in the end."""

import time

import pytest

from tests.support import patience
from tests.support.patience import Limit, eventually, looks, slowness

SHORT = Limit(0.2)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long fixed work takes at each measurement, in seconds; the last one for ever."""
    takes = [0.0]
    monkeypatch.setattr(patience, "_measured", [])
    monkeypatch.setattr(patience, "_work", lambda: takes.pop(0) if len(takes) > 1 else takes[0])
    return takes


def test_what_is_there_is_the_answer_at_once() -> None:
    assert eventually("it is there", lambda: "here", within=SHORT) == "here"


def test_an_error_counts_as_a_no() -> None:
    seen: dict[str, int] = {}

    def ask() -> int:
        seen["looks"] = seen.get("looks", 0) + 1
        return 10 // (seen["looks"] - 1)

    assert eventually("it can be divided", ask, within=SHORT) == 10


def test_what_never_comes_is_told_with_the_last_answer() -> None:
    with pytest.raises(
        AssertionError,
        match=r"^not within \d+ s, 1.0 times the usual patience: the moon is blue\nat last: None$",
    ):
        eventually("the moon is blue", lambda: None, within=SHORT)


def test_or_with_the_last_error_which_it_comes_from() -> None:
    def ask() -> None:
        raise KeyError("colour")

    with pytest.raises(AssertionError, match=r"at last: KeyError: 'colour'") as raised:
        eventually("the moon is blue", ask, within=SHORT)
    assert isinstance(raised.value.__cause__, KeyError)


def test_or_with_the_state_of_things() -> None:
    with pytest.raises(AssertionError, match=r"at last: it is grey$"):
        eventually("the moon is blue", lambda: None, within=SHORT, state=lambda: "it is grey")


def test_what_ends_a_test_ends_the_wait() -> None:
    with pytest.raises(pytest.fail.Exception, match="never"):
        eventually("the moon is blue", lambda: pytest.fail("never"))


def test_a_slow_machine_is_given_more_time_up_to_ten_times(quiet: list[float]) -> None:
    quiet[:] = [2.0]
    assert (slowness(), Limit(60).now, str(Limit(60))) == (2.0, 120.0, "120s")
    quiet[:] = [3600.0]
    assert slowness(anew=True) == 10.0


def test_a_machine_that_has_become_slow_is_given_more_time_when_the_limit_is_met(quiet: list[float]) -> None:
    quiet[:] = [0.0, 5.0]
    passed = list(looks(Limit(0.1), pause=lambda: time.sleep(0.2)))
    assert len(passed) >= 4, "0 and 0.2 s would do for a quiet machine"
    assert slowness() == 5.0


def test_a_quiet_one_is_not() -> None:
    assert len(list(looks(Limit(0.0), pause=lambda: None))) <= 2


def test_after_the_limit_there_is_one_look_more_for_nothing_may_have_run() -> None:
    def stall() -> None:
        time.sleep(0.3)

    answers = iter([None, "here"])
    assert eventually("it is there", lambda: next(answers), within=SHORT, pause=stall) == "here"
