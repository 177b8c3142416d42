"""GPU pools, each declared once: what kind of node, how many, where, and how near each other.

From a declaration follow the labels, taints and resources of its nodes (here),
the nodes themselves, Kueue's flavor, topology and quota (the platform's), and
what runtimes are checked against (the policies'): they cannot disagree,
because none of them is written by hand.
"""

from enum import StrEnum

from pydantic import Field, model_validator

from . import names
from .closed import Closed, Quantity


class Provider(StrEnum):
    """Who makes the nodes of a pool."""

    EXISTING = "existing"
    KWOK = "kwok"


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


class Taint(Closed):
    """A taint of nodes."""

    key: str = Field(min_length=1)
    """Its key."""
    value: str = ""
    """Its value."""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE
    """What it does."""


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


SIMULATED = Taint(key="kwok.x-k8s.io/node", value="fake")
"""Keeps every pod away from nodes on which nothing runs, but for those that Kueue admits to them."""


def taints(pool: NodePool) -> tuple[Taint, ...]:
    """The taints of its nodes."""
    return (*pool.taints, SIMULATED) if pool.provider is Provider.KWOK else pool.taints


def labels(name: str, pool: NodePool) -> dict[str, str]:
    """The labels that all of its nodes have in common."""
    if pool.provider is Provider.EXISTING:
        return dict(pool.node_labels)
    accelerator = {names.ACCELERATOR_LABEL: pool.accelerator.type} if pool.accelerator else {}
    return {
        names.POOL_LABEL: name,
        names.CAPACITY_TYPE_LABEL: str(pool.capacity_type),
        **accelerator,
        **pool.node_labels,
    }


def selector(name: str, pool: NodePool) -> dict[str, str]:
    """The labels by which pods are sent to it."""
    return dict(pool.node_labels) if pool.provider is Provider.EXISTING else {names.POOL_LABEL: name}


def resources(pool: NodePool) -> dict[str, str]:
    """What a node has for pods, and so what quota of the pool is made of."""
    accelerator = {pool.accelerator.resource: str(pool.accelerator.count)} if pool.accelerator else {}
    return {**accelerator, "cpu": pool.machine.cpu, "memory": pool.machine.memory}
