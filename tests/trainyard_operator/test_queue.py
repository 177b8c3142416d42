"""The work queue: one entry a key, one worker a key, a backoff of its own for each."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fake_api import eventually, run
from trainyard_operator.work.queue import Backoff, Queue, RetryError, Workers


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_key_added_twice_is_worked_on_once() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        queue.add("b")
        queue.add("a")
        assert queue.depth == 2
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert queue.depth == 0

    run(test)


def test_a_key_that_changes_while_it_is_worked_on_is_worked_on_again_afterwards() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue()
        queue.add("a")
        await queue.get()
        queue.add("a")
        queue.add("a")
        assert (queue.depth, queue.running) == (0, 1)
        queue.done("a")
        assert (queue.depth, queue.running) == (1, 0)

    run(test)


def test_a_delayed_key_comes_when_its_time_has_come() -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(clock=clock)
        queue.add_after("a", 5.0)
        assert (queue.depth, queue.delayed) == (0, 1)
        clock.now = 4.9
        assert queue.depth == 0
        clock.now = 5.0
        assert (queue.depth, queue.delayed) == (1, 0)

    run(test)


def test_of_two_delays_the_sooner_one_counts_and_an_add_overrides_both() -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(clock=clock)
        queue.add_after("a", 60.0)
        queue.add_after("a", 5.0)
        queue.add_after("a", 30.0)
        clock.now = 5.0
        assert await queue.get() == "a"
        queue.done("a")
        queue.add_after("a", 60.0)
        queue.add("a")
        assert await queue.get() == "a"
        queue.done("a")
        clock.now = 100.0
        assert (queue.depth, queue.delayed) == (0, 0)

    run(test)


def test_a_delay_that_a_sooner_one_replaced_brings_the_key_no_second_time() -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(clock=clock)
        queue.add_after("other", 100.0)
        queue.add_after("a", 60.0)
        queue.add_after("a", 5.0)
        clock.now = 5.0
        assert await queue.get() == "a"
        queue.done("a")
        clock.now = 60.0
        assert (queue.depth, queue.delayed) == (0, 1)

    run(test)


def test_a_key_that_waits_for_work_already_needs_no_delay() -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(clock=clock)
        queue.add("a")
        queue.add_after("a", 5.0)
        assert await queue.get() == "a"
        queue.done("a")
        clock.now = 5.0
        assert (queue.depth, queue.delayed) == (0, 0)

    run(test)


def test_a_waiting_worker_wakes_up_for_a_delayed_key() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue()
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add_after("a", 0.02)
        assert await waiting == "a"

    run(test)


def test_failures_of_one_key_delay_that_key_alone() -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(backoff=Backoff(jitter=0.0), clock=clock)
        assert [queue.retry("a") for _ in range(4)] == [0.05, 0.1, 0.2, 0.4]
        assert queue.retry("b") == 0.05
        assert queue.retry("c", at_least=7.0) == 7.0
        queue.forget("a")
        assert queue.retry("a") == 0.05

    run(test)


@given(failures=st.integers(1, 10_000), at=st.floats(0, 1, exclude_max=True))
def test_a_backoff_is_never_above_its_cap_nor_below_its_base_less_the_jitter(
    failures: int, at: float
) -> None:
    assert 0.05 * 0.75 <= Backoff().delay(failures, lambda: at) <= 60.0


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "later", "get", "done", "tick"]), st.sampled_from("abc")),
        max_size=60,
    )
)
def test_no_key_is_lost_and_none_is_worked_on_twice_at_a_time(steps: list[tuple[str, str]]) -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(clock=clock)
        owed: set[str] = set()
        running: set[str] = set()
        for step, key in steps:
            if step == "add":
                queue.add(key)
                owed.add(key)
            elif step == "later":
                queue.add_after(key, 1.0)
                owed.add(key)
            elif step == "get" and queue.depth:
                taken = await queue.get()
                assert taken not in running
                running.add(taken)
                owed.discard(taken)
            elif step == "done" and key in running:
                running.remove(key)
                queue.done(key)
            else:
                clock.now += 2.0
        for key in running:
            queue.done(key)
        clock.now += 2.0
        assert {await queue.get() for _ in range(queue.depth)} >= owed

    run(test)


def test_depth_and_age_tell_how_far_behind_the_workers_are() -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(clock=clock)
        assert queue.age == 0.0
        clock.now = 1.0
        queue.add("a")
        clock.now = 4.0
        queue.add("b")
        assert (queue.depth, queue.age) == (2, 3.0)

    run(test)


def test_a_key_whose_work_always_fails_stops_no_other() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue()
        done: list[str] = []
        failures: list[str] = []

        async def work(key: str) -> float | None:
            if key == "bad":
                raise ValueError("hostile")
            done.append(key)
            return None

        workers = Workers(queue, work, lambda key, error, delay: failures.append(key), count=2)
        workers.start()
        for key in ("bad", "a", "b", "c"):
            queue.add(key)
        await eventually(lambda: len(done) == 3 and len(failures) > 1)
        await workers.stop()
        assert set(failures) == {"bad"}

    run(test)


def test_work_may_ask_for_its_key_again() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue()
        seen: list[str] = []

        async def work(key: str) -> float | None:
            seen.append(key)
            if key == "retry" and seen.count(key) < 3:
                raise RetryError("not yet")
            return 0.01 if key == "again" and seen.count(key) < 3 else None

        workers = Workers(queue, work, lambda *_: None, count=1)
        workers.start()
        queue.add("retry")
        queue.add("again")
        await eventually(lambda: len(seen) == 6)
        await workers.stop()
        assert queue.failures("retry") == 0

    run(test)


def test_a_key_comes_back_after_a_backoff_that_grows_until_its_work_goes_well() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue(backoff=Backoff(base=0.001))
        failures: list[int] = []

        async def work(key: str) -> float | None:
            failures.append(queue.failures(key))
            if len(failures) < 3:
                raise RetryError("it has changed")
            if len(failures) == 3:
                raise ValueError("hostile")
            return None

        workers = Workers(queue, work, lambda *_: None, count=1)
        workers.start()
        queue.add("a")
        await eventually(lambda: len(failures) == 4 and not queue.running)
        queue.add("a")
        await eventually(lambda: len(failures) == 5)
        await workers.stop()
        assert failures == [0, 1, 2, 3, 0]

    run(test)


def test_a_queue_that_is_cleared_owes_nothing_more() -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(clock=clock)
        queue.add("running")
        await queue.get()
        queue.add("running")
        queue.add("ready")
        queue.add_after("later", 5.0)
        queue.retry("failed")
        queue.clear()
        assert (queue.depth, queue.delayed, queue.held, queue.failures("failed")) == (0, 0, 0, 0)
        queue.done("running")
        clock.now = 100.0
        assert (queue.depth, queue.running) == (0, 0)

    run(test)


def test_of_a_key_that_is_discarded_nothing_is_left_and_of_others_all() -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(clock=clock)
        queue.add("running")
        await queue.get()
        for key in ("running", "ready", "stays"):
            queue.add(key)
        queue.add_after("later", 5.0)
        queue.retry("failed")
        for key in ("running", "ready", "later", "failed", "unknown"):
            queue.discard(key)
        assert (queue.delayed, queue.held, queue.failures("failed")) == (0, 0, 0)
        queue.done("running")
        clock.now = 100.0
        assert (queue.depth, queue.running, await queue.get()) == (1, 0, "stays")

    run(test)


def test_workers_that_are_started_twice_are_as_many_as_before() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue()

        async def work(key: str) -> float | None:
            await asyncio.sleep(60)
            return None

        workers = Workers(queue, work, lambda *_: None, count=2)
        workers.start()
        workers.start()
        for key in "abcd":
            queue.add(key)
        await eventually(lambda: queue.running == 2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (queue.running, queue.depth) == (2, 2)
        await workers.stop()

    run(test)


class Panic(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.parametrize(("error", "reason"), [(asyncio.CancelledError, "a cancellation"), (Panic, "Panic")])
def test_a_worker_that_something_other_than_stop_ends_is_replaced_and_its_key_is_not_lost(
    error: type[BaseException], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        queue: Queue[str] = Queue(backoff=Backoff(base=0.001))
        seen: list[str] = []

        async def work(key: str) -> float | None:
            seen.append(key)
            if seen == ["stray"]:
                raise error
            return None

        workers = Workers(queue, work, lambda *_: None, count=1)
        workers.start()
        queue.add("stray")
        await eventually(lambda: seen == ["stray", "stray"] and not queue.running)
        queue.add("next")
        await eventually(lambda: seen[2:] == ["next"])
        await workers.stop()
        assert (queue.failures("stray"), queue.delayed, workers.running) == (0, 0, False)

    run(test)
    assert [record.getMessage() for record in caplog.records] == [
        f"worker-0 was ended by {reason} and is replaced"
    ]


def test_a_worker_whose_task_is_cancelled_is_replaced_while_it_waits_for_a_key() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue()
        seen: list[str] = []

        async def work(key: str) -> float | None:
            seen.append(key)
            return None

        workers = Workers(queue, work, lambda *_: None, count=1)
        workers.start()
        await asyncio.sleep(0)
        stray = workers._tasks[0]
        stray.cancel()
        await asyncio.gather(stray, return_exceptions=True)
        queue.add("a")
        await eventually(lambda: seen == ["a"])
        await workers.stop()

    run(test)


def test_stopping_without_grace_ends_work_in_the_middle() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue()
        ended: list[str] = []

        async def work(key: str) -> float | None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append(key)
                raise
            return None

        workers = Workers(queue, work, lambda *_: None, count=1)
        workers.start()
        queue.add("a")
        await eventually(lambda: queue.running == 1)
        await workers.stop()
        assert (ended, queue.running, workers.running) == (["a"], 0, False)

    run(test)


def test_stopping_with_grace_lets_work_end_and_takes_up_no_more() -> None:
    async def test() -> None:
        queue: Queue[str] = Queue()
        ended: list[str] = []

        async def work(key: str) -> float | None:
            await asyncio.sleep(0.05)
            ended.append(key)
            return None

        workers = Workers(queue, work, lambda *_: None, count=1)
        workers.start()
        queue.add("a")
        queue.add("b")
        await eventually(lambda: queue.running == 1)
        await workers.stop(grace=2.0)
        assert ended == ["a"]

    run(test)


def test_delays_that_are_no_longer_in_force_never_outnumber_those_that_are() -> None:
    async def test() -> None:
        clock = Clock()
        queue: Queue[str] = Queue(clock=clock)
        for seconds in range(100, 0, -1):
            queue.add_after("ever sooner", 3600.0 + seconds)
            assert queue.held <= 2 * queue.delayed
        for number in range(10):
            queue.add_after(f"quiet-{number}", 3600.0)
        for _ in range(1000):
            clock.now += 1.0
            queue.add("busy")
            key = await queue.get()
            queue.add_after(key, 86400.0)
            queue.done(key)
            assert queue.held <= 2 * queue.delayed
        clock.now = 3600.0
        assert sorted([await queue.get() for _ in range(10)]) == [f"quiet-{number}" for number in range(10)]

    run(test)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5))))
def test_every_delay_in_force_is_kept_whatever_else_is_dropped(steps: list[tuple[str, int]]) -> None:
    clock = Clock()
    queue: Queue[str] = Queue(clock=clock)
    due: dict[str, float] = {}
    for key, seconds in steps:
        if seconds:
            queue.add_after(key, seconds)
            due[key] = min(due.get(key, seconds), seconds)
        else:
            queue.add(key)
            due[key] = 0
        assert queue.held <= 2 * queue.delayed
    for second in range(6):
        clock.now = second
        assert queue.depth == sum(at <= second for at in due.values())
