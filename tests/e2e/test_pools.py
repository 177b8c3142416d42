"""A pool of simulated GPU nodes: Kueue places a job in one rack of it."""

import pytest

from tests.support.cluster import Cluster, Object, trainjob
from tests.support.patience import eventually
from tests.support.runs import record
from trainyard_platform.catalog.runs import Place

pytestmark = pytest.mark.sandbox(area="queues")

BLOCK, RACK = "trainyard.dev/block", "trainyard.dev/rack"


def gpu_runtime() -> Object:
    """A runtime whose nodes belong in one rack."""
    template = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}},
        "spec": {
            "containers": [{"name": "node", "image": "docker.io/library/nothing:1", "command": ["true"]}]
        },
    }
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": template},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "one-rack", "labels": {"trainer.kubeflow.org/framework": "plain"}},
        "spec": {
            "mlPolicy": {"numNodes": 4},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}},
        },
    }


def on_gpus(name: str, nodes: int, runtime: str = "one-rack") -> Object:
    job = trainjob(name, runtime=runtime)
    job["metadata"] = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "default"}}
    job["spec"]["trainer"] = {
        "numNodes": nodes,
        "resourcesPerNode": {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}},
    }
    return job


def test_the_pools_nodes_are_ready_and_as_declared(platform: Cluster) -> None:
    nodes = platform.list("nodes", "trainyard.dev/pool=gpu")
    assert [node["metadata"]["name"] for node in nodes] == [f"gpu-{number}" for number in range(8)]
    for node in nodes:
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        keys = {taint["key"] for taint in node["spec"]["taints"]}
        assert {"nvidia.com/gpu", "kwok.x-k8s.io/node"} <= keys
        ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True"


@pytest.mark.core
def test_a_job_of_four_nodes_is_placed_in_one_rack(platform: Cluster) -> None:
    gpus = platform.within("gpus")
    platform.apply(gpu_runtime())
    gpus.apply(on_gpus("in-a-rack", 4))
    gpus.wait_for_condition("in-a-rack", "Complete")
    racks = {
        node["metadata"]["name"]: node["metadata"]["labels"][RACK]
        for node in platform.list("nodes", "trainyard.dev/pool=gpu")
    }
    hosts = [pod["spec"]["nodeName"] for pod in gpus.pods("in-a-rack")]
    assert len(set(hosts)) == 4
    assert len({racks[host] for host in hosts}) == 1


@pytest.mark.long
def test_the_catalogs_runtime_for_nodes_that_are_close_gets_whole_nodes_of_one_block(
    platform: Cluster,
) -> None:
    gpus = platform.within("gpus")
    gpus.apply(on_gpus("close", 2, "torch-topology"))
    gpus.wait_for_condition("close", "Complete")
    blocks = {
        node["metadata"]["name"]: node["metadata"]["labels"][BLOCK]
        for node in platform.list("nodes", "trainyard.dev/pool=gpu")
    }
    hosts = [pod["spec"]["nodeName"] for pod in gpus.pods("close")]
    assert (len(hosts), len(set(hosts)), len({blocks[host] for host in hosts})) == (2, 2, 1)
    record(gpus, "close", place=Place.SIMULATED)


def test_a_job_that_no_rack_holds_says_so(platform: Cluster) -> None:
    gpus = platform.within("gpus")
    platform.apply(gpu_runtime())
    gpus.apply(on_gpus("too-wide", 5))

    def said() -> bool:
        return any("topology" in str(one.get("status", {})) for one in gpus.list("workloads"))

    eventually("its Workload says that no rack has room", said)
    assert gpus.pods("too-wide") == []
    gpus.kubectl("delete", "trainjobs", "--all", "--cascade=foreground", "--wait")
