"""Which content of a runtime a TrainJob has, as docs/change-a-runtime.md says to ask."""

import json
from typing import Any

import pytest

from tests.patience import eventually

from .cluster import Cluster, runtime, trainjob

pytestmark = pytest.mark.sandbox(area="platform")

NAME = "changed-between"


def listed(platform: Cluster) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        platform.run("trainyard", "runtimes", "jobs", NAME, "-o", "json").stdout
    )
    return answer


def contents(platform: Cluster) -> dict[str, str]:
    return {one["name"]: one["content"] for one in listed(platform)["trainJobs"]}


def test_a_job_that_was_sent_before_a_change_has_the_older_content_and_one_after_it_the_newest(
    platform: Cluster, team_a: Cluster
) -> None:
    before = runtime(NAME)
    platform.apply(before)
    try:
        team_a.apply(trainjob("early", runtime=NAME, suspend=True))
        eventually("it has its content", lambda: contents(platform) == {"early": "newest"})
        before["spec"]["mlPolicy"]["numNodes"] = 2
        platform.apply(before)
        eventually("its content is the older one", lambda: contents(platform) == {"early": "older"})
        team_a.apply(trainjob("late", runtime=NAME, suspend=True))
        both = {"early": "older", "late": "newest"}
        eventually("each has its own", lambda: contents(platform) == both)
        found = listed(platform)
        assert {one["revision"] == found["newest"]: one["name"] for one in found["trainJobs"]} == {
            True: "late",
            False: "early",
        }
        said = platform.run("trainyard", "runtimes", "jobs", NAME)
        assert "To have the newest one, delete it and send it again." in said.stderr
    finally:
        team_a.kubectl("delete", "trainjob", "early", "late", "--ignore-not-found")
        platform.kubectl("delete", "clustertrainingruntime", NAME)
    answer = platform.run("trainyard", "runtimes", "jobs", NAME, check=False)
    assert answer.returncode == 2
    assert f"there is no ClusterTrainingRuntime {NAME}, and no TrainJob on it" in answer.stderr
