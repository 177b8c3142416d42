"""R-13, R-14: two replicas, of which one stands still, dies, or has seen nothing for a while.

That a killed leader is followed within its Lease, and one that is told to stop
at once, is seen in pods (tests/e2e/test_operator.py).
"""

import signal
from contextlib import contextmanager

import pytest

from tests.support.patience import eventually, nothing_comes

from . import gaps
from .lives import LIVES, all_at_once
from .proxy import Act, Fault
from .streams import same
from .time_travel import FOOLED, STORIES, begin, happen, outcomes, unchanged


@pytest.fixture
def pair(unhurt):
    """The scene with a second replica, which follows: the Lease that an earlier one released is not free."""
    eventually("the first leads", lambda: unhurt.replica.leads)
    with unhurt.another("two", retention={}) as (proxy, two):
        yield unhurt, proxy, two


@contextmanager
def standing_still(replica):
    replica.send(signal.SIGSTOP)
    try:
        yield
    finally:
        replica.send(signal.SIGCONT)


@pytest.mark.core
@pytest.mark.sandbox
def test_a_leader_that_stands_still_past_its_lease_does_no_harm_when_it_goes_on(pair, tried):
    scene, _, two = pair
    cases = gaps.begin(scene)
    with standing_still(scene.replica):
        gaps.happen(cases)
        eventually("the other leads", lambda: two.leads)
        nothing_comes(2)
    eventually("one follows", lambda: not scene.replica.leads and scene.replica.probe() == "ok\n")
    gaps.come_right(cases)
    tried("R-13 the leader stands still past its Lease", len(cases), len(gaps.GAPS))


@pytest.mark.sandbox
def test_a_follower_that_has_seen_nothing_for_a_while_does_no_harm_when_it_leads(pair, tried):
    scene, proxy, two = pair
    cases, _ = begin(scene)
    frozen = [proxy.add(Fault(Act.FREEZE, resource=resource)) for resource in ("trainjobs", "jobsets")]
    happen(cases)
    before, seen = outcomes(cases), len(scene.proxy.trace)
    scene.replica.kill_for_good()
    try:
        eventually("the other leads", lambda: two.leads)
        nothing_comes(FOOLED)
        proxy.heal(*frozen)
        nothing_comes(FOOLED)
        unchanged(cases, before)
        mine = {case.namespace for case, _ in cases}
        written = [p.request for p in scene.proxy.trace[seen:] if p.request.counts and p.code < 300]
        assert [request for request in written if request.about in mine] == []
    finally:
        scene.replica.start()
    tried("R-14 a follower that has seen nothing takes over", len(STORIES), len(STORIES))


@pytest.mark.sandbox
def test_two_that_start_at_the_same_time_work_as_one(unhurt, references, tried):
    unhurt.replica.kill()
    with unhurt.another("three", retention={}) as (_, three):
        cases = [(unhurt.case(), life) for life in LIVES]
        same(references, cases, all_at_once(cases))
        eventually("one leads", lambda: sorted((unhurt.replica.leads, three.leads)) == [False, True])
    eventually("one of them is left, and leads", lambda: unhurt.replica.leads)
    tried("two replicas started at once", len(LIVES), len(LIVES))
