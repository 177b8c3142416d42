"""A TrainJob that waits in a queue, or for the rest of its gang, is told so by `trainyard explain`."""

from __future__ import annotations

import re
import time

import pytest

from tests.support.cluster import UNTIL_TOLD, Cluster, Object, trainjob
from tests.support.patience import eventually

from .asked import ask
from .explained import JOB
from .gangs import cpu_of_a_pod, gang_runtime
from .queues import queued, said, workload

pytestmark = pytest.mark.sandbox(area="explain")


def finding(place: Cluster, cause: str) -> Object:
    """What explain says of the job once it names this cause."""
    found: Object = eventually(
        f"{cause} is named",
        lambda: (said := ask(place, place.namespace).document["finding"]) and said["cause"] == cause and said,
    )
    return found


def test_a_job_that_waits_for_quota_is_told_its_place_in_the_queue(team_a: Cluster) -> None:
    team_a.apply(queued("holds", "900m", UNTIL_TOLD))
    said(team_a, "holds", "QuotaReserved")
    team_a.apply(queued("ahead", "500m"))
    said(team_a, "ahead", "QuotaReserved", "False")
    time.sleep(1.1)  # Kueue orders by creation, which is said in whole seconds
    # Another size: of jobs that are alike, Kueue looks at the first alone.
    team_a.apply(queued(JOB, "400m"))
    said(team_a, JOB, "QuotaReserved", "False")
    found = finding(team_a, "QuotaShort")
    name = workload(team_a, JOB)["metadata"]["name"]
    assert found["object"] == {"kind": "Workload", "name": name, "namespace": "team-a"}
    place = r"it is number 2 in ClusterQueue team-a, behind team-a/ahead, and waits for "
    assert re.match(place + r"team-a/holds \(runs for \d+ \w+\): ", found["message"]), found["message"]
    assert "insufficient unused quota for cpu in flavor cpu" in found["message"]
    assert found["nextStep"] == (
        "wait until enough quota is free for the TrainJob and for the jobs before it. To start sooner, "
        "request fewer resources, or ask the platform team for more quota for LocalQueue default"
    )


def test_a_job_whose_queue_can_never_hold_it_is_told_so(team_a: Cluster) -> None:
    team_a.apply(queued(JOB, "5"))
    said(team_a, JOB, "QuotaReserved", "False")
    found = finding(team_a, "WorkloadInadmissible")
    assert found["object"]["kind"] == "Workload"


def test_a_gang_that_fits_in_part_is_told_how_much_of_it_waits(platform: Cluster) -> None:
    wide = gang_runtime(2 * cpu_of_a_pod(platform))
    wide["metadata"]["name"] = "volcano-wide-gang"
    job = trainjob(JOB, "true", "volcano-wide-gang")
    job["spec"]["trainer"]["numNodes"] = 2
    platform.kubectl("create", "namespace", "explain-gang")
    place = platform.within("explain-gang")
    try:
        place.apply(wide, job)
        eventually("Volcano has looked at it", lambda: unschedulable(place))
        found = finding(place, "GangIncomplete")
        assert found["object"] == {"kind": "PodGroup", "name": JOB, "namespace": "explain-gang"}
        assert found["message"].startswith("2 of its 2 pods have no node: ")
    finally:
        platform.kubectl("delete", "namespace", "explain-gang", "--wait=false")
        platform.kubectl("delete", "clustertrainingruntime", "volcano-wide-gang", "--wait=false")


def unschedulable(place: Cluster) -> bool:
    """Whether Volcano has said so of the gang."""
    group = place.get("podgroups.scheduling.volcano.sh", JOB) or {}
    conditions = group.get("status", {}).get("conditions", [])
    return any((c["type"], c["status"]) == ("Unschedulable", "True") for c in conditions)
