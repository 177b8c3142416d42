"""The most that a ClusterQueue can get: pure.

This is what Kueue (0.19) calls its maximum capacity: with what its cohort and
those above it lend, as if nobody used anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from . import quantity
from .json_types import Json

FlavorResource = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one resource in one flavor, in billionths."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Flavors, one of which has to have all of these resources for a pod set."""

    resources: Sequence[str]
    flavors: Sequence[str]


@dataclass(frozen=True, slots=True)
class Pool:
    """A ClusterQueue or a Cohort."""

    name: str
    quotas: Mapping[FlavorResource, Quota]
    groups: Sequence[Group] = ()
    parent: str = ""
    """The Cohort that it belongs to; empty for none."""

    def quota(self, of: FlavorResource) -> Quota:
        """Its own."""
        return self.quotas.get(of, _NONE)


_NONE: Final = Quota()


class Queues:
    """The LocalQueues of a cluster, each with its ClusterQueue by name, and what is behind them."""

    def __init__(
        self, local: Mapping[tuple[str, str], str], cluster: Sequence[Pool], cohorts: Sequence[Pool] = ()
    ) -> None:
        self.local = local
        self.cluster = {pool.name: pool for pool in cluster}
        self._cohorts = {pool.name: pool for pool in cohorts}
        self._queues_of: dict[str, list[Pool]] = {}
        self._cohorts_of: dict[str, list[Pool]] = {}
        for pools, children in ((cluster, self._queues_of), (cohorts, self._cohorts_of)):
            for pool in pools:
                children.setdefault(pool.parent, []).append(pool)

    def names_in(self, namespace: str) -> list[str]:
        """The LocalQueues of a namespace."""
        return [name for within, name in self.local if within == namespace]

    def most(self, queue: Pool, of: FlavorResource) -> int | None:
        """The most, in billionths, that a ClusterQueue ever gets; None where its cohorts form a circle."""
        chain = [queue]
        while chain[-1].parent:
            parent = chain[-1].parent
            if any(pool.name == parent for pool in chain[1:]):
                return None
            chain.append(self._cohorts.get(parent) or Pool(parent, {}))
        *below, root = chain
        most = self._subtree(root, of, is_queue=root is queue)
        for pool in reversed(below):
            subtree, quota = self._subtree(pool, of, is_queue=pool is queue), pool.quota(of)
            most += _kept(quota, subtree)
            if quota.borrowing_limit is not None:
                most = min(most, subtree + quota.borrowing_limit)
        return most

    def _subtree(self, pool: Pool, of: FlavorResource, *, is_queue: bool) -> int:
        """Its quota, with the quota that its children lend. Recursion ends: a cohort has one parent."""
        total = pool.quota(of).nominal
        if is_queue:
            return total
        for children, are_queues in ((self._queues_of, True), (self._cohorts_of, False)):
            for child in children.get(pool.name, ()):
                subtree = self._subtree(child, of, is_queue=are_queues)
                total += subtree - _kept(child.quota(of), subtree)
        return total


def _kept(quota: Quota, subtree: int) -> int:
    """Quota that it does not lend."""
    return 0 if quota.lending_limit is None else max(0, subtree - quota.lending_limit)


def pool(manifest: Json) -> Pool:
    """A ClusterQueue or a Cohort of `kueue.x-k8s.io/v1beta2`, as the platform declares it."""
    spec = manifest.get("spec") or {}
    groups = spec.get("resourceGroups") or ()
    return Pool(
        manifest["metadata"]["name"],
        {
            (flavor["name"], resource["name"]): Quota(
                quantity.parse(resource.get("nominalQuota") or 0).nano,
                *(_limit(resource.get(key)) for key in ("borrowingLimit", "lendingLimit")),
            )
            for group in groups
            for flavor in group["flavors"]
            for resource in flavor["resources"]
        },
        [
            Group(group["coveredResources"], [flavor["name"] for flavor in group["flavors"]])
            for group in groups
        ],
        spec.get("cohortName") or spec.get("parentName") or "",
    )


def _limit(value: str | int | None) -> int | None:
    return None if value is None else quantity.parse(value).nano
