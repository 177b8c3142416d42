"""R-27: any order of what users, JobSet, the garbage collector, the network and crashes can do.

A state machine over one replica's controller and an API server in memory,
with time and every watch event in its hands. After each step no invariant is
broken; and when the faults end, each TrainJob comes to what its spec and its
JobSet say, and then nothing is written any more. A failure prints the steps
that lead to it; `--hypothesis-seed` repeats a run.
"""

import pytest

from .machine import ALL, FEW, HOURS, MORE, Machine, run


@pytest.mark.parametrize(("orders", "steps"), [FEW, MORE, ALL])
def test_whatever_happens_in_whatever_order_nothing_is_broken(tried, orders, steps):
    run(Machine, orders, steps)
    tried("R-27 any order of anything", orders, HOURS)
