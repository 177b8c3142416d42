"""A pool is declared once, and all that follows from it agrees."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import program
from trainyard_api.pools import NodePool, Provider
from trainyard_platform.errors import PlatformError
from trainyard_platform.parts.node_pools import component as providers
from trainyard_platform.parts.node_pools import karpenter_manifests
from trainyard_platform.parts.node_pools import manifests as pool_manifests
from trainyard_platform.parts.queues import manifests as queue_manifests
from trainyard_platform.stack import node_pools as clouds
from trainyard_platform.stack import settings
from trainyard_platform.stack.queues import Queues

OPERATOR = {"image": "docker.io/trainyard/operator:1"}
KWOK: dict[str, Any] = {
    "provider": "kwok",
    "nodes": 8,
    "machine": {"cpu": "96", "memory": "1Ti"},
    "accelerator": {"type": "nvidia-h100", "count": 8},
    "zones": ["a", "b"],
    "capacityType": "spot",
    "taints": [{"key": "nvidia.com/gpu", "value": "present"}],
    "nodeLabels": {"team": "vision"},
    "topology": [{"label": "example.com/block", "nodes": 8}, {"label": "example.com/rack", "nodes": 4}],
    "quota": [{"clusterQueue": "team-a", "nodes": 6}, {"clusterQueue": "team-b", "nodes": 2}],
}
SHIPPED: dict[str, Any] = {
    "accelerators": {"nvidia": {"devicePlugin": "shipped"}, "efa": {"devicePlugin": "shipped"}}
}
EXISTING: dict[str, Any] = {
    "provider": "existing",
    "nodes": 2,
    "machine": {"cpu": "30500m", "memory": "120Gi"},
    "nodeLabels": {"example.com/kind": "cpu"},
    "quota": [{"clusterQueue": "team-a"}],
}


ON_EKS: dict[str, Any] = {
    "provider": "eks",
    "nodes": 4,
    "machine": {"type": "g6.12xlarge", "cpu": "46", "memory": "170Gi"},
    "accelerator": {"type": "nvidia-l4", "count": 4},
    "zones": ["us-east-1a", "us-east-1b"],
    "quota": [{"clusterQueue": "team-a"}],
}
EKS = {
    "name": "training",
    "region": "us-east-1",
    "nodeRole": "arn:aws:iam::123456789012:role/nodes",
    "subnets": {"us-east-1a": "subnet-a", "us-east-1b": "subnet-b"},
}
GKE = {"project": "p", "location": "europe-west4", "name": "training"}
AKS = {
    "id": "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/training"
    "/providers/Microsoft.ContainerService/managedClusters/training"
}
KARPENTER = {"role": "nodes", "discovery": "training"}
EFA = "vpc.amazonaws.com/efa"
WITH_EFA: dict[str, Any] = {
    **ON_EKS,
    "zones": ["us-east-1a"],
    "machine": {**ON_EKS["machine"], "resources": {EFA: "2"}},
}
WITH_INFINIBAND = {"resources": {"rdma/ib": "8"}}
ON_AKS: dict[str, Any] = {
    **ON_EKS,
    "provider": "aks",
    "minNodes": 0,
    "zones": ["1"],
    "machine": {**ON_EKS["machine"], "type": "Standard_ND96isr_H100_v5"},
}
"""A pool that starts empty."""


LABEL_KEY = "must be the key of a label or an annotation, such as cost-center or example.com/cost-center"
LABEL_VALUE = "must be a label's value: at most 63 letters, digits, hyphens, underscores and dots"


def pool(**changes: Any) -> NodePool:
    return NodePool.model_validate({**KWOK, **changes})


def test_a_simulated_node_is_what_the_pool_says() -> None:
    nodes = pool_manifests.nodes("gpu", pool())
    assert [node["metadata"]["name"] for node in nodes] == [f"gpu-{number}" for number in range(8)]
    capacity = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1Ti", "pods": "110"}
    assert nodes[5] == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "gpu-5",
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "trainyard.dev/pool": "gpu",
                "trainyard.dev/capacity-type": "spot",
                "trainyard.dev/accelerator": "nvidia-h100",
                "team": "vision",
                "topology.kubernetes.io/zone": "b",
                "example.com/block": "gpu-block-0",
                "example.com/rack": "gpu-rack-1",
                "kubernetes.io/hostname": "gpu-5",
                "kubernetes.io/os": "linux",
            },
        },
        "spec": {
            "taints": [
                {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"},
            ]
        },
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def test_the_flavor_the_topology_and_the_quota_are_those_of_the_nodes() -> None:
    queues = Queues.model_validate({"clusterQueues": {"team-a": {}, "team-b": {}, "team-c": {}}})
    topology, flavor, *cluster_queues = queue_manifests.manifests(
        pool_manifests.with_pools(queues, {"gpu": pool()})
    )
    assert topology["spec"] == {
        "levels": [
            {"nodeLabel": "example.com/block"},
            {"nodeLabel": "example.com/rack"},
            {"nodeLabel": "kubernetes.io/hostname"},
        ]
    }
    taints = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"},
    ]
    assert (flavor["metadata"], flavor["spec"]) == (
        {"name": "gpu"},
        {
            "nodeLabels": {"trainyard.dev/pool": "gpu"},
            "nodeTaints": taints,
            "tolerations": [{**taint, "operator": "Equal"} for taint in taints],
            "topologyName": "gpu",
        },
    )
    assert [queue["spec"].get("resourceGroups") for queue in cluster_queues] == [
        [group("48", "576", "6Ti")],
        [group("16", "192", "2Ti")],
        None,
    ]


def group(gpus: str, cpus: str, memory: str) -> dict[str, Any]:
    return {
        "coveredResources": ["nvidia.com/gpu", "cpu", "memory"],
        "flavors": [
            {
                "name": "gpu",
                "resources": [
                    {"name": "nvidia.com/gpu", "nominalQuota": gpus},
                    {"name": "cpu", "nominalQuota": cpus},
                    {"name": "memory", "nominalQuota": memory},
                ],
            }
        ],
    }


def test_nodes_that_exist_are_found_by_their_labels_and_nothing_is_made() -> None:
    existing = NodePool.model_validate(EXISTING)
    assert pool_manifests.nodes("cpu", existing) == []
    assert queue_manifests.flavor("cpu", pool_manifests.flavor("cpu", existing))["spec"] == {
        "nodeLabels": {"example.com/kind": "cpu"}
    }


def test_an_accelerator_of_nodes_that_exist_may_have_any_name_since_no_label_has_it() -> None:
    accelerator = {"type": "NVIDIA H100", "count": 8}
    existing = NodePool.model_validate({**EXISTING, "accelerator": accelerator})
    assert queue_manifests.flavor("cpu", pool_manifests.flavor("cpu", existing))["spec"] == {
        "nodeLabels": {"example.com/kind": "cpu"}
    }


def test_pools_are_the_last_flavors_of_a_queue_and_have_nothing_of_what_they_lack() -> None:
    """A resource is in one group alone: the groups that a pool overlaps become one with it."""
    own = {"name": "own", "resources": {"cpu": {"nominal": "4"}}}
    licences = {"name": "any", "resources": {"example.com/licence": {"nominal": "3"}}}
    queues = Queues.model_validate(
        {"clusterQueues": {"team-a": {"resourceGroups": [{"flavors": [own]}, {"flavors": [licences]}]}}}
    )
    pools = {"gpu": pool(), "cpu": NodePool.model_validate(EXISTING)}
    merged = pool_manifests.with_pools(queues, pools).cluster_queues["team-a"]
    quotas = [
        {
            one.name: {resource: quota.nominal for resource, quota in one.resources.items()}
            for one in group.flavors
        }
        for group in merged.resource_groups
    ]
    assert quotas == [
        {"any": {"example.com/licence": "3"}},
        {
            "own": {"cpu": "4", "nvidia.com/gpu": "0", "memory": "0"},
            "gpu": {"cpu": "576", "nvidia.com/gpu": "48", "memory": "6Ti"},
            "cpu": {"cpu": "61", "nvidia.com/gpu": "0", "memory": "240Gi"},
        },
    ]


@pytest.mark.parametrize(
    ("change", "nodes", "quota"),
    [
        ({"nodes": 9}, {"count": 9}, "48"),
        ({"accelerator": {"type": "nvidia-h100", "count": 4}}, {"gpus": "4"}, "24"),
    ],
    ids=["more nodes", "fewer accelerators"],
)
def test_a_change_shows_wherever_it_matters(change: Any, nodes: dict[str, Any], quota: str) -> None:
    changed = pool(**change)
    made = pool_manifests.nodes("gpu", changed)
    assert len(made) == nodes.get("count", 8)
    assert {node["status"]["capacity"]["nvidia.com/gpu"] for node in made} == {nodes.get("gpus", "8")}
    (share, *_) = changed.quota
    assert pool_manifests.quota("gpu", changed, changed.nodes_of(share)).resources[
        "nvidia.com/gpu"
    ].nominal == (quota)


def test_what_else_a_node_has_is_capacity_of_it_and_quota_of_the_pool() -> None:
    changed = pool(machine={"cpu": "96", "memory": "1Ti", "resources": {"rdma/ib": "8"}})
    [node, *_] = pool_manifests.nodes("gpu", changed)
    capacity = {"nvidia.com/gpu": "8", "rdma/ib": "8", "cpu": "96", "memory": "1Ti", "pods": "110"}
    assert node["status"]["capacity"] == capacity
    assert pool_manifests.quota("gpu", changed, 6).resources["rdma/ib"].nominal == "48"


def test_whoever_tolerates_what_the_flavor_says_tolerates_every_taint() -> None:
    changed = pool(taints=[{"key": "a"}, {"key": "b", "value": "c", "effect": "NoExecute"}])
    [node, *_] = pool_manifests.nodes("gpu", changed)
    flavor = queue_manifests.flavor("gpu", pool_manifests.flavor("gpu", changed))["spec"]
    tolerated = {(one["key"], one.get("value", ""), one["effect"]) for one in flavor["tolerations"]}
    assert tolerated == {(one["key"], one["value"], one["effect"]) for one in node["spec"]["taints"]}
    assert flavor["nodeLabels"].items() <= node["metadata"]["labels"].items()


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "google.com/tpu"])
def test_pods_of_a_pool_of_gke_tolerate_gkes_own_taint(resource: str) -> None:
    accelerator = {"type": "some", "resource": resource, "count": 4}
    given = {**ON_EKS, "provider": "gke", "zones": ["europe-west4-a"], "accelerator": accelerator}
    flavor = pool_manifests.flavor("gpu", NodePool.model_validate(given))
    assert queue_manifests.flavor("gpu", flavor)["spec"]["tolerations"] == [
        {"key": resource, "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]


@dataclass(frozen=True)
class Case:
    id: str
    given: dict[str, Any]
    message: str


CASES = [
    Case(
        id="existing nodes by no label",
        given={**EXISTING, "nodeLabels": {}},
        message="nodePools.gpu: provider existing needs nodeLabels, by which its nodes are found",
    ),
    Case(
        id="simulated places of no size",
        given={**KWOK, "topology": [{"label": "example.com/rack"}]},
        message="nodePools.gpu: provider kwok needs `nodes` for the topology level example.com/rack",
    ),
    Case(
        id="more given away than there is",
        given={**KWOK, "quota": [{"clusterQueue": "team-a"}, {"clusterQueue": "team-b", "nodes": 1}]},
        message="nodePools.gpu: the queues in `quota` take 9 nodes, but the pool has only 8",
    ),
    Case(
        id="a machine of no make",
        given={**ON_EKS, "machine": {"cpu": "46", "memory": "170Gi"}},
        message="nodePools.gpu: provider eks needs machine.type, the cloud's name of the machine",
    ),
    Case(
        id="a disk of a machine that somebody else makes",
        given={**EXISTING, "machine": {**EXISTING["machine"], "disk": "200Gi"}},
        message="nodePools.gpu: provider existing has no use for machine.disk: remove it",
    ),
    Case(
        id="fewest nodes where Karpenter decides",
        given={
            **ON_EKS,
            "provider": "karpenter",
            "machine": {**ON_EKS["machine"], "image": "al2023@v20260120"},
            "minNodes": 1,
        },
        message="nodePools.gpu: provider karpenter has no use for minNodes: remove it",
    ),
    Case(
        id="an image that AWS would choose",
        given={**ON_EKS, "provider": "karpenter", "machine": {**ON_EKS["machine"], "image": "al2023@latest"}},
        message="nodePools.gpu: provider karpenter needs machine.image, an alias with its version "
        "such as al2023@v20260120: with another, AWS would choose what new nodes boot",
    ),
    Case(
        id="a version where the alias has it",
        given={
            **ON_EKS,
            "provider": "karpenter",
            "machine": {**ON_EKS["machine"], "image": "al2023@v20260120", "version": "1.35"},
        },
        message="nodePools.gpu: provider karpenter has no use for machine.version: remove it",
    ),
    Case(
        id="a version that YAML takes for a number",
        given={**ON_EKS, "machine": {**ON_EKS["machine"], "version": 1.35}},
        message="nodePools.gpu.machine.version: must be a valid string; is 1.35",
    ),
    Case(
        id="side by side in two zones",
        given={**ON_EKS, "compactPlacement": True},
        message="nodePools.gpu: compactPlacement needs one zone, in which its nodes are side by side; has 2",
    ),
    Case(
        id="side by side by Karpenter, which has no groups",
        given={
            **ON_EKS,
            "provider": "karpenter",
            "zones": ["us-east-1a"],
            "machine": {**ON_EKS["machine"], "image": "al2023@v20260120"},
            "compactPlacement": True,
        },
        message="nodePools.gpu: provider karpenter has no use for compactPlacement: remove it",
    ),
    Case(
        id="a driver of EKS, whose image has it",
        given={**ON_EKS, "machine": {**ON_EKS["machine"], "gpuDriver": "none"}},
        message="nodePools.gpu: provider eks has no use for machine.gpuDriver: remove it",
    ),
    Case(
        id="networks elsewhere than on GKE",
        given={**ON_EKS, "networks": ["gpu-0"]},
        message="nodePools.gpu: provider eks has no use for networks: remove it",
    ),
    Case(
        id="upkeep elsewhere than on GKE",
        given={**ON_EKS, "maintenance": {}},
        message="nodePools.gpu: provider eks has no use for maintenance: remove it",
    ),
    Case(
        id="more at least than at most",
        given={**ON_EKS, "minNodes": 5},
        message="nodePools.gpu: minNodes is 5, but there are only 4 nodes",
    ),
    Case(
        id="places of nodes that come and go",
        given={**ON_EKS, "minNodes": 0, "topology": [{"label": "example.com/rack"}]},
        message="nodePools.gpu: topology needs nodes that exist, since Kueue places pods by their labels: "
        "leave it out where nodes come and go (provider karpenter, minNodes)",
    ),
    Case(
        id="reserved nowhere",
        given={**ON_EKS, "capacityType": "reserved"},
        message="nodePools.gpu: capacityType reserved needs `reservation`, "
        "which names the capacity in the cloud",
    ),
    Case(
        id="a reservation that is not used",
        given={**ON_EKS, "capacityType": "spot", "reservation": "cr-1"},
        message="nodePools.gpu: capacityType spot has no use for `reservation`: remove it, or say reserved",
    ),
    Case(
        id="nodes that do not spread evenly",
        given={**ON_EKS, "provider": "gke", "nodes": 5, "quota": []},
        message="nodePools.gpu: provider gke has the same number of nodes in each zone: 5 nodes "
        "do not spread evenly over 2 zones",
    ),
    Case(
        id="GKE without zones",
        given={**ON_EKS, "provider": "gke", "zones": []},
        message="nodePools.gpu: provider gke needs zones: GKE counts nodes by zone",
    ),
    Case(
        id="a taint that AKS cannot write",
        given={**ON_EKS, "provider": "aks", "taints": [{"key": "only"}]},
        message="nodePools.gpu: provider aks needs a value for the taint only",
    ),
    Case(
        id="an accelerator that no label can name",
        given={**KWOK, "accelerator": {"type": "NVIDIA H100", "count": 8}},
        message="nodePools.gpu: accelerator.type is 'NVIDIA H100', which cannot be the value of the label "
        "trainyard.dev/accelerator: use at most 63 letters, digits, hyphens, underscores and dots",
    ),
    Case(
        id="a value that no label has",
        given={**EXISTING, "nodeLabels": {"example.com/kind": "large nodes"}},
        message=f"nodePools.gpu.nodeLabels.example.com/kind: {LABEL_VALUE}; is 'large nodes'",
    ),
    Case(
        id="a label with a key that no label has",
        given={**EXISTING, "nodeLabels": {"node kind": "large"}},
        message=f"nodePools.gpu.nodeLabels.node kind.[key]: {LABEL_KEY}; is 'node kind'",
    ),
    Case(
        id="a taint with a key that no taint has",
        given={**KWOK, "taints": [{"key": "gpu type"}]},
        message=f"nodePools.gpu.taints[0].key: {LABEL_KEY}; is 'gpu type'",
    ),
    Case(
        id="a value that no taint has",
        given={**KWOK, "taints": [{"key": "gpu", "value": "a b"}]},
        message=f"nodePools.gpu.taints[0].value: {LABEL_VALUE}; is 'a b'",
    ),
    Case(
        id="a level of a label that there cannot be",
        given={**KWOK, "topology": [{"label": "the rack", "nodes": 4}]},
        message=f"nodePools.gpu.topology[0].label: {LABEL_KEY}; is 'the rack'",
    ),
    Case(
        id="a resource that the pool says elsewhere",
        given={**KWOK, "machine": {**KWOK["machine"], "resources": {"nvidia.com/gpu": "8"}}},
        message="nodePools.gpu: machine.resources has nvidia.com/gpu, which the pool says elsewhere: "
        "remove it",
    ),
    Case(
        id="a label that follows from the pool",
        given={**KWOK, "nodeLabels": {"trainyard.dev/pool": "other"}},
        message="nodePools.gpu: nodeLabels has trainyard.dev/pool, which follows from the pool: remove it",
    ),
    Case(
        id="partitions, of which GKE would have to know the whole",
        given={
            **ON_EKS,
            "provider": "gke",
            "accelerator": {"type": "nvidia-h100", "resource": "nvidia.com/mig-1g.10gb", "count": 56},
        },
        message="nodePools.gpu: provider gke cannot create nodes with nvidia.com/mig-1g.10gb: GKE offers "
        "partitions of a GPU as nvidia.com/gpu, and needs the number of whole GPUs. Create the node pool "
        "outside the stack, and use provider existing",
    ),
    Case(
        id="the provider's own taint with another value",
        given={**ON_EKS, "provider": "gke", "taints": [{"key": "nvidia.com/gpu", "value": "mine"}]},
        message="nodePools.gpu: two taints have the key nvidia.com/gpu and the effect NoSchedule",
    ),
    Case(
        id="the node as a level of its own",
        given={**KWOK, "topology": [{"label": "kubernetes.io/hostname", "nodes": 1}]},
        message="nodePools.gpu: topology has the level kubernetes.io/hostname: "
        "remove it, the node itself is always the last level",
    ),
    Case(
        id="a cloud's pool on a cluster of nowhere",
        given=ON_EKS,
        message="nodePools.gpu.provider: needs the section cluster.eks",
    ),
    Case(
        id="a queue that is not there",
        given={**KWOK, "quota": [{"clusterQueue": "team-z"}]},
        message="nodePools.gpu.quota[0].clusterQueue: there is no cluster queue 'team-z'; "
        "did you mean team-a?",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_wrong_pool_is_one_sentence(case: Case) -> None:
    queues = {"clusterQueues": {"team-a": {}}}
    given = {"kueue": {"enabled": True}, "queues": queues, "nodePools": {"gpu": case.given}, **SHIPPED}
    with pytest.raises(PlatformError) as stopped:
        settings.load(json.dumps({"operator": OPERATOR, **given}), "demo")
    assert str(stopped.value) == (
        f"stacks/Pulumi.demo.yaml is not valid:\n  trainyard:platform.{case.message}"
    )


def test_a_flavor_and_a_pool_cannot_share_a_name() -> None:
    given = {
        "kueue": {"enabled": True},
        "queues": {"flavors": {"gpu": {}}, "clusterQueues": {"team-a": {}, "team-b": {}}},
        "nodePools": {"gpu": KWOK},
    }
    with pytest.raises(PlatformError, match="a node pool has this name, and is already a flavor"):
        settings.load(json.dumps({"operator": OPERATOR, **given}), "demo")


@pytest.mark.parametrize("has_topology", [True, False])
def test_a_topology_and_a_pool_with_another_cannot_share_a_name(has_topology: bool) -> None:
    topologies = {"gpu": {"levels": ["example.com/rack", "kubernetes.io/hostname"]}}
    given = {
        "operator": OPERATOR,
        "kueue": {"enabled": True},
        "queues": {"topologies": topologies, "clusterQueues": {"team-a": {}, "team-b": {}}},
        "nodePools": {"gpu": {**KWOK, "topology": KWOK["topology"] if has_topology else []}},
    }
    problem = "queues.topologies.gpu: a node pool has this name, and its own topology: rename this one"
    assert [*settings.StackSettings.model_validate(given).problems()] == [problem] * has_topology


@dataclass(frozen=True)
class ClusterCase:
    id: str
    cluster: dict[str, Any]
    pools: dict[str, Any]
    message: str


CLUSTER_CASES = [
    ClusterCase(
        id="two clouds",
        cluster={"karpenter": KARPENTER, "gke": GKE},
        pools={},
        message="cluster: a cluster is on one cloud, not on karpenter and gke",
    ),
    ClusterCase(
        id="a role that is no ARN",
        cluster={"eks": {**EKS, "nodeRole": "nodes"}},
        pools={},
        message="cluster.eks.nodeRole: must be the ARN of an IAM role, such as "
        "arn:aws:iam::123456789012:role/nodes; is 'nodes'",
    ),
    ClusterCase(
        id="an AKS cluster by its name alone",
        cluster={"aks": {"id": "training"}},
        pools={},
        message="cluster.aks.id: must be the cluster's whole id: /subscriptions/.../resourceGroups/.../"
        "providers/Microsoft.ContainerService/managedClusters/...; is 'training'",
    ),
    ClusterCase(
        id="an unknown key of a cloud's cluster",
        cluster={"gke": {**GKE, "region": "europe-west4"}},
        pools={},
        message="cluster.gke.region: there is no such key "
        "(allowed here: location, name, networks, nodeServiceAccount, project)",
    ),
    ClusterCase(
        id="a zone without a subnet",
        cluster={"eks": EKS},
        pools={"gpu": {**ON_EKS, "zones": ["us-east-1a", "us-east-1z"]}},
        message="nodePools.gpu.zones[1]: cluster.eks.subnets has no zone 'us-east-1z'; "
        "did you mean us-east-1b?",
    ),
    ClusterCase(
        id="a zone of another region",
        cluster={"gke": GKE},
        pools={"gpu": {**ON_EKS, "provider": "gke", "zones": ["europe-west4-a", "europe-west1-b"]}},
        message="nodePools.gpu.zones[1]: 'europe-west1-b' is not in europe-west4, "
        "where cluster.gke.location is",
    ),
    ClusterCase(
        id="EFA whose interfaces have no security group",
        cluster={"eks": EKS},
        pools={"gpu": {**WITH_EFA}},
        message="nodePools.gpu.machine.resources: vpc.amazonaws.com/efa needs cluster.eks.securityGroups: "
        "the cluster's own, and one that allows all traffic between its members, in and out",
    ),
    ClusterCase(
        id="a security group by its name",
        cluster={"eks": {**EKS, "securityGroups": ["efa"]}},
        pools={},
        message="cluster.eks.securityGroups[0]: must be the id of a security group, "
        "such as sg-0123456789abcdef0; is 'efa'",
    ),
    *(
        ClusterCase(
            id=f"{resource} of nodes that are not there",
            cluster={"eks": {**EKS, "securityGroups": ["sg-1"]}},
            pools={"gpu": {**WITH_EFA, "minNodes": 0, **changed}},
            message=f"nodePools.gpu.minNodes: must be at least 1 with {resource}: of an empty node group of "
            "EKS, Cluster Autoscaler knows only CPU, memory and whole NVIDIA GPUs, so jobs that request this "
            "resource would wait forever. Provider karpenter knows other devices of AWS too, such as EFA",
        )
        for resource, changed in (
            (EFA, {}),
            (
                "aws.amazon.com/neuron",
                {
                    "machine": ON_EKS["machine"],
                    "accelerator": {"type": "trn2", "resource": "aws.amazon.com/neuron", "count": 16},
                },
            ),
        )
    ),
    *(
        ClusterCase(
            id=f"{resource} of nodes of AKS that are not there",
            cluster={"aks": AKS},
            pools={"gpu": {**ON_AKS, **changed}},
            message=f"nodePools.gpu.minNodes: must be at least 1 with {resource}: of an empty node pool of "
            "AKS, the autoscaler knows only CPU, memory, ephemeral storage and whole NVIDIA GPUs, so jobs "
            "that request this resource would wait forever",
        )
        for resource, changed in (
            ("rdma/ib", {"machine": {**ON_AKS["machine"], **WITH_INFINIBAND}}),
            ("example.com/gpu", {"accelerator": {"type": "some", "resource": "example.com/gpu", "count": 8}}),
        )
    ),
    ClusterCase(
        id="EFA in two zones",
        cluster={"eks": {**EKS, "securityGroups": ["sg-1"]}},
        pools={"gpu": {**WITH_EFA, "zones": ["us-east-1a", "us-east-1b"]}},
        message="nodePools.gpu.zones: must be one, since vpc.amazonaws.com/efa does not span zones; has 2",
    ),
    ClusterCase(
        id="a network that the cluster does not have",
        cluster={"gke": {**GKE, "networks": {"gpu-0": {"network": "a", "subnetwork": "b"}}}},
        pools={"gpu": {**ON_EKS, "provider": "gke", "zones": ["europe-west4-a"], "networks": ["gpu-o"]}},
        message="nodePools.gpu.networks[0]: cluster.gke.networks has no 'gpu-o'; did you mean gpu-0?",
    ),
    ClusterCase(
        id="side by side in no region",
        cluster={"aks": AKS},
        pools={"gpu": {**ON_EKS, "provider": "aks", "zones": ["1"], "compactPlacement": True}},
        message="nodePools.gpu.compactPlacement: needs cluster.aks.location, "
        "the region of the group that is created",
    ),
    ClusterCase(
        id="InfiniBand of a size without",
        cluster={"aks": AKS},
        pools={
            "gpu": {
                **ON_EKS,
                "provider": "aks",
                "machine": {**ON_EKS["machine"], "type": "Standard_NC24ads_A100_v4", **WITH_INFINIBAND},
            }
        },
        message="nodePools.gpu.machine.resources: rdma/ib is not in Standard_NC24ads_A100_v4: sizes with "
        "InfiniBand have an r after their number of CPUs, such as Standard_ND96isr_H100_v5",
    ),
    *(
        ClusterCase(
            id=f"{name}, a name that EKS takes, but no object",
            cluster={"eks": EKS},
            pools={name: ON_EKS},
            message=f"nodePools.{name}: provider eks accepts names of "
            "at most 63 small letters, digits and hyphens",
        )
        for name in ("H100", "h100_a", "h100-")
    ),
    ClusterCase(
        id="a name that the cloud does not take",
        cluster={"gke": GKE},
        pools={"GPU": {**ON_EKS, "provider": "gke", "zones": ["europe-west4-a"]}},
        message="nodePools.GPU: provider gke accepts names of "
        "at most 40 small letters, digits and hyphens, a letter first",
    ),
]


@pytest.mark.parametrize("case", CLUSTER_CASES, ids=lambda case: case.id)
def test_a_pool_and_its_cluster_that_do_not_fit_are_one_sentence(case: ClusterCase) -> None:
    given = {
        "cluster": case.cluster,
        "kueue": {"enabled": True},
        "queues": {"clusterQueues": {"team-a": {}}},
        "nodePools": case.pools,
        **SHIPPED,
    }
    with pytest.raises(PlatformError) as stopped:
        settings.load(json.dumps({"operator": OPERATOR, **given}), "demo")
    assert str(stopped.value) == (
        f"stacks/Pulumi.demo.yaml is not valid:\n  trainyard:platform.{case.message}"
    )


PARTITIONED: dict[str, Any] = {
    "accelerators": {
        "nvidia": {"devicePlugin": "shipped", "mig": {"strategy": "mixed", "profiles": ["1g.10gb"]}}
    }
}


NO_RUNTIMES = {path.stem: {"enabled": False} for path in (program.ROOT / "runtimes").glob("*/*.yaml")}
"""A pool has nothing to do with them, and each of them takes its time to register."""


def made(
    folder: Path, cluster: dict[str, Any], given: dict[str, Any], kind: str, stack: dict[str, Any] = SHIPPED
) -> dict[str, Any]:
    """What a cloud is asked for by the one resource of this kind that a pool has made."""
    return registered(folder, cluster, given, kind, stack).inputs


def registered(
    folder: Path, cluster: dict[str, Any], given: dict[str, Any], kind: str, stack: dict[str, Any] = SHIPPED
) -> program.Registered:
    """The one resource of this kind that a pool has made."""
    if not any(folder.iterdir()):
        program.artifacts_folder(folder)
    said = {
        "operator": OPERATOR,
        "artifacts": {"source": "folder", "folder": str(folder)},
        "cluster": cluster,
        "nodePools": {"gpu": {**given, "quota": []}},
        "runtimes": NO_RUNTIMES,
        **stack,
    }
    [resource] = [one for one in program.run(said) if one.type.endswith(f":{kind}")]
    return resource


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({**ON_EKS, "minNodes": 0}, id="of GPUs alone"),
        pytest.param({**WITH_EFA, "minNodes": 1}, id="with a node that has EFA"),
        pytest.param(
            {**ON_AKS, "machine": {**ON_AKS["machine"], "resources": {"ephemeral-storage": "1Ti"}}},
            id="of GPUs and disks alone, on AKS",
        ),
        pytest.param(
            {**ON_AKS, "machine": {**ON_AKS["machine"], **WITH_INFINIBAND}, "minNodes": 1},
            id="with a node that has InfiniBand",
        ),
        pytest.param({**WITH_EFA, "nodes": 0, "minNodes": 0}, id="that stays empty"),
        pytest.param(
            {
                **WITH_EFA,
                "provider": "karpenter",
                "machine": {**WITH_EFA["machine"], "image": "al2023@v20260120"},
            },
            id="of Karpenter, which knows EFA",
        ),
    ],
)
def test_a_pool_may_start_with_nodes_that_its_autoscaler_knows(given: dict[str, Any]) -> None:
    on_aws = {"eks": {**EKS, "securityGroups": ["sg-1"]}, "karpenter": KARPENTER}
    cluster = {"aks": AKS} if given["provider"] == "aks" else on_aws
    pools = {"gpu": NodePool.model_validate(given)}
    assert [*clouds.problems(pools, clouds.Clouds.model_validate(cluster))] == []


@pytest.mark.parametrize(
    ("disk", "size"), [("200Gi", "200Gi"), ("1.5Ti", "1536Gi"), ("512000Mi", "500Gi"), ("500G", "466Gi")]
)
def test_karpenter_gets_the_size_of_a_disk_in_whole_gibibytes(disk: str, size: str) -> None:
    machine = {**ON_EKS["machine"], "image": "al2023@v20260120", "disk": disk}
    given = NodePool.model_validate({**ON_EKS, "provider": "karpenter", "machine": machine})
    cluster = clouds.Karpenter.model_validate(KARPENTER)
    spec = karpenter_manifests.node_class("gpu", given, cluster)["spec"]
    assert spec["blockDeviceMappings"] == [
        {
            "deviceName": "/dev/xvda",
            "ebs": {"volumeSize": size, "volumeType": "gp3", "encrypted": True},
        }
    ]


def test_the_disk_of_bottlerocket_is_its_second_which_has_the_images() -> None:
    machine = {**ON_EKS["machine"], "image": "bottlerocket@v1.50.0", "disk": "200Gi"}
    given = NodePool.model_validate({**ON_EKS, "provider": "karpenter", "machine": machine})
    spec = karpenter_manifests.node_class("gpu", given, clouds.Karpenter.model_validate(KARPENTER))["spec"]
    assert [mapping["deviceName"] for mapping in spec["blockDeviceMappings"]] == ["/dev/xvdb"]


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize(
    ("image", "device"), [(None, "/dev/xvda"), ("BOTTLEROCKET_x86_64_NVIDIA", "/dev/xvdb")]
)
def test_a_disk_of_eks_is_the_one_that_has_the_images(tmp_path: Path, image: str | None, device: str) -> None:
    given = {**ON_EKS, "machine": {**ON_EKS["machine"], "image": image, "disk": "200Gi"}}
    template = made(tmp_path, {"eks": EKS}, given, "LaunchTemplate")
    assert template["blockDeviceMappings"] == [
        {"deviceName": device, "ebs": {"volumeSize": 200, "volumeType": "gp3", "encrypted": "true"}}
    ]


@pytest.mark.usefixtures("pins")
def test_a_pool_with_efa_has_an_interface_for_each_and_may_be_side_by_side(tmp_path: Path) -> None:
    cluster = {"eks": {**EKS, "securityGroups": ["sg-1", "sg-2"]}}
    given = {**WITH_EFA, "compactPlacement": True}
    template = made(tmp_path, cluster, given, "LaunchTemplate")
    efa = {"securityGroups": ["sg-1", "sg-2"], "deleteOnTermination": "true"}
    assert template["networkInterfaces"] == [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa", **efa},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only", **efa},
    ]
    assert template["placement"] == {"groupName": "training-gpu"}
    group = made(tmp_path, cluster, given, "PlacementGroup")
    assert group == {"name": "training-gpu", "strategy": "cluster"}


@pytest.mark.usefixtures("pins")
def test_a_pool_without_efa_has_the_network_that_eks_gives_it(tmp_path: Path) -> None:
    template = made(tmp_path, {"eks": EKS}, ON_EKS, "LaunchTemplate")
    assert not {"networkInterfaces", "placement"} & template.keys()


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
@pytest.mark.usefixtures("pins")
def test_nodes_of_eks_boot_an_image_with_the_drivers_of_their_accelerators(
    tmp_path: Path, resource: str
) -> None:
    given = {**ON_EKS, "accelerator": {"type": "some", "resource": resource, "count": 4}}
    nodes = made(tmp_path, {"eks": EKS}, given, "NodeGroup", PARTITIONED)
    assert nodes["amiType"] == "AL2023_x86_64_NVIDIA"


@pytest.mark.usefixtures("pins")
def test_aks_leaves_the_driver_of_partitioned_gpus_to_others_too(tmp_path: Path) -> None:
    given = {
        **ON_EKS,
        "provider": "aks",
        "zones": ["1"],
        "accelerator": {"type": "some", "resource": "nvidia.com/mig-1g.10gb", "count": 56},
        "machine": {**ON_EKS["machine"], "gpuDriver": "none"},
    }
    nodes = made(tmp_path, {"aks": AKS}, given, "KubernetesClusterNodePool", PARTITIONED)
    assert nodes["gpuDriver"] == "None"


@pytest.mark.usefixtures("pins")
def test_nodes_boot_the_version_that_the_pool_says(tmp_path: Path) -> None:
    def versioned(version: str, provider: str, **more: Any) -> dict[str, Any]:
        return {**ON_EKS, "provider": provider, "machine": {**ON_EKS["machine"], "version": version}, **more}

    eks = made(tmp_path, {"eks": EKS}, versioned("1.35.2-20260120", "eks"), "NodeGroup")
    assert eks["releaseVersion"] == "1.35.2-20260120"
    zone = {"zones": ["europe-west4-a"]}
    gke = made(tmp_path, {"gke": GKE}, versioned("1.35.1-gke.1200", "gke", **zone), "NodePool")
    assert gke["version"] == "1.35.1-gke.1200"
    assert gke["maintenancePolicies"] == [{"exclusionUntilEndOfSupports": [{"enabled": True}]}]
    aks = made(tmp_path, {"aks": AKS}, versioned("1.35.1", "aks", zones=["1"]), "KubernetesClusterNodePool")
    assert aks["orchestratorVersion"] == "1.35.1"


@pytest.mark.usefixtures("pins")
def test_a_pool_of_gke_has_networks_for_gpudirect_and_is_worked_on_while_idle(tmp_path: Path) -> None:
    networks = {name: {"network": f"vpc-{name}", "subnetwork": f"sub-{name}"} for name in ("a", "b", "c")}
    given = {
        **ON_EKS,
        "provider": "gke",
        "zones": ["europe-west4-a"],
        "networks": ["b", "a"],
        "compactPlacement": True,
        "maintenance": {"idleFor": "1h30m", "minNodes": 2},
        "machine": {**ON_EKS["machine"], "gpuDriver": "none"},
    }
    nodes = made(tmp_path, {"gke": {**GKE, "networks": networks}}, given, "NodePool")
    assert nodes["networkConfig"] == {
        "additionalNodeNetworkConfigs": [
            {"network": "vpc-b", "subnetwork": "sub-b"},
            {"network": "vpc-a", "subnetwork": "sub-a"},
        ]
    }
    assert nodes["placementPolicy"] == {"type": "COMPACT"}
    node = nodes["nodeConfig"]
    assert node["gvnic"] == {"enabled": True}
    assert node["hostMaintenancePolicy"] == {
        "maintenanceInterval": "PERIODIC",
        "opportunisticMaintenanceStrategy": {
            "nodeIdleTimeWindow": "5400s",
            "maintenanceAvailabilityWindow": "2419200s",
            "minNodesPerPool": 2,
        },
    }
    assert [one["gpuDriverInstallationConfig"] for one in node["guestAccelerators"]] == [
        {"gpuDriverVersion": "INSTALLATION_DISABLED"}
    ]


@pytest.mark.usefixtures("pins")
def test_a_pool_of_aks_has_infiniband_without_a_driver_and_a_group_of_its_own(tmp_path: Path) -> None:
    cluster = {"aks": {**AKS, "location": "westeurope"}}
    given = {
        **ON_EKS,
        "provider": "aks",
        "zones": ["1"],
        "compactPlacement": True,
        "machine": {
            **ON_EKS["machine"],
            "type": "Standard_ND96isr_H100_v5",
            "gpuDriver": "none",
            **WITH_INFINIBAND,
        },
    }
    nodes = made(tmp_path, cluster, given, "KubernetesClusterNodePool")
    assert (nodes["gpuDriver"], nodes["vmSize"]) == ("None", "Standard_ND96isr_H100_v5")
    assert made(tmp_path, cluster, given, "PlacementGroup") == {
        "name": "gpu",
        "resourceGroupName": "training",
        "location": "westeurope",
        "zone": "1",
        "allowedVmSizes": ["Standard_ND96isr_H100_v5"],
    }
    assert nodes["proximityPlacementGroupId"]


@pytest.mark.usefixtures("pins")
def test_a_pool_of_aks_is_replaced_for_what_azure_would_not_change(tmp_path: Path) -> None:
    cluster = {"aks": {**AKS, "location": "westeurope"}}
    given = {**ON_EKS, "provider": "aks", "zones": ["1"], "compactPlacement": True}
    nodes = registered(tmp_path, cluster, given, "KubernetesClusterNodePool")
    assert (nodes.replaced_on, nodes.deleted_first) == (
        ("vmSize", "osDiskSizeGb", "zones", "vnetSubnetId"),
        True,
    )
    assert registered(tmp_path, cluster, given, "PlacementGroup").deleted_first


@pytest.mark.parametrize(
    ("size", "infiniband"),
    [
        ("Standard_ND96isr_H100_v5", True),
        ("Standard_ND96asr_v4", True),
        ("Standard_ND128isr_NDR_GB200_v6", True),
        ("Standard_HB120-96rs_v3", True),
        ("Standard_ND96is_H100_v5", False),
        ("Standard_NC24ads_A100_v4", False),
        ("Standard_NC40ads_H100_v5", False),
    ],
)
def test_azures_sizes_say_whether_they_have_infiniband(size: str, infiniband: bool) -> None:
    given = {
        **ON_EKS,
        "provider": "aks",
        "machine": {**ON_EKS["machine"], "type": size, **WITH_INFINIBAND},
    }
    pools = {"gpu": NodePool.model_validate(given)}
    found = [*clouds.problems(pools, clouds.Clouds.model_validate({"aks": AKS}))]
    assert (not found) is infiniband


@pytest.mark.parametrize(
    ("in_a_clone", "way_out"),
    [
        (True, "make cloud CLOUD=eks"),
        (
            False,
            "write trainyard[site,eks] instead of trainyard[site] in requirements.txt, "
            "and run make environment",
        ),
    ],
    ids=["a clone", "a site"],
)
def test_a_package_that_is_not_installed_is_named_with_the_way_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_a_clone: bool, way_out: str
) -> None:
    monkeypatch.setitem(sys.modules, "pulumi_aws", None)
    monkeypatch.delitem(sys.modules, "trainyard_platform.parts.node_pools.eks", raising=False)
    (tmp_path / "Pulumi.yaml").touch()
    (tmp_path / "stacks").mkdir()
    monkeypatch.chdir(program.ROOT if in_a_clone else tmp_path)
    with pytest.raises(PlatformError) as stopped:
        providers.package(Provider.EKS)
    assert str(stopped.value) == f"nodePools: provider eks needs the Python package pulumi_aws: {way_out}"
