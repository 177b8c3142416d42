"""R-05 to R-11, R-18: what the operator is told comes late, twice, wrongly or never, or nobody answers it."""

import os
import signal
import time

import pytest

from tests.support.patience import NOTICED, eventually, nothing_comes

from . import gaps, lives
from .lives import LIVES, all_at_once, violations
from .proxy import Act, Fault
from .streams import same

sandbox, soak = pytest.mark.sandbox, pytest.mark.soak
STREAMS = ("trainjobs", "jobsets", "trainingruntimes", "clustertrainingruntimes", "controllerrevisions")
READS = frozenset({"get", "list", "watch"})
EVERYTHING = READS | {"create", "update", "patch", "delete"}
DARK = 5.0
"""Seconds in which nothing is seen: some of our own writes are among it (R-07)."""


def freeze(proxy):
    return [proxy.add(Fault(Act.FREEZE, resource=resource)) for resource in STREAMS[:2]]


def late(proxy):
    """The streams go on."""
    proxy.heal()


def cut(proxy):
    """The streams break, and are resumed."""
    proxy.cut()
    proxy.heal()


def gone(proxy):
    """The streams break, and cannot be resumed."""
    dark = tuple(proxy.faults)
    for resource in STREAMS[:2]:
        proxy.add(Fault(Act.REFUSE, verbs=frozenset({"watch"}), resource=resource, nth=1, code=410))
    proxy.cut()
    proxy.heal(*dark)


@pytest.mark.parametrize(
    "end", [pytest.param(late, marks=soak), pytest.param(cut, marks=soak), pytest.param(gone, marks=sandbox)]
)
def test_what_happens_while_nothing_is_seen_is_made_good(unhurt, tried, end):
    cases = gaps.begin(unhurt)
    freeze(unhurt.proxy)
    gaps.happen(cases)
    time.sleep(DARK)
    end(unhurt.proxy)
    gaps.come_right(cases)
    tried(
        f"R-05, R-07, R-08 nothing seen for {DARK:.0f} s, then {end.__doc__[:-1].lower()}",
        len(cases),
        len(gaps.GAPS),
    )


@sandbox
def test_a_deletion_that_is_never_told_is_found_by_the_next_list(unhurt, tried):
    proxy = unhurt.proxy
    seen = gaps.GAPS[:-1]  # a name can be taken before the operator comes only where it is blind
    cases = gaps.begin(unhurt, seen)
    for resource in STREAMS[:2]:
        proxy.add(Fault(Act.MUTE, resource=resource))
    gaps.happen(cases)
    time.sleep(1)
    gone(proxy)
    gaps.come_right(cases)
    tried("R-06 deletions never told, then a relist", len(cases), len(seen))


@sandbox
def test_events_that_come_twice_among_noise_make_no_difference(unhurt, references, tried):
    unhurt.proxy.add(Fault(Act.STUTTER))
    unhurt.proxy.cut()
    cases = [(unhurt.case(), life) for life in LIVES]
    same(references, cases, all_at_once(cases))
    tried("R-09 each event twice, bookmarks and unknown types between", len(cases), len(LIVES))


@soak
def test_errors_in_a_stream_make_no_difference(unhurt, references, tried):
    codes = (429, 500, 504, 410)
    for number, code in enumerate(codes):
        for resource in STREAMS[:2]:
            unhurt.proxy.add(Fault(Act.FAIL, resource=resource, code=code, nth=2 + number))
    cases = [(unhurt.case(), life) for life in LIVES]
    same(references, cases, all_at_once(cases))
    tried("R-09 ERROR events: " + ", ".join(map(str, codes)), len(LIVES), len(LIVES))


def outage(scene, seconds):
    """Nobody answers for a while, and nobody has died."""
    cases = gaps.begin(scene)
    scene.proxy.add(Fault(Act.CUT, verbs=EVERYTHING))
    scene.proxy.cut()
    gaps.happen(cases)
    time.sleep(seconds)
    scene.proxy.heal()
    gaps.come_right(cases)


@soak
def test_an_api_server_that_is_down_for_longer_than_the_lease_is_waited_for(unhurt, tried):
    ended = len(unhurt.replica.ended)
    outage(unhurt, 16.0)
    assert len(unhurt.replica.ended) == ended
    tried("R-11 no API server for 16 s", len(gaps.GAPS), len(gaps.GAPS))


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGKILL, marks=sandbox), pytest.param(signal.SIGTERM, marks=soak)]
)
def test_being_ended_again_and_again_makes_no_difference(unhurt, references, tried, number):
    cases = [(unhurt.case(), life) for life in LIVES]
    replica, times = unhurt.replica, 4

    def harass():
        for _ in range(times):
            time.sleep(1.5)
            before = len(replica.ended)
            replica.send(number)
            eventually("it has ended", lambda before=before: len(replica.ended) > before)

    *outcomes, _ = gaps.each(
        lambda job: job(), [*(lambda pair=pair: all_at_once([pair])[0] for pair in cases), harass]
    )
    same(references, cases, outcomes)
    tried(f"R-18 {number.name} {times} times", len(LIVES), len(LIVES))


@pytest.fixture
def collector(unhurt):
    """What collects garbage: a process that can be stopped for a while."""
    pid = unhurt.pid("kube-controller-manager")
    yield pid
    os.kill(pid, signal.SIGCONT)


@sandbox
def test_a_job_made_anew_before_its_old_jobset_is_collected_inherits_nothing(unhurt, collector, tried):
    case = unhurt.case()
    gaps.running(case)
    os.kill(collector, signal.SIGSTOP)
    case.delete()
    case.until("it is gone", lambda: case.trainjob is None)
    gaps.complete(case)
    case.create(lives.PLAIN)
    case.until("it waits for the name", lambda: gaps.is_in_conflict(case))
    assert case.condition("Complete") is None
    os.kill(collector, signal.SIGCONT)
    case.until("it has a JobSet of its own", lambda: gaps.has_its_own_jobset(case))
    assert violations(case) == []
    tried("R-17 made anew under the same name, no garbage collector", 1, 1)


@sandbox
def test_a_namespace_that_goes_takes_its_job_along(unhurt, tried):
    case = unhurt.case()
    gaps.running(case)
    unhurt.api.call("DELETE", f"/api/v1/namespaces/{case.namespace}")
    case.until("it is gone", lambda: gaps.is_gone(case))
    eventually(
        "the namespace is gone",
        lambda: unhurt.api.call("GET", f"/api/v1/namespaces/{case.namespace}").code == 404,
    )
    writes = len(unhurt.proxy.writes(case.namespace))
    nothing_comes(2)
    assert len(unhurt.proxy.writes(case.namespace)) == writes
    assert violations(case) == []
    tried("R-16 the namespace is deleted", 1, 1)


@sandbox
def test_without_rights_on_the_lease_it_does_not_lead_and_says_so(unhurt, tried):
    fault = unhurt.proxy.add(Fault(Act.REFUSE, verbs=EVERYTHING, resource="leases", code=403))
    eventually("it does not lead", lambda: "trainyard_leader 0.0" in unhurt.replica.ask("metrics"))
    case = unhurt.case()
    case.create(lives.PLAIN)
    nothing_comes(2)
    assert unhurt.proxy.writes(case.namespace) == []
    unhurt.proxy.heal(fault)
    case.until("it has its JobSet", lambda: gaps.has_its_own_jobset(case))
    tried("R-15 no rights on the Lease", 1, 1)


@sandbox
def test_a_connection_that_is_silently_dead_is_given_up(unhurt, tried):
    cases = gaps.begin(unhurt)
    freeze(unhurt.proxy)
    seen = len(unhurt.proxy.trace)
    gaps.happen(cases)

    def again():
        found = {p.request.resource for p in unhurt.proxy.trace[seen:] if p.request.verb == "watch"}
        return set(STREAMS[:2]) <= found

    eventually("the streams are opened anew", again, within=NOTICED)
    unhurt.proxy.heal()
    gaps.come_right(cases)
    tried("R-10 a dead connection", len(cases), len(gaps.GAPS))


@soak
def test_an_api_server_that_is_down_for_five_minutes_is_waited_for(unhurt, tried):
    outage(unhurt, 300.0)
    tried("R-11 no API server for 5 min", len(gaps.GAPS), len(gaps.GAPS))
