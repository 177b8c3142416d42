"""Settings of a cluster that runs on a cloud: what the nodes of its pools are to join, and as whom.

What a node is stands in its pool's declaration; here stands what all pools of
the cluster share. `problems` says where the two do not fit.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from pydantic import Field, model_validator

from trainyard_api.closed import Closed, nearest
from trainyard_api.pools import CLOUDS, NodePool, Provider

ROLE_ARN: Final = r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$"
AKS_ID: Final = (
    r"^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[^/]+"
    r"/providers/Microsoft\.ContainerService/managedClusters/[^/]+$"
)
PATTERN_WORDS: Final = {
    ROLE_ARN: "must be the ARN of an IAM role, such as arn:aws:iam::123456789012:role/nodes",
    AKS_ID: "must be the cluster's whole id: /subscriptions/.../resourceGroups/.../providers/"
    "Microsoft.ContainerService/managedClusters/...",
}

_NAMES: Final = {
    Provider.EKS: (r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", "at most 63 letters, digits, hyphens and underscores"),
    Provider.GKE: (
        r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?",
        "at most 40 small letters, digits and hyphens, a letter first",
    ),
    Provider.AKS: (r"[a-z][a-z0-9]{0,11}", "at most 12 small letters and digits, a letter first"),
    Provider.KARPENTER: (
        r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
        "at most 63 small letters, digits and hyphens",
    ),
}
"""What each provider lets a pool be called."""


class Karpenter(Closed):
    """Karpenter on AWS, which the cluster has already."""

    role: str = Field(min_length=1)
    """Name of the IAM role of the nodes."""
    discovery: str = Field(min_length=1)
    """Value of the tag karpenter.sh/discovery, by which it finds subnets and security groups."""


class Eks(Closed):
    """An EKS cluster."""

    name: str = Field(min_length=1)
    """Its name."""
    region: str = Field(min_length=1)
    """Its region, such as us-east-1."""
    node_role: Annotated[str, Field(pattern=ROLE_ARN)]
    """ARN of the IAM role of the nodes."""
    subnets: dict[str, str] = Field(min_length=1)
    """Subnets of the nodes by their zone; those of a pool's `zones` are its own."""


class Gke(Closed):
    """A GKE cluster."""

    project: str = Field(min_length=1)
    """Its project."""
    location: str = Field(min_length=1)
    """Its region or zone, such as europe-west4."""
    name: str = Field(min_length=1)
    """Its name."""
    node_service_account: str | None = None
    """Service account of the nodes; the project's default if left out."""

    @property
    def region(self) -> str:
        """The region that its location is, or is in."""
        return "-".join(self.location.split("-")[:2])


class Aks(Closed):
    """An AKS cluster."""

    id: Annotated[str, Field(pattern=AKS_ID)]
    """Its whole id."""
    subnet: str | None = None
    """Id of the subnet of the nodes; the cluster's own network if left out."""

    @property
    def subscription(self) -> str:
        """The subscription that it is in."""
        return self.id.split("/")[2]


class Clouds(Closed):
    """On which cloud a cluster is; on none if all are left out."""

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
        others = [key for key in ("gke", "aks") if getattr(self, key)]
        if len(others) > 1 or (aws and others):
            raise ValueError(f"a cluster is on one cloud, not on {' and '.join((*aws, *others))}")
        return self


def problems(pools: Mapping[str, NodePool], clouds: Clouds) -> Iterator[str]:
    """Where a pool and the cluster do not fit, each with its path in the platform's settings."""
    for name, pool in pools.items():
        if pool.provider not in CLOUDS:
            continue
        if getattr(clouds, pool.provider) is None:
            yield f"nodePools.{name}.provider: needs cluster.{pool.provider}, which says where"
        pattern, words = _NAMES[pool.provider]
        if not re.fullmatch(pattern, name):
            yield f"nodePools.{name}: provider {pool.provider} takes names of {words}"
        for position, zone in enumerate(pool.zones):
            if problem := _elsewhere(zone, pool.provider, clouds):
                yield f"nodePools.{name}.zones[{position}]: {problem}"


def _elsewhere(zone: str, provider: Provider, clouds: Clouds) -> str | None:
    """What is wrong with a zone of a pool, None if nothing is known to be."""
    if provider is Provider.EKS and clouds.eks and zone not in clouds.eks.subnets:
        return f"cluster.eks.subnets has no zone {zone!r}{nearest(zone, list(clouds.eks.subnets))}"
    if provider is Provider.GKE and clouds.gke and not zone.startswith(f"{clouds.gke.region}-"):
        return f"{zone!r} is not in {clouds.gke.region}, where cluster.gke.location is"
    return None
