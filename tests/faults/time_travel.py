"""Stories that are told to an operator whose cache is old."""

from . import gaps
from .lives import COMPLETED, PLAIN, in_words, outcome, violations
from .proxy import Act, Fault

FOOLED = 3.0
"""Seconds that it is given to act on what it is shown."""


def _end_and_be_cleaned_up(case):
    case.jobset_says(COMPLETED, succeeded=1)
    case.until("it is complete", lambda: gaps.is_complete(case))
    case.delete_jobset()
    case.until("its JobSet is gone", lambda: case.jobset is None)


def _be_suspended(case):
    case.patch(suspend=True)
    case.until("it is suspended", lambda: gaps.is_suspended(case))


def _be_made_anew(case):
    case.delete()
    case.until("it is gone", lambda: gaps.is_gone(case))
    case.create(PLAIN)
    case.until("its JobSet", lambda: gaps.has_its_own_jobset(case))


def _go(case):
    case.delete()
    case.until("it is gone", lambda: gaps.is_gone(case))


def _be_too_late(case):
    case.until("it is too late", lambda: case.condition("Failed") == ("True", "DeadlineExceeded"))
    case.until("its JobSet is gone", lambda: case.jobset is None)


def _be_too_late_and_made_anew(case):
    _be_too_late(case)
    _be_made_anew(case)


STORIES = {
    _end_and_be_cleaned_up: {},
    _be_suspended: {},
    _be_made_anew: {},
    _go: {},
    _be_too_late: {"activeDeadlineSeconds": 30},
    _be_too_late_and_made_anew: {"activeDeadlineSeconds": 30},
}
"""What becomes of a TrainJob that runs, and what it says."""


def latest(scene):
    """The version of the last thing that has happened."""
    return max(event.at for observer in (scene.trainjobs, scene.jobsets) for event in observer.events[-1:])


def begin(scene):
    """The TrainJobs of all stories, running; and what the time was when they were made and when they ran."""
    cases = [(scene.case(), story) for story in STORIES]
    blind = scene.proxy.add(Fault(Act.FREEZE, resource="trainjobs"))
    for case, story in cases:
        case.create(PLAIN, **STORIES[story])
        case.until("it is there", lambda case=case: case.trainjob)
    made = latest(scene)
    scene.proxy.heal(blind)
    gaps.each(lambda pair: gaps.run(pair[0]), cases)
    return cases, {"its creation": made, "its running": latest(scene)}


def happen(cases):
    """All stories, to their end."""
    gaps.each(lambda pair: pair[1](pair[0]), cases)


def outcomes(cases):
    return gaps.each(outcome, (case for case, _ in cases))


def unchanged(cases, before):
    """Nothing has come of what was seen of the past."""
    for (case, story), was, now in zip(cases, before, outcomes(cases), strict=True):
        assert now == was, f"{story.__name__}\n{in_words(now)}\nis not\n{in_words(was)}\n{case.state()}"
        assert violations(case) == []
