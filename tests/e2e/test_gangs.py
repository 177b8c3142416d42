"""A gang scheduler starts the pods of a gang together or not at all: Volcano, and coscheduling."""

import time

import pytest

from tests.harness.selection import core_if
from tests.support.cluster import UNTIL_TOLD, Cluster, Object, finish, trainjob
from tests.support.patience import eventually
from trainyard_api.quantity import canonical

from .gangs import VOLCANO, Scheduler, cpu_of_a_pod, gang_runtime

pytestmark = pytest.mark.sandbox(area="queues")

RANK = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"


COSCHEDULING = Scheduler(
    "scheduler-plugins-scheduler",
    "coscheduling",
    "podgroups.scheduling.x-k8s.io",
    ("Pending", "Scheduling"),
)
BOTH = pytest.mark.parametrize("by", [VOLCANO, COSCHEDULING], ids=lambda scheduler: scheduler.policy)
BOTH_CORE = pytest.mark.parametrize(
    "by",
    core_if(lambda scheduler: scheduler is VOLCANO, [VOLCANO, COSCHEDULING]),
    ids=lambda scheduler: scheduler.policy,
)


def mpi_gang_runtime(platform: Cluster, cpu: int, by: Scheduler) -> Object:
    """The catalog's runtime for MPI, whose workers are scheduled as one gang."""
    catalog = platform.get("clustertrainingruntime", "mpi-distributed")
    assert catalog is not None
    spec = {**catalog["spec"], "podGroupPolicy": {by.policy: {}}}
    [workers] = [job for job in spec["template"]["spec"]["replicatedJobs"] if job["name"] == "node"]
    pod = workers["template"]["spec"]["template"]["spec"]
    pod["schedulerName"] = by.name
    pod["containers"][0]["resources"] = {"requests": {"cpu": f"{cpu}m"}}
    head = {"apiVersion": catalog["apiVersion"], "kind": catalog["kind"]}
    labels = {"trainer.kubeflow.org/framework": "mpi"}
    return {**head, "metadata": {"name": f"{by.policy}-mpi-gang", "labels": labels}, "spec": spec}


def gang(name: str, script: str, by: Scheduler = VOLCANO) -> Object:
    job = trainjob(name, script, f"{by.policy}-gang")
    job["spec"]["trainer"]["numNodes"] = 2
    return job


def phases(platform: Cluster, job: str) -> list[str]:
    """What each pod of a job is doing."""
    return [pod["status"]["phase"] for pod in platform.pods(job)]


def bound(platform: Cluster, job: str) -> int:
    """How many pods of a job have a node."""
    return len([pod for pod in platform.pods(job) if pod["spec"].get("nodeName")])


def group(platform: Cluster, job: str, by: Scheduler) -> Object:
    """The job's PodGroup."""
    found = platform.get(by.groups, job)
    assert found is not None
    return found


def runs_whole(platform: Cluster, job: str, cpu: int, by: Scheduler) -> None:
    """A gang that takes most of the node is started."""
    platform.apply(gang_runtime(cpu, by), gang(job, UNTIL_TOLD, by))
    eventually("the first gang runs", lambda: phases(platform, job) == ["Running"] * 2)


def waits_whole(platform: Cluster, job: str, beside: str, cpu: int, by: Scheduler) -> None:
    """Two pods of a gang are there and have no node, for as long as the other gang runs."""
    eventually("its pods are made", lambda: len(platform.pods(job)) == 2)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        assert (len(platform.pods(job)), bound(platform, job)) == (2, 0)
        assert phases(platform, beside) == ["Running"] * 2
        time.sleep(1)
    waiting = group(platform, job, by)
    total = {"cpu": canonical(f"{2 * cpu}m")}
    assert (waiting["spec"]["minMember"], waiting["spec"]["minResources"]) == (2, total)
    assert waiting["status"]["phase"] in by.waiting
    for pod in platform.pods(beside):
        finish(platform, pod)
    platform.wait_for_condition(beside, "Complete")


@pytest.mark.holds("platform")
@BOTH_CORE
def test_of_two_gangs_that_do_not_fit_together_one_runs_whole_and_the_other_waits_whole(
    platform: Cluster, by: Scheduler
) -> None:
    cpu = cpu_of_a_pod(platform)
    first, second = f"{by.policy}-first", f"{by.policy}-second"
    runs_whole(platform, first, cpu, by)
    platform.apply(gang(second, "true", by))
    waits_whole(platform, second, first, cpu, by)
    platform.wait_for_condition(second, "Complete")


@BOTH
def test_the_workers_of_an_mpi_job_start_together_or_not_at_all_and_its_launcher_after_them(
    platform: Cluster, by: Scheduler
) -> None:
    cpu = cpu_of_a_pod(platform)
    first, ranks = f"{by.policy}-before-mpi", f"{by.policy}-mpi"
    runs_whole(platform, first, cpu, by)
    job = trainjob(ranks, runtime=f"{by.policy}-mpi-gang")
    job["spec"]["trainer"] = {"numNodes": 3, "command": ["mpirun", "sh", "-c", RANK]}
    platform.apply(mpi_gang_runtime(platform, cpu, by), job)
    waits_whole(platform, ranks, first, cpu, by)
    platform.wait_for_condition(ranks, "Complete")
    said = platform.said_by_launcher(ranks, r"rank (\d) of 3 on (\S+)", 3)
    assert [rank for rank, _ in said] == ["0", "1", "2"]
    hosts = {f"{ranks}-launcher-0-0", f"{ranks}-node-0-0", f"{ranks}-node-0-1"}
    assert {host for _, host in said} == hosts
