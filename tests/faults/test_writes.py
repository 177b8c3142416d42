"""R-01, R-02, R-11: something goes wrong with one write of a life, and it makes no difference.

Each life is lived once with nothing in the way. Then a fault meets its k-th
write, for every k: afterwards there are the same objects, each created and
deleted as often, and no invariant was broken on the way.
"""

from typing import Any

import pytest

from .lives import LIVES, SLOW, all_at_once, in_words, violations
from .proxy import Act, Fault

SAMPLED, ALL = pytest.param(3, marks=pytest.mark.sandbox), pytest.param(1, marks=pytest.mark.soak)
"""Every third case, and every one."""
AT_ONCE = 60
"""Cases that are tried together."""


def points(references, lives):
    """Each k-th write of each life."""
    return [(life, k) for life in lives for k in range(1, len(references[life][1]) + 1)]


def lives_of(every):
    """The lives of a sample, or all."""
    return LIVES + SLOW if every == 1 else LIVES


def compare(stage, references, wanted):
    """Live through all of these (fault, life)s; nobody can tell that there were faults."""
    for start in range(0, len(wanted), AT_ONCE):
        pairs = [(stage.case(fault), life) for fault, life in wanted[start : start + AT_ONCE]]
        for (case, life), outcome in zip(pairs, all_at_once(pairs), strict=True):
            reference, _ = references[life]
            what = f"{life.__name__} with {case.fault} in {case.namespace}"
            assert outcome == reference, (
                f"{what}\n{in_words(outcome)}\nis not\n{in_words(reference)}\n{case.state()}"
            )
            assert violations(case) == [], what
    # Where the operator comes late, two writes may be one, and what waits for the second meets nothing.
    missed = [f"{life.__name__} with {fault}" for fault, life in wanted if not fault.happened]
    assert len(missed) <= len(wanted) / 5, missed


@pytest.mark.parametrize("every", [SAMPLED, ALL])
def test_a_crash_after_any_write_makes_no_difference(unhurt, references, tried, every):
    cases = points(references, lives_of(every))
    tried("R-01 killed after the k-th write", len(cases[::every]), len(cases))
    compare(unhurt, references, [(Fault(Act.KILL, nth=k), life) for life, k in cases[::every]])


@pytest.mark.parametrize("every", [SAMPLED, ALL])
def test_a_write_whose_answer_is_lost_makes_no_difference(unhurt, references, tried, every):
    cases = points(references, lives_of(every))
    tried("R-02 the answer to the k-th write lost", len(cases[::every]), len(cases))
    compare(unhurt, references, [(Fault(Act.LOSE, nth=k), life) for life, k in cases[::every]])


REFUSALS: dict[str, dict[str, Any]] = {
    "409": {"act": Act.REFUSE, "code": 409},
    "429, and to wait": {"act": Act.REFUSE, "code": 429, "retry_after": 1},
    "500": {"act": Act.REFUSE, "code": 500},
    "a webhook that is down": {
        "act": Act.REFUSE,
        "message": 'Internal error occurred: failed calling webhook "a.b": connection refused',
    },
    "a connection that is cut": {"act": Act.CUT},
}


@pytest.mark.parametrize("every", [SAMPLED, ALL])
def test_a_write_that_is_refused_for_a_while_makes_no_difference(unhurt, references, tried, every):
    cases = [(life, k, how) for life, k in points(references, lives_of(every)) for how in REFUSALS]
    tried(f"R-11 the k-th write answered with {', '.join(REFUSALS)}", len(cases[::every]), len(cases))
    compare(unhurt, references, [(Fault(nth=k, **REFUSALS[how]), life) for life, k, how in cases[::every]])
