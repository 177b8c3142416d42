"""GPU pools, each declared once: the kind of node, how many, where, and how close together.

The labels, taints and resources of its nodes (here), the nodes themselves, Kueue's
flavor, topology and quota (in the platform), and the pools that rules compare
runtimes with (in the policies) are all computed from this declaration. So they
cannot disagree.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from enum import StrEnum

from pydantic import Field, model_validator

from . import durations, names, quantity
from .json_types import Json
from .strict import VALUE, Key, LabelValue, Quantity, StrictModel


class Provider(StrEnum):
    """Provider of a pool's nodes."""

    EXISTING = "existing"
    KWOK = "kwok"
    KARPENTER = "karpenter"
    EKS = "eks"
    GKE = "gke"
    AKS = "aks"


class CapacityType(StrEnum):
    """How nodes are paid for, and so whether the cloud can take them away."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"


class TaintEffect(StrEnum):
    """Effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(StrictModel):
    """A taint of nodes."""

    key: Key
    """Key of the taint."""
    value: LabelValue = ""
    """Value of the taint."""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE
    """Effect on pods that do not tolerate the taint."""


class Accelerator(StrictModel):
    """The accelerators of a node."""

    type: str = Field(min_length=1)
    """Type of the accelerators, such as nvidia-h100. This is the value of the node label
    trainyard.dev/accelerator."""
    resource: str = "nvidia.com/gpu"
    """Name of the resource that pods request."""
    count: int = Field(ge=1)
    """Number of accelerators per node."""


class GpuDriver(StrEnum):
    """Whether the cloud installs the driver of a node's GPUs."""

    INSTALL = "install"
    NONE = "none"


class Machine(StrictModel):
    """A node, apart from its accelerators."""

    cpu: Quantity
    """CPUs that all pods of a node together can request."""
    memory: Quantity
    """Memory that all pods of a node together can request."""
    type: str | None = None
    """The cloud's name of the machine type, such as p5.48xlarge. Required with karpenter, eks, gke and
    aks."""
    image: str | None = None
    """Boot image: AMI type (eks), AMI alias (karpenter), image type (gke) or OS SKU (aks)."""
    version: str | None = Field(default=None, min_length=1)
    """Version of the boot image: AMI release (eks), node version (gke) or Kubernetes version (aks).
    Default: the newest version when the pool is created. With karpenter, the alias in `image` contains the
    version."""
    gpu_driver: GpuDriver = GpuDriver.INSTALL
    """With gke or aks: whether the cloud installs the GPU driver. Use none if another component installs the
    driver, such as NVIDIA's GPU operator."""
    disk: Quantity | None = None
    """Size of the disk for images and containers, such as 200Gi. This is the boot disk, except with
    Bottlerocket. Default: the cloud's default."""
    resources: dict[str, Quantity] = Field(default={})
    """Further resources that all pods of a node together can request, such as rdma/ib: "8". The quota of the
    pool contains these resources too."""


class TopologyLevel(StrictModel):
    """A level of the topology above the node, such as a rack."""

    label: Key
    """Key of a node label, such as example.com/rack. Nodes with the same value of this label are in the same
    domain."""
    nodes: int | None = Field(default=None, ge=1)
    """Number of nodes in each domain. Required with provider kwok."""


class Maintenance(StrictModel):
    """When a cloud may maintain the hosts of nodes."""

    idle_for: str = Field(default="10m", pattern=f"^{durations.PATTERN}$")
    """Time that a node must be idle before its maintenance starts early."""
    min_nodes: int = Field(default=0, ge=0)
    """Minimum number of nodes of the pool that keep running during early maintenance."""


class PoolQuota(StrictModel):
    """A queue's share of the pool."""

    cluster_queue: str
    """Name of a ClusterQueue in queues.clusterQueues. Kueue tries this pool after the flavors that the
    ClusterQueue itself lists."""
    nodes: int | None = Field(default=None, ge=0)
    """Number of nodes of the pool for which the ClusterQueue has quota. Default: all nodes. If no
    ClusterQueue has quota for a node, no queue can borrow this node."""


class NodePool(StrictModel):
    """A pool of equal nodes."""

    provider: Provider
    """Provider of the nodes. existing: the nodes exist, and `nodeLabels` selects them. kwok: the nodes are
    simulated. The other providers create the nodes in a cloud."""
    nodes: int = Field(ge=0)
    """Maximum number of nodes in the pool. The quota of the pool is computed from this number."""
    min_nodes: int | None = Field(default=None, ge=0)
    """With eks, gke or aks: number of nodes that always run. An autoscaler adds the others. Default: all
    nodes always run."""
    machine: Machine
    """CPU and memory of a node."""
    accelerator: Accelerator | None = None
    """Accelerators of a node. Default: the nodes have only CPUs."""
    zones: tuple[str, ...] = ()
    """Zones of the nodes. The nodes are distributed over these zones."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    """How the nodes are paid for."""
    reservation: str | None = Field(default=None, min_length=1)
    """With capacityType reserved: the cloud's name or ID of the capacity reservation."""
    compact_placement: bool = False
    """With eks, gke or aks: whether the cloud places the nodes close together, in a placement group of this
    pool."""
    networks: tuple[str, ...] = ()
    """With gke: names of networks in cluster.gke.networks. Each node has a network interface in each of these
    networks, as GPUDirect requires."""
    maintenance: Maintenance | None = None
    """With gke: Google maintains the hosts at most once per month, and starts early on hosts whose nodes are
    idle. Default: Google chooses the time."""
    protect: bool = True
    """With eks, gke or aks: if true, Pulumi refuses to delete or replace the node group. The cloud can still
    recreate its nodes."""
    taints: tuple[Taint, ...] = ()
    """Taints of the nodes. Only pods that Kueue admits to the pool tolerate them."""
    node_labels: dict[Key, LabelValue] = Field(default={})
    """Further labels of the nodes. With provider existing: the labels that select the nodes."""
    topology: tuple[TopologyLevel, ...] = ()
    """Levels of the topology above the node, the widest level first. The node itself is always the last
    level."""
    quota: tuple[PoolQuota, ...] = ()
    """Queues that have quota in the pool."""

    @model_validator(mode="after")
    def _can_be_provided(self) -> "NodePool":
        for problem in _problems(self):
            raise ValueError(problem)
        return self

    @property
    def elastic(self) -> bool:
        """Whether an autoscaler adds and removes nodes."""
        fewest = self.nodes if self.min_nodes is None else self.min_nodes
        return self.provider is Provider.KARPENTER or fewest < self.nodes

    def nodes_of(self, quota: PoolQuota) -> int:
        """How many nodes a queue has."""
        return self.nodes if quota.nodes is None else quota.nodes


NODE_GROUPS = frozenset({Provider.EKS, Provider.GKE, Provider.AKS})
"""Providers that create a node group in the cloud for each pool."""
CLOUDS = NODE_GROUPS | {Provider.KARPENTER}
"""Providers that create machines."""

NVIDIA_GPU = "nvidia.com/gpu"
NVIDIA_PARTITION = "nvidia.com/mig-"
"""Resource of a partition of a GPU, without its profile."""
TPU = "google.com/tpu"
EFA = "vpc.amazonaws.com/efa"
"""Resource of interfaces of AWS's Elastic Fabric Adapter."""

_LABEL_VALUE = re.compile(VALUE)
_PINNED_ALIAS = re.compile(r"[a-z0-9]+@v[0-9][0-9.]*")

SIMULATED = Taint(key="kwok.x-k8s.io/node", value="fake")
"""Keeps pods away from nodes on which nothing runs, except those that Kueue admits to them."""
GKE_GPU = Taint(key=NVIDIA_GPU, value="present")
GKE_TPU = Taint(key=TPU, value="present")
"""GKE's own taints, on nodes with such accelerators. Declared, so that they exist from the start."""
AKS_SPOT = Taint(key="kubernetes.azure.com/scalesetpriority", value="spot")
"""AKS's own taint, on spot nodes, which have it as a label too."""


def tolerated(taint: Taint, toleration: Json) -> bool:
    """Whether the toleration is for the taint, as the scheduler decides it."""
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key"):
        return bool(operator == "Exists")
    if toleration["key"] != taint.key:
        return False
    return operator == "Exists" or (toleration.get("value") or "") == taint.value


def taints(pool: NodePool) -> tuple[Taint, ...]:
    """Taints of the pool's nodes: those that it declares, and those of its provider."""
    return tuple(dict.fromkeys((*pool.taints, *_taints_of_provider(pool))))


def labels(name: str, pool: NodePool) -> dict[str, str]:
    """Labels that all nodes of the pool have."""
    if pool.provider is Provider.EXISTING:
        return dict(pool.node_labels)
    accelerator = {names.ACCELERATOR_LABEL: pool.accelerator.type} if pool.accelerator else {}
    return {
        names.POOL_LABEL: name,
        names.CAPACITY_TYPE_LABEL: str(pool.capacity_type),
        **accelerator,
        **({AKS_SPOT.key: AKS_SPOT.value} if _is_aks_spot(pool) else {}),
        **pool.node_labels,
    }


def selector(name: str, pool: NodePool) -> dict[str, str]:
    """Labels by which pods select the pool."""
    return dict(pool.node_labels) if pool.provider is Provider.EXISTING else {names.POOL_LABEL: name}


def resources(pool: NodePool) -> dict[str, str]:
    """Resources that pods of a node can request, which are also those of the pool's quota."""
    accelerator = {pool.accelerator.resource: str(pool.accelerator.count)} if pool.accelerator else {}
    return {
        **accelerator,
        **pool.machine.resources,
        "cpu": pool.machine.cpu,
        "memory": pool.machine.memory,
    }


def has_nvidia(pool: NodePool) -> bool:
    """Whether its nodes have NVIDIA's GPUs, whole or in partitions."""
    return any(
        resource == NVIDIA_GPU or resource.startswith(NVIDIA_PARTITION) for resource in resources(pool)
    )


def interfaces(pool: NodePool) -> int:
    """EFA interfaces per node: as many as pods can request."""
    return quantity.parse(pool.machine.resources.get(EFA, "0")).ceil()


def disk_gib(pool: NodePool) -> int | None:
    """Size of a node's boot disk in whole GiB, as clouds count; None for the cloud's default."""
    return None if pool.machine.disk is None else -(-quantity.parse(pool.machine.disk).ceil() // 2**30)


def disk_device(pool: NodePool) -> str:
    """Device of the disk that a node on AWS has for images and containers, which is Bottlerocket's second."""
    is_bottlerocket = (pool.machine.image or "").lower().startswith("bottlerocket")
    return "/dev/xvdb" if is_bottlerocket else "/dev/xvda"


def _is_aks_spot(pool: NodePool) -> bool:
    return pool.provider is Provider.AKS and pool.capacity_type is CapacityType.SPOT


def _taints_of_provider(pool: NodePool) -> Iterator[Taint]:
    if pool.provider is Provider.KWOK:
        yield SIMULATED
    if pool.provider is Provider.GKE and has_nvidia(pool):
        yield GKE_GPU
    if pool.provider is Provider.GKE and TPU in resources(pool):
        yield GKE_TPU
    if _is_aks_spot(pool):
        yield AKS_SPOT


def _problems(pool: NodePool) -> Iterator[str]:
    """Contradictions in its settings."""
    yield from _missing(pool)
    yield from _useless(pool)
    yield from _ambiguous(pool)
    if pool.min_nodes is not None and pool.min_nodes > pool.nodes:
        yield f"minNodes is {pool.min_nodes}, but there are only {pool.nodes} nodes"
    if pool.elastic and pool.topology:
        yield (
            "topology needs nodes that exist, since Kueue places pods by their labels: "
            "leave it out where nodes come and go (provider karpenter, minNodes)"
        )
    if (
        pool.provider is Provider.GKE
        and pool.accelerator
        and pool.accelerator.resource.startswith(NVIDIA_PARTITION)
    ):
        yield (
            f"provider gke cannot create nodes with {pool.accelerator.resource}: GKE offers partitions of a "
            "GPU as nvidia.com/gpu, and needs the number of whole GPUs. Create the node pool outside the "
            "stack, and use provider existing"
        )
    taken = sum(pool.nodes_of(one) for one in pool.quota)
    if taken > pool.nodes:
        yield f"the queues in `quota` take {taken} nodes, but the pool has only {pool.nodes}"


def _missing(pool: NodePool) -> Iterator[str]:
    provider = pool.provider
    if provider is Provider.EXISTING:
        if not pool.node_labels:
            yield "provider existing needs nodeLabels, by which its nodes are found"
    elif pool.accelerator and not _LABEL_VALUE.fullmatch(pool.accelerator.type):
        yield (
            f"accelerator.type is {pool.accelerator.type!r}, which cannot be the value of the label "
            f"{names.ACCELERATOR_LABEL}: use at most 63 letters, digits, hyphens, underscores and dots"
        )
    if provider is Provider.KWOK:
        unknown = (level.label for level in pool.topology if level.nodes is None)
        yield from (f"provider kwok needs `nodes` for the topology level {label}" for label in unknown)
    if provider in CLOUDS and pool.machine.type is None:
        yield f"provider {provider} needs machine.type, the cloud's name of the machine"
    if provider is Provider.KARPENTER and not _PINNED_ALIAS.fullmatch(pool.machine.image or ""):
        yield (
            "provider karpenter needs machine.image, an alias with its version such as al2023@v20260120: "
            "with another, AWS would choose what new nodes boot"
        )
    if pool.compact_placement and len(pool.zones) != 1:
        yield f"compactPlacement needs one zone, in which its nodes are side by side; has {len(pool.zones)}"
    if provider in CLOUDS and pool.capacity_type is CapacityType.RESERVED and pool.reservation is None:
        yield "capacityType reserved needs `reservation`, which names the capacity in the cloud"
    if provider is Provider.GKE:
        if not pool.zones:
            yield "provider gke needs zones: GKE counts nodes by zone"
        elif not pool.elastic and pool.nodes % len(pool.zones):
            yield (
                f"provider gke has the same number of nodes in each zone: {pool.nodes} nodes "
                f"do not spread evenly over {len(pool.zones)} zones"
            )
    if provider is Provider.AKS and (bare := [taint.key for taint in pool.taints if not taint.value]):
        yield f"provider aks needs a value for the taint {bare[0]}"


def _useless(pool: NodePool) -> Iterator[str]:
    driver = None if pool.machine.gpu_driver is GpuDriver.INSTALL else pool.machine.gpu_driver
    settings: dict[str, tuple[object, Collection[Provider]]] = {
        "machine.type": (pool.machine.type, CLOUDS),
        "machine.image": (pool.machine.image, CLOUDS),
        "machine.version": (pool.machine.version, NODE_GROUPS),
        "machine.gpuDriver": (driver, (Provider.GKE, Provider.AKS)),
        "machine.disk": (pool.machine.disk, CLOUDS),
        "reservation": (pool.reservation, CLOUDS),
        "minNodes": (pool.min_nodes, NODE_GROUPS),
        "compactPlacement": (pool.compact_placement or None, NODE_GROUPS),
        "networks": (pool.networks or None, (Provider.GKE,)),
        "maintenance": (pool.maintenance, (Provider.GKE,)),
    }
    for key, (value, providers) in settings.items():
        if value is not None and pool.provider not in providers:
            yield f"provider {pool.provider} has no use for {key}: remove it"
    if pool.reservation is not None and pool.capacity_type is not CapacityType.RESERVED:
        yield f"capacityType {pool.capacity_type} has no use for `reservation`: remove it, or say reserved"


def _ambiguous(pool: NodePool) -> Iterator[str]:
    """Settings that are made twice, and so may contradict each other."""
    own = {names.POOL_LABEL, names.CAPACITY_TYPE_LABEL, names.ACCELERATOR_LABEL} & pool.node_labels.keys()
    if own and pool.provider is not Provider.EXISTING:
        yield f"nodeLabels has {min(own)}, which follows from the pool: remove it"
    elsewhere = {"cpu", "memory", pool.accelerator.resource if pool.accelerator else ""}
    if resources := elsewhere & pool.machine.resources.keys():
        yield f"machine.resources has {min(resources)}, which the pool says elsewhere: remove it"
    for (key, effect), times in Counter((taint.key, taint.effect) for taint in taints(pool)).items():
        if times > 1:
            yield f"two taints have the key {key} and the effect {effect}"
    for label, times in Counter(level.label for level in pool.topology).items():
        if label == names.HOSTNAME_LABEL:
            yield f"topology has the level {label}: remove it, the node itself is always the last level"
        elif times > 1:
            yield f"topology has the level {label} twice"
