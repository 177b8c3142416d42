"""Quota, use and free quota of a ClusterQueue: one line per flavor and resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trainyard_api.quantity import Notation, Quantity

from .assignment import flavors_of
from .model import State
from .tree import Tree

_OF_BYTES: Final = ("memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Line:
    """A flavor's resource, in billionths."""

    flavor: str
    resource: str
    nominal: int
    """Its own quota."""
    used: int
    """Quota that its jobs have reserved."""
    borrowed: int
    """How much of that is not its own."""
    free: int
    """The free part of its own quota."""
    lendable: int | None
    """What it can also borrow now; None if not all of its cohort can be seen."""
    lent: int | None
    """How much of its own, which it does not use, others use now; None as well."""


def lines(state: State, queue: str) -> list[Line]:
    """The lines of a ClusterQueue; none if it cannot be seen."""
    its = state.queues.get(queue)
    if its is None:
        return []
    whole = state.whole or not its.cohort
    tree = Tree(state.queues.values(), state.cohorts)
    node = tree.queues[queue]
    listed = []
    for flavor, resource in flavors_of(its):
        key = (flavor, resource)
        nominal, used = node.own(key).nominal, node.used[key]
        unused = max(0, nominal - used)
        available = tree.available(queue, key) if whole else unused
        free = min(unused, available)
        lendable, lent = (available - free, unused - free) if whole else (None, None)
        listed.append(Line(flavor, resource, nominal, used, max(0, used - nominal), free, lendable, lent))
    return listed


def amount(resource: str, nano: int) -> str:
    """An amount as Kubernetes writes it: `500m`, `3Gi`."""
    of_bytes = resource in _OF_BYTES or resource.startswith("hugepages-")
    return str(Quantity(nano, Notation.BINARY if of_bytes else Notation.DECIMAL))
