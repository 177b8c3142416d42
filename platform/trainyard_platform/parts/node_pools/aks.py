"""Nodes of a node pool of AKS, by the package pulumi-azure.

Not by `pulumi-azure-native`: for the same node pools its Python package is twice
as large.
"""

import pulumi
import pulumi_azure as azure
from pulumi_azure import containerservice, proximity

from trainyard_api.pools import (
    CapacityType,
    GpuDriver,
    NodePool,
    Taint,
    disk_gib,
    has_nvidia,
    labels,
    taints,
)

from ...stack.node_pools import Aks

WHATEVER_IT_COSTS = -1.0
"""Azure's way to say: spot nodes are evicted for capacity, never for their price."""

RECREATED_FOR = ("vmSize", "osDiskSizeGb", "zones", "vnetSubnetId")
"""What nodes have from the start. Without replacement, azurerm would refuse to change them: it would have to
rotate the nodes through a second pool, named in `temporary_name_for_rotation`."""

DRIVER = {GpuDriver.INSTALL: "Install", GpuDriver.NONE: "None"}


def provider(cluster: Aks) -> pulumi.ProviderResource:
    """The connection to Azure; credentials come from the environment."""
    features = azure.ProviderFeaturesArgs()
    connection: pulumi.ProviderResource = azure.Provider(
        "azure", subscription_id=cluster.subscription, features=features
    )
    return connection


class Pool(pulumi.ComponentResource):
    """Makes the node pool of one pool."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions, *, pool: NodePool, cluster: Aks) -> None:
        super().__init__("trainyard:platform:AksPool", name, {}, opts)
        spot = pool.capacity_type is CapacityType.SPOT
        placement_group = _placement(name, pool, cluster, self) if pool.compact_placement else None
        containerservice.KubernetesClusterNodePool(
            name,
            name=name,
            kubernetes_cluster_id=cluster.id,
            vnet_subnet_id=cluster.subnet,
            mode="User",
            vm_size=pool.machine.type,
            os_sku=pool.machine.image,
            orchestrator_version=pool.machine.version,
            os_disk_size_gb=disk_gib(pool),
            gpu_driver=DRIVER[pool.machine.gpu_driver] if has_nvidia(pool) else None,
            proximity_placement_group_id=placement_group,
            zones=list(pool.zones) or None,
            node_count=pool.min_nodes if pool.elastic else pool.nodes,
            auto_scaling_enabled=pool.elastic,
            min_count=pool.min_nodes if pool.elastic else None,
            max_count=pool.nodes if pool.elastic else None,
            priority="Spot" if spot else "Regular",
            eviction_policy="Delete" if spot else None,
            spot_max_price=WHATEVER_IT_COSTS if spot else None,
            capacity_reservation_group_id=pool.reservation,
            node_labels=labels(name, pool),
            node_taints=[_taint(taint) for taint in taints(pool)],
            opts=pulumi.ResourceOptions(
                parent=self,
                delete_before_replace=True,
                replace_on_changes=list(RECREATED_FOR),
                ignore_changes=["nodeCount"] if pool.elastic else [],
            ),
        )
        self.register_outputs({})


def _placement(name: str, pool: NodePool, cluster: Aks, parent: pulumi.Resource) -> pulumi.Output[str]:
    group = proximity.PlacementGroup(
        name,
        name=name,
        resource_group_name=cluster.resource_group,
        location=cluster.location,
        zone=pool.zones[0],
        allowed_vm_sizes=[pool.machine.type or ""],
        # Another zone makes another group of the same name.
        opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
    )
    group_id: pulumi.Output[str] = group.id
    return group_id


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"
