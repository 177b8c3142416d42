"""Which pods are scheduled together, and the PodGroups that say so."""

from dataclasses import replace

import pytest

from tests.support.core_values import replicated_job, runtime, trainjob
from trainyard_operator.core.build import gang, plugins
from trainyard_operator.core.build.info import DEFAULT_SETTINGS, new_info
from trainyard_operator.core.build.plugins.coscheduling import CoScheduling
from trainyard_operator.core.build.plugins.volcano import Volcano


def job(name, ancestor=None, pods=1, cpu="1", waits=(), **pod):
    resources = {"requests": {"cpu": cpu}, "limits": {"nvidia.com/gpu": "8"}}
    made = replicated_job(name, ancestor, [{"name": "node", "resources": resources}], parallelism=pods)
    made["template"]["spec"]["template"]["spec"] |= pod
    return {**made, "dependsOn": [{"name": n, "status": s} for n, s in waits]} if waits else made


def grouped(jobs, scheduler="coscheduling", policy=None, **template):
    rt = runtime({"numNodes": 1}, jobs, **template)
    return replace(rt, spec={**rt.spec, "podGroupPolicy": {scheduler: policy or {}}})


READY = [("node", "Ready")]
MPI = [job("node", pods=3), job("launcher", "trainer", waits=READY)]
REQUESTS = {"cpu": "3", "nvidia.com/gpu": "24"}
"""Of three pods."""

GANGS = {
    "everybody without a dependsOn": ([job("a", pods=2), job("node", "trainer")], {"a", "node"}, 3, "3"),
    "workers without the launcher that waits for them": (MPI, {"node"}, 3, "3"),
    "trainers without the initializers that end before": (
        [
            job("model-initializer", "model-initializer"),
            job("node", "trainer", waits=[("model-initializer", "Complete")]),
        ],
        {"node"},
        1,
        "1",
    ),
    "the last of those that wait for each other": (
        [
            job("server"),
            job("node", pods=2, waits=[("server", "Ready")]),
            job("launcher", "trainer", waits=READY),
        ],
        {"server"},
        1,
        "1",
    ),
    "a trainer and a helper that it does not wait for": (
        [job("store"), job("node", "trainer"), job("watcher", waits=[("store", "Ready")])],
        {"node"},
        1,
        "1",
    ),
    "everybody where nobody trains": ([job("a"), job("b", waits=[("a", "Complete")])], {"a", "b"}, 2, "2"),
    "everybody where the trainer waits for a job that is not there": (
        [job("a"), job("node", "trainer", waits=[("gone", "Ready")])],
        {"a", "node"},
        2,
        "2",
    ),
}


@pytest.mark.parametrize(("jobs", "members", "pods", "cpu"), GANGS.values(), ids=GANGS)
def test_the_gang_is(jobs, members, pods, cpu):
    found = gang.of(new_info(trainjob(), grouped(jobs), DEFAULT_SETTINGS))
    requests = {"cpu": cpu, "nvidia.com/gpu": str(8 * pods)}
    assert found == gang.Gang(frozenset(members), pods, requests)


@pytest.mark.parametrize("built_as", [1, 2])
def test_a_limit_is_no_request_of_the_gang_of_an_earlier_jobset(built_as: int) -> None:
    info = new_info(trainjob(), grouped(MPI), replace(DEFAULT_SETTINGS, built_as=built_as))
    assert gang.of(info) == gang.Gang(frozenset({"node"}), 3, {"cpu": "3"})


def built(rt, spec=None):
    manifests = plugins.ALL.build(trainjob(spec), rt, DEFAULT_SETTINGS)
    jobset = next(m for m in manifests if m["kind"] == "JobSet")
    pods = {
        j["name"]: j["template"]["spec"]["template"]["metadata"] for j in jobset["spec"]["replicatedJobs"]
    }
    return next((m for m in manifests if m["kind"] == "PodGroup"), None), pods


def test_without_a_policy_there_is_no_podgroup():
    info = new_info(trainjob(), runtime({}), DEFAULT_SETTINGS)
    for plugin in (CoScheduling(), Volcano()):
        assert (plugin.enforce_pod_group_policy(info), plugin.build(info)) == (info, ())


def test_coscheduling_labels_the_gang_alone():
    group, pods = built(grouped(MPI, policy={"scheduleTimeoutSeconds": 30}))
    assert group["spec"] == {"minMember": 3, "minResources": REQUESTS, "scheduleTimeoutSeconds": 30}
    assert pods == {"node": {"labels": {"scheduling.x-k8s.io/pod-group": "tj"}}, "launcher": {}}


@pytest.mark.parametrize(("said", "seconds"), [({}, 60), ({"scheduleTimeoutSeconds": 0}, 0)])
def test_coscheduling_waits_a_minute_for_the_gang_unless_the_runtime_says_how_long(
    said: dict[str, int], seconds: int
) -> None:
    group, _ = built(grouped(MPI, policy=said))
    assert group["spec"]["scheduleTimeoutSeconds"] == seconds


def test_volcano_annotates_the_gang_alone():
    group, pods = built(grouped(MPI, "volcano"))
    assert group["spec"] == {"minMember": 3, "minResources": REQUESTS}
    assert pods == {"node": {"annotations": {"scheduling.k8s.io/group-name": "tj"}}, "launcher": {}}


def test_volcanos_group_has_the_queue_the_last_priority_class_and_the_topology():
    jobs = [
        job("a", priorityClassName="low"),
        job("node", "trainer", priorityClassName="high"),
        job("z"),
    ]
    queue = {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}
    group, _ = built(grouped(jobs, "volcano", {"networkTopology": {"mode": "soft"}}, metadata=queue))
    assert group["spec"] == {
        "minMember": 3,
        "minResources": REQUESTS,
        "queue": "q",
        "priorityClassName": "high",
        "networkTopology": {"mode": "soft", "highestTierAllowed": 1},
    }


@pytest.mark.parametrize(
    ("said", "topology"),
    [
        ({}, {"mode": "hard", "highestTierAllowed": 1}),
        ({"highestTierAllowed": 2}, {"mode": "hard", "highestTierAllowed": 2}),
    ],
)
def test_volcanos_topology_is_the_narrowest_unless_the_runtime_says_another(
    said: dict[str, object], topology: dict[str, object]
) -> None:
    group, _ = built(grouped(MPI, "volcano", {"networkTopology": said}))
    assert group["spec"]["networkTopology"] == topology


def test_a_group_counts_the_nodes_that_the_trainjob_asks_for():
    group, _ = built(grouped([job("node", "trainer", cpu="500m")]), {"trainer": {"numNodes": 3}})
    assert (group["spec"]["minMember"], group["spec"]["minResources"]) == (3, {**REQUESTS, "cpu": "1500m"})


def test_pods_keep_their_own_labels():
    labelled = job("node", "trainer")
    labelled["template"]["spec"]["template"]["metadata"] = {"labels": {"a": "b"}}
    _, pods = built(grouped([labelled]))
    assert pods["node"] == {"labels": {"a": "b", "scheduling.x-k8s.io/pod-group": "tj"}}
