"""The cases of Kubeflow Trainer's own integration tests of its webhooks and schemas, one by one.

Both controllers are asked: what Trainer's tests expect is so of Trainer, and of ours.
`Forbidden` (403) is a webhook's answer, `Invalid` (422) the schema's.
"""

from typing import Any

import pytest

from tests.harness.selection import core_if
from tests.support import live
from tests.support.corpus import GOLDEN, load

from .exceptions import LIMITS

pytestmark = pytest.mark.sandbox

OK, FORBIDDEN, INVALID = "OK", "Forbidden", "Invalid"
LONGEST = 1 << 20
"""Characters that an item of a command or of arguments may have."""
PLAIN, INITIALIZED, FLUX = "torch-distributed", "torchtune-llama3.2-1b", "runs-flux"
SPECIFIED = {
    "replicatedJobs": [
        {
            "name": "node",
            "template": {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": "i"}]}}}},
        }
    ]
}


def job(runtime=PLAIN, name="alpha", kind="ClusterTrainingRuntime", **spec):
    return live.trainjob(name, runtime, kind, **spec)


def runtime(kind="TrainingRuntime", name="alpha", labels=None, **spec):
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    whole = {"template": {"spec": SPECIFIED}, **spec}
    return {"apiVersion": live.TRAINER, "kind": kind, "metadata": metadata, "spec": whole}


def policy(*sources):
    return runtime(mlPolicy={source: {} for source in sources})


def patch(manager="acme.io/x", *jobs):
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": list(jobs)}}}}


def patched(name="node", **pod):
    return {"name": name, "template": {"spec": {"template": {"spec": pod}}}}


def grace(seconds):
    return job(runtimePatches=[patch("acme.io/x", patched(terminationGracePeriodSeconds=seconds))])


def uri(which, text):
    return job(INITIALIZED, initializer={which: {"storageUri": text}})


def flux_init():
    added = patched(initContainers=[{"name": "flux-installer"}])
    return job(FLUX, trainer={}, runtimePatches=[patch("acme.io/x", added)])


CREATED = {
    "TrainJob with a namespaced runtime": (job("of-namespace", kind="TrainingRuntime"), OK),
    "TrainJob whose runtime is missing": (job("nope"), FORBIDDEN),
    "model initializer, runtime without": (job(initializer={"model": {}}), FORBIDDEN),
    "dataset initializer, runtime without": (job(initializer={"dataset": {}}), FORBIDDEN),
    "dataset initializer, cluster runtime with": (job(INITIALIZED, initializer={"dataset": {}}), OK),
    "valid torch trainer": (job(trainer={"numNodes": 2, "env": [{"name": "A", "value": "1"}]}), OK),
    "reserved variables": (job(trainer={"env": [{"name": "PET_NNODES", "value": "1"}]}), FORBIDDEN),
    "Flux, numProcPerNode below 1": (job(FLUX, trainer={"numProcPerNode": 0}), FORBIDDEN),
    "Flux, reserved init container": (flux_init(), FORBIDDEN),
    "dataset storageUri invalid": (uri("dataset", "invalid"), INVALID),
    "model storageUri invalid": (uri("model", "invalid"), INVALID),
    "storageUri empty": (uri("dataset", ""), OK),
    "storageUri without a path": (uri("dataset", "hf://"), INVALID),
    "storageUri valid": (uri("dataset", "hf://a/b"), OK),
    "command item of the greatest length": (job(trainer={"command": ["a" * LONGEST]}), OK),
    "command item above it": (job(trainer={"command": ["a" * (LONGEST + 1)]}), INVALID),
    "args item of the greatest length": (job(trainer={"args": ["a" * LONGEST]}), OK),
    "args item above it": (job(trainer={"args": ["a" * (LONGEST + 1)]}), INVALID),
    "name valid": (job(name="alpha-1"), OK),
    "name of 63 characters": (job(name="a" * 63), OK),
    "name with an upper-case letter": (job(name="Alpha"), INVALID),
    "name with a leading digit": (job(name="1alpha"), INVALID),
    "name with a trailing hyphen": (job(name="alpha-"), INVALID),
    "name of more than 63 characters": (job(name="a" * 64), INVALID),
    "managedBy Trainer": (job(managedBy="trainer.kubeflow.org/trainjob-controller"), OK),
    "managedBy MultiKueue": (job(managedBy="kueue.x-k8s.io/multikueue"), OK),
    "managedBy somebody else": (job(managedBy="acme.io/controller"), INVALID),
    "runtimePatches of two replicated jobs": (
        job(INITIALIZED, runtimePatches=[patch("acme.io/x", patched(), patched("dataset-initializer"))]),
        OK,
    ),
    "patch manager valid": (job(runtimePatches=[{"manager": "acme.io/x"}]), OK),
    "patch manager invalid": (job(runtimePatches=[{"manager": "acme"}]), FORBIDDEN),
    "terminationGracePeriodSeconds valid": (grace(30), OK),
    "terminationGracePeriodSeconds negative": (grace(-1), INVALID),
    "terminationGracePeriodSeconds zero": (grace(0), OK),
    "TrainingRuntime": (runtime(), OK),
    "policies mpi and torch": (policy("mpi", "torch"), INVALID),
    "policies jax and torch": (policy("jax", "torch"), INVALID),
    "policies torch and flux": (policy("torch", "flux"), INVALID),
    "policies mpi and flux": (policy("mpi", "flux"), INVALID),
    "policies jax and flux": (policy("jax", "flux"), INVALID),
    "policies jax and mpi": (policy("jax", "mpi"), INVALID),
    "policies of all four": (policy("jax", "mpi", "torch", "flux"), INVALID),
    "mpiImplementation that is not supported": (
        runtime(mlPolicy={"mpi": {"mpiImplementation": "Other"}}),
        INVALID,
    ),
    "ClusterTrainingRuntime": (runtime("ClusterTrainingRuntime"), OK),
}
"""By name: what is created, and the answer."""

UPDATED: dict[str, Any] = {
    "managedBy": ({}, {"managedBy": "kueue.x-k8s.io/multikueue"}, INVALID),
    "runtimeRef": ({}, {"runtimeRef": {"name": "other"}}, INVALID),
    "initializer": (
        {"initializer": {"dataset": {"storageUri": "hf://a/b"}}},
        {"initializer": {"dataset": {"storageUri": "hf://a/c"}}},
        INVALID,
    ),
    "trainer": ({"trainer": {"image": "a"}}, {"trainer": {"image": "b"}}, INVALID),
    "runtimePatches while suspended": (
        {"suspend": True},
        {"runtimePatches": [patch("acme.io/x", patched(nodeSelector={"a": "b"}))]},
        OK,
    ),
    "terminationGracePeriodSeconds": (
        {"suspend": True, "runtimePatches": grace(30)["spec"]["runtimePatches"]},
        {"runtimePatches": grace(60)["spec"]["runtimePatches"]},
        INVALID,
    ),
}
"""By the field of a TrainJob that changes: its spec before, what of it changes, and the answer."""

MPI = runtime(mlPolicy={"mpi": {}})
DEFAULTED = {
    "suspend": (job(), ("suspend",), False),
    "managedBy": (job(), ("managedBy",), "trainer.kubeflow.org/trainjob-controller"),
    "runtimeRef.apiGroup": (job(), ("runtimeRef", "apiGroup"), "trainer.kubeflow.org"),
    "runtimeRef.kind": (
        {**job(), "spec": {"runtimeRef": {"name": PLAIN}}},
        ("runtimeRef", "kind"),
        "ClusterTrainingRuntime",
    ),
    "mpi.mpiImplementation": (MPI, ("mlPolicy", "mpi", "mpiImplementation"), "OpenMPI"),
    "mpi.sshAuthMountPath": (MPI, ("mlPolicy", "mpi", "sshAuthMountPath"), "/root/.ssh"),
    "mpi.runLauncherAsNode": (MPI, ("mlPolicy", "mpi", "runLauncherAsNode"), False),
    "mpi.numProcPerNode": (MPI, ("mlPolicy", "mpi", "numProcPerNode"), 1),
}
"""By field: what is created without it, where it is, and its default."""


@pytest.fixture(scope="module", params=[0, 1], ids=["ours", "reference"])
def side(request, sides, admission):
    """Each controller in turn, with runtimes to refer to."""
    one = sides[request.param]
    for name in (PLAIN, INITIALIZED):
        one.api.apply(*load(GOLDEN / "runtimes" / f"{name}.yaml"))
    unchecked = {"trainer.kubeflow.org/webhook-validation": "disabled"}
    one.api.apply(
        runtime(name="of-namespace"),
        runtime("ClusterTrainingRuntime", FLUX, unchecked, mlPolicy={"flux": {}}),
    )
    return one


@pytest.mark.parametrize("case", core_if(lambda case: CREATED[case][1] != OK, CREATED))
def test_what_is_created_is_let_in_or_refused(side, case):
    manifest, expected = CREATED[case]
    answer = side.api.create(manifest, dry_run=True)
    if side.name == "ours" and case in LIMITS:
        assert (answer.reason, expected) == (FORBIDDEN, OK)
        assert LIMITS[case] in answer.message
    else:
        assert answer.reason == expected, answer.message[-500:]


@pytest.mark.parametrize("field", UPDATED)
def test_what_is_changed_is_let_in_or_refused(side, field):
    before, change, expected = UPDATED[field]
    name = f"changes-{list(UPDATED).index(field)}"
    live.done(side.api.create(job(INITIALIZED, name, **before)))
    answer = side.api.merge(live.TRAINER, "TrainJob", name, {"spec": change})
    assert answer.reason == expected, answer.message[-500:]


@pytest.mark.parametrize("field", DEFAULTED)
def test_what_is_left_out_has_its_default(side, field):
    manifest, path, expected = DEFAULTED[field]
    found = live.done(side.api.create(manifest, dry_run=True))["spec"]
    for step in path:
        found = found[step]
    assert found == expected


def test_each_patch_is_given_its_time_when_it_is_made(side):
    patches = [{"manager": "acme.io/x"}, {"manager": "acme.io/y", "time": "2026-01-02T03:04:05Z"}]
    made = live.done(side.api.create(job(runtimePatches=patches), dry_run=True))["spec"]["runtimePatches"]
    assert [patch["manager"] for patch in made] == ["acme.io/x", "acme.io/y"]
    assert made[0]["time"] > "2026"
    assert made[1]["time"] == "2026-01-02T03:04:05Z"


def test_no_case_is_missing():
    assert (len(CREATED), len(UPDATED), len(DEFAULTED)) == (43, 6, 8)
    assert set(LIMITS) <= set(CREATED)
