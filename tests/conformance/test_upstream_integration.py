"""The cases of Kubeflow Trainer's own integration tests of its controller, one by one, against ours."""

import time
from datetime import datetime, timedelta

import pytest

from tests.support import live
from tests.support.corpus import GOLDEN, load
from tests.support.patience import eventually, nothing_comes

from .live_status import (
    COMPLETE,
    COMPLETED,
    DONE,
    FAILED,
    READY,
    RESUMED,
    STARTED,
    SUSPENDED,
    TOO_LATE,
    Soon,
    jobset_of,
    jobset_says,
    present,
    says,
    see_jobset,
    status,
    suspend,
)
from .upstream_pods import node_pod, variables

pytestmark = pytest.mark.sandbox

CLUSTER, NAMESPACED = "ClusterTrainingRuntime", "TrainingRuntime"
TRAINER = "trainer.kubeflow.org/trainjob-ancestor-step"
SHIPPED = ("torch-distributed", "deepspeed-distributed", "jax-distributed", "xgboost-distributed")
MASTER = "{0}-node-0-0.{0}"


def step(ancestor, container, **pod):
    """A ReplicatedJob of one container that asks for a CPU and 4 GiB."""
    one = {"name": container, "image": "i", "resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}
    template = {"spec": {"containers": [{**one, **pod}]}}
    metadata = {"labels": {TRAINER: ancestor}}
    name = "node" if ancestor == "trainer" else ancestor
    return {"name": name, "template": {"metadata": metadata, "spec": {"template": template}}}


def runtime(name, *jobs, kind=NAMESPACED, **spec):
    whole = {**spec, "template": {"spec": {"replicatedJobs": list(jobs)}}}
    return {"apiVersion": live.TRAINER, "kind": kind, "metadata": {"name": name}, "spec": whole}


def patch(metadata=None, **pod):
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}] if pod else []
    template = {"spec": {"replicatedJobs": jobs}, **({"metadata": metadata} if metadata else {})}
    return {"manager": "acme.io/x", "trainingRuntimeSpec": {"template": template}}


def create(side, name, of, kind=CLUSTER, **spec):
    live.done(side.api.create(live.trainjob(name, of, kind, **spec)))


def created(side, name, of, kind=CLUSTER, **spec):
    """The JobSet of a TrainJob that is new."""
    create(side, name, of, kind, **spec)
    see_jobset(side, name)
    return jobset_of(side, name)


def ends(side, name, of, last, condition):
    """A suspended TrainJob is resumed, and its JobSet ends."""
    created(side, name, of, suspend=True)
    says(side, name, status(SUSPENDED))
    suspend(False)(side, name)
    says(side, name, status(RESUMED))
    jobset_says(last)(side, name)
    says(side, name, status(RESUMED, condition))


def completes(of):
    return lambda side, name: ends(side, name, of, COMPLETED, COMPLETE)


def fails(of):
    return lambda side, name: ends(side, name, of, FAILED, FAILED)


# --- PlainML ------------------------------------------------------------------


def plain_is_created(side, name):
    initializers = [step(which, which) for which in ("dataset-initializer", "model-initializer")]
    gang = {"coscheduling": {"scheduleTimeoutSeconds": 100}}
    side.api.apply(
        runtime(name, *initializers, step("trainer", "node"), mlPolicy={"numNodes": 100}, podGroupPolicy=gang)
    )
    metadata = {"labels": {"l": "1"}, "annotations": {"a": "1"}}
    jobset = created(side, name, name, NAMESPACED, runtimePatches=[patch(metadata)])
    assert jobset["metadata"]["labels"] == {"l": "1"}
    assert jobset["metadata"]["annotations"]["a"] == "1"
    group = side.api.get("scheduling.x-k8s.io/v1alpha1", "PodGroup", name)
    assert group["spec"] == {
        "minMember": 102,
        "minResources": {"cpu": "102", "memory": "408Gi"},
        "scheduleTimeoutSeconds": 100,
    }


def managed_elsewhere(side, name):
    create(side, name, "torch-distributed", managedBy="kueue.x-k8s.io/multikueue")
    nothing_comes(2)
    assert not present(side, name)


def suspended_is_updated(side, name):
    gang = {"coscheduling": {}}
    side.api.apply(runtime(name, step("trainer", "node"), mlPolicy={}, podGroupPolicy=gang))
    created(side, name, name, NAMESPACED, suspend=True, trainer={"image": "one"})
    changed = patch({"labels": {"l": "2"}, "annotations": {"a": "2"}}, nodeSelector={"zone": "z"})
    live.done(side.api.merge(live.TRAINER, "TrainJob", name, {"spec": {"runtimePatches": [changed]}}))
    eventually("it is patched", lambda: node_pod(jobset_of(side, name)).get("nodeSelector") == {"zone": "z"})
    jobset = jobset_of(side, name)
    assert (jobset["spec"]["suspend"], jobset["metadata"]["labels"]) == (True, {"l": "2"})
    assert jobset["metadata"]["annotations"]["a"] == "2"
    assert side.api.get("scheduling.x-k8s.io/v1alpha1", "PodGroup", name) is not None
    refused = side.api.merge(live.TRAINER, "TrainJob", name, {"spec": {"trainer": {"image": "two"}}})
    assert refused.reason == "Invalid"


def grace_period(side, name):
    patches = [patch(terminationGracePeriodSeconds=60)]
    jobset = created(side, name, "torch-distributed", runtimePatches=patches)
    assert node_pod(jobset)["terminationGracePeriodSeconds"] == 60


# --- PyTorch ------------------------------------------------------------------


def torch_is_created(side, name):
    trainer = {"numNodes": 3, "numProcPerNode": 4, "env": [{"name": "TRAIN_JOB", "value": "v"}]}
    jobset = created(side, name, "torch-distributed", trainer=trainer)
    assert list(variables(jobset).items()) == [
        ("TRAIN_JOB", "v"),
        ("PET_NNODES", "3"),
        ("PET_NPROC_PER_NODE", "4"),
        ("PET_NODE_RANK", None),
        ("PET_MASTER_ADDR", MASTER.format(name)),
        ("PET_MASTER_PORT", "29500"),
    ]
    (port,) = node_pod(jobset)["containers"][0]["ports"]
    assert port["containerPort"] == 29500


def jobs_status(side, name):
    created(side, name, "torch-distributed")
    for counts in (STARTED, READY, DONE):
        jobset_says(jobs=[counts])(side, name)
        says(side, name, status(jobs=[counts]))


def patched_initializer(side, name):
    which = "dataset-initializer"
    mounted = {"volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}]}
    first = step(which, which, env=[{"name": "INIT_ENV", "value": "rt"}], **mounted)
    side.api.apply(runtime(name, first, step("trainer", "node"), mlPolicy={"torch": {}}))
    pod = {
        "serviceAccountName": "sa",
        "volumes": [{"name": "v", "emptyDir": {}}],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }
    wanted = [{"name": "NEW_VALUE", "value": "1"}, {"name": "DATASET_PATH", "value": "/p"}]
    patches = [patch({"labels": {"l": "1"}, "annotations": {"a": "1"}}, **pod)]
    initializer = {"dataset": {"env": wanted}}
    jobset = created(side, name, name, NAMESPACED, runtimePatches=patches, initializer=initializer)
    assert list(variables(jobset, which)) == ["INIT_ENV", "NEW_VALUE", "DATASET_PATH"]
    assert {field: node_pod(jobset)[field] for field in pod} == pod
    assert jobset["metadata"]["labels"] == {"l": "1"}
    assert jobset["metadata"]["annotations"]["a"] == "1"


# --- Open MPI, JAX, XGBoost, Flux -----------------------------------------------


def mpi_is_created(side, name):
    created(side, name, "deepspeed-distributed", trainer={"numNodes": 2, "numProcPerNode": 8})
    hosts = side.api.get("v1", "ConfigMap", f"{name}-mpi-hostfile")["data"]["hostfile"]
    assert hosts == f"{name}-node-0-0.{name} slots=8\n{name}-launcher-0-0.{name} slots=8\n"
    secret = side.api.get("v1", "Secret", f"{name}-mpi-ssh-auth")
    assert (secret["type"], secret["immutable"]) == ("kubernetes.io/ssh-auth", True)
    assert set(secret["data"]) == {"ssh-privatekey", "ssh-publickey"}
    assert all(secret["data"].values())


def jax_is_created(side, name):
    found = variables(created(side, name, "jax-distributed", trainer={"numNodes": 2}))
    assert found == {
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": None,
        "JAX_COORDINATOR_ADDRESS": MASTER.format(name) + ":29500",
    }


def xgboost_is_created(side, name):
    found = variables(created(side, name, "xgboost-distributed", trainer={"numNodes": 2}))
    assert found == {
        "DMLC_TRACKER_URI": MASTER.format(name),
        "DMLC_TRACKER_PORT": "29500",
        "DMLC_TASK_ID": None,
        "DMLC_NUM_WORKER": "2",
    }


def flux_is_refused(side, name):
    """Out of scope: such a job is never let in, and so has no end either."""
    manifest = runtime(name, step("trainer", "node"), mlPolicy={"flux": {}})
    refused = side.api.create(manifest)
    assert (refused.reason, "flux" in refused.message) == ("Forbidden", True)
    unchecked = {"labels": {"trainer.kubeflow.org/webhook-validation": "disabled"}}
    side.api.apply({**manifest, "metadata": {**manifest["metadata"], **unchecked}})
    assert side.api.create(live.trainjob(name, name, NAMESPACED, trainer={})).reason == "Forbidden"


# --- Deadlines ------------------------------------------------------------------


def deadline_passes(side, name):
    create(side, name, "torch-distributed", activeDeadlineSeconds=2)
    says(side, name, status(TOO_LATE))
    eventually("its JobSet is gone", lambda: not present(side, name))


def deadline_is_met(side, name):
    created(side, name, "torch-distributed", activeDeadlineSeconds=60)
    jobset_says(COMPLETED)(side, name)
    says(side, name, status(COMPLETE))
    assert present(side, name)


def deadline_while_suspended(side, name):
    created(side, name, "torch-distributed", activeDeadlineSeconds=1, suspend=True)
    nothing_comes(3)
    says(side, name, status(SUSPENDED))


def deadline_from_the_resume(side, name):
    created(side, name, "torch-distributed", activeDeadlineSeconds=4, suspend=True)
    time.sleep(4)
    suspend(False)(side, name)
    says(side, name, Soon(status(RESUMED), status(RESUMED, TOO_LATE)))
    says(side, name, status(RESUMED, TOO_LATE))
    conditions = side.api.get(live.TRAINER, "TrainJob", name)["status"]["conditions"]
    resumed, late = (datetime.fromisoformat(one["lastTransitionTime"]) for one in conditions)
    assert late - resumed >= timedelta(seconds=3), "four, of which both times say whole seconds"


# --- Runtimes, which a job keeps as they were -----------------------------------


def runtime_is_kept(kind):
    """Instead of a snapshot in a ConfigMap: a revision, which the JobSet names (docs/adr/0004)."""

    def case(side, name):
        kept = runtime(name, step("trainer", "node"), kind=kind, mlPolicy={})
        side.api.apply(kept)
        jobset = created(side, name, name, kind)
        revision = jobset["metadata"]["annotations"]["trainyard.dev/runtime-revision"]
        found = side.api.get("apps/v1", "ControllerRevision", revision, "trainyard-system")
        uid = side.api.get(live.TRAINER, kind, name)["metadata"]["uid"]
        assert found["metadata"]["labels"]["trainyard.dev/runtime-uid"] == uid

    return case


def kept_runtime_is_used(side, name):
    side.api.apply(runtime(name, step("trainer", "node", image="one"), mlPolicy={}))
    created(side, name, name, NAMESPACED, suspend=True)
    side.api.apply(runtime(name, step("trainer", "node", image="two"), mlPolicy={}))
    suspend(False)(side, name)
    says(side, name, status(RESUMED))
    eventually("it is resumed", lambda: jobset_of(side, name)["spec"]["suspend"] is False)
    assert node_pod(jobset_of(side, name))["containers"][0]["image"] == "one"


def runtime_of_a_job_from_before(side, name):
    """A TrainJob whose revision was never recorded, or is lost, gets one of the live runtime."""
    side.api.apply(runtime(name, step("trainer", "node"), mlPolicy={}))
    jobset = created(side, name, name, NAMESPACED, suspend=True)
    revision = jobset["metadata"]["annotations"]["trainyard.dev/runtime-revision"]
    live.done(side.api.delete("apps/v1", "ControllerRevision", revision, "trainyard-system"))
    live.done(side.api.delete(live.JOBSET, "JobSet", name))
    eventually(
        "it is recorded anew",
        lambda: side.api.get("apps/v1", "ControllerRevision", revision, "trainyard-system"),
    )
    see_jobset(side, name)


def runtime_can_be_deleted(kind):
    def case(side, name):
        side.api.apply(runtime(name, step("trainer", "node"), kind=kind, mlPolicy={}))
        created(side, name, name, kind)
        live.done(side.api.delete(live.TRAINER, kind, name))
        assert side.api.get(live.TRAINER, kind, name) is None

    return case


CASES = {
    "PlainML: a TrainJob with a TrainingRuntime": plain_is_created,
    "PlainML: managed by an external controller": managed_elsewhere,
    "PlainML: the JobSet is updated while suspended": suspended_is_updated,
    "PlainML: terminationGracePeriodSeconds of a patch": grace_period,
    "Torch: created": torch_is_created,
    "Torch: Complete": completes("torch-distributed"),
    "Torch: Failed": fails("torch-distributed"),
    "Torch: jobsStatus": jobs_status,
    "Torch: runtimePatches": patched_initializer,
    "OpenMPI: created": mpi_is_created,
    "OpenMPI: Complete": completes("deepspeed-distributed"),
    "OpenMPI: Failed": fails("deepspeed-distributed"),
    "Timeouts: exceeded": deadline_passes,
    "Timeouts: not exceeded": deadline_is_met,
    "Timeouts: not while suspended": deadline_while_suspended,
    "Timeouts: reset upon resume": deadline_from_the_resume,
    "Jax: created": jax_is_created,
    "Jax: Complete": completes("jax-distributed"),
    "Jax: Failed": fails("jax-distributed"),
    "XGBoost: created": xgboost_is_created,
    "XGBoost: Complete": completes("xgboost-distributed"),
    "XGBoost: Failed": fails("xgboost-distributed"),
    "Flux: created": flux_is_refused,
    "Flux: Complete": flux_is_refused,
    "Flux: Failed": flux_is_refused,
    "Snapshots: of a TrainingRuntime": runtime_is_kept(NAMESPACED),
    "Snapshots: of a ClusterTrainingRuntime": runtime_is_kept(CLUSTER),
    "Snapshots: used, not the current runtime": kept_runtime_is_used,
    "Snapshots: for a TrainJob from before": runtime_of_a_job_from_before,
    "TrainingRuntime: deleted while referenced": runtime_can_be_deleted(NAMESPACED),
    "ClusterTrainingRuntime: deleted while referenced": runtime_can_be_deleted(CLUSTER),
}
"""By name: takes our side and a name that is the case's own."""


@pytest.fixture(scope="module")
def ours(sides, admission):
    side = sides[0]
    for name in SHIPPED:
        side.api.apply(*load(GOLDEN / "runtimes" / f"{name}.yaml"))
    return side


@pytest.mark.parametrize("case", CASES)
def test_it_does_what_trainers_own_tests_expect(ours, case):
    CASES[case](ours, f"case-{list(CASES).index(case)}")


def test_no_case_is_missing():
    assert len(CASES) == 31
