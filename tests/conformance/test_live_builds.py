"""What both controllers make of a TrainJob: the golden corpus, and what Hypothesis has made.

No webhook is asked here: what admission refuses reaches the controllers too.
"""

import pytest

from tests.harness.selection import asked_for, core_if
from tests.support import live
from tests.support.corpus import GOLDEN, cases
from tests.support.generated import COUNT
from tests.support.patience import NOTICED, looks

from .compare import built, differences
from .exceptions import BUILDS
from .live_builds import CASES, CORPUS, GANGS, GENERATED, manifests, mended

pytestmark = pytest.mark.sandbox

CORE = {*(f"tj-{case}" for case in CORPUS), *GANGS, *GENERATED[:23]}
"""Forty of them: every framework, and what Hypothesis has made of them."""
SETTLED = 6.0
"""Seconds without a change after which nothing more is expected."""


@pytest.fixture(scope="module")
def results(request, sides):
    """By controller: what it made of each case that this run has."""
    asked = asked_for(request, "case", every=CASES)
    runtimes, jobs = manifests(frozenset(asked))
    for side in sides:
        live.at_once(side.api.apply, runtimes)
    for side in sides:
        for answer in live.at_once(side.api.create, jobs.values()):
            live.done(answer)
    return {side.name: settled(side, asked) for side in sides}


def settled(side, asked):
    """What it has made as soon as each case has a JobSet and nothing changes any more."""
    last, since, missing = None, 0.0, set(asked)
    for passed in looks(NOTICED):
        found = built(side.api)
        missing = {case for case in asked if f"JobSet {case}" not in found.get(case, ())}
        if found != last:
            last, since = found, passed
        elif not missing and passed > since + SETTLED:
            return last
    raise AssertionError(f"{side.name} has made no JobSet of {sorted(missing)}, or goes on and on")


@pytest.mark.parametrize("case", core_if(CORE.__contains__, CASES))
def test_both_controllers_make_the_same(results, case):
    """But for the paths that the quirks allow, and what is mended; each of them has to differ."""
    allowed = set(BUILDS[case].paths) if case in BUILDS else set()
    found = differences(results["ours"].get(case), results["reference"].get(case))
    assert set(found) == allowed | mended(case), found


def test_the_whole_corpus_has_reached_both_controllers(results):
    reached = {name: sum(case in found for case in CASES) for name, found in results.items()}
    assert reached == dict.fromkeys(reached, len(CASES))
    assert len(CASES) == len(cases(GOLDEN / "expected")) + COUNT + len(GANGS)


def test_every_exception_is_one_of_a_case():
    assert set(BUILDS) <= set(CASES)


def test_forty_cases_are_of_the_core():
    assert len(CORE & set(CASES)) == 40
