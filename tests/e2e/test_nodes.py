"""Two real nodes: ranks on both, and what happens to them when one node is lost."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.cluster import Cluster, Object, down, trainyard, up
from tests.support.patience import LEARNED, NOTICED, eventually
from trainyard_sandbox.isolation import kill_cgroup

from .checkpoints import (
    EPOCHS,
    STEPS,
    checkpoint_job,
    final_loss,
    run_undisturbed,
    starts,
    wait_for_checkpoint,
)

pytestmark = pytest.mark.sandbox(area="sandbox")

FIRST, SECOND = "nodes-node", "nodes-node-2"
PARTS = ("containerd-2", "kubelet-2", "kube-proxy-2", "kube-router-2")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Cluster]:
    """The platform on two nodes; its controllers are on the first."""
    cluster = Cluster("nodes")
    try:
        up(cluster.name, "--nodes", "2")
        cluster.kubectl("cordon", SECOND)
        cluster.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview")
        cluster.kubectl("uncordon", SECOND)
        yield cluster
    finally:
        down(cluster.name)


@contextmanager
def lost_second_node(cluster: Cluster) -> Iterator[None]:
    """All that runs on the second node is killed; it comes back with the next `up`."""
    kill_cgroup(f"{cluster.sandbox.instance.id}/node-2")
    eventually("status tells", lambda: set(PARTS) <= set(ended(cluster)))
    yield
    trainyard("sandbox", "up", "--name", cluster.name)
    cluster.wait(f"node/{SECOND}", condition="condition=Ready")


def ended(cluster: Cluster) -> list[str]:
    components = cluster.sandbox.status().components
    return [name for name, component in components.items() if component["state"] == "ended"]


def ready(cluster: Cluster, node: str) -> str:
    """`True`, `False` or `Unknown`."""
    conditions = (cluster.get("node", node) or {})["status"]["conditions"]
    return str(next(c["status"] for c in conditions if c["type"] == "Ready"))


def nodes_of(cluster: Cluster, job: str) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in cluster.pods(job))


def apart(job: Object) -> Object:
    """The job with ranks that keep away from each other where they can."""
    away = {
        "labelSelector": {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": job["metadata"]["name"]}},
        "topologyKey": "kubernetes.io/hostname",
    }
    preferred = [{"weight": 100, "podAffinityTerm": away}]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    node = {"name": "node", "template": {"spec": {"template": {"spec": {"affinity": affinity}}}}}
    patch = {"template": {"spec": {"replicatedJobs": [node]}}}
    job["spec"]["runtimePatches"] = [{"manager": "example.com/apart", "trainingRuntimeSpec": patch}]
    return job


def test_a_job_that_loses_a_node_goes_on_from_its_checkpoint_on_the_other(two_nodes: Cluster) -> None:
    two_nodes.apply(apart(checkpoint_job("moves")))
    wait_for_checkpoint(two_nodes, "moves")
    assert nodes_of(two_nodes, "moves") == [FIRST, SECOND]
    with lost_second_node(two_nodes):
        assert sorted(ended(two_nodes)) == sorted(PARTS)
        eventually("the cluster notices", lambda: ready(two_nodes, SECOND) == "Unknown", within=NOTICED)
        # What a cloud does for a machine that is gone, an administrator does here:
        # say that nothing runs there any more, so that its pods may be forgotten.
        two_nodes.kubectl("taint", "node", SECOND, "node.kubernetes.io/out-of-service=killed:NoExecute")
        two_nodes.wait_for_condition("moves", "Complete", within=LEARNED)
        assert nodes_of(two_nodes, "moves") == [FIRST, FIRST]
        [step] = set(starts(two_nodes, "moves"))
        assert 0 < step < EPOCHS * STEPS
        assert final_loss(two_nodes, "moves") == pytest.approx(run_undisturbed(two_nodes), abs=1e-6)
        two_nodes.kubectl("taint", "node", SECOND, "node.kubernetes.io/out-of-service:NoExecute-")


def test_up_brings_a_dead_node_back_and_leaves_the_other_alone(two_nodes: Cluster) -> None:
    before = {name: c["pid"] for name, c in two_nodes.sandbox.status().components.items()}
    with lost_second_node(two_nodes):
        answer = trainyard("sandbox", "status", "--name", two_nodes.name, check=False)
        assert answer.returncode == 1
        assert "Ended by themselves: containerd-2, kubelet-2, kube-proxy-2, kube-router-2." in answer.stderr
    status = two_nodes.sandbox.status()
    assert status.healthy
    same = {name: pid for name, pid in before.items() if name not in PARTS}
    assert {name: status.components[name]["pid"] for name in same} == same
    assert "Started kubelet" in trainyard("sandbox", "logs", "kubelet-2", "--name", two_nodes.name).stdout
    # Names, Services and logs work over there as here.
    ask = (
        "import socket; socket.create_connection(('kubernetes.default.svc.cluster.local', 443)); print('hi')"
    )
    image = "docker.io/trainyard/torch-cpu:sandbox"
    container = {"name": "asks", "image": image, "command": ["python", "-c", ask]}
    pod = {"nodeName": SECOND, "restartPolicy": "Never", "containers": [container]}
    two_nodes.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"}, "spec": pod})
    two_nodes.wait("pod/asks", condition="jsonpath={.status.phase}=Succeeded")
    assert two_nodes.log("asks") == "hi\n"
