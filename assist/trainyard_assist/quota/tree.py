"""Kueue's arithmetic of quota: who may have how much, in a tree of ClusterQueues and cohorts.

As in Kueue 0.19 (pkg/cache/scheduler/resource_node.go). What a node does not
lend is its own; the rest of its quota, and what is used beyond its own, is its
cohort's. What a queue could have if nobody used anything is what the operator
says when it refuses a job that can never run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from trainyard_api.capacity import Pool, Queues, Quota

from .model import Amounts, Cohort, Key, Queue

_NONE = Quota()


@dataclass(slots=True, eq=False)
class Node:
    """A ClusterQueue or a cohort."""

    name: str
    quotas: Mapping[Key, Quota]
    above: list[Node] = field(default_factory=list)
    """Its cohorts, the nearest first."""
    children: list[Node] = field(default_factory=list)
    is_queue: bool = False
    height: int = 0
    """How many levels are below it."""
    quota: defaultdict[Key, int] = field(default_factory=lambda: defaultdict(int))
    """Its own, and what its children lend."""
    used: defaultdict[Key, int] = field(default_factory=lambda: defaultdict(int))
    """By a queue's jobs; of a cohort, what its children use beyond what they keep for themselves."""

    def own(self, key: Key) -> Quota:
        """Its own quota of a flavor's resource."""
        return self.quotas.get(key, _NONE)

    def kept(self, key: Key) -> int:
        """How much of its quota it does not lend."""
        lending = self.own(key).lending_limit
        return 0 if lending is None else max(0, self.quota[key] - lending)

    def left(self, key: Key) -> int:
        """How much of what it keeps is not used."""
        return max(0, self.kept(key) - self.used[key])

    def beyond(self, key: Key) -> int:
        """How much is used beyond what it keeps."""
        return max(0, self.used[key] - self.kept(key))

    def borrows(self, key: Key, more: int = 0) -> bool:
        """Whether, with so much more, it would use more than its quota."""
        return self.quota[key] < self.used[key] + more


class Tree:
    """The quota of all queues, and how much of it is used; `change` and `without` change what is used."""

    def __init__(self, queues: Iterable[Queue], cohorts: Mapping[str, Cohort]) -> None:
        queues = tuple(queues)
        self._capacity = Queues(
            {},
            [Pool(queue.name, queue.quotas, parent=queue.cohort) for queue in queues],
            [Pool(cohort.name, cohort.quotas, parent=cohort.parent) for cohort in cohorts.values()],
        )
        named = {queue.cohort for queue in queues} | {cohort.parent for cohort in cohorts.values()}
        self._cohorts = {
            name: Node(name, cohorts[name].quotas if name in cohorts else {})
            for name in sorted({*cohorts, *named} - {""})
        }
        self.queues = {queue.name: Node(queue.name, queue.quotas, is_queue=True) for queue in queues}
        for name, node in self._cohorts.items():
            self._hang(node, cohorts[name].parent if name in cohorts else "", cohorts)
        for queue in queues:
            self._hang(self.queues[queue.name], queue.cohort, cohorts)
        # From the leaves to the root.
        nodes = sorted((*self._cohorts.values(), *self.queues.values()), key=lambda node: -len(node.above))
        for node in nodes:
            self._add_up(node)
        for queue in queues:
            self.change(queue.name, queue.used)

    def _hang(self, node: Node, parent: str, cohorts: Mapping[str, Cohort]) -> None:
        """Put a node below its cohort, and that below its own; in a circle, which Kueue refuses, is none."""
        above = [] if node.is_queue else [node]
        while parent:
            cohort = self._cohorts[parent]
            if cohort in above:
                return
            above.append(cohort)
            parent = cohorts[parent].parent if parent in cohorts else ""
        node.above = above if node.is_queue else above[1:]
        if node.above:
            node.above[0].children.append(node)

    @staticmethod
    def _add_up(node: Node) -> None:
        for key, quota in node.quotas.items():
            node.quota[key] += quota.nominal
        if not node.above:
            return
        parent = node.above[0]
        parent.height = max(parent.height, node.height + 1)
        for key in tuple(node.quota):
            parent.quota[key] += node.quota[key] - node.kept(key)

    def change(self, queue: str, amounts: Amounts, sign: int = 1) -> None:
        """Use so much more (or with -1: less) in a queue."""
        node = self.queues[queue]
        for key, amount in amounts.items():
            more = sign * amount
            for at in (node, *node.above):
                before = at.beyond(key)
                at.used[key] += more
                more = at.beyond(key) - before

    @contextmanager
    def without(self, used: Iterable[tuple[str, Amounts]]) -> Iterator[None]:
        """For a while, as if this were not used."""
        used = tuple(used)
        for queue, amounts in used:
            self.change(queue, amounts, -1)
        try:
            yield
        finally:
            for queue, amounts in used:
                self.change(queue, amounts)

    def available(self, queue: str, key: Key) -> int:
        """What a queue can additionally use now; 0 if too much is already used."""
        node = self.queues[queue]
        *below, root = (node, *node.above)
        free = root.quota[key] - root.used[key]
        for at in reversed(below):
            borrowing = at.own(key).borrowing_limit
            if borrowing is not None:
                lent = at.quota[key] - at.kept(key)
                free = min(free, lent - at.beyond(key) + borrowing)
            free += at.left(key)
        return max(0, free)

    def most(self, queue: str, key: Key) -> int:
        """A queue's maximum if nobody used anything."""
        most = self._capacity.most(self._capacity.cluster[queue], key)
        return self.queues[queue].own(key).nominal if most is None else most

    def reach(self, queue: str, key: Key, amount: int) -> tuple[int, bool]:
        """How far up so much has to be borrowed from, 0 for not at all; and whether that is below the top."""
        node = self.queues[queue]
        if not node.above or not node.borrows(key, amount):
            return 0, bool(node.above)
        rest = amount - node.left(key)
        for cohort in node.above:
            if not cohort.borrows(key, rest):
                return cohort.height, bool(cohort.above)
            rest -= cohort.left(key)
        return node.above[-1].height, False
