"""What happens to TrainJobs while the operator cannot see it, or sees it otherwise than it is."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.support.live import JOBSET, done

from .lives import COMPLETED, PLAIN, outcome, violations
from .scene import NAME, Case


@dataclass(frozen=True)
class Gap:
    """A TrainJob before, what happens in the dark, and what is to come of it."""

    what: str
    before: Callable[[Case], None]
    within: Callable[[Case], None]
    after: Callable[[Case], bool]
    """Whether all has come of it that is to come."""
    creates: int = 1
    """How many JobSets the operator makes in all."""


def nothing(case):
    pass


def running(case, **spec):
    case.create(PLAIN, **spec)
    run(case)


def run(case):
    case.until("its JobSet", lambda: case.jobset)
    case.jobset_says(active=1)
    case.until("its counts", lambda: (case.trainjob.get("status") or {}).get("jobsStatus"))


def complete(case):
    case.jobset_says(COMPLETED, succeeded=1)


def _suspend_thrice(case):
    for suspend in (True, False, True):
        case.patch(suspend=suspend)


def _make_anew(case):
    case.delete()
    case.until("it is gone", lambda: case.trainjob is None and case.jobset is None)
    case.create(PLAIN)


def squat(case):
    """It is made, and its JobSet's name is somebody else's."""
    take_its_name(case)
    case.create(PLAIN)


def take_its_name(case):
    manifest = {
        "apiVersion": JOBSET,
        "kind": "JobSet",
        "metadata": {"name": NAME, "namespace": case.namespace},
    }
    done(case.scene.api.create({**manifest, "spec": {"replicatedJobs": []}}))


def is_suspended(case):
    said = case.condition("Suspended") == ("True", "Suspended")
    return said and bool(case.jobset) and case.jobset["spec"].get("suspend") is True


def is_complete(case):
    return case.condition("Complete") == ("True", "AllJobsCompleted")


def is_gone(case):
    return case.trainjob is None and case.jobset is None


def has_its_own_jobset(case):
    if not case.trainjob or not case.jobset:
        return False
    (owner,) = case.jobset["metadata"].get("ownerReferences") or ({"uid": None},)
    return (
        owner["uid"] == case.trainjob["metadata"]["uid"]
        and "deletionTimestamp" not in case.jobset["metadata"]
    )


def is_in_conflict(case):
    return case.condition("Blocked") == ("True", "JobSetConflict")


GAPS = (
    Gap("it is made", nothing, lambda case: case.create(PLAIN), has_its_own_jobset),
    Gap("it is suspended, resumed and suspended", running, _suspend_thrice, is_suspended),
    Gap("it comes to its end", running, complete, is_complete),
    Gap("its JobSet is deleted", running, Case.delete_jobset, has_its_own_jobset, creates=2),
    Gap("it is deleted", running, Case.delete, is_gone),
    Gap("it is deleted and made anew", running, _make_anew, has_its_own_jobset, creates=2),
    Gap("it is made, and its JobSet's name is taken", nothing, squat, is_in_conflict, creates=0),
)


def each(function, items):
    """The function of each, all at the same time."""
    items = list(items)
    with ThreadPoolExecutor(max_workers=max(1, len(items))) as pool:
        return list(pool.map(function, items))


def begin(scene, gaps=GAPS):
    """Cases, as they are before the gap."""
    cases = [(scene.case(), gap) for gap in gaps]
    each(lambda pair: pair[1].before(pair[0]), cases)
    return cases


def happen(cases):
    """What is in the gap."""
    each(lambda pair: pair[1].within(pair[0]), cases)


def come_right(cases):
    """Wait until all is as it is to be; it has cost no write too many, and broken nothing on the way."""

    def one(pair):
        case, gap = pair
        case.until(gap.what, lambda: gap.after(case))
        came = outcome(case)
        assert gap.after(case), f"{gap.what}: it did not stay so: {case.state()}"
        assert came.creates.get(f"jobsets {NAME}", 0) == gap.creates, f"{gap.what}: {case.state()}"
        assert came.deletes == {}, f"{gap.what}: {case.state()}"
        assert violations(case) == [], gap.what

    each(one, cases)
