"""`kubectl get trainjobs` says where a job stands whose pods are not all there."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster, Object, emptied, runtime, shows, trainjob
from tests.support.patience import eventually

pytestmark = pytest.mark.sandbox(area="operator")

FIRST_ALONE = {"exec": {"command": ["sh", "-c", 'test -e /tmp/ready || [ "$JOB_COMPLETION_INDEX" = 0 ]']}}


@pytest.fixture
def namespace(platform: Cluster) -> Iterator[Cluster]:
    platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "table"}})
    yield from emptied(platform.within("table"))


def test_of_a_job_that_starts_the_ready_nodes_are_counted(namespace: Cluster) -> None:
    probe = {**FIRST_ALONE, "periodSeconds": 1}
    namespace.apply(runtime("probed", kind="TrainingRuntime", container={"readinessProbe": probe}))
    job = trainjob("halfway", "sleep 600", runtimeRef={"kind": "TrainingRuntime", "name": "probed"})
    job["spec"]["trainer"]["numNodes"] = 2
    namespace.apply(job)
    shows(namespace, "halfway", STATE="Starting", NODES="1/2", REASON="", QUEUE="")
    for pod in namespace.pods("halfway"):
        namespace.kubectl("exec", pod["metadata"]["name"], "--", "touch", "/tmp/ready")  # noqa: S108
    shows(namespace, "halfway", STATE="Running", NODES="2/2", REASON="", QUEUE="")


def test_a_job_of_which_a_pod_fits_no_node_says_so_in_a_word_and_in_an_event(namespace: Cluster) -> None:
    job = trainjob("large", "sleep 600")
    job["spec"]["trainer"]["resourcesPerNode"] = {"requests": {"ephemeral-storage": "900Ti"}}
    namespace.apply(job)
    shows(namespace, "large", STATE="Unschedulable", NODES="0/1", REASON="", QUEUE="")
    [event] = eventually("it is told", lambda: told(namespace, "large"))
    assert event["message"].startswith("Pod large-node-0-0-")
    assert " fits no node: 0/" in event["message"], event["message"]
    assert "Insufficient ephemeral-storage" in event["message"], event["message"]


def told(cluster: Cluster, job: str) -> list[Object]:
    """The Events about the TrainJob that say that it fits no node."""
    return [
        event
        for event in cluster.list("events")
        if (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("TrainJob", job)
        and event["reason"] == "Unschedulable"
    ]
