"""How long a render takes: 5 ms or less for any golden case, without reading files."""

import statistics
import time

import pytest

from trainyard_api import documents
from trainyard_operator.render import render

from .corpus import GOLDEN, RUNTIMES, cases

MILLISECONDS = 5.0
SLACK = 3.0
"""The machine of a CI run may be that much slower than the one that the figure is for."""
ROUNDS = 15


@pytest.fixture(scope="module")
def catalog():
    return [document for path in RUNTIMES for document in documents.parse(path.read_text(), path.name)]


@pytest.mark.parametrize("case", cases(GOLDEN / "trainjobs"))
def test_a_golden_case_renders_in_time(catalog, case):
    job = documents.parse((GOLDEN / "trainjobs" / f"{case}.yaml").read_text(), case)
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        render(job, catalog)
        taken.append((time.perf_counter() - start) * 1000)
    assert statistics.median(taken) <= MILLISECONDS * SLACK
