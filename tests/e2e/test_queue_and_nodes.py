"""`trainyard queue` and `trainyard nodes`, by a data scientist, a viewer and an administrator."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support.cluster import A_SHELLS_OWN, UNTIL_TOLD, Cluster, Object, finish
from tests.support.patience import LEARNED, eventually
from trainyard_sandbox.paths import PROJECT

from .queues import queued, running, said

pytestmark = [pytest.mark.sandbox(area="tenants"), pytest.mark.long]

TRAINYARD = str(PROJECT / ".venv" / "bin" / "trainyard")


def trainyard(team_a: Cluster, person: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the command answers somebody of team-a."""
    return subprocess.run(
        [TRAINYARD, *arguments],
        env={**A_SHELLS_OWN, **team_a.sandbox.environment(person, "team-a")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def document(team_a: Cluster, person: str, command: str) -> Object:
    answer = trainyard(team_a, person, command, "-o", "json")
    assert answer.returncode == 0, answer.stderr
    document: Object = json.loads(answer.stdout)
    return document


def cpu(queue: Object) -> Object:
    """The quota of CPUs, without the flavor's name."""
    [line] = [line for line in queue["quota"] if line["resource"] == "cpu"]
    return {key: value for key, value in line.items() if key not in ("flavor", "resource")}


@pytest.mark.parametrize("person", ["ada", "vera"])
def test_who_belongs_to_a_team_sees_its_quota_and_what_its_cohort_lends(team_a: Cluster, person: str) -> None:
    free = document(team_a, person, "queue")
    assert free["unseen"] == []
    [queue] = free["localQueues"]
    assert (queue["name"], queue["clusterQueue"], queue["cohort"]) == ("default", "team-a", "sandbox")
    nothing = {"used": "0", "borrowed": "0", "lent": "0"}
    assert cpu(queue) == {"nominal": "500m", "free": "500m", "lendable": "500m", **nothing}
    team_a.apply(queued("holds", "900m", UNTIL_TOLD))
    pod = running(team_a, "holds")
    team_a.apply(queued("waits", "500m"))
    said(team_a, "waits", "QuotaReserved", "False")

    def borrowed() -> Object | None:
        [queue] = document(team_a, person, "queue")["localQueues"]
        return queue if cpu(queue)["used"] == "900m" and queue["waiting"] else None

    queue = eventually("the quota is used", borrowed)
    assert cpu(queue) == {
        "nominal": "500m",
        "used": "900m",
        "borrowed": "400m",
        "free": "0",
        "lendable": "100m",
        "lent": "0",
    }
    [waiting] = queue["waiting"]
    assert (waiting["name"], waiting["place"]["position"], waiting["place"]["partial"]) == ("waits", 1, False)
    assert (waiting["forecast"]["answer"], waiting["forecast"]["sure"]) == ("Waits", True)
    assert waiting["forecast"]["message"] == "waits: 500m cpu of flavor cpu, of which 100m is free"
    finish(team_a, pod)
    for job in ("holds", "waits"):
        team_a.wait_for_condition(job, "Complete", within=LEARNED)


def test_ada_sees_no_other_quota_and_no_nodes_and_is_told_so(team_a: Cluster) -> None:
    def may(*question: str) -> str:
        environment = {**A_SHELLS_OWN, **team_a.sandbox.environment("ada", "team-a")}
        command = ["kubectl", "auth", "can-i", *question]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=300
        ).stdout.strip()

    assert may("get", "clusterqueues.kueue.x-k8s.io/team-a") == "yes"
    assert may("get", "clusterqueues.kueue.x-k8s.io/team-b") == "yes"
    assert may("get", "clusterqueues.kueue.x-k8s.io/gpus") == "no"
    assert may("list", "clusterqueues.kueue.x-k8s.io") == "no"
    answer = trainyard(team_a, "ada", "nodes")
    assert answer.returncode == 0, answer.stderr
    assert (
        answer.stderr
        == "Not everything is visible: you are not allowed to list nodes; your queues say what is free\n"
    )
    assert answer.stdout.startswith(
        "LocalQueue default: ClusterQueue team-a, cohort sandbox, BestEffortFIFO\n"
    )
    unknown = trainyard(team_a, "ada", "queue", "defualt")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr == (
        "LocalQueue defualt is not found: namespace team-a has none; did you mean default?\n"
    )


@pytest.mark.holds("platform")
def test_an_administrator_sees_the_pools_and_which_node_is_cordoned_since_when(platform: Cluster) -> None:
    def pool() -> Object:
        answer = platform.run("trainyard", "nodes", "-o", "json").stdout
        [pool] = [pool for pool in json.loads(answer)["pools"] if pool["name"] == "gpu"]
        shown: Object = pool
        return shown

    platform.kubectl("cordon", "gpu-7")
    try:
        sick = eventually("the node is listed", lambda: pool()["sick"])
        assert [(one["node"], one["state"]) for one in sick] == [("gpu-7", "Cordoned")]
        cordoned = pool()
        assert (cordoned["nodes"], cordoned["ready"], cordoned["accelerators"]) == (8, 7, ["nvidia-h100"])
        assert cordoned["resources"]["nvidia.com/gpu"]["total"] == "64"
    finally:
        platform.kubectl("uncordon", "gpu-7")
    eventually("the node takes pods again", lambda: pool()["ready"] == 8)
