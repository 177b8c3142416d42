"""Settings of a cluster that runs on a cloud: the network and the identity of its nodes.

A pool declares its nodes; the settings here are common to all pools of the
cluster. `problems` yields the contradictions between the two.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from pydantic import Field, model_validator

from trainyard_api.pools import CLOUDS, EFA, NVIDIA_GPU, NodePool, Provider, interfaces, resources
from trainyard_api.similar import hint
from trainyard_api.strict import StrictModel

ROLE_ARN: Final = r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$"
AKS_ID: Final = (
    r"^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[^/]+"
    r"/providers/Microsoft\.ContainerService/managedClusters/[^/]+$"
)
SECURITY_GROUP: Final = r"^sg-[0-9a-z]+$"
PATTERN_WORDS: Final = {
    SECURITY_GROUP: "must be the id of a security group, such as sg-0123456789abcdef0",
    ROLE_ARN: "must be the ARN of an IAM role, such as arn:aws:iam::123456789012:role/nodes",
    AKS_ID: "must be the cluster's whole id: /subscriptions/.../resourceGroups/.../providers/"
    "Microsoft.ContainerService/managedClusters/...",
}

_LABEL: Final = (r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "at most 63 small letters, digits and hyphens")
"""Names that can be a label's value and the name of an object."""
_NAMES: Final = {
    Provider.GKE: (
        r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?",
        "at most 40 small letters, digits and hyphens, a letter first",
    ),
    Provider.AKS: (r"[a-z][a-z0-9]{0,11}", "at most 12 small letters and digits, a letter first"),
}
"""The names that a cloud accepts for a pool, where these are fewer than `_LABEL`."""

_KNOWN_OF_MACHINE_TYPES: Final = {
    Provider.EKS: (
        frozenset({"cpu", "memory", NVIDIA_GPU}),
        "of an empty node group of EKS, Cluster Autoscaler knows only CPU, memory and whole NVIDIA GPUs",
        ". Provider karpenter knows other devices of AWS too, such as EFA",
    ),
    Provider.AKS: (
        frozenset({"cpu", "memory", "ephemeral-storage", NVIDIA_GPU}),
        "of an empty node pool of AKS, the autoscaler knows only CPU, memory, ephemeral storage and whole "
        "NVIDIA GPUs",
        "",
    ),
}
"""Resources that an autoscaler knows of the cloud's machine types, what it does not know, and the way out."""


class Karpenter(StrictModel):
    """Karpenter on AWS, which the cluster must have."""

    role: str = Field(min_length=1)
    """Name of the IAM role of the nodes."""
    discovery: str = Field(min_length=1)
    """Value of the tag karpenter.sh/discovery, by which Karpenter selects subnets and security groups."""


class Eks(StrictModel):
    """An EKS cluster."""

    name: str = Field(min_length=1)
    """Name of the cluster."""
    region: str = Field(min_length=1)
    """Region of the cluster, such as us-east-1."""
    node_role: Annotated[str, Field(pattern=ROLE_ARN)]
    """ARN of the IAM role of the nodes."""
    subnets: dict[str, str] = Field(min_length=1)
    """Subnet of each zone. A pool uses the subnets of its `zones`."""
    security_groups: tuple[Annotated[str, Field(pattern=SECURITY_GROUP)], ...] = ()
    """Security groups of nodes with EFA: the cluster's own group, and a group that allows all traffic between
    its members."""


class Network(StrictModel):
    """A network of nodes in addition to the cluster's network."""

    network: str = Field(min_length=1)
    """Name of the VPC."""
    subnetwork: str = Field(min_length=1)
    """Name of the VPC's subnetwork in the cluster's region."""


class Gke(StrictModel):
    """A GKE cluster."""

    project: str = Field(min_length=1)
    """Google Cloud project of the cluster."""
    location: str = Field(min_length=1)
    """Region or zone of the cluster, such as europe-west4."""
    name: str = Field(min_length=1)
    """Name of the cluster."""
    node_service_account: str | None = None
    """Service account of the nodes. Default: the project's default service account."""
    networks: dict[str, Network] = Field(default={})
    """Further networks of a cluster with multi-networking, by name. Pools use these names in `networks`."""

    @property
    def region(self) -> str:
        """Region of the location, which may be a zone."""
        return "-".join(self.location.split("-")[:2])


class Aks(StrictModel):
    """An AKS cluster."""

    id: Annotated[str, Field(pattern=AKS_ID)]
    """Full resource ID of the cluster."""
    subnet: str | None = None
    """Resource ID of the nodes' subnet. Default: the cluster's own network."""
    location: str | None = Field(default=None, min_length=1)
    """Region of the cluster, such as westeurope. Pools with compactPlacement need it."""

    @property
    def subscription(self) -> str:
        """Subscription of the cluster."""
        return self.id.split("/")[2]

    @property
    def resource_group(self) -> str:
        """Resource group of the cluster."""
        return self.id.split("/")[4]


class Clouds(StrictModel):
    """Cloud of the cluster. Leave all keys out for a cluster on premises."""

    karpenter: Karpenter | None = None
    """Karpenter on AWS, for pools with provider karpenter."""
    eks: Eks | None = None
    """The EKS cluster, for pools with provider eks."""
    gke: Gke | None = None
    """The GKE cluster, for pools with provider gke."""
    aks: Aks | None = None
    """The AKS cluster, for pools with provider aks."""

    @model_validator(mode="after")
    def _one_cloud(self) -> "Clouds":
        aws = [key for key in ("karpenter", "eks") if getattr(self, key)]
        other_clouds = [key for key in ("gke", "aks") if getattr(self, key)]
        if len(other_clouds) > 1 or (aws and other_clouds):
            raise ValueError(f"a cluster is on one cloud, not on {' and '.join((*aws, *other_clouds))}")
        return self


def problems(pools: Mapping[str, NodePool], clouds: Clouds) -> Iterator[str]:
    """Contradictions between pools and the cluster, each with its path in the platform's settings."""
    for name, pool in pools.items():
        pattern, words = _NAMES.get(pool.provider, _LABEL)
        if not re.fullmatch(pattern, name):
            yield f"nodePools.{name}: provider {pool.provider} accepts names of {words}"
        if pool.provider not in CLOUDS:
            continue
        if getattr(clouds, pool.provider) is None:
            yield f"nodePools.{name}.provider: needs the section cluster.{pool.provider}"
        for position, zone in enumerate(pool.zones):
            if problem := _elsewhere(zone, pool.provider, clouds):
                yield f"nodePools.{name}.zones[{position}]: {problem}"
        yield from (f"nodePools.{name}.{problem}" for problem in _nearness(pool, clouds))
        yield from (f"nodePools.{name}.{problem}" for problem in _from_zero(pool))


def _nearness(pool: NodePool, clouds: Clouds) -> Iterator[str]:
    """Reasons why the nodes do not get the fast network that the pool requests, each with its path."""
    if pool.provider is Provider.EKS and interfaces(pool):
        if clouds.eks and not clouds.eks.security_groups:
            yield (
                f"machine.resources: {EFA} needs cluster.eks.securityGroups: the cluster's own, "
                "and one that allows all traffic between its members, in and out"
            )
        if len(pool.zones) != 1:
            yield f"zones: must be one, since {EFA} does not span zones; has {len(pool.zones)}"
    if pool.provider is Provider.GKE and clouds.gke:
        networks = list(clouds.gke.networks)
        for position, network in enumerate(pool.networks):
            if network not in networks:
                near = hint(network, networks)
                yield f"networks[{position}]: cluster.gke.networks has no {network!r}{near}"
    if pool.provider is Provider.AKS:
        if pool.compact_placement and clouds.aks and clouds.aks.location is None:
            yield "compactPlacement: needs cluster.aks.location, the region of the group that is created"
        size = pool.machine.type or ""
        rdma = next((resource for resource in pool.machine.resources if resource.startswith("rdma/")), None)
        if rdma and "r" not in _features(size):
            yield (
                f"machine.resources: {rdma} is not in {size}: sizes with InfiniBand have an r "
                "after their number of CPUs, such as Standard_ND96isr_H100_v5"
            )


def _from_zero(pool: NodePool) -> Iterator[str]:
    """The reason why an empty pool never gets its first node, with its path.

    The nodes of an empty group are to Cluster Autoscaler what the cloud says of the machine type.
    """
    if pool.provider in _KNOWN_OF_MACHINE_TYPES and pool.elastic and pool.min_nodes == 0:
        known, words, way = _KNOWN_OF_MACHINE_TYPES[pool.provider]
        for resource in sorted(resources(pool).keys() - known):
            yield (
                f"minNodes: must be at least 1 with {resource}: {words}, so jobs that request this resource "
                f"would wait forever{way}"
            )


def _features(size: str) -> str:
    """Letters for the features of an Azure size: "isr" in Standard_ND96isr_H100_v5."""
    match = re.match(r"(?:Standard_)?[A-Za-z]+[0-9]+(?:-[0-9]+)?([a-z]*)", size)
    return match.group(1) if match else ""


def _elsewhere(zone: str, provider: Provider, clouds: Clouds) -> str | None:
    """The problem with a zone of a pool, or None."""
    if provider is Provider.EKS and clouds.eks and zone not in clouds.eks.subnets:
        return f"cluster.eks.subnets has no zone {zone!r}{hint(zone, clouds.eks.subnets)}"
    if provider is Provider.GKE and clouds.gke and not zone.startswith(f"{clouds.gke.region}-"):
        return f"{zone!r} is not in {clouds.gke.region}, where cluster.gke.location is"
    return None
