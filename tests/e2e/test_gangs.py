"""Volcano starts the pods of a gang together or not at all."""

import time

import pytest

from trainyard_api.quantity import canonical, parse

from .cluster import UNTIL_TOLD, Cluster, Object, eventually, finish, runtime, trainjob

pytestmark = pytest.mark.sandbox


def cpu_of_a_pod(platform: Cluster) -> int:
    """Thousandths of a CPU of which the node has enough for two pods beside the platform, not for four."""
    [node] = [one for one in platform.list("nodes") if "kwok.x-k8s.io/node" not in str(one["metadata"])]
    return parse(node["status"]["allocatable"]["cpu"]).times(300).ceil()


def gang_runtime(cpu: int) -> Object:
    """A runtime whose pods are scheduled by Volcano, as one gang."""
    return runtime(
        "volcano-gang",
        pod={"schedulerName": "volcano", "terminationGracePeriodSeconds": 0},
        container={"resources": {"requests": {"cpu": f"{cpu}m"}}},
        mlPolicy={"numNodes": 2},
        podGroupPolicy={"volcano": {}},
    )


def gang(name: str, script: str) -> Object:
    job = trainjob(name, script, "volcano-gang")
    job["spec"]["trainer"]["numNodes"] = 2
    return job


def phases(platform: Cluster, job: str) -> list[str]:
    """What each pod of a job is doing."""
    return [pod["status"]["phase"] for pod in platform.pods(job)]


def bound(platform: Cluster, job: str) -> int:
    """How many pods of a job have a node."""
    return len([pod for pod in platform.pods(job) if pod["spec"].get("nodeName")])


def test_of_two_gangs_that_do_not_fit_together_one_runs_whole_and_the_other_waits_whole(
    platform: Cluster,
) -> None:
    cpu = cpu_of_a_pod(platform)
    platform.apply(gang_runtime(cpu))
    platform.apply(gang("gang-first", UNTIL_TOLD))
    eventually("the first gang runs", lambda: phases(platform, "gang-first") == ["Running"] * 2)
    group = platform.get("podgroups.scheduling.volcano.sh", "gang-first")
    assert group is not None
    assert (group["spec"]["minMember"], group["spec"]["minResources"]) == (
        2,
        {"cpu": canonical(f"{2 * cpu}m")},
    )
    assert group["spec"]["queue"] == "default"

    platform.apply(gang("gang-second", "true"))
    eventually("its pods are made", lambda: len(platform.pods("gang-second")) == 2)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        assert bound(platform, "gang-second") == 0
        assert phases(platform, "gang-first") == ["Running"] * 2
        time.sleep(1)
    waiting = platform.get("podgroups.scheduling.volcano.sh", "gang-second")
    assert waiting is not None
    assert waiting["status"]["phase"] in ("Pending", "Inqueue")

    for pod in platform.pods("gang-first"):
        finish(platform, pod)
    platform.wait_for_condition("gang-first", "Complete")
    platform.wait_for_condition("gang-second", "Complete")
