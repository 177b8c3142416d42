"""Nodes of a managed node group of EKS, by the package pulumi-aws.

Not by `pulumi-eks`: it creates node groups inside its plugin, where neither
tests nor policies see what they consist of.
"""

import pulumi
import pulumi_aws as aws
from pulumi_aws import ec2, eks

from trainyard_api.pools import (
    CapacityType,
    NodePool,
    disk_device,
    disk_gib,
    has_nvidia,
    interfaces,
    labels,
    taints,
)

from ...stack.node_pools import Eks

NVIDIA_IMAGE = "AL2023_x86_64_NVIDIA"
NEURON_IMAGE = "AL2023_x86_64_NEURON"
PLAIN_IMAGE = "AL2023_x86_64_STANDARD"
"""AMI types: with the drivers of an accelerator, and without."""
NEURON = ("aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice")
"""Resources of AWS's own accelerators."""


def provider(cluster: Eks) -> pulumi.ProviderResource:
    """The connection to AWS; credentials come from the environment."""
    connection: pulumi.ProviderResource = aws.Provider("aws", region=cluster.region)
    return connection


class Pool(pulumi.ComponentResource):
    """Makes the node group of one pool."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions, *, pool: NodePool, cluster: Eks) -> None:
        super().__init__("trainyard:platform:EksPool", name, {}, opts)
        placement_group = _placement(f"{cluster.name}-{name}", self) if pool.compact_placement else None
        template = ec2.LaunchTemplate(
            name,
            name=f"{cluster.name}-{name}",
            update_default_version=True,
            # Pods must not use the node's own credentials.
            metadata_options=ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
            ),
            block_device_mappings=_disks(pool),
            network_interfaces=_interfaces(pool, cluster),
            placement=placement_group,
            capacity_reservation_specification=_reservation(pool),
            opts=pulumi.ResourceOptions(parent=self),
        )
        eks.NodeGroup(
            name,
            node_group_name=name,
            cluster_name=cluster.name,
            node_role_arn=cluster.node_role,
            subnet_ids=[cluster.subnets[zone] for zone in pool.zones or cluster.subnets],
            instance_types=[pool.machine.type or ""],
            ami_type=pool.machine.image or _image(pool),
            release_version=pool.machine.version,
            capacity_type="SPOT" if pool.capacity_type is CapacityType.SPOT else "ON_DEMAND",
            launch_template=eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            scaling_config=_scaling(pool),
            labels=labels(name, pool),
            taints=[
                eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=taint.effect.name)
                for taint in taints(pool)
            ],
            opts=pulumi.ResourceOptions(
                parent=self,
                delete_before_replace=True,
                ignore_changes=["scalingConfig.desiredSize"] if pool.elastic else [],
            ),
        )
        self.register_outputs({})


def _image(pool: NodePool) -> str:
    if has_nvidia(pool):
        return NVIDIA_IMAGE
    has_neuron = pool.accelerator is not None and pool.accelerator.resource in NEURON
    return NEURON_IMAGE if has_neuron else PLAIN_IMAGE


def _placement(name: str, parent: pulumi.Resource) -> ec2.LaunchTemplatePlacementArgs:
    group = ec2.PlacementGroup(
        name, name=name, strategy="cluster", opts=pulumi.ResourceOptions(parent=parent)
    )
    return ec2.LaunchTemplatePlacementArgs(group_name=group.name)


def _interfaces(pool: NodePool, cluster: Eks) -> list[ec2.LaunchTemplateNetworkInterfaceArgs] | None:
    """One for each network card; the first also has the node's address, the others only EFA."""
    return [
        ec2.LaunchTemplateNetworkInterfaceArgs(
            network_card_index=card,
            device_index=1 if card else 0,
            interface_type="efa-only" if card else "efa",
            security_groups=list(cluster.security_groups),
            delete_on_termination="true",
        )
        for card in range(interfaces(pool))
    ] or None


def _scaling(pool: NodePool) -> eks.NodeGroupScalingConfigArgs:
    fewest = pool.nodes if pool.min_nodes is None else pool.min_nodes
    # EKS requires a maximum of at least 1.
    return eks.NodeGroupScalingConfigArgs(min_size=fewest, max_size=max(pool.nodes, 1), desired_size=fewest)


def _disks(pool: NodePool) -> list[ec2.LaunchTemplateBlockDeviceMappingArgs] | None:
    size = disk_gib(pool)
    if size is None:
        return None
    disk = ec2.LaunchTemplateBlockDeviceMappingEbsArgs(volume_size=size, volume_type="gp3", encrypted="true")
    return [ec2.LaunchTemplateBlockDeviceMappingArgs(device_name=disk_device(pool), ebs=disk)]


def _reservation(pool: NodePool) -> ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    if pool.reservation is None:
        return None
    return ec2.LaunchTemplateCapacityReservationSpecificationArgs(
        capacity_reservation_target=ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
            capacity_reservation_id=pool.reservation
        )
    )
