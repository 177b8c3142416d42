"""From a pool's declaration to all that follows from it: pure, so that nothing can disagree."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainyard_api import names, quantity
from trainyard_api.pools import NodePool, Provider, TopologyLevel, labels, resources, selector, taints

from ...stack.queues import (
    ClusterQueue,
    Flavor,
    FlavorQuota,
    Queues,
    Quota,
    ResourceGroup,
    Topology,
)
from ...stack.tolerations import Toleration, TolerationOperator

PODS_OF_A_NODE = "110"


def tolerations(pool: NodePool) -> tuple[Toleration, ...]:
    """What tolerates exactly its taints; runtimes that go there without Kueue need the same."""
    return tuple(
        Toleration(
            key=taint.key,
            operator=TolerationOperator.EQUAL if taint.value else TolerationOperator.EXISTS,
            value=taint.value,
            effect=taint.effect,
        )
        for taint in taints(pool)
    )


def topology(pool: NodePool) -> Topology | None:
    """Its levels down to the node; None where it declares none."""
    if not pool.topology:
        return None
    return Topology(levels=(*(level.label for level in pool.topology), names.HOSTNAME_LABEL))


def flavor(name: str, pool: NodePool) -> Flavor:
    """The ResourceFlavor of its name."""
    return Flavor(
        node_labels=selector(name, pool),
        node_taints=taints(pool),
        tolerations=tolerations(pool),
        topology=name if pool.topology else None,
    )


def quota(name: str, pool: NodePool, nodes: int) -> FlavorQuota:
    """Quota for this many of its nodes."""
    quotas = {resource: Quota(nominal=_times(amount, nodes)) for resource, amount in resources(pool).items()}
    return FlavorQuota(name=name, resources=quotas)


def nodes(name: str, pool: NodePool) -> list[dict[str, Any]]:
    """Its nodes, if they are simulated; none if something else creates them."""
    return (
        [_node(name, pool, number) for number in range(pool.nodes)] if pool.provider is Provider.KWOK else []
    )


def with_pools(queues: Queues, pools: Mapping[str, NodePool]) -> Queues:
    """The queues, with the flavors, topologies and quota of the pools."""
    topologies = {name: pool_topology for name, pool in pools.items() if (pool_topology := topology(pool))}
    return queues.model_copy(
        update={
            "flavors": {**queues.flavors, **{name: flavor(name, pool) for name, pool in pools.items()}},
            "topologies": {**queues.topologies, **topologies},
            "cluster_queues": {
                name: _with_quota(queue, list(_shares(name, pools)))
                for name, queue in queues.cluster_queues.items()
            },
        }
    )


def _shares(queue: str, pools: Mapping[str, NodePool]) -> Iterator[FlavorQuota]:
    for name, pool in pools.items():
        for share in pool.quota:
            if share.cluster_queue == queue:
                yield quota(name, pool, pool.nodes_of(share))


def _with_quota(queue: ClusterQueue, shares: Sequence[FlavorQuota]) -> ClusterQueue:
    """The queue with the pools as its last flavors.

    A resource is in only one group, and every flavor of a group has quota for
    all of its resources: groups that overlap with the pools become one, and
    what a flavor lacks is 0.
    """
    if not shares:
        return queue
    pooled = {resource for flavor_quota in shares for resource in flavor_quota.resources}

    def overlaps(group: ResourceGroup) -> bool:
        return bool(pooled & set(group.flavors[0].resources))

    other_groups = [group for group in queue.resource_groups if not overlaps(group)]
    overlapping = [group for group in queue.resource_groups if overlaps(group)]
    flavors = [*(flavor_quota for group in overlapping for flavor_quota in group.flavors), *shares]
    covered = list(dict.fromkeys(resource for flavor_quota in flavors for resource in flavor_quota.resources))
    nothing = Quota(nominal="0")
    group = ResourceGroup(
        flavors=tuple(
            FlavorQuota(
                name=flavor_quota.name,
                resources={resource: flavor_quota.resources.get(resource, nothing) for resource in covered},
            )
            for flavor_quota in flavors
        )
    )
    return queue.model_copy(update={"resource_groups": (*other_groups, group)})


def _node(name: str, pool: NodePool, number: int) -> dict[str, Any]:
    host = f"{name}-{number}"
    zone = {names.ZONE_LABEL: pool.zones[number % len(pool.zones)]} if pool.zones else {}
    places = {level.label: _place(name, level, number) for level in pool.topology}
    capacity = {**resources(pool), "pods": PODS_OF_A_NODE}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": host,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                **labels(name, pool),
                **zone,
                **places,
                names.HOSTNAME_LABEL: host,
                "kubernetes.io/os": "linux",
            },
        },
        "spec": {
            "taints": [
                {"key": taint.key, "value": taint.value, "effect": str(taint.effect)}
                for taint in taints(pool)
            ]
        },
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def _place(pool: str, level: TopologyLevel, number: int) -> str:
    kind = level.label.rsplit("/", 1)[-1]
    return f"{pool}-{kind}-{number // (level.nodes or 1)}"


def _times(amount: str, nodes: int) -> str:
    return str(quantity.parse(amount).times(nodes))
