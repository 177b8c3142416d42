"""Nodes of a node pool of GKE, by the package pulumi-gcp."""

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp import container

from trainyard_api import durations
from trainyard_api.pools import NVIDIA_GPU, CapacityType, GpuDriver, NodePool, disk_gib, labels, taints

from ...stack.node_pools import Gke

RESERVATION = "compute.googleapis.com/reservation-name"
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
"""All; what nodes may do is up to the roles of their service account."""

AS_SOON_AS_ANNOUNCED = f"{28 * 86400}s"
"""Google announces such work 28 days ahead."""


def provider(cluster: Gke) -> pulumi.ProviderResource:
    """The connection to Google Cloud; credentials come from the environment."""
    connection: pulumi.ProviderResource = gcp.Provider("gcp", project=cluster.project)
    return connection


class Pool(pulumi.ComponentResource):
    """Makes the node pool of one pool."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions, *, pool: NodePool, cluster: Gke) -> None:
        super().__init__("trainyard:platform:GkePool", name, {}, opts)
        container.NodePool(
            name,
            name=name,
            project=cluster.project,
            location=cluster.location,
            cluster=cluster.name,
            node_locations=list(pool.zones),
            node_count=None if pool.elastic else pool.nodes // len(pool.zones),
            initial_node_count=_first(pool) if pool.elastic else None,
            autoscaling=_autoscaling(pool) if pool.elastic else None,
            placement_policy=_placement(pool),
            network_config=_networks(pool, cluster),
            version=pool.machine.version,
            maintenance_policies=[_version_stays()] if pool.machine.version else None,
            node_config=_node(name, pool, cluster),
            opts=pulumi.ResourceOptions(
                parent=self,
                delete_before_replace=True,
                ignore_changes=["nodeCount", "initialNodeCount"] if pool.elastic else [],
            ),
        )
        self.register_outputs({})


def _first(pool: NodePool) -> int:
    """Nodes in each zone at the start: enough for the minimum."""
    return -(-(pool.min_nodes or 0) // len(pool.zones))


def _autoscaling(pool: NodePool) -> container.NodePoolAutoscalingArgs:
    # Wherever there is capacity: nodes with accelerators are hard to get.
    return container.NodePoolAutoscalingArgs(
        total_min_node_count=pool.min_nodes or 0, total_max_node_count=pool.nodes, location_policy="ANY"
    )


def _placement(pool: NodePool) -> container.NodePoolPlacementPolicyArgs | None:
    return container.NodePoolPlacementPolicyArgs(type="COMPACT") if pool.compact_placement else None


def _networks(pool: NodePool, cluster: Gke) -> container.NodePoolNetworkConfigArgs | None:
    network_configs = [
        container.NodePoolNetworkConfigAdditionalNodeNetworkConfigArgs(
            network=cluster.networks[name].network, subnetwork=cluster.networks[name].subnetwork
        )
        for name in pool.networks
    ]
    if not network_configs:
        return None
    return container.NodePoolNetworkConfigArgs(additional_node_network_configs=network_configs)


def _version_stays() -> container.NodePoolMaintenancePolicyArgs:
    # Otherwise GKE upgrades the nodes with its release channel, whatever git says.
    until = container.NodePoolMaintenancePolicyExclusionUntilEndOfSupportArgs(enabled=True)
    return container.NodePoolMaintenancePolicyArgs(exclusion_until_end_of_supports=[until])


def _node(name: str, pool: NodePool, cluster: Gke) -> container.NodePoolNodeConfigArgs:
    return container.NodePoolNodeConfigArgs(
        machine_type=pool.machine.type,
        image_type=pool.machine.image,
        disk_size_gb=disk_gib(pool),
        spot=pool.capacity_type is CapacityType.SPOT,
        reservation_affinity=_reservation(pool),
        guest_accelerators=_accelerators(pool),
        # GPUDirect and all networks but the first need Google's own network card.
        gvnic=container.NodePoolNodeConfigGvnicArgs(enabled=True) if pool.networks else None,
        host_maintenance_policy=_maintenance(pool),
        labels=labels(name, pool),
        taints=[
            container.NodePoolNodeConfigTaintArgs(key=taint.key, value=taint.value, effect=taint.effect.name)
            for taint in taints(pool)
        ],
        service_account=cluster.node_service_account,
        oauth_scopes=list(SCOPES),
        # Pods must not use the node's own credentials.
        workload_metadata_config=container.NodePoolNodeConfigWorkloadMetadataConfigArgs(mode="GKE_METADATA"),
    )


def _accelerators(pool: NodePool) -> list[container.NodePoolNodeConfigGuestAcceleratorArgs] | None:
    """NVIDIA's GPUs, with GKE's choice of driver; others, such as TPUs, come with the machine type."""
    if pool.accelerator is None or pool.accelerator.resource != NVIDIA_GPU:
        return None
    installs = pool.machine.gpu_driver is GpuDriver.INSTALL
    driver = container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
        gpu_driver_version="DEFAULT" if installs else "INSTALLATION_DISABLED"
    )
    return [
        container.NodePoolNodeConfigGuestAcceleratorArgs(
            type=pool.accelerator.type, count=pool.accelerator.count, gpu_driver_installation_config=driver
        )
    ]


def _maintenance(pool: NodePool) -> container.NodePoolNodeConfigHostMaintenancePolicyArgs | None:
    if pool.maintenance is None:
        return None
    idle = container.NodePoolNodeConfigHostMaintenancePolicyOpportunisticMaintenanceStrategyArgs(
        node_idle_time_window=f"{durations.seconds(pool.maintenance.idle_for):.0f}s",
        maintenance_availability_window=AS_SOON_AS_ANNOUNCED,
        min_nodes_per_pool=pool.maintenance.min_nodes,
    )
    return container.NodePoolNodeConfigHostMaintenancePolicyArgs(
        maintenance_interval="PERIODIC", opportunistic_maintenance_strategy=idle
    )


def _reservation(pool: NodePool) -> container.NodePoolNodeConfigReservationAffinityArgs | None:
    if pool.reservation is None:
        return None
    return container.NodePoolNodeConfigReservationAffinityArgs(
        consume_reservation_type="SPECIFIC_RESERVATION", key=RESERVATION, values=[pool.reservation]
    )
