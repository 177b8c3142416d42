"""Nodes of a node pool of AKS, by the package pulumi-azure.

Not by `pulumi-azure-native`: for the same node pools its Python package is twice
as large.
"""

from dataclasses import dataclass

import pulumi
import pulumi_azure as azure
from pulumi_azure import containerservice

from trainyard_api.pools import NVIDIA_GPU, CapacityType, NodePool, Taint, disk_gib, labels, taints

from ...clouds import Aks

WHATEVER_IT_COSTS = -1.0
"""Azure's way to say: spot nodes are evicted for capacity, never for their price."""


@dataclass(frozen=True, kw_only=True)
class PoolArgs:
    """The pool, and the cluster that its nodes join."""

    pool: NodePool
    cluster: Aks


def provider(cluster: Aks) -> pulumi.ProviderResource:
    """The connection to Azure; credentials are the environment's."""
    features = azure.ProviderFeaturesArgs()
    connection: pulumi.ProviderResource = azure.Provider(
        "azure", subscription_id=cluster.subscription, features=features
    )
    return connection


class Pool(pulumi.ComponentResource):
    """Makes the node pool of one pool."""

    def __init__(self, name: str, args: PoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:AksPool", name, {}, opts)
        pool = args.pool
        spot = pool.capacity_type is CapacityType.SPOT
        gpus = pool.accelerator is not None and pool.accelerator.resource == NVIDIA_GPU
        containerservice.KubernetesClusterNodePool(
            name,
            name=name,
            kubernetes_cluster_id=args.cluster.id,
            vnet_subnet_id=args.cluster.subnet,
            mode="User",
            vm_size=pool.machine.type,
            os_sku=pool.machine.image,
            os_disk_size_gb=disk_gib(pool),
            gpu_driver="Install" if gpus else None,
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
                ignore_changes=["nodeCount"] if pool.elastic else [],
            ),
        )
        self.register_outputs({})


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"
