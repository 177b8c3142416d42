"""The main job: a distributed TrainJob trains on real data in real containers and completes."""

import re

import pytest

from tests.support.cluster import Cluster, Object
from tests.support.patience import eventually
from tests.support.runs import record

pytestmark = pytest.mark.sandbox(area="operator")


def check_that_two_ranks_have_trained(platform: Cluster, job: Object) -> None:
    """What the cluster itself says of a finished digits job."""
    name = job["metadata"]["name"]
    complete = next(c for c in job["status"]["conditions"] if c["type"] == "Complete")
    assert (complete["status"], complete["reason"]) == ("True", "AllJobsCompleted")
    counts = {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
    eventually(
        "they are counted",
        lambda: (platform.get("trainjob", name) or {})["status"]["jobsStatus"] == [counts],
    )
    pods = platform.pods(name)
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded", "Succeeded"]
    logs = {pod["metadata"]["name"]: platform.log(pod["metadata"]["name"]) for pod in pods}
    ranks = {name: re.findall(r"rank (\d) of 2 on (\S+):", text) for name, text in logs.items()}
    hosts = {f"{name}-node-0-{rank}" for rank in (0, 1)}
    assert sorted(rank for [(rank, _)] in ranks.values()) == ["0", "1"]
    assert {host for [(_, host)] in ranks.values()} == hosts
    [accuracy] = [float(found) for text in logs.values() for found in re.findall(r"accuracy ([\d.]+)", text)]
    assert accuracy >= 0.95


@pytest.mark.core
def test_a_function_sent_with_the_kubeflow_sdk_trains_on_two_nodes(platform: Cluster) -> None:
    shown = platform.run("python", "examples/digits/submit.py").stdout
    [name] = re.findall(r"^TrainJob (\S+) is Complete", shown, re.MULTILINE)  # the SDK has made it up
    job = platform.get("trainjob", name)
    assert job is not None
    check_that_two_ranks_have_trained(platform, job)
    [runtimes] = re.findall(r"^Runtimes: (.*)$", shown, re.MULTILINE)
    assert {"plain", "torch-distributed"} <= set(runtimes.split(", "))


@pytest.mark.core
def test_the_same_job_sent_with_kubectl_trains_on_two_nodes(platform: Cluster) -> None:
    platform.kubectl("apply", "-f", "examples/digits/trainjob.yaml")
    platform.wait_for_condition("digits", "Complete")
    check_that_two_ranks_have_trained(
        platform, eventually("digits", lambda: platform.get("trainjob", "digits"))
    )
    record(platform, "digits", "torch", example="digits")


def test_a_job_costs_the_api_server_few_writes(platform: Cluster) -> None:
    platform.kubectl("apply", "-f", "examples/digits/trainjob.yaml")
    platform.wait_for_condition("digits", "Complete")
    assert set(platform.writes_for("digits")) == {"create jobsets", "patch trainjobs/status"}
