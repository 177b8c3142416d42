"""Settings of GPU pools, each declared once: what kind of node, how many, where, and how near each other.

From a declaration follow the nodes, their labels and taints, Kueue's flavor,
topology and quota (`pool_manifests`): they cannot disagree, because none of
them is written by hand.
"""

from enum import StrEnum

from pydantic import Field, model_validator

from trainyard_api.closed import Closed

from .model import Quantity
from .queues import Taint


class Provider(StrEnum):
    """Who makes the nodes of a pool."""

    EXISTING = "existing"
    KWOK = "kwok"


class CapacityType(StrEnum):
    """How nodes are paid for, and so how surely one keeps them."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"


class Accelerator(Closed):
    """The accelerator of a node."""

    type: str = Field(min_length=1)
    """What it is, such as nvidia-h100; the label trainyard.dev/accelerator says it."""
    resource: str = "nvidia.com/gpu"
    """The resource that pods ask for."""
    count: int = Field(ge=1)
    """How many a node has."""


class Machine(Closed):
    """What a node has beside its accelerators."""

    cpu: Quantity
    """CPUs for pods."""
    memory: Quantity
    """Memory for pods."""
    type: str | None = None
    """The machine type where a cloud makes it."""


class TopologyLevel(Closed):
    """One level of nearness above the node."""

    label: str = Field(min_length=1)
    """The node label that names the place, such as example.com/rack."""
    nodes: int | None = Field(default=None, ge=1)
    """Nodes in one place; needed where nodes are simulated."""


class PoolQuota(Closed):
    """Who gets the pool."""

    cluster_queue: str
    """A queue of queues.clusterQueues; the pool is its last choice of flavor, after those it names itself."""
    nodes: int | None = Field(default=None, ge=0)
    """How many of the nodes are its own; all if left out. Those of nobody can be borrowed from nobody."""


class NodePool(Closed):
    """A pool of equal nodes."""

    provider: Provider
    """Who makes its nodes: existing ones are found by `nodeLabels`, kwok simulates them."""
    nodes: int = Field(ge=0)
    """How many nodes there are, and so how much quota."""
    machine: Machine
    """CPU and memory of a node."""
    accelerator: Accelerator | None = None
    """Its accelerator; a pool without one is a pool of CPUs."""
    zones: tuple[str, ...] = ()
    """Zones of its nodes, one after the other."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    """How its nodes are paid for."""
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
        if self.provider is Provider.EXISTING and not self.node_labels:
            raise ValueError("provider existing needs nodeLabels, by which its nodes are found")
        if self.provider is Provider.KWOK:
            for level in self.topology:
                if level.nodes is None:
                    raise ValueError(f"provider kwok needs `nodes` for the topology level {level.label}")
        taken = sum(self.nodes_of(one) for one in self.quota)
        if taken > self.nodes:
            raise ValueError(f"the queues in `quota` have {taken} nodes of {self.nodes}")
        return self

    def nodes_of(self, quota: PoolQuota) -> int:
        """How many nodes a queue has."""
        return self.nodes if quota.nodes is None else quota.nodes
