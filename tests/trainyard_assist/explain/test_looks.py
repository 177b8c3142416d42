"""What is looked at next, and the place in the queue."""

from __future__ import annotations

import pytest

from tests.support.explained.cases import QUOTA_SAID, failed, held_jobset, queued
from tests.support.explained.cases_control import PREEMPTED
from tests.support.explained.objects import (
    HEALTHY,
    NOW,
    QUEUED,
    Object,
    ago,
    claim,
    condition,
    container,
    gated,
    homeless,
    job,
    mounts,
    pod,
    seen,
    suspended,
    terminated,
    told,
    trainjob,
    unbuilt,
    workload,
)
from trainyard_assist import queue_place
from trainyard_assist.explain import FollowUps, follow_ups
from trainyard_assist.explain.follow_ups import LogOf
from trainyard_assist.queue_place import QueuePlace


def of_rank(rank: int) -> LogOf:
    return LogOf(f"tj-node-0-{rank}-x", "node", previous=False)


LOOKS = {
    "nothing for a finished job": (
        seen(trainjob=trainjob(condition("Complete"))),
        FollowUps(),
    ),
    "the nodes of a job that runs": (HEALTHY, FollowUps(nodes=("n1",))),
    "the logs of pods that say whether their ranks are silent": (
        seen(pods=tuple(map(told, (pod(0), pod(1))))),
        FollowUps(nodes=("n1",), silent=(of_rank(0), of_rank(1))),
    ),
    "none of them, as long as one is not ready": (
        seen(pods=(told(pod(0)), told(pod(1, "Pending")))),
        FollowUps(nodes=("n1",)),
    ),
    "the operator and JobSet's controller, as long as there is no JobSet": (
        unbuilt(),
        FollowUps(operator=True, jobset_controller=True),
    ),
    "the operator and JobSet's controller, where a job was resumed and its JobSet was not": (
        suspended(trainjob=trainjob()),
        FollowUps(operator=True, jobset_controller=True),
    ),
    "JobSet's controller, as long as the Jobs of a JobSet that runs are suspended": (
        seen(jobs=({**job(), "spec": {"suspend": True}},), pods=()),
        FollowUps(jobset_controller=True),
    ),
    "the operator, where it has said what holds the job up": (
        seen(trainjob=trainjob(condition("Blocked", "QueueTooSmall", "too much; ask less"))),
        FollowUps(operator=True, nodes=("n1",)),
    ),
    "all nodes, for a pod without one": (
        seen(pods=(pod(0), homeless(1))),
        FollowUps(all_nodes=True, nodes=("n1",)),
    ),
    "the log of the container that failed first": (
        failed(
            pods=(pod(0, "Failed", state=terminated(1, at=3)), pod(1, "Failed", state=terminated(2, at=5)))
        ),
        FollowUps(log=LogOf("tj-node-0-1-x", "node", previous=False)),
    ),
    "the log of the container's last life, if it runs again": (
        seen(
            pods=(
                pod(0, statuses=[container({"running": {"startedAt": ago(3)}}, terminated(3), restarts=2)]),
            )
        ),
        FollowUps(nodes=("n1",), log=LogOf("tj-node-0-0-x", "node", previous=True)),
    ),
    "the claims that have no volume": (
        seen(pods=(pod(0, "Pending", volumes=mounts("data")),), claims=(claim(), claim("other"))),
        FollowUps(nodes=("n1",), claims=("data",)),
    ),
}


@pytest.mark.parametrize("name", LOOKS)
def test_what_is_looked_at_next(name: str) -> None:
    observation, wanted = LOOKS[name]
    assert follow_ups(observation) == wanted


def test_a_workload_that_waits_is_looked_for_in_its_queue() -> None:
    waits = workload(condition("QuotaReserved", status="False"))
    assert follow_ups(queued(workloads=(waits,))) == FollowUps(operator=True, kueue=True, workload=waits)
    assert follow_ups(queued(condition("QuotaReserved"))) == FollowUps(operator=True, kueue=True)
    admitted = held_jobset(condition("QuotaReserved"), condition("Admitted"))
    assert follow_ups(admitted) == FollowUps(operator=True, kueue=True, jobset_controller=True)
    by_its_user = trainjob(condition("Suspended"), suspend=True, more=QUEUED)
    assert follow_ups(held_jobset(trainjob=by_its_user, workloads=())) == FollowUps()


def test_who_took_its_quota_is_looked_for_by_the_uid_that_kueue_tells() -> None:
    short = condition("QuotaReserved", status="False")
    preempted = workload(short, condition("Evicted", "Preempted", PREEMPTED))
    found = follow_ups(queued(workloads=(preempted,)))
    assert (found.workload, found.preemptor) == (preempted, "95ded0bd-8f5f-4a5e-a1cf-2c5b8b3333ff")
    past = workload(short, condition("Evicted", "Preempted", PREEMPTED, "False"))
    assert follow_ups(queued(workloads=(past,))).preemptor == ""
    other = workload(short, condition("Evicted", "PodsReadyTimeout", "Exceeded the PodsReady timeout"))
    assert follow_ups(queued(workloads=(other,))).preemptor == ""


def test_the_pod_group_is_looked_for_where_the_pods_name_a_gang_scheduler() -> None:
    gang = job()
    gang["spec"]["template"]["metadata"] = {"annotations": {"scheduling.k8s.io/group-name": "tj"}}
    assert follow_ups(seen(jobs=(gang,))).pod_groups == ("scheduling.volcano.sh/v1beta1",)
    gang["spec"]["template"]["metadata"] = {"labels": {"scheduling.x-k8s.io/pod-group": "tj"}}
    assert follow_ups(seen(jobs=(gang,))).pod_groups == ("scheduling.x-k8s.io/v1alpha1",)


# --- the place in the queue ---------------------------------------------------------


def rival(
    name: str,
    *,
    priority: int = 0,
    seconds: float = 99,
    queue: str = "research",
    namespace: str = "team",
    reserved: bool = False,
) -> Object:
    found = workload(condition("QuotaReserved", status=str(reserved)), name=name, seconds=seconds)
    found["metadata"]["namespace"] = namespace
    return {**found, "spec": {**found["spec"], "priority": priority, "queueName": queue}}


def of(workload: Object, kind: str, name: str) -> Object:
    """The Workload, made for this job."""
    return {
        **workload,
        "metadata": {**workload["metadata"], "ownerReferences": [{"kind": kind, "name": name}]},
    }


def test_the_place_is_the_one_that_kueue_tells_counted_from_one() -> None:
    def waits(name: str, position: int) -> Object:
        return {"metadata": {"name": name, "namespace": "team"}, "positionInClusterQueue": position}

    mine = waits("trainjob-tj-1", 4)
    pending = {
        "items": [mine, waits("behind", 5), of(waits("jobset-b-1", 2), "JobSet", "b"), waits("first", 0)]
    }
    assert queue_place.reported_place(workload(), pending, "gpus") == QueuePlace(
        5, "ClusterQueue gpus", before=("team/first", "team/b")
    )
    assert queue_place.reported_place(workload(), {"items": []}, "gpus") is None


def test_the_place_is_counted_by_priority_and_age_among_those_that_wait_for_the_same_cluster_queue() -> None:
    def queue(name: str, namespace: str, cluster: str) -> Object:
        return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": cluster}}

    queues = [queue("research", "team", "gpus"), queue("b", "others", "gpus"), queue("c", "others", "cpus")]
    mine = workload(condition("QuotaReserved", status="False"))
    others = [
        rival("older"),
        rival("younger", seconds=1),
        of(rival("more-important", priority=9, seconds=1, queue="b", namespace="others"), "Job", "urgent"),
        rival("another-queue", queue="c", namespace="others"),
        rival("runs-already", reserved=True),
        {
            **(held := rival("held")),
            "metadata": {**held["metadata"], **gated("trainyard.dev/sent-suspended")},
        },
    ]
    everywhere = queue_place.counted_place(mine, [mine, *others], queues, partial=False)
    assert everywhere == QueuePlace(3, "ClusterQueue gpus", before=("Job others/urgent", "team/older"))
    within = [one for one in others if one["metadata"]["namespace"] == "team"]
    here = queue_place.counted_place(mine, [mine, *within], queues[:1], partial=True)
    assert here == QueuePlace(2, "ClusterQueue gpus", partial=True, before=("team/older",))


def test_those_that_hold_the_quota_are_told_by_the_flavor_and_resource_that_kueue_says_it_lacks() -> None:
    def holds(name: str, since: float, queue: str = "gpus", **flavors: str) -> Object:
        reserved = condition("QuotaReserved", at=since)
        found = workload(
            reserved, admission={"clusterQueue": queue, "podSetAssignments": [{"flavors": flavors}]}
        )
        return of(found, "JobSet", name)

    finished = holds("over", 90, cpu="spot")
    finished["status"]["conditions"].append(condition("Finished"))
    others = [
        holds("young", 12, cpu="spot", memory="spot"),
        holds("old", 7200, "lends", cpu="spot"),
        holds("another-flavor", 9, cpu="on-demand"),
        holds("another-resource", 9, memory="spot"),
        holds("another-cohort", 9, "cpus", cpu="spot"),
        finished,
        rival("waits"),
    ]
    place = QueuePlace(1, "ClusterQueue gpus")
    lacks = workload(condition("QuotaReserved", "Pending", QUOTA_SAID, "False"))
    told = queue_place.with_holders(place, lacks, others, {"gpus", "lends"}, only_own=True)
    ages = [(holder.job, (NOW - holder.since).total_seconds()) for holder in told.holders]
    assert ages == [("team/old", 7200), ("team/young", 12)]
    assert told.only_own
    silent = workload(condition("QuotaReserved", "Pending", "no quota", "False"))
    told = queue_place.with_holders(place, silent, others, {"gpus"}, only_own=False)
    assert [holder.job for holder in told.holders] == [
        "team/young",
        "team/another-flavor",
        "team/another-resource",
    ]


def test_cluster_queues_share_their_quota_under_the_same_topmost_cohort() -> None:
    def queue(name: str, cohort: str = "") -> Object:
        return {"metadata": {"name": name}, "spec": {"cohortName": cohort}}

    def cohort(name: str, parent: str = "") -> Object:
        return {"metadata": {"name": name}, "spec": {"parentName": parent}}

    queues = [queue("a", "lab"), queue("b", "lab"), queue("c", "shop"), queue("d"), queue("e", "far")]
    cohorts = [
        cohort("lab", "site"),
        cohort("shop", "site"),
        cohort("round", "trip"),
        cohort("trip", "round"),
    ]
    assert queue_place.sharing("a", queues, cohorts) == {"a", "b", "c"}
    assert queue_place.sharing("d", queues, cohorts) == {"d"}
    assert queue_place.sharing("unseen", (), ()) == {"unseen"}
    circle = [queue("x", "round"), queue("y", "far")]
    assert queue_place.sharing("x", circle, cohorts) == {"x"}
