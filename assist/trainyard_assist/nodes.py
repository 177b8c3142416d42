"""Nodes as pools: how many there are, what is free on them, who uses it, and which are sick since when.

Called by `trainyard nodes`, which reads the cluster with the rights of its
user. A pool is what the stack calls so; of nodes that are in none, the
ResourceFlavor whose labels they have. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trainyard_api import names, quantity
from trainyard_api.json_types import Json
from trainyard_api.printable import clean

from . import read

NO_POOL: Final = "-"
"""Name for nodes without a pool."""
NOT_READY: Final = "NotReady"
CORDONED: Final = "Cordoned"
_CORDON: Final = "node.kubernetes.io/unschedulable"
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_KEEPS_OUT: Final = {NOT_READY, CORDONED, "DiskPressure", "PIDPressure", "NetworkUnavailable"}
"""Conditions for which Kubernetes taints a node. Pods with requests tolerate MemoryPressure."""
_LONGEST: Final = 200
"""Characters of what a kubelet says, at most."""


@dataclass(frozen=True, slots=True)
class Sick:
    """A defect of a node that blocks jobs or reduces its resources."""

    node: str
    pool: str
    state: str
    """`NotReady`, `Cordoned`, a condition such as `DiskPressure`, or the resource that is lost in part."""
    since: datetime | None
    """None if the cluster does not say."""
    why: str


@dataclass(slots=True)
class Amount:
    """A resource of a pool's nodes, in billionths."""

    total: int = 0
    """Resources of its nodes for pods, unhealthy nodes included."""
    used: int = 0
    free: int = 0
    """Unused resources of the nodes that accept pods."""
    by: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """What each namespace uses."""


@dataclass(slots=True)
class Pool:
    """Nodes of one kind."""

    name: str
    nodes: int = 0
    ready: int = 0
    """Nodes that accept pods."""
    accelerators: set[str] = field(default_factory=set)
    """Accelerators in the labels of its nodes."""
    resources: defaultdict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    sick: list[Sick] = field(default_factory=list)

    @property
    def devices(self) -> list[str]:
        """The resources that are devices, such as GPUs, by name."""
        return sorted(name for name, amount in self.resources.items() if _is_device(name) and amount.total)


def pools(nodes: Iterable[Json], pods: Iterable[Json] | None, flavors: Sequence[Json] = ()) -> list[Pool]:
    """The pools by name, what belongs to none last.

    Args:
        nodes: All of the cluster.
        pods: The same; None if they cannot be seen. Then nothing is known to be used or free.
        flavors: ResourceFlavors, for nodes without the stack's label.
    """
    used = _used(pods or ())
    by_name: dict[str, Pool] = {}
    for node in nodes:
        name = pool_of(node, flavors)
        pool = by_name.setdefault(name, Pool(name))
        labels = read.texts(node, "metadata", "labels")
        if names.ACCELERATOR_LABEL in labels:
            pool.accelerators.add(clean(labels[names.ACCELERATOR_LABEL]))
        ailments = list(_sick(node, name))
        pool.sick += ailments
        takes_pods = not any(sick.state in _KEEPS_OUT for sick in ailments)
        pool.nodes += 1
        pool.ready += takes_pods
        _add(pool, node, used.get(read.name(node), {}), takes_pods=takes_pods)
    return sorted(by_name.values(), key=lambda pool: (pool.name == NO_POOL, pool.name))


def pool_of(node: Json, flavors: Sequence[Json] = ()) -> str:
    """The pool of a node: by its label, else the flavor with the most labels of those that fit it."""
    labels = read.texts(node, "metadata", "labels")
    if named := labels.get(names.POOL_LABEL):
        return clean(named)
    fitting = [
        (-len(wanted), read.name(flavor))
        for flavor in flavors
        if (wanted := read.texts(flavor, "spec", "nodeLabels")) and wanted.items() <= labels.items()
    ]
    return min(fitting)[1] if fitting else NO_POOL


def _add(pool: Pool, node: Json, used: Mapping[str, Mapping[str, int]], *, takes_pods: bool) -> None:
    """Count a node's resources, of which each namespace uses so much."""
    there = read.texts(node, "status", "allocatable")
    for resource, text in there.items():
        amount = pool.resources[clean(resource)]
        total = (read.amount(text) or quantity.ZERO).nano
        of_all = sum(by.get(resource, 0) for by in used.values())
        amount.total += total
        amount.used += of_all
        amount.free += max(0, total - of_all) if takes_pods else 0
        for namespace, by in used.items():
            if by.get(resource):
                amount.by[namespace] += by[resource]


def _used(pods: Iterable[Json]) -> dict[str, dict[str, dict[str, int]]]:
    """By node and namespace: what pods request that have not ended."""
    used: dict[str, dict[str, dict[str, int]]] = {}
    for pod in pods:
        node = read.text(pod, "spec", "nodeName")
        if not node or read.text(pod, "status", "phase") in ("Succeeded", "Failed"):
            continue
        by = used.setdefault(node, {}).setdefault(read.text(pod, "metadata", "namespace"), defaultdict(int))
        for resource, amount in {**read.requests(pod), "pods": quantity.parse("1")}.items():
            by[resource] += amount.nano
    return used


def _sick(node: Json, pool: str) -> Iterable[Sick]:
    name = clean(read.name(node))
    ready = read.condition(node, "Ready")
    if read.text(ready, "status") != "True":
        yield Sick(name, pool, NOT_READY, _since(ready), _why(ready))
    if read.at(node, "spec", "unschedulable") is True:
        taints = read.objects(node, "spec", "taints")
        added = next((taint for taint in taints if taint.get("key") == _CORDON), None)
        since = read.moment(added, "timeAdded") if read.text(added, "timeAdded") else None
        yield Sick(name, pool, CORDONED, since, "no new pods come to it")
    for kind in _PRESSURES:
        if read.holds(node, kind):
            condition = read.condition(node, kind)
            yield Sick(name, pool, kind, _since(condition), _why(condition))
    there, whole = (read.texts(node, "status", key) for key in ("allocatable", "capacity"))
    for resource in sorted(filter(_is_device, whole)):
        has, had = ((read.amount(of, resource) or quantity.ZERO).nano for of in (there, whole))
        if has < had:
            lost = f"{(had - has) // quantity.NANO} of {had // quantity.NANO} do not work"
            yield Sick(name, pool, clean(resource), None, lost)


def _since(condition: Json | None) -> datetime | None:
    there = bool(read.text(condition, "lastTransitionTime"))
    return read.moment(condition, "lastTransitionTime") if there else None


def _why(condition: Json | None) -> str:
    if condition is None:
        return "its kubelet has not reported yet"
    words = filter(None, (read.text(condition, "reason"), read.text(condition, "message")))
    return clean(": ".join(words), _LONGEST)


def _is_device(resource: str) -> bool:
    """Whether it is no resource of Kubernetes' own: those have no domain."""
    return "/" in resource
