"""Quotas that Kueue would refuse, or that it would accept and never use.

Source: the webhooks of Kueue's ClusterQueues and Cohorts, and the rules of its CRDs.
Without these checks, a roll-out would stop half-way, with Kueue's words and without the
place in the stack file.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from trainyard_api import names, quantity
from trainyard_api.pools import NodePool, Provider, labels, selector, taints

from .queues import ClusterQueue, Queues, Quota, ResourceGroup, flavor_quotas

_MOST: Final = 8
"""Labels, taints and tolerations of a ResourceFlavor."""


def problems(queues: Queues, pools: Mapping[str, NodePool]) -> Iterator[str]:
    """Contradictions in quotas, each with its path in the platform's settings."""
    yield from _problems_of_topologies(queues)
    for name, cohort in queues.cohorts.items():
        at = f"queues.cohorts.{name}"
        yield from _listed_twice(at, cohort.resource_groups)
        if cohort.parent is None:
            yield from _useless_limits(at, cohort.resource_groups, "parent")
        if (cycle := _cycle(name, queues)) and min(cycle) == name:
            yield f"{at}.parent: makes a circle: {' -> '.join((*cycle, name))}"
    for name, queue in queues.cluster_queues.items():
        at = f"queues.clusterQueues.{name}"
        yield from _listed_twice(at, queue.resource_groups)
        yield from _lent_beyond_quota(at, queue.resource_groups)
        if queue.cohort is None:
            yield from _useless_limits(at, queue.resource_groups, "cohort")
        of_pools = {pool for pool, node_pool in pools.items() if name in _users(node_pool)}
        yield from _checks_listed_twice(at, queue)
        yield from _checks_of_other_flavors(at, queue, queues.flavors_of(name) | of_pools)
    yield from _pools_with_quota_twice(queues, pools)


def problems_of_flavors(queues: Queues, pools: Mapping[str, NodePool]) -> Iterator[str]:
    """Flavors, also those of pools, that Kueue would refuse, each with its path."""
    for name, flavor in queues.flavors.items():
        at = f"queues.flavors.{name}"
        yield from _too_many(f"{at}.nodeLabels", flavor.node_labels)
        yield from _too_many(f"{at}.nodeTaints", flavor.node_taints)
        yield from _too_many(f"{at}.tolerations", flavor.tolerations)
        effects = [(taint.key, taint.effect) for taint in flavor.node_taints]
        for number, (key, effect) in enumerate(effects):
            if (key, effect) in effects[:number]:
                yield f"{at}.nodeTaints[{number}]: {key} with the effect {effect} is listed twice"
    for name, pool in pools.items():
        yield from _too_many(f"nodePools.{name}.nodeLabels", selector(name, pool))
        yield from _too_many(f"nodePools.{name}.taints", taints(pool))


def _too_many(place: str, entries: Collection[object]) -> Iterator[str]:
    if len(entries) > _MOST:
        yield f"{place}: a flavor of Kueue has at most {_MOST} of them; has {len(entries)}"


def overlaps(pools: Mapping[str, NodePool]) -> dict[str, str]:
    """The pools of existing nodes that select all nodes of another pool, each with the other pool."""
    pairs: dict[str, str] = {}
    for name, pool in pools.items():
        for other, other_pool in pools.items():
            if (
                pool.provider is Provider.EXISTING
                and name != other
                and selector(name, pool).items() <= labels(other, other_pool).items()
                and pairs.get(other) != name
            ):
                pairs.setdefault(name, other)
    return pairs


def _problems_of_topologies(queues: Queues) -> Iterator[str]:
    for name, flavor in queues.flavors.items():
        if flavor.topology and not flavor.node_labels:
            yield f"queues.flavors.{name}.nodeLabels: is required with a topology"
    for name, topology in queues.topologies.items():
        levels = topology.levels
        for position, level in enumerate(levels):
            place = f"queues.topologies.{name}.levels[{position}]"
            if level in levels[:position]:
                yield f"{place}: {level} is listed twice"
            if level == names.HOSTNAME_LABEL and position < len(levels) - 1:
                yield f"{place}: {level} can only be the last level"


def _listed_twice(at: str, groups: Sequence[ResourceGroup]) -> Iterator[str]:
    """Flavors and resources of more than one group, and flavors that a group has twice."""
    places: dict[str, str] = {}
    for number, group in enumerate(groups):
        place = f"{at}.resourceGroups[{number}]"
        for resource in group.flavors[0].resources:
            if (first := places.setdefault(resource, place)) != place:
                yield f"{place}: {resource} is in {first} already: put the flavors of both into one group"
    flavors: set[str] = set()
    for place, flavor in flavor_quotas(at, groups):
        if flavor.name in flavors:
            yield f"{place}.name: {flavor.name!r} is listed twice"
        flavors.add(flavor.name)


def _quotas(at: str, groups: Sequence[ResourceGroup]) -> Iterator[tuple[str, Quota]]:
    """The quota of each resource in each flavor, with its path."""
    for place, flavor in flavor_quotas(at, groups):
        for resource, quota in flavor.resources.items():
            yield f"{place}.resources.{resource}", quota


def _useless_limits(at: str, groups: Sequence[ResourceGroup], missing: str) -> Iterator[str]:
    """Limits of what is borrowed and lent, where nobody borrows or lends."""
    for place, quota in _quotas(at, groups):
        for key, limit in (("borrowingLimit", quota.borrowing_limit), ("lendingLimit", quota.lending_limit)):
            if limit is not None:
                yield f"{place}.{key}: has no use without {at}.{missing}: set that, or remove the limit"


def _lent_beyond_quota(at: str, groups: Sequence[ResourceGroup]) -> Iterator[str]:
    for place, quota in _quotas(at, groups):
        limit = quota.lending_limit
        if limit is not None and quantity.parse(limit).nano > quantity.parse(quota.nominal).nano:
            yield f"{place}.lendingLimit: {limit} is more than the nominal quota, {quota.nominal}"


def _cycle(cohort: str, queues: Queues) -> tuple[str, ...]:
    """The cohorts from this one up to itself; empty if it is not its own ancestor."""
    path = [cohort]
    while (above := queues.cohorts.get(path[-1])) and above.parent and above.parent not in path:
        path.append(above.parent)
    return tuple(path) if above and above.parent == cohort else ()


def _checks_listed_twice(at: str, queue: ClusterQueue) -> Iterator[str]:
    checks = [check.name for check in queue.admission_checks]
    for number, name in enumerate(checks):
        if name in checks[:number]:
            yield (
                f"{at}.admissionChecks[{number}].name: {name!r} is listed twice: list all of its flavors in "
                "one onFlavors"
            )


def _checks_of_other_flavors(at: str, queue: ClusterQueue, flavors: Collection[str]) -> Iterator[str]:
    for number, check in enumerate(queue.admission_checks):
        for position, flavor in enumerate(check.on_flavors):
            if flavor not in flavors:
                place = f"{at}.admissionChecks[{number}].onFlavors[{position}]"
                yield f"{place}: the queue has no quota in flavor {flavor!r}"


def _users(pool: NodePool) -> list[str]:
    return [share.cluster_queue for share in pool.quota]


def _pools_with_quota_twice(queues: Queues, pools: Mapping[str, NodePool]) -> Iterator[str]:
    for name, pool in pools.items():
        users = _users(pool)
        for position, queue in enumerate(users):
            place = f"nodePools.{name}.quota[{position}]"
            if queue in users[:position]:
                yield f"{place}.clusterQueue: {queue!r} is listed twice"
            elif name in queues.flavors_of(queue):
                yield (
                    f"{place}: queues.clusterQueues.{queue} lists the flavor {name} itself: "
                    "remove one of the two"
                )
