"""Accidental changes that recreate a stack's objects in its cluster: pure.

Pulumi replaces a resource by creating a new one and deleting the old one. Two
resources of a stack can be one object of the cluster: then the deletion takes
what was just created, and with it jobs and quotas.

Called with two versions of a stack file by `report` and `verify`, with the
steps of a preview by `rollout`, and with two clusters by all that changes one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic.alias_generators import to_camel

from trainyard_api import names
from trainyard_api.pools import NodePool, Provider, interfaces
from trainyard_api.shown import listed
from trainyard_platform.stack.node_pools import Eks, Gke, Network
from trainyard_platform.stack.settings import StackSettings

from .pulumi_state import Identity
from .rollout.events import Op, Step

HOLDING: Final = frozenset(
    {
        *("CustomResourceDefinition", "Namespace"),
        *("AdmissionCheck", "ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Topology"),
        *("WorkloadPriorityClass", names.CLUSTER_TRAINING_RUNTIME),
    }
)
"""Kinds of objects with which jobs or quotas go."""
_OF_NODE_GROUPS: Final = {
    Provider.EKS: ("name", "node_role"),
    Provider.GKE: ("project", "location", "name", "node_service_account"),
    Provider.AKS: ("id", "subnet"),
}
"""Fields of a cloud's cluster that its node groups have from the start: a change recreates them."""
_LOST: Final = ": the pods on them are lost"
_DONE_BY: Final = {"up": "changed", "destroy": "destroyed", "drift": "repaired"}
"""By command, what it does to a cluster."""
_NEW_PREVIEW: Final = "Then run the same command again, which makes a new preview"
ALL: Final = "all"
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Move:
    """A stack whose file names another cluster than that of the last roll-out, or another way to it."""

    provider: str
    """URN of the provider in Pulumi's state."""
    fields: tuple[str, ...]
    """The fields that differ in the file."""
    before: str
    after: str
    same_file: bool = False
    """Whether the file has not changed: the kubeconfig has, or the cluster was recreated."""
    same_cluster: bool = False
    """Whether the uid says that the cluster has not changed: only the way to it has."""

    def allowed(self, named: Collection[str]) -> bool:
        """Whether all that differs is named; `ALL` is about objects, and not enough."""
        return set(self.fields) <= set(named)

    @property
    def written(self) -> str:
        """What is new in the file, and written into Pulumi's state first: the cluster, or only the fields."""
        return " and ".join(self.fields) if self.same_cluster else "cluster"

    def __str__(self) -> str:
        fields = " and ".join(self.fields)
        named = " ".join(self.fields)
        if self.same_file:
            return (
                f"refused: the last roll-out went to {self.before}; now the same stack file leads to "
                f"{self.after}, which is another cluster: its namespace kube-system has another uid. If the "
                "stack has not moved, select the old cluster again in the kubeconfig: kubectl config "
                "use-context NAME. If it has moved, or the cluster was recreated, run `up` with "
                f'--replace "{named}": what it has in the old cluster stays there, and nothing manages it'
            )
        differs = (
            f"refused: {fields} of the stack file differs from the last roll-out, which went to "
            f"{self.before}; now it is {self.after}. "
        )
        if self.same_cluster:
            return (
                f"{differs}That is the same cluster: its namespace kube-system has the same uid. But Pulumi "
                f'would still use the old {fields}. Run `up` with --replace "{named}", which first writes '
                "the new one into Pulumi's state"
            )
        return (
            f"{differs}Pulumi would compare with the old cluster instead of the new one. If the stack has "
            f'not moved, change {fields} back. To move it, run `up` with --replace "{named}": what it has in '
            "the old cluster stays there, and nothing manages it"
        )


def another_cluster(
    expected: Identity, here: Identity, source: str, command: str, *, previewed: bool = False
) -> list[str]:
    """The sentence with which a command refuses to change another cluster than the expected one.

    That is the cluster of the last roll-out or, for `up` and if it is only `previewed`, that of the preview.
    `source` says which kubeconfig and context lead to the cluster that is here.
    """
    if expected.uid == here.uid:
        return []
    if command == "up" or previewed:
        was, cluster = "refused: the preview was of", "the cluster of the preview"
        then = _NEW_PREVIEW
    else:
        was, cluster = "the last roll-out went to", "the cluster of the last roll-out"
        then = (
            "If the stack has moved, or the cluster was recreated, first run `up` with "
            '--replace "cluster.context"'
        )
    return [
        f"{was} {expected.server}, but the cluster that would be {_DONE_BY[command]} is {here.server} "
        f"({source}), and that is another one: its namespace kube-system has another uid. Select {cluster} "
        f"again in the kubeconfig: kubectl config use-context NAME. {then}"
    ]


def another_address(expected: str, here: str, source: str, command: str) -> list[str]:
    """The same for a cluster of which only the address of the preview is known."""
    if expected == here:
        return []
    return [
        f"refused: the preview was of {expected}, but the cluster that would be {_DONE_BY[command]} is "
        f"{here} ({source}), and nobody could see whether it is the same one. Select the cluster of the "
        f"preview again in the kubeconfig: kubectl config use-context NAME. {_NEW_PREVIEW}"
    ]


def of_stack(name: str, before: StackSettings, after: StackSettings) -> Iterator[str]:
    """Effects of a change of a stack's file on the whole stack: sentences that begin with the field."""
    old, new = (settings.cluster.identifier or name for settings in (before, after))
    if old != new:
        yield (
            f"cluster.identifier: {old} -> {new} makes Pulumi recreate every object of the stack and "
            "then delete the old one: in the cluster they are the same objects, and queues, tenants and "
            "quotas go"
        )
    for field in ("kubeconfig", "context"):
        old, new = (getattr(settings.cluster, field) for settings in (before, after))
        if old != new:
            yield (
                f"cluster.{field}: {old or 'none'} -> {new or 'none'} moves the stack, if that is another "
                "cluster: what it has in the old one stays there, and nothing manages it"
            )
    yield from _recreated_node_groups(before, after)


def _recreated_node_groups(before: StackSettings, after: StackSettings) -> Iterator[str]:
    """Changes of a cloud's cluster with which it recreates the nodes of pools that stay in the stack."""
    for provider, fields in _OF_NODE_GROUPS.items():
        clusters = [getattr(settings.cluster, provider) for settings in (before, after)]
        pools = {
            name: pool
            for name, pool in after.node_pools.items()
            if pool.provider is provider and name in before.node_pools
        }
        if None in clusters or not pools:
            continue
        for field in fields:
            old, new = (getattr(cluster, field) for cluster in clusters)
            if old != new:
                change = f"cluster.{provider}.{to_camel(field)}: {old or 'none'} -> {new or 'none'}"
                yield f"{change} recreates the nodes of {listed(list(pools), MOST_NAMED)}{_LOST}"
        for field, of_pool in _OF_POOLS.get(provider, {}).items():
            moved = [
                name
                for name, pool in pools.items()
                if len({of_pool(pool, cluster) for cluster in clusters}) > 1
            ]
            if moved:
                change = f"cluster.{provider}.{to_camel(field)}: other {field.replace('_', ' ')}"
                yield f"{change} recreate the nodes of {listed(moved, MOST_NAMED)}{_LOST}"


def _subnets(pool: NodePool, cluster: Eks) -> frozenset[str]:
    """The subnets of a pool's nodes; a zone that has none is refused elsewhere."""
    return frozenset(cluster.subnets.get(zone, "") for zone in pool.zones or cluster.subnets)


def _security_groups(pool: NodePool, cluster: Eks) -> frozenset[str]:
    """The security groups of a pool's nodes; those without EFA have the cluster's own."""
    return frozenset(cluster.security_groups if interfaces(pool) else ())


def _networks(pool: NodePool, cluster: Gke) -> tuple[Network | None, ...]:
    """The further networks of a pool's nodes; one that there is not is refused elsewhere."""
    return tuple(cluster.networks.get(name) for name in pool.networks)


_OF_POOLS: Final[Mapping[Provider, Mapping[str, Callable[[NodePool, Any], Hashable]]]] = {
    Provider.EKS: {"subnets": _subnets, "security_groups": _security_groups},
    Provider.GKE: {"networks": _networks},
}
"""Fields of a cloud's cluster of which each pool's nodes have a part from the start."""


def not_allowed(steps: Iterable[Step], allowed: Collection[str]) -> list[str]:
    """Names of objects with jobs or quota that a preview would recreate and nobody has allowed.

    Pulumi recreates what it replaces, and deletes what the stack declares under another URN than before.

    Args:
        steps: All of a preview, with what is left in the cluster reported as such.
        allowed: What may be recreated, as `Kind/name` or `Kind/namespace/name`, or `ALL`.
    """
    if ALL in allowed:
        return []
    by_op: defaultdict[Op, set[str]] = defaultdict(set)
    for step in steps:
        if step.ref is not None and step.ref.kind in HOLDING:
            by_op[step.op].add(step.ref.key)
    declared = set().union(*(keys for op, keys in by_op.items() if op not in (Op.DELETE, Op.LEAVE)))
    return sorted((by_op[Op.REPLACE] | by_op[Op.DELETE] & declared) - {*allowed})


def refusal(objects: Sequence[str]) -> str:
    """The sentence that refuses to recreate these."""
    return (
        f"refused: Pulumi would recreate {listed(objects, MOST_NAMED)} and then delete the old objects, but "
        "in the cluster these are the same. If cluster.identifier has changed, change it back. If an object "
        "has moved to another section of the stack file, remove it in one roll-out, and add it in the next. "
        f'To replace them anyway, add --replace "{" ".join(objects) if len(objects) <= MOST_NAMED else ALL}"'
    )
