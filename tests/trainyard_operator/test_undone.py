"""Writes that somebody else undoes wait, and whoever undoes them is named."""

from __future__ import annotations

from tests.support import objects
from tests.support.controller_scene import JOBSET, scene
from tests.support.fake_api import run
from trainyard_operator.core import model
from trainyard_operator.work.undone import FORGOTTEN, LONGEST, Undone


def update(content: str) -> model.Update:
    return model.Update({**objects.jobset(), "spec": {"content": content}}, "uid", "1")


def test_the_same_content_waits_from_the_third_time_on_that_it_is_undone_and_longer_each_time() -> None:
    undone = Undone()
    assert [undone.wrote(update("a"), 0) for _ in range(12)] == [
        *(0, 0, 0, 5, 10, 20, 40, 80, 160),
        *(LONGEST, LONGEST, LONGEST),
    ]
    assert undone.wait([update("a")], 100) == LONGEST - 100
    assert undone.wait([update("a")], LONGEST) == 0
    assert undone.wait([update("b")], 0) == 0, "it is wanted otherwise now"
    assert undone.wait([model.Create(objects.jobset())], 0) == 0


def test_what_alternates_or_comes_seldom_is_not_undone() -> None:
    undone = Undone()
    assert [undone.wrote(update(content), 0) for content in "abababababab"] == [0] * 12
    assert [undone.wrote(update("a"), number * FORGOTTEN) for number in range(1, 6)] == [0] * 5


def test_a_jobset_that_somebody_keeps_suspending_is_left_to_them_longer_each_time() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.settle()
            paused: list[float | None] = []
            for number in range(6):
                live = s.api.objects[JOBSET]
                fields = [{"manager": "meddler", "time": f"2026-01-01T00:00:0{number}Z"}]
                spec = {**live["spec"], "suspend": True}
                s.api.put(
                    JOBSET, {**live, "spec": spec, "metadata": {**live["metadata"], "managedFields": fields}}
                )
                s.see_jobset()
                paused.append(await s.settle())
            assert s.api.objects[JOBSET]["spec"]["suspend"] is True
            assert paused[-1] == 5
            [event] = [body for body in s.api.objects.values() if body.get("reason") == "WriteUndone"]
            assert event["message"] == (
                "meddler keeps changing JobSet tj back; the next write is in 5 s; "
                "have the platform team find and stop this client"
            )
            s.second += 5
            s.see_jobset()
            s.queue.add(next(iter(s.cache.trainjobs)))
            await s.settle()
            assert s.api.objects[JOBSET]["spec"]["suspend"] is False

    run(test)
