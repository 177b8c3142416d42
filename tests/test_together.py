"""Processes of a run on one sandbox; here they are threads, which open the same files."""

import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.patience import eventually
from tests.support.together import PLATFORM, shared, turn


class Held:
    """A test that runs until it is told to end."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder, self.names = folder, names
        self.runs, self.ends = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with turn(self.folder, self.names):
            self.runs.set()
            self.ends.wait()

    def end(self) -> None:
        self.ends.set()
        self.thread.join()


@pytest.mark.parametrize(
    ("first", "second"),
    [((), ()), (("rollout",), ()), (("rollout",), ("tenants",))],
    ids=["nothing", "one of them", "each something else"],
)
def test_tests_run_side_by_side_that_hold_nothing_in_common(
    first: Collection[str], second: Collection[str], tmp_path: Path
) -> None:
    tests = [Held(tmp_path, *first), Held(tmp_path, *second)]
    eventually("both run", lambda: all(test.runs.is_set() for test in tests))
    for test in tests:
        test.end()


@pytest.mark.parametrize(
    ("first", "second"),
    [(("a", "b"), ("b", "c")), ((PLATFORM,), ()), ((), (PLATFORM,)), ((PLATFORM,), (PLATFORM, "a"))],
    ids=["a name", "the platform first", "the platform second", "the platform twice"],
)
def test_of_two_that_hold_the_same_the_second_waits_for_the_first(
    first: Collection[str], second: Collection[str], tmp_path: Path
) -> None:
    before = Held(tmp_path, *first)
    eventually("the first runs", before.runs.is_set)
    after = Held(tmp_path, *second)
    time.sleep(0.2)
    assert not after.runs.is_set()
    before.end()
    eventually("the second runs", after.runs.is_set)
    after.end()


def test_nobody_overtakes_who_waits_for_the_whole_platform(tmp_path: Path) -> None:
    one = Held(tmp_path)
    eventually("it runs", one.runs.is_set)
    whole = Held(tmp_path, PLATFORM)
    time.sleep(0.2)
    another = Held(tmp_path)
    time.sleep(0.2)
    assert (whole.runs.is_set(), another.runs.is_set()) == (False, False)
    one.end()
    eventually("who waited runs", whole.runs.is_set)
    assert not another.runs.is_set()
    whole.end()
    eventually("the other runs", another.runs.is_set)
    another.end()


def test_what_is_shared_is_made_once_and_unmade_by_the_last(tmp_path: Path) -> None:
    done: list[str] = []
    barrier = threading.Barrier(3)

    def use(number: int) -> None:
        with shared(tmp_path, "thing", lambda: done.append("made"), lambda: done.append("unmade")):
            barrier.wait()
            done.append("used")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(use, range(3)))
    assert done == ["made", "used", "used", "used", "unmade"]


def test_what_could_not_be_made_is_tried_again_by_the_next(tmp_path: Path) -> None:
    def fail() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"), shared(tmp_path, "thing", fail, fail):
        pass
    done: list[str] = []
    with shared(tmp_path, "thing", lambda: done.append("made"), lambda: done.append("unmade")):
        assert done == ["made"]
    assert done == ["made", "unmade"]
