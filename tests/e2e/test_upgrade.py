"""Every controller is rolled out anew, as an upgrade does, while a job runs: nothing of the job notices.

The versions stay those that are pinned: older ones are refused, because they do
not work together (docs/compatibility.md).
"""

from pathlib import Path

import pytest
import yaml

from tests.support.cluster import UNTIL_TOLD, Cluster, Object, finish, trainjob
from tests.support.patience import eventually

pytestmark = pytest.mark.soak

PARTS = ("jobset", "kueue", "volcano", "coscheduling", "operator")
NAMESPACES = ("jobset-system", "kueue-system", "volcano-system", "scheduler-plugins", "trainyard-system")


def generations(platform: Cluster) -> dict[str, int]:
    """How often the specification of each controller's Deployment has changed."""
    return {
        f"{namespace}/{one['metadata']['name']}": one["metadata"]["generation"]
        for namespace in NAMESPACES
        for one in platform.within(namespace).list("deployments")
    }


def state(team: Cluster, job: str) -> Object:
    """What must stay as it is while the job runs."""
    jobset = team.get("jobset", job) or {}
    [workload] = team.list("workloads")
    return {
        "jobset": (jobset["metadata"]["uid"], jobset["metadata"]["generation"]),
        "jobs": {one["metadata"]["uid"] for one in team.list("jobs")},
        "workload": (workload["metadata"]["uid"], workload["metadata"]["generation"]),
        "pods": {
            pod["metadata"]["uid"]: [one["containerID"] for one in pod["status"]["containerStatuses"]]
            for pod in team.pods(job)
        },
    }


def test_a_running_job_does_not_notice_that_every_controller_is_rolled_out_anew(
    platform: Cluster, team_a: Cluster, tmp_path: Path
) -> None:
    team_a.apply(trainjob("runs-on", UNTIL_TOLD))
    [pod] = eventually(
        "it runs", lambda: [one for one in team_a.pods("runs-on") if one["status"]["phase"] == "Running"]
    )
    before, rolled_out = state(team_a, "runs-on"), generations(platform)
    document = platform.stack()
    for part in PARTS:
        document["config"]["trainyard:platform"][part]["resources"] = {"cpu": "55m", "memory": "300Mi"}
    file = tmp_path / "Pulumi.sandbox.yaml"
    file.write_text(yaml.safe_dump(document))
    up = ("pulumi", "up", "--stack", "sandbox", "--yes", "--skip-preview", "--non-interactive")
    try:
        platform.run("env", f"PULUMI_OPTION_CONFIG_FILE={file}", *up)
        after = generations(platform)
        assert {name for name in after if after[name] > rolled_out[name]} == set(rolled_out)
        assert state(team_a, "runs-on") == before
        finish(team_a, pod)
        team_a.wait_for_condition("runs-on", "Complete")
    finally:
        platform.run(*up)
