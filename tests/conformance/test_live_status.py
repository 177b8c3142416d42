"""What both controllers say of a TrainJob as its JobSet goes through its life, which the test writes."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness.selection import asked_for, core_if
from tests.support import live
from tests.support.patience import eventually, nothing_comes

from . import exceptions
from .compare import differences, normal
from .live_status import (
    COMPLETE,
    COMPLETED,
    DONE,
    FAILED,
    READY,
    RESUMED,
    STARTED,
    SUSPENDED,
    THEN,
    TOO_LATE,
    Either,
    Soon,
    condition,
    counts,
    failed,
    jobset_of,
    jobset_says,
    may_say,
    present,
    said,
    says,
    see_jobset,
    status,
    suspend,
)

pytestmark = pytest.mark.sandbox

RUNTIME = "lives"


HELD = condition("Suspended", "True", "SuspendedJobs", "jobset is suspended", THEN)


RESTARTED = failed("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
BY_POLICY = failed("FailJobSetFailurePolicyAction", "jobset failed due to FailJobSet failure policy action")
BROKEN = counts(failed=1)


def delete_jobset(side, name):
    """Step: somebody deletes the JobSet. A new one may be there at once."""
    live.done(side.api.delete(live.JOBSET, "JobSet", name))


def wait(seconds):
    """Step: nothing is done for a while."""
    return lambda side, name: time.sleep(seconds)


LIVES = {
    "it runs to its end": (
        {},
        (jobset_says(jobs=[STARTED]), status(jobs=[STARTED])),
        (jobset_says(jobs=[READY]), status(jobs=[READY])),
        (jobset_says(COMPLETED, jobs=[DONE]), status(COMPLETE, jobs=[DONE])),
    ),
    "it fails": (
        {},
        (jobset_says(jobs=[STARTED]), status(jobs=[STARTED])),
        (jobset_says(FAILED, jobs=[BROKEN]), status(FAILED, jobs=[BROKEN])),
    ),
    "it fails for good after its restarts": (
        {},
        (jobset_says(jobs=[READY]), status(jobs=[READY])),
        (jobset_says(RESTARTED, jobs=[BROKEN]), status(RESTARTED, jobs=[BROKEN])),
    ),
    "it fails by a rule of its failure policy": (
        {},
        (jobset_says(BY_POLICY, jobs=[BROKEN]), status(BY_POLICY, jobs=[BROKEN])),
    ),
    "the whole condition is copied": (
        {},
        (
            jobset_says({**COMPLETED, "observedGeneration": 3, "reason": "Other", "message": "words"}),
            status({**COMPLETE, "observedGeneration": 3, "reason": "Other", "message": "words"}),
        ),
    ),
    "a condition that is False says nothing": (
        {},
        (
            jobset_says({**COMPLETED, "status": "False"}, {**FAILED, "status": "False"}, jobs=[READY]),
            status(jobs=[READY]),
        ),
    ),
    "its jobs come in the JobSet's order": (
        {},
        (
            jobset_says(jobs=[READY, counts("a", failed=1), counts("dataset-initializer", suspended=1)]),
            status(jobs=[READY, counts("a", failed=1), counts("dataset-initializer", suspended=1)]),
        ),
    ),
    "it starts suspended, is resumed and completes": (
        {"suspend": True},
        (jobset_says(HELD, jobs=[counts(suspended=1)]), status(SUSPENDED, jobs=[counts(suspended=1)])),
        (suspend(False), status(RESUMED, jobs=[counts(suspended=1)])),
        (jobset_says(jobs=[READY]), status(RESUMED, jobs=[READY])),
        (jobset_says(COMPLETED, jobs=[DONE]), status(RESUMED, COMPLETE, jobs=[DONE])),
    ),
    "it is suspended while it runs, twice, and fails": (
        {},
        (jobset_says(jobs=[READY]), status(jobs=[READY])),
        (suspend(True), status(SUSPENDED, jobs=[READY])),
        (suspend(False), status(RESUMED, jobs=[READY])),
        (suspend(True), status(SUSPENDED, jobs=[READY])),
        (jobset_says(HELD, jobs=[counts(suspended=1)]), status(SUSPENDED, jobs=[counts(suspended=1)])),
        (suspend(False), status(RESUMED, jobs=[counts(suspended=1)])),
        (jobset_says(FAILED, jobs=[BROKEN]), status(RESUMED, FAILED, jobs=[BROKEN])),
    ),
    "its JobSet is deleted as it runs, and there is a new one": (
        {},
        (jobset_says(jobs=[READY]), status(jobs=[READY])),
        (delete_jobset, status()),
        (see_jobset, status()),
        (jobset_says(jobs=[STARTED]), status(jobs=[STARTED])),
    ),
    "it is suspended when it is done already": (
        {},
        (jobset_says(COMPLETED, jobs=[DONE]), status(COMPLETE, jobs=[DONE])),
        (suspend(True), status(COMPLETE, SUSPENDED, jobs=[DONE])),
    ),
    "its deadline passes": ({"activeDeadlineSeconds": 2}, (wait(0), status(TOO_LATE))),
    "its deadline passes as it runs": (
        # Long enough for counts to be written first, also where much else runs.
        {"activeDeadlineSeconds": 40},
        (jobset_says(jobs=[READY]), status(jobs=[READY])),
        # The reference has the counts or none, as it looks before or after its JobSet is gone.
        (wait(0), Either(status(TOO_LATE, jobs=[READY]), status(TOO_LATE))),
    ),
    "no deadline passes while it is suspended": (
        {"activeDeadlineSeconds": 3, "suspend": True},
        (wait(4), status(SUSPENDED)),
        (suspend(False), Soon(status(RESUMED), status(RESUMED, TOO_LATE))),
        (wait(0), status(RESUMED, TOO_LATE)),
    ),
    "it is done before its deadline": (
        {"activeDeadlineSeconds": 40},
        (jobset_says(COMPLETED, jobs=[DONE]), status(COMPLETE, jobs=[DONE])),
        (wait(40), status(COMPLETE, jobs=[DONE])),
    ),
}
"""By name: what the TrainJob's spec has, then each step and what the TrainJob says after it."""
CORE = (
    "it runs to its end",
    "it fails",
    "it fails for good after its restarts",
    "it fails by a rule of its failure policy",
    "the whole condition is copied",
    "a condition that is False says nothing",
    "its jobs come in the JobSet's order",
    "it starts suspended, is resumed and completes",
    "it is suspended while it runs, twice, and fails",
    "its JobSet is deleted as it runs, and there is a new one",
)


def fail_and_delete(side, name):
    see_jobset(side, name)
    goes_through(side, name, [(jobset_says(FAILED), status(FAILED))])
    delete_jobset(side, name)


NOT_SUPPORTED = condition(
    "Failed", "True", "TrainingRuntimeNotSupported", "unsupported runtime: Foo.trainer.kubeflow.org"
)
APART: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "its JobSet goes after it has failed": (
        {},
        fail_and_delete,
        {"ours": (status(FAILED), False), "reference": (status(FAILED), True)},
    ),
    "its runtime is of a kind that there is not": (
        {"runtimeRef": {"name": "x", "kind": "Foo"}},
        wait(0),
        {"ours": (status(NOT_SUPPORTED), False), "reference": (status(), False)},
    ),
}
"""By name: the TrainJob's spec, a last step, and by controller the status and whether there is a JobSet."""


@pytest.fixture(scope="module")
def lives(request, sides):
    """All lives that are asked for, by name, which go on side by side."""
    pods = {"spec": {"containers": [{"name": "node", "image": "i"}]}}
    metadata = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {"name": "node", "template": {"metadata": metadata, "spec": {"template": pods}}}
    runtime = {
        "apiVersion": live.TRAINER,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": RUNTIME},
        "spec": {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": [job]}}},
    }
    for side in sides:
        side.api.apply(runtime)
    with ThreadPoolExecutor(6) as pool:
        yield {
            life: pool.submit(live_through, sides, f"life-{number}", *LIVES[life])
            for number, life in enumerate(asked_for(request, "life"))
            if life in LIVES
        }


def goes_through(side, name, steps):
    """Take each step, and see that the TrainJob says what is expected after it."""
    for number, (step, expected) in enumerate(steps):
        step(side, name)
        says(side, name, expected, number)


def live_through(sides, name, spec, *steps):
    """One life, with both controllers."""
    for side in sides:
        # With a trainer, or ours would have variables that the reference leaves out.
        live.done(side.api.create(live.trainjob(name, RUNTIME, trainer={}, **spec)))
        # One that is soon past its deadline can be so before anybody has seen that it had a JobSet.
        if spec.get("suspend") or spec.get("activeDeadlineSeconds", 60) > 5:
            see_jobset(side, name)
    live.at_once(lambda side: goes_through(side, name, steps), sides)
    if TOO_LATE in may_say(steps[-1][1])[0].get("conditions", ()):
        for side in sides:
            eventually("its JobSet is gone", lambda side=side: not present(side, name))
    else:
        for side in sides:
            see_jobset(side, name)
        assert differences(*(normal(jobset_of(side, name)) for side in sides)) == {}


@pytest.mark.parametrize("life", core_if(CORE.__contains__, LIVES))
def test_both_controllers_say_the_same(lives, life):
    lives[life].result()


@pytest.mark.parametrize("life", APART)
def test_ours_is_another_answer(sides, lives, life):
    """By a quirk of the reference, which has to show."""
    spec, last, answers = APART[life]
    assert answers["ours"] != answers["reference"]
    name = f"apart-{exceptions.LIVES[life].quirk}"
    for side in sides:
        live.done(side.api.create(live.trainjob(name, RUNTIME, **spec)))
        last(side, name)
    for side in sides:
        expected, has_jobset = answers[side.name]
        says(side, name, expected)
        eventually("its JobSet, or none", lambda side=side, there=has_jobset: present(side, name) is there)
    nothing_comes(2)
    assert {side.name: (said(side, name), present(side, name)) for side in sides} == answers


def test_every_exception_is_one_of_a_life():
    assert set(exceptions.LIVES) == set(APART)
