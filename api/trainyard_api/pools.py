"""GPU pools, each declared once: what kind of node, how many, where, and how close together.

From a declaration follow the labels, taints and resources of its nodes (here),
the nodes themselves, Kueue's flavor, topology and quota (the platform's), and
what runtimes are checked against (the policies'): they cannot disagree,
because none of them is written by hand.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from enum import StrEnum

from pydantic import Field, model_validator

from . import durations, names, quantity
from .json_types import Json
from .strict import Quantity, StrictModel


class Provider(StrEnum):
    """Who makes the nodes of a pool."""

    EXISTING = "existing"
    KWOK = "kwok"
    KARPENTER = "karpenter"
    EKS = "eks"
    GKE = "gke"
    AKS = "aks"


class CapacityType(StrEnum):
    """How nodes are paid for, and so how surely one keeps them."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(StrictModel):
    """A taint of nodes."""

    key: str = Field(min_length=1)
    """Its key."""
    value: str = ""
    """Its value."""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE
    """What it does."""


class Accelerator(StrictModel):
    """The accelerator of a node."""

    type: str = Field(min_length=1)
    """What it is, such as nvidia-h100; the label trainyard.dev/accelerator says it."""
    resource: str = "nvidia.com/gpu"
    """The resource that pods ask for."""
    count: int = Field(ge=1)
    """How many a node has."""


class GpuDriver(StrEnum):
    """Whether the cloud installs the driver of a node's GPUs."""

    INSTALL = "install"
    NONE = "none"


class Machine(StrictModel):
    """A node, apart from its accelerators."""

    cpu: Quantity
    """CPUs for pods."""
    memory: Quantity
    """Memory for pods."""
    type: str | None = None
    """The cloud's name of the machine, such as p5.48xlarge; needed where a cloud makes it."""
    image: str | None = None
    """The boot image, in the cloud's words: AMI type or alias (AWS), image type (gke), OS SKU (aks)."""
    version: str | None = Field(default=None, min_length=1)
    """Which version of that image, in the cloud's words: release of the AMI (eks), version of the node (gke),
    of Kubernetes (aks); the newest when the pool is made if left out. Karpenter has it in the alias."""
    gpu_driver: GpuDriver = GpuDriver.INSTALL
    """With gke or aks: none where something else brings it, such as NVIDIA's GPU operator."""
    disk: Quantity | None = None
    """The disk that it boots from, such as 200Gi; as large as the cloud's default if left out."""
    resources: dict[str, Quantity] = Field(default={})
    """What else pods can ask for of a node, by resource, such as rdma/ib: "8"; the quota covers it too."""


class TopologyLevel(StrictModel):
    """One level of nearness above the node."""

    label: str = Field(min_length=1)
    """The node label that names the place, such as example.com/rack."""
    nodes: int | None = Field(default=None, ge=1)
    """Nodes in one place; needed where nodes are simulated."""


class Maintenance(StrictModel):
    """When a cloud may work on the machines below nodes."""

    idle_for: str = Field(default="10m", pattern=f"^{durations.PATTERN}$")
    """How long a node must have had nothing to do, so that it is its turn early."""
    min_nodes: int = Field(default=0, ge=0)
    """How many nodes of the pool must be left while others are worked on early."""


class PoolQuota(StrictModel):
    """Who gets the pool."""

    cluster_queue: str
    """A queue of queues.clusterQueues; the pool is its last choice of flavor, after those it names itself."""
    nodes: int | None = Field(default=None, ge=0)
    """How many of the nodes are its own; all if left out. Those of nobody can be borrowed from nobody."""


class NodePool(StrictModel):
    """A pool of equal nodes."""

    provider: Provider
    """Who makes its nodes: existing ones are found by `nodeLabels`, kwok simulates them, clouds make them."""
    nodes: int = Field(ge=0)
    """How many nodes there are at most, and so how much quota."""
    min_nodes: int | None = Field(default=None, ge=0)
    """With eks, gke or aks: how many there always are, where an autoscaler adds the rest; all if left out."""
    machine: Machine
    """CPU and memory of a node."""
    accelerator: Accelerator | None = None
    """Its accelerator; a pool without one is a pool of CPUs."""
    zones: tuple[str, ...] = ()
    """Zones of its nodes, one after the other."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    """How its nodes are paid for."""
    reservation: str | None = Field(default=None, min_length=1)
    """With capacityType reserved, in the cloud's words: the capacity reservation that its nodes come from."""
    compact_placement: bool = False
    """With eks, gke or aks: whether its nodes are side by side in the cloud, in a group made for it."""
    networks: tuple[str, ...] = ()
    """With gke: which of cluster.gke.networks its nodes are in too, by a card of each, as GPUDirect wants."""
    maintenance: Maintenance | None = None
    """With gke: its machines are worked on once a month at most, and before that while they have nothing
    to do; whenever Google sees fit if left out."""
    protect: bool = True
    """With eks, gke or aks: Pulumi refuses to delete or replace its nodes until this is false."""
    taints: tuple[Taint, ...] = ()
    """Taints of its nodes, tolerated by what Kueue admits to it and by nothing else."""
    node_labels: dict[str, str] = Field(default={})
    """Further labels of its nodes; those by which existing nodes are found."""
    topology: tuple[TopologyLevel, ...] = ()
    """Levels above the node, the widest first; the node itself is always the last."""
    quota: tuple[PoolQuota, ...] = ()
    """Which queues have it."""

    @model_validator(mode="after")
    def _can_be_provided(self) -> "NodePool":
        for problem in _problems(self):
            raise ValueError(problem)
        return self

    @property
    def elastic(self) -> bool:
        """Whether its nodes come and go."""
        fewest = self.nodes if self.min_nodes is None else self.min_nodes
        return self.provider is Provider.KARPENTER or fewest < self.nodes

    def nodes_of(self, quota: PoolQuota) -> int:
        """How many nodes a queue has."""
        return self.nodes if quota.nodes is None else quota.nodes


NODE_GROUPS = frozenset({Provider.EKS, Provider.GKE, Provider.AKS})
"""Providers that have a group of nodes in the cloud for a pool."""
CLOUDS = NODE_GROUPS | {Provider.KARPENTER}
"""Providers that make machines."""

NVIDIA_GPU = "nvidia.com/gpu"
EFA = "vpc.amazonaws.com/efa"
"""Interfaces of AWS's Elastic Fabric Adapter, as pods ask for them."""

_PINNED_ALIAS = re.compile(r"[a-z0-9]+@v[0-9][0-9.]*")

SIMULATED = Taint(key="kwok.x-k8s.io/node", value="fake")
"""Keeps pods away from nodes on which nothing runs, except those that Kueue admits to them."""
GKE_GPU = Taint(key=NVIDIA_GPU, value="present")
"""GKE's own, on nodes with NVIDIA's GPUs; declared, so that it exists whatever the order."""
AKS_SPOT = Taint(key="kubernetes.azure.com/scalesetpriority", value="spot")
"""AKS's own, on spot nodes; a label too."""


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
    """The taints of its nodes: those that it declares, and what its provider adds to them."""
    return tuple(dict.fromkeys((*pool.taints, *_taints_of_provider(pool))))


def labels(name: str, pool: NodePool) -> dict[str, str]:
    """The labels that all its nodes have."""
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
    """The labels by which pods are sent to it."""
    return dict(pool.node_labels) if pool.provider is Provider.EXISTING else {names.POOL_LABEL: name}


def resources(pool: NodePool) -> dict[str, str]:
    """What a node has for pods, and so what the pool's quota consists of."""
    accelerator = {pool.accelerator.resource: str(pool.accelerator.count)} if pool.accelerator else {}
    return {
        **accelerator,
        **pool.machine.resources,
        "cpu": pool.machine.cpu,
        "memory": pool.machine.memory,
    }


def interfaces(pool: NodePool) -> int:
    """How many EFA interfaces a node has: as many as pods can ask for."""
    return quantity.parse(pool.machine.resources.get(EFA, "0")).ceil()


def disk_gib(pool: NodePool) -> int | None:
    """The disk that a node boots from, in whole GiB as clouds count it; None for the cloud's default."""
    return None if pool.machine.disk is None else -(-quantity.parse(pool.machine.disk).ceil() // 2**30)


def _is_aks_spot(pool: NodePool) -> bool:
    return pool.provider is Provider.AKS and pool.capacity_type is CapacityType.SPOT


def _taints_of_provider(pool: NodePool) -> Iterator[Taint]:
    if pool.provider is Provider.KWOK:
        yield SIMULATED
    if pool.provider is Provider.GKE and pool.accelerator and pool.accelerator.resource == NVIDIA_GPU:
        yield GKE_GPU
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
    taken = sum(pool.nodes_of(one) for one in pool.quota)
    if taken > pool.nodes:
        yield f"the queues in `quota` take {taken} nodes, but the pool has only {pool.nodes}"


def _missing(pool: NodePool) -> Iterator[str]:
    provider = pool.provider
    if provider is Provider.EXISTING and not pool.node_labels:
        yield "provider existing needs nodeLabels, by which its nodes are found"
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
    """What is set twice, and so perhaps differently."""
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
