"""The hostile TrainJobs and runtimes of the fuzz, made without a cluster."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.harness.selection import long_unless

from . import nasty
from .nasty import ALL, OF_RUNTIMES, OF_TRAINJOBS


@pytest.mark.parametrize(
    "shape", long_unless(lambda shape: shape not in ("grammar", "selectors"), nasty.SHAPES), ids=str
)
def test_a_case_is_the_same_for_a_seed_and_a_number_and_of_the_size_that_it_says(shape: str) -> None:
    number = list(nasty.SHAPES).index(shape)
    case = nasty.Case(1, number, nasty.ROOM)
    runtime, job = case.pair()
    assert case.pair() == (runtime, job)
    assert nasty.Case(1, number, 2048).pair() != (runtime, job) or case.shape == "tables"
    assert max(len(json.dumps(spec, ensure_ascii=False).encode()) for spec in (runtime, job)) < 4 * nasty.ROOM


def test_the_fuzz_has_each_shape_with_all_room_and_sends_it_to_each_path() -> None:
    cases = [nasty.case(1, number) for number in range(ALL)]
    full = Counter(case.shape for case in cases if case.room == nasty.ROOM)
    assert full.keys() == nasty.SHAPES.keys()
    assert min(full.values()) > 200
    for paths in (OF_RUNTIMES, OF_TRAINJOBS):
        turns = {(case.shape, paths[case.number // len(nasty.SHAPES) % len(paths)]) for case in cases}
        assert turns == {(shape, path) for shape in nasty.SHAPES for path in paths}
