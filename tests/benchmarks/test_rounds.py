"""A turn that fails leaves the others what they have measured."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from benchmarks.bench import OURS, REFERENCE
from benchmarks.errors import BenchmarkError
from benchmarks.rounds import measure
from benchmarks.scenarios import Scenario

from benchmarks import rounds
from trainyard_kube.client import ApiError
from trainyard_sandbox.errors import SandboxError


async def measured(bench):
    if isinstance(bench, Exception):
        raise bench
    return {"jobs/s": 1.0}


SCENARIO = Scenario("burst", "Many at once", measured, (OURS, REFERENCE), {}, {}, rounds=1)


@pytest.fixture
def turns(monkeypatch):
    """Measure with what goes wrong at the reference."""

    def run(error):
        @asynccontextmanager
        async def at_work(side, **company):
            yield error if side is REFERENCE else None

        monkeypatch.setattr(rounds, "at_work", at_work)
        monkeypatch.setattr(rounds, "machine", dict)
        return asyncio.run(measure([SCENARIO], lambda results: None, quick=False))

    return run


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (BenchmarkError("it has ended"), "it has ended"),
        (SandboxError("It does not come up."), "It does not come up."),
        (
            ExceptionGroup("tasks", [ApiError("gone"), ExceptionGroup("more", [ApiError("gone")])]),
            "gone",
        ),
    ],
    ids=["of the benchmark", "of the sandbox", "of requests at a time"],
)
def test_a_turn_that_fails_is_told_and_the_others_count(turns, error, why):
    results = turns(error)
    assert results.failed == {"burst, Trainer v2.3.0, round 1": why}
    assert [turn.side for turn in results.results[0].turns] == ["ours"]


def test_a_mistake_of_the_benchmarks_ends_them(turns):
    with pytest.raises(ExceptionGroup, match="tasks"):
        turns(ExceptionGroup("tasks", [ApiError("gone"), KeyError("name")]))
