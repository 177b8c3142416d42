"""Kueue decides when a TrainJob starts: quota, borrowing, priorities, and what pods carry."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import OPERATOR, UNTIL_TOLD, Cluster, Object, emptied, finish, shows
from tests.support.patience import eventually
from trainyard_platform.parts.queues import manifests as queue_manifests
from trainyard_platform.parts.queues.settings import Queues

from .queues import queued, said, workload

pytestmark = pytest.mark.sandbox(area="queues")

GATES = "kueue.x-k8s.io/admission-gated-by"


def evictions(cluster: Cluster, job: str) -> list[str]:
    """Why a job's Workload was evicted, once it was: its condition says so until it is admitted again."""

    def ask() -> list[str]:
        status = workload(cluster, job).get("status", {})
        return [one["reason"] for one in status.get("schedulingStats", {}).get("evictions", [])]

    found: list[str] = eventually(f"the Workload of {job} is evicted", ask)
    return found


def running(cluster: Cluster, job: str) -> Object:
    """The job's one pod, once it runs."""

    def ask() -> Object | None:
        return next((p for p in cluster.pods(job) if p["status"].get("phase") == "Running"), None)

    found: Object = eventually(f"{job} runs", ask)
    return found


def stays_without_pods(cluster: Cluster, job: str, beside: Cluster, runs: str, seconds: float = 10) -> None:
    """For a while a job has no pod, while another one runs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert cluster.pods(job) == []
        [pod] = beside.pods(runs)
        assert pod["status"]["phase"] == "Running", pod["status"]
        time.sleep(1)


def test_two_tenants_share_a_cohort_and_who_comes_too_late_waits_without_a_pod(
    team_a: Cluster, team_b: Cluster
) -> None:
    team_a.apply(queued("owns", "500m", UNTIL_TOLD))
    own = running(team_a, "owns")
    team_a.apply(queued("borrows", "500m", UNTIL_TOLD))
    running(team_a, "borrows")
    # Nothing is left to borrow: it waits, and says for what.
    team_a.apply(queued("waits", "500m"))
    waiting = said(team_a, "waits", "QuotaReserved", "False")
    assert "insufficient unused quota for cpu in flavor cpu" in waiting["message"]
    team_a.wait_for_condition("waits", "Suspended")
    shows(team_a, "waits", STATE="Queued", NODES="0/1", REASON="Suspended", QUEUE="default")
    stays_without_pods(team_a, "waits", team_a, "owns")
    # What was borrowed is given back to its owner.
    team_b.apply(queued("reclaims", "500m", UNTIL_TOLD))
    reclaims = running(team_b, "reclaims")
    assert evictions(team_a, "borrows") == ["Preempted"]
    finish(team_b, reclaims)
    team_b.wait_for_condition("reclaims", "Complete")
    finish(team_a, own)
    team_a.wait_for_condition("owns", "Complete")
    team_a.wait_for_condition("waits", "Complete")


@pytest.mark.core
def test_a_job_that_is_sent_suspended_waits_with_free_quota_until_it_is_resumed(team_a: Cluster) -> None:
    late = queued("late", "100m", UNTIL_TOLD)
    late["spec"]["suspend"] = True
    team_a.apply(late)
    beside = queued("beside", "100m", UNTIL_TOLD)
    team_a.apply(beside)
    other = running(team_a, "beside")
    stays_without_pods(team_a, "late", team_a, "beside")
    shows(team_a, "late", STATE="Suspended", NODES="0/1", REASON="Suspended", QUEUE="default")
    shows(team_a, "beside", STATE="Running", NODES="1/1", REASON="", QUEUE="default")
    told = team_a.run("trainyard", "explain", "late", "-n", "team-a", check=False).stdout
    assert "SentSuspended" in told, told
    assert "LocalQueue default does not admit it before it is resumed" in told
    resume = next(line for line in told.splitlines() if "kubectl patch" in line).partition("kubectl ")[2]
    team_a.run("sh", "-c", f"kubectl {resume}")
    pod = running(team_a, "late")
    assert GATES not in team_a.get("trainjob", "late")["metadata"].get("annotations", {})
    for one in (pod, other):
        finish(team_a, one)
    team_a.wait_for_condition("late", "Complete")
    shows(team_a, "late", STATE="Complete", NODES="", REASON="AllJobsCompleted", QUEUE="default")


def test_pods_carry_the_flavors_node_selector_and_tolerations(team_a: Cluster) -> None:
    team_a.apply(queued("carries", "100m", UNTIL_TOLD))
    pod = running(team_a, "carries")
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert {"key": "trainyard.dev/batch", "operator": "Exists"} in pod["spec"]["tolerations"]


def test_a_job_that_can_never_fit_says_why(team_a: Cluster) -> None:
    team_a.apply(queued("too-big", "64"))
    refused = said(team_a, "too-big", "QuotaReserved", "False")
    assert (
        "insufficient quota for cpu in flavor cpu, previously considered podsets requests (0)"
        in (refused["message"])
    )
    assert "maximum capacity (1)" in refused["message"]
    assert team_a.pods("too-big") == []


@pytest.mark.core
def test_a_high_priority_takes_the_quota_of_a_low_one_which_goes_on_after_it(
    team_a: Cluster, team_b: Cluster
) -> None:
    # Nothing can be borrowed: a share of one's own is what there is to preempt for.
    team_b.apply(queued("fills", "500m", UNTIL_TOLD))
    running(team_b, "fills")
    team_a.apply(queued("low", "500m", UNTIL_TOLD, priority="low"))
    first = running(team_a, "low")
    team_a.apply(queued("high", "500m", UNTIL_TOLD, priority="high"))
    high = running(team_a, "high")
    assert evictions(team_a, "low") == ["Preempted"]
    eventually("its pod is gone", lambda: team_a.pods("low") == [])
    stays_without_pods(team_a, "low", team_a, "high")
    told = team_a.run("trainyard", "explain", "low", "-n", "team-a", check=False).stdout
    assert "Preempted to accommodate TrainJob team-a/high due to prioritization" in told, told
    finish(team_a, high)
    team_a.wait_for_condition("high", "Complete")
    second = running(team_a, "low")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    finish(team_a, second)
    team_a.wait_for_condition("low", "Complete")


def flavor(label: str, toleration: str) -> Object:
    """A flavor that the sandbox's node has, and that pods can be told by."""
    return {
        "nodeLabels": {label: {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}[label]},
        "tolerations": [{"key": toleration, "operator": "Exists"}],
    }


@pytest.fixture
def mover(platform: Cluster) -> Iterator[Cluster]:
    """A namespace whose queue has two flavors, and preempts on the first before it tries the second."""
    quota = {"cpu": {"nominal": "400m"}, "memory": {"nominal": "1Gi"}}
    flavors = {
        "flavor-a": flavor("kubernetes.io/os", "only-a"),
        "flavor-b": flavor("kubernetes.io/arch", "only-b"),
    }
    queue = {
        "resourceGroups": [{"flavors": [{"name": name, "resources": quota} for name in flavors]}],
        "flavorFungibility": {"whenCanPreempt": "MayStopSearch"},
    }
    name = "moves"
    door = {"name": "default", "namespace": name, "clusterQueue": name}
    settings = {"flavors": flavors, "clusterQueues": {name: queue}, "localQueues": [door]}
    labels = {"trainyard.dev/tenant": name}
    platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    platform.apply(*queue_manifests.manifests(Queues.model_validate(settings)))
    yield from emptied(platform.within(name))


A = ({"kubernetes.io/os": "linux"}, ["only-a"])
B = ({"kubernetes.io/arch": "amd64"}, ["only-b"])


def placement(pod: Object) -> tuple[Any, list[str]]:
    """The node selector of a pod, and what it tolerates of what a flavor may say."""
    tolerated = [one["key"] for one in pod["spec"]["tolerations"]]
    return pod["spec"].get("nodeSelector"), [key for key in tolerated if key.startswith("only-")]


def test_a_job_preempted_from_one_flavor_and_admitted_on_another_carries_nothing_of_the_first(
    mover: Cluster,
) -> None:
    """Its JobSet stays, with whatever volumes it has; the Jobs that were on the first flavor are made anew.

    JobSet 0.12 by itself would add the second flavor's placement to what the Jobs have.
    """
    mover.apply(queued("moves", "400m", UNTIL_TOLD, priority="low"))
    before = running(mover, "moves")
    assert placement(before) == A
    jobset = mover.get("jobset", "moves")
    assert jobset is not None
    mover.apply(queued("displaces", "400m", UNTIL_TOLD, priority="high"))
    assert evictions(mover, "moves") == ["Preempted"]
    gone = before["metadata"]["uid"]
    eventually("its pod on A is gone", lambda: all(p["metadata"]["uid"] != gone for p in mover.pods("moves")))
    after = running(mover, "moves")
    assert placement(after) == B
    assert placement(running(mover, "displaces")) == A
    moved = mover.get("jobset", "moves")
    assert moved is not None
    assert moved["metadata"]["uid"] == jobset["metadata"]["uid"]
    assert moved["status"].get("restarts", 0) == 0
    finish(mover, after)
    mover.wait_for_condition("moves", "Complete")
    # Who was never moved kept its Job.
    assert set(mover.audited_writes(OPERATOR, "moves-node-0")) == {"delete jobs"}
    assert set(mover.audited_writes(OPERATOR, "displaces-node-0")) == set()
