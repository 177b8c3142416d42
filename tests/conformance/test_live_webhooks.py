"""What both controllers answer when the API server asks their webhooks."""

from typing import Any

import pytest

from tests.harness.selection import asked_for, core_if
from tests.support import live
from tests.support.corpus import GOLDEN, cases, load
from tests.support.patience import eventually

from .compare import plain
from .exceptions import ADMISSION
from .live_builds import CASES as BUILDS
from .live_builds import manifests

pytestmark = pytest.mark.sandbox

REJECTED = cases(GOLDEN / "rejected")
CASES = [*REJECTED, *BUILDS, "trainingruntime-update"]


@pytest.fixture(scope="module")
def answers(request, sides, admission):
    """By controller and case that this run has: code, text and warnings."""
    builds = frozenset(asked_for(request, "case", every=CASES)).intersection(BUILDS)
    return {side.name: asked(side, builds) for side in sides}


def asked(side, builds):
    runtimes, jobs = manifests(builds)
    live.at_once(side.api.apply, runtimes)
    found = dict(zip(REJECTED, live.at_once(lambda case: rejected(side, case), REJECTED), strict=True))
    created = live.at_once(lambda job: side.api.create(job, dry_run=True), jobs.values())
    found |= dict(zip(jobs, created, strict=True))
    found["trainingruntime-update"] = runtime_update(side)
    return {
        case: (answer.code, plain(answer.message), others(answer.warnings)) for case, answer in found.items()
    }


OUR_WARNINGS = (
    "spec.trainer.env: ranks on other nodes do not get ",
    "spec.trainer.image: applies only to pods of ",
    "spec.trainer.numNodes: 1 makes two pods",
    "spec.trainer.numProcPerNode: ",
    "spec.trainer.resourcesPerNode: each node has ",
    "spec.trainer.resourcesPerNode: with what the runtime sets, ",
)
"""How they begin: variables that mpirun does not pass on, which pods keep the runtime's image, the pods of
one node with MPI, processes that share a device or that nobody starts, XGBoost's workers of several GPUs, and
a request and a limit that Kubernetes refuses together."""


def others(warnings):
    """Without what ours alone says."""
    return tuple(w for w in warnings if not w.startswith(OUR_WARNINGS))


def rejected(side, case):
    """The answer to a TrainJob of the corpus; of two, to the change from the second to the first."""
    job, *before = (named(job, f"rejected-{case}") for job in load(GOLDEN / "rejected" / f"{case}.yaml"))
    if not before:
        return side.api.create(job, dry_run=True)
    (old,) = before
    name = old["spec"]["runtimeRef"]["name"]
    runtimes, _ = manifests(frozenset())
    gone = not any(runtime["metadata"]["name"] == name for runtime in runtimes)
    if gone:
        side.api.apply(named(runtimes[0], name))
    # The reference believes its cache, which may not have the new runtime yet.
    eventually("it is created", lambda: live.done(side.api.create(old)))
    if gone:
        eventually("its JobSet", lambda: side.api.get(live.JOBSET, "JobSet", old["metadata"]["name"]))
        live.done(side.api.delete(live.TRAINER, "ClusterTrainingRuntime", name))
    # A controller may have written its status since, so no replacement of what was created.
    changed = {"spec": job["spec"]}
    return side.api.merge(live.TRAINER, "TrainJob", old["metadata"]["name"], changed, dry_run=True)


def runtime_update(side):
    """The answer to a TrainingRuntime that is changed so that it could not have been made."""
    pod = {"spec": {"containers": [{"name": "node", "image": "i"}]}}
    metadata = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    jobs: list[dict[str, Any]] = [
        {"name": "node", "template": {"metadata": metadata, "spec": {"template": pod}}}
    ]
    runtime = {
        "apiVersion": live.TRAINER,
        "kind": "TrainingRuntime",
        "metadata": {"name": "changes"},
        "spec": {"template": {"spec": {"replicatedJobs": jobs}}},
    }
    stored = live.done(side.api.create(runtime))
    jobs[0]["replicas"] = 2
    return side.api.replace({**stored, "spec": runtime["spec"]}, dry_run=True)


def named(manifest, name):
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


@pytest.mark.parametrize("case", core_if(REJECTED.__contains__, CASES))
def test_both_controllers_answer_the_same(answers, case):
    """But for the quirks of design, where the answers have to differ."""
    ours, reference = answers["ours"][case], answers["reference"][case]
    assert (ours == reference) is (case not in ADMISSION), (ours, reference)


def test_every_case_has_had_an_answer_and_some_were_refused(answers):
    for found in answers.values():
        assert list(found) == CASES
        refused = [case for case, (code, *_) in found.items() if code == 403]
        assert len(refused) >= len(REJECTED) // 2


def test_every_exception_is_one_of_a_case():
    assert set(ADMISSION) <= set(CASES)
