"""Kueue decides when a TrainJob starts: quota, borrowing, priorities, and what pods carry."""

import time
from typing import Any

import pytest
import yaml

from tests.support.cluster import UNTIL_TOLD, Cluster, Object, finish, runtime, shows
from tests.support.patience import LEARNED, STARTED, eventually

from .queues import (
    evictions,
    gives_way_and_goes_on,
    moves_to_another_flavor,
    queued,
    running,
    said,
    stays_without_pods,
    suspend,
    two_flavors,
    waits_until_it_is_resumed,
    workload,
)

pytestmark = pytest.mark.sandbox(area="queues")


@pytest.mark.jobset_queues
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
    shows(team_a, "waits", STATE="Queued", NODES="0/1", REASON="", QUEUE="default")
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


@pytest.mark.jobset_queues
@pytest.mark.core
def test_a_job_that_is_sent_suspended_waits_with_free_quota_until_it_is_resumed(team_a: Cluster) -> None:
    waits_until_it_is_resumed(team_a, gate_on="jobset")


@pytest.mark.jobset_queues
@pytest.mark.core
def test_a_running_job_keeps_its_pod_whatever_becomes_of_its_runtime(team_a: Cluster) -> None:
    """Kueue looks at the JobSet, and not at the runtime as it is now."""
    edited = runtime("edited")
    team_a.apply(edited)
    job = queued("keeps", "100m", UNTIL_TOLD)
    job["spec"]["runtimeRef"] = {"name": "edited"}
    team_a.apply(job)
    pod = running(team_a, "keeps")
    held = workload(team_a, "keeps")["metadata"]["uid"]
    container = edited["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    container["spec"]["containers"][0]["env"] = [{"name": "EDITION", "value": "second"}]
    team_a.apply(edited)
    team_a.kubectl("label", "trainjob", "keeps", "some=label")
    team_a.kubectl("annotate", "jobset", "keeps", "some=annotation")
    kueue = ("deployment/kueue-controller-manager", "-n", "kueue-system")
    team_a.kubectl("rollout", "restart", *kueue)
    team_a.kubectl("rollout", "status", *kueue, "--timeout=120s")
    # Kueue looks at all jobs once it leads: at this one before another that is sent only now.
    team_a.apply(queued("beside", "100m"))
    team_a.wait_for_condition("beside", "Complete")
    assert [p["metadata"]["uid"] for p in team_a.pods("keeps")] == [pod["metadata"]["uid"]]
    assert workload(team_a, "keeps")["metadata"]["uid"] == held
    shows(team_a, "keeps", STATE="Running", NODES="1/1", REASON="", QUEUE="default")
    finish(team_a, pod)
    team_a.wait_for_condition("keeps", "Complete")


@pytest.mark.jobset_queues
def test_a_running_job_that_its_user_suspends_gives_its_quota_back_until_it_is_resumed(
    team_a: Cluster,
) -> None:
    team_a.apply(queued("pauses", "600m", UNTIL_TOLD))
    first = running(team_a, "pauses")
    suspend(team_a, "pauses", True)
    eventually("its pod is gone", lambda: team_a.pods("pauses") == [])
    shows(team_a, "pauses", STATE="Suspended", NODES="0/1", REASON="Suspended", QUEUE="default")
    team_a.apply(queued("takes-its-place", "600m"))
    team_a.wait_for_condition("takes-its-place", "Complete")
    assert team_a.pods("pauses") == []
    told = team_a.run("trainyard", "explain", "pauses", "-n", "team-a", check=False).stdout
    assert "Suspended: spec.suspend is true" in told, told
    suspend(team_a, "pauses", False)
    again = running(team_a, "pauses")
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    finish(team_a, again)
    team_a.wait_for_condition("pauses", "Complete")


@pytest.mark.jobset_queues
def test_a_running_job_that_is_suspended_and_resumed_within_moments_goes_on(team_a: Cluster) -> None:
    team_a.apply(queued("hesitates", "600m", UNTIL_TOLD))
    running(team_a, "hesitates")
    for pause in (0.0, 0.1, 0.3, 1.0):
        suspend(team_a, "hesitates", True)
        time.sleep(pause)
        suspend(team_a, "hesitates", False)
        time.sleep(2 * pause)

    def goes_on() -> Object | None:
        if not workload(team_a, "hesitates")["spec"].get("active", True):
            return None
        pods = (pod for pod in team_a.pods("hesitates") if "deletionTimestamp" not in pod["metadata"])
        return next((pod for pod in pods if pod["status"]["phase"] == "Running"), None)

    finish(team_a, eventually("it runs in its queue", goes_on))
    team_a.wait_for_condition("hesitates", "Complete")


@pytest.mark.long
def test_an_elastic_job_gets_a_new_pod_for_a_lost_one_within_the_quota_that_it_has(team_a: Cluster) -> None:
    job = queued("elastic", "100m")
    job["spec"]["runtimeRef"] = {"name": "torch-elastic"}
    script = f"echo it trains; {UNTIL_TOLD}"
    trainer = {"numNodes": 2, "numProcPerNode": 1, "args": ["--no_python", "sh", "-c", script]}
    job["spec"]["trainer"] = {**trainer, "resourcesPerNode": {"requests": {"cpu": "100m"}}}
    team_a.apply(job)

    def both_run() -> dict[str, Any] | None:
        """The pods by uid, if there are two and both are ready."""
        pods = {pod["metadata"]["uid"]: pod for pod in team_a.pods("elastic")}
        ready = [
            one
            for pod in pods.values()
            for one in pod["status"].get("conditions", [])
            if (one["type"], one["status"]) == ("Ready", "True")
        ]
        return pods if len(pods) == len(ready) == 2 else None

    def trains(pod: str) -> bool:
        return "it trains" in team_a.kubectl("logs", pod, check=False)

    first = eventually("both nodes run", both_run, within=STARTED)
    for pod in first.values():
        # torchrun itself fails if a node is lost while it gathers them: after a minute, and in a new pod.
        eventually("torchrun has both", lambda name=pod["metadata"]["name"]: trains(name), within=LEARNED)
    held = workload(team_a, "elastic")["metadata"]["uid"]
    [lost] = [
        pod
        for pod in first.values()
        if pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1"
    ]
    team_a.kubectl("delete", "pod", lost["metadata"]["name"], "--force", "--grace-period=0")
    again = eventually(
        "another pod runs for the lost one",
        lambda: (pods := both_run()) and lost["metadata"]["uid"] not in pods and pods,
        within=STARTED,
    )
    assert len(first.keys() & again.keys()) == 1, "the other node was left alone"
    [new] = [pod["metadata"]["name"] for uid, pod in again.items() if uid not in first]
    eventually("torchrun has taken the new node in", lambda: trains(new), within=LEARNED)
    found = workload(team_a, "elastic")
    assert found["metadata"]["uid"] == held
    assert "schedulingStats" not in found["status"], "it was never evicted"
    eventually(
        "the table says that it runs", lambda: team_a.table("trainjobs")["elastic"]["STATE"] == "Running"
    )
    for pod in again.values():
        finish(team_a, pod)
    team_a.wait_for_condition("elastic", "Complete", within=LEARNED)


def test_a_job_that_counts_as_anothers_part_is_refused(team_a: Cluster) -> None:
    team_a.apply(queued("owns", "100m", UNTIL_TOLD))
    running(team_a, "owns")
    for kind in ("trainjob", "jobset"):
        owner = team_a.get(kind, "owns")
        assert owner is not None
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        named = {"name": "owns", "uid": owner["metadata"]["uid"]}
        sly = queued("sly", "100m")
        sly["metadata"]["ownerReferences"] = [{**reference, **named}]
        refused = team_a.run(
            "kubectl", "create", "-n", "team-a", "-f", "-", check=False, stdin=yaml.safe_dump(sly)
        )
        assert "the controller of a TrainJob must not be another job" in refused.stderr


@pytest.mark.parametrize("field", ["annotations", "labels"])
def test_a_job_that_brings_the_workload_of_another_is_refused(team_a: Cluster, field: str) -> None:
    sly = queued("sly", "100m")
    sly["metadata"].setdefault(field, {})["kueue.x-k8s.io/prebuilt-workload-name"] = "trainjob-owns"
    command = ("kubectl", "create", "-n", "team-a", "--as", "ada", "-f", "-")
    refused = team_a.run(*command, check=False, stdin=yaml.safe_dump(sly))
    assert "since the job would then run with the quota of the Workload of another job" in refused.stderr


def test_a_job_is_not_deleted_without_its_jobset(team_a: Cluster) -> None:
    team_a.apply(queued("whole", "100m"))
    command = ("kubectl", "delete", "trainjob", "whole", "-n", "team-a", "--as", "ada")
    refused = team_a.run(*command, "--cascade=orphan", check=False)
    assert "a TrainJob must not be deleted without its JobSet" in refused.stderr
    team_a.run(*command)
    left = queued("left", "100m")
    left["metadata"]["finalizers"] = ["orphan"]
    command = ("kubectl", "create", "-n", "team-a", "--as", "ada", "-f", "-")
    refused = team_a.run(*command, check=False, stdin=yaml.safe_dump(left))
    assert "metadata.finalizers: must not contain orphan" in refused.stderr


def test_pods_carry_the_flavors_node_selector_and_tolerations(team_a: Cluster) -> None:
    team_a.apply(queued("carries", "100m", UNTIL_TOLD))
    pod = running(team_a, "carries")
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert {"key": "trainyard.dev/batch", "operator": "Exists"} in pod["spec"]["tolerations"]


@pytest.mark.jobset_queues
def test_a_job_that_can_never_fit_says_why(team_a: Cluster) -> None:
    sent = team_a.run(
        "kubectl", "create", "-n", "team-a", "-f", "-", stdin=yaml.safe_dump(queued("too-big", "64"))
    )
    asked = "it asks for cpu 64 (1 x 64), and LocalQueue default has at most 1;"
    assert f"Warning: this job will wait forever: {asked}" in sent.stderr
    refused = said(team_a, "too-big", "QuotaReserved", "False")
    assert (
        "insufficient quota for cpu in flavor cpu, previously considered podsets requests (0)"
        in (refused["message"])
    )
    assert "maximum capacity (1)" in refused["message"]
    blocked = team_a.wait_for_condition("too-big", "Blocked")
    assert blocked["reason"] == "QueueTooSmall"
    assert blocked["message"].startswith(f"{asked} Kueue says: couldn't assign flavors to pod set node: ")
    shows(team_a, "too-big", STATE="Blocked", NODES="0/1", REASON="QueueTooSmall", QUEUE="default")
    assert team_a.pods("too-big") == []


@pytest.mark.jobset_queues
@pytest.mark.core
def test_a_high_priority_takes_the_quota_of_a_low_one_which_goes_on_after_it(
    team_a: Cluster, team_b: Cluster
) -> None:
    gives_way_and_goes_on(team_a, team_b, taker="job")


def test_a_job_preempted_from_one_flavor_and_admitted_on_another_carries_nothing_of_the_first(
    platform: Cluster,
) -> None:
    with two_flavors(platform) as mover:
        moves_to_another_flavor(mover)
