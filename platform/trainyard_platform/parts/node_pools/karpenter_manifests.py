"""From a pool's declaration to Karpenter's NodePool and EC2NodeClass: pure.

Karpenter creates a node when an admitted pod asks for one, and removes it when
nothing is left on it, never while a job runs there: neither for a cheaper node
nor for a newer image. Sources: karpenter.sh, NodePools, NodeClasses and
Disruption (API karpenter.sh/v1, karpenter.k8s.aws/v1).
"""

from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Manifest
from trainyard_api.pools import NodePool, disk_device, disk_gib, labels, taints

from ...stack.node_pools import Karpenter

API_VERSION: Final = "karpenter.sh/v1"
CLASS_GROUP: Final = "karpenter.k8s.aws"
CLASS_KIND: Final = "EC2NodeClass"
DISCOVERY: Final = "karpenter.sh/discovery"
EMPTY_FOR: Final = "5m"
"""How long a node waits for the next job before it is removed."""


def manifests(name: str, pool: NodePool, cluster: Karpenter) -> list[Manifest]:
    """The class of the pool's nodes, and the pool."""
    return [node_class(name, pool, cluster), node_pool(name, pool)]


def node_class(name: str, pool: NodePool, cluster: Karpenter) -> Manifest:
    """How a node is created: its image, network, disk and, if reserved, its capacity."""
    discovered = [{"tags": {DISCOVERY: cluster.discovery}}]
    spec: Manifest = {
        "role": cluster.role,
        "amiSelectorTerms": [{"alias": pool.machine.image}],
        "subnetSelectorTerms": discovered,
        "securityGroupSelectorTerms": discovered,
        # Pods must not use the node's own credentials.
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
    }
    size = disk_gib(pool)
    if size is not None:
        disk = {"volumeSize": f"{size}Gi", "volumeType": "gp3", "encrypted": True}
        spec["blockDeviceMappings"] = [{"deviceName": disk_device(pool), "ebs": disk}]
    if pool.reservation:
        spec["capacityReservationSelectorTerms"] = [{"id": pool.reservation}]
    return _object(f"{CLASS_GROUP}/v1", CLASS_KIND, name, spec)


def node_pool(name: str, pool: NodePool) -> Manifest:
    """Which nodes, how many of them, and when they are removed."""
    return _object(
        API_VERSION,
        "NodePool",
        name,
        {
            "template": {
                "metadata": {"labels": labels(name, pool)},
                "spec": {
                    "nodeClassRef": {"group": CLASS_GROUP, "kind": CLASS_KIND, "name": name},
                    "requirements": _requirements(pool),
                    "taints": [taint.model_dump(mode="json") for taint in taints(pool)],
                    "expireAfter": "Never",
                },
            },
            "limits": _limits(pool),
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": EMPTY_FOR,
                "budgets": [
                    {"nodes": "100%", "reasons": ["Empty"]},
                    {"nodes": "0", "reasons": ["Drifted", "Underutilized"]},
                ],
            },
        },
    )


def _requirements(pool: NodePool) -> list[Manifest]:
    requirements = {
        names.INSTANCE_TYPE_LABEL: [pool.machine.type],
        "karpenter.sh/capacity-type": [str(pool.capacity_type)],
        names.ZONE_LABEL: list(pool.zones),
    }
    return [
        {"key": key, "operator": "In", "values": values} for key, values in requirements.items() if values
    ]


def _limits(pool: NodePool) -> Manifest:
    """The most that may exist at a time.

    Karpenter counts what a node has, but pods get only a part of its CPU and
    memory: only nodes and accelerators are the same number on both sides.
    """
    limits = {"nodes": str(pool.nodes)}
    if pool.accelerator:
        limits[pool.accelerator.resource] = str(pool.accelerator.count * pool.nodes)
    return limits


def _object(api_version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "labels": {names.POOL_LABEL: name}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
