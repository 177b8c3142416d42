"""R-03, R-04: the operator is started anew, and is shown the world as it was a while ago."""

import pytest

from tests.support.patience import eventually, nothing_comes

from .proxy import Act, Fault
from .time_travel import FOOLED, STORIES, begin, happen, outcomes, unchanged


@pytest.mark.parametrize(
    "back_to",
    [
        pytest.param("its creation", marks=pytest.mark.soak),
        pytest.param("its running", marks=pytest.mark.sandbox),
    ],
)
def test_a_leader_that_is_shown_the_past_does_no_harm(unhurt, tried, back_to):
    scene = unhurt
    cases, moments = begin(scene)
    happen(cases)
    before = outcomes(cases)
    for resource in ("trainjobs", "jobsets"):
        scene.proxy.add(Fault(Act.PAST, resource=resource, revision=moments[back_to]))
    seen = len(scene.proxy.trace)
    scene.replica.kill()

    def shown():
        answered = {p.request.resource for p in scene.proxy.trace[seen:] if p.request.verb == "watch"}
        return {"trainjobs", "jobsets"} <= answered

    # It need not lead: while its streams show less than a list of what is newest, it waits.
    eventually("it is shown the past", shown)
    nothing_comes(FOOLED)
    scene.proxy.heal()
    scene.proxy.cut()
    unchanged(cases, before)
    tried(f"R-03, R-04 a restart into the past, back to {back_to}", len(STORIES), len(STORIES))
