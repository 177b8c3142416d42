"""Kueue's choice of flavors for a job, among those of its ClusterQueue, as in 0.19.

Placement by topology is left out: a job for which no rack has room waits
although its quota is free, which only Kueue's own conditions say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from trainyard_api import pools
from trainyard_api.capacity import Group
from trainyard_api.pools import TaintEffect

from .model import Expression, Flavor, Holder, Job, Key, PodSet, Queue, Rules, Short
from .preemption import targets
from .tree import Tree

PODS: Final = "pods"
"""The resource that counts pods, in queues that cover it."""


class Mode(IntEnum):
    """How a flavor would do; the higher, the better."""

    NOT = 0
    NOBODY = 1
    """If others stopped, but there is nobody to stop."""
    PREEMPTS = 2
    RECLAIMS = 3
    FITS = 4


@dataclass(frozen=True, slots=True)
class Fit:
    """How a flavor would do, and from how far up it would borrow."""

    mode: Mode
    reach: int = 0


@dataclass(slots=True)
class Assignment:
    """The assigned flavors of a job."""

    flavors: dict[str, str] = field(default_factory=dict)
    """By resource, of the pods that were assigned last."""
    used: defaultdict[Key, int] = field(default_factory=lambda: defaultdict(int))
    """Of these flavors alone: who makes room for the job looks at each that has an amount here."""
    scarce: set[Key] = field(default_factory=set)
    """What is not free."""
    short: list[Short] = field(default_factory=list)
    """Missing quota in the flavors that were tried."""
    why: list[str] = field(default_factory=list)
    """Flavors that are not for these pods."""
    reach: int = 0
    fails: bool = False
    """Whether some pods get no flavor."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """State while flavors are chosen."""

    tree: Tree
    queues: Mapping[str, Queue]
    flavors: Mapping[str, Flavor]
    holders: Sequence[Holder]

    def targets(self, job: Job, wanted: Mapping[Key, int], scarce: set[Key]) -> tuple[Holder, ...]:
        """Jobs that are preempted for it."""
        return targets(self.tree, self.holders, self.queues[job.queue].rules, job, wanted, scarce=scarce)

    def assign(self, job: Job) -> Assignment:
        """The flavors of a job; if some pods get none, as far as it went."""
        queue = self.queues[job.queue]
        covered = {resource: group for group in queue.groups for resource in group.resources}
        chosen = Assignment()
        for pods in job.pods:
            requests = dict(pods.requests)
            if PODS in covered:
                requests[PODS] = pods.count * 10**9
            got: dict[str, str] = {}
            for resource, amount in sorted(requests.items()):
                if resource in got or (resource not in covered and not amount):
                    continue
                if resource not in covered:
                    chosen.short.append(Short(resource, "", amount, 0, 0))
                    chosen.fails = True
                    return chosen
                group = covered[resource]
                asked = {name: requests[name] for name in group.resources if name in requests}
                flavor = self._flavor(job, queue, group, pods, asked=asked, chosen=chosen)
                if not flavor:
                    chosen.fails = True
                    return chosen
                got |= dict.fromkeys(asked, flavor)
            for resource, flavor in got.items():
                chosen.used[flavor, resource] += requests[resource]
            chosen.flavors |= got
        return chosen

    def _flavor(
        self,
        job: Job,
        queue: Queue,
        group: Group,
        pods: PodSet,
        *,
        asked: Mapping[str, int],
        chosen: Assignment,
    ) -> str:
        """The flavor of the group that they get; empty for none."""
        best, best_name, best_scarce, best_reach = Fit(Mode.NOT), "", set[Key](), 0
        short: list[Short] = []
        for name in group.flavors:
            if unfit := _unfit(name, self.flavors.get(name, Flavor()), pods):
                chosen.why.append(unfit)
                continue
            worst, reach, scarce = Fit(Mode.FITS), 0, set[Key]()
            for resource, amount in asked.items():
                key = (name, resource)
                wanted = chosen.used.get(key, 0) + amount
                fit = self._fit(job, queue, key, wanted)
                reach = max(reach, fit.reach)
                if fit.mode is not Mode.FITS:
                    scarce.add(key)
                    short.append(self._short(queue, key, wanted))
                if _better(worst, fit, queue.rules):
                    worst = fit
                if worst.mode is Mode.NOT:
                    break
            is_last = not _goes_on(worst, queue.rules)
            if is_last or _better(worst, best, queue.rules):
                best, best_name, best_scarce, best_reach = worst, name, scarce, reach
            if is_last:
                break
        if best.mode is not Mode.FITS:
            chosen.short += short
        if best.mode is Mode.NOT:
            return ""
        chosen.scarce |= best_scarce
        chosen.reach = max(chosen.reach, best_reach)
        return best_name

    def _fit(self, job: Job, queue: Queue, key: Key, amount: int) -> Fit:
        tree = self.tree
        if amount > tree.most(queue.name, key):
            return Fit(Mode.NOT)
        reach, below_top = tree.reach(queue.name, key, amount)
        if amount <= tree.available(queue.name, key):
            return Fit(Mode.FITS, reach)
        if amount > tree.queues[queue.name].own(key).nominal and not below_top and not queue.rules.borrows:
            return Fit(Mode.NOT, reach)
        stopped = self.targets(job, {key: amount}, {key})
        if not stopped:
            return Fit(Mode.NOBODY, reach)
        with tree.without((holder.queue, holder.used) for holder in stopped):
            reach, _ = tree.reach(queue.name, key, amount)
        of_own = any(holder.queue == queue.name for holder in stopped)
        return Fit(Mode.PREEMPTS if of_own else Mode.RECLAIMS, reach)

    def _short(self, queue: Queue, key: Key, amount: int) -> Short:
        flavor, resource = key
        free, most = self.tree.available(queue.name, key), self.tree.most(queue.name, key)
        return Short(resource, flavor, amount, free, most)


def _better(one: Fit, other: Fit, rules: Rules) -> bool:
    """Whether Kueue prefers the first."""
    if Mode.NOT in (one.mode, other.mode):
        return one.mode is not Mode.NOT
    by_mode, by_reach = (one.mode > other.mode), (one.reach < other.reach)
    if rules.rather_preempts:
        return by_reach if one.reach != other.reach else by_mode
    return by_mode if one.mode is not other.mode else by_reach


def _goes_on(fit: Fit, rules: Rules) -> bool:
    """Whether the next flavor is tried too."""
    if fit.mode in (Mode.NOT, Mode.NOBODY):
        return True
    if fit.mode in (Mode.PREEMPTS, Mode.RECLAIMS) and rules.next_if_preempting:
        return True
    return fit.reach > 0 and rules.next_if_borrowing


def _unfit(name: str, flavor: Flavor, pods: PodSet) -> str:
    """Why pods cannot be on the nodes of a flavor, in words; empty if they can."""
    tolerations = (*pods.tolerations, *flavor.tolerations)
    for taint in flavor.taints:
        keeps_out = taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        if keeps_out and not any(pools.tolerated(taint, toleration) for toleration in tolerations):
            return f"it does not tolerate the taint {taint.key} of flavor {name}"
    for label, value in pods.selector.items():
        if flavor.labels.get(label, value) != value:
            return f"its nodeSelector wants {label}={value}, which flavor {name} does not have"
    if pods.affinity and not any(_may_hold(term, flavor.labels) for term in pods.affinity):
        return f"its node affinity excludes flavor {name}"
    return ""


def _may_hold(term: Sequence[Expression], labels: Mapping[str, str]) -> bool:
    """Whether a term of a node affinity holds for these labels, whatever others a node has."""
    return all(_holds(wanted, labels[wanted.label]) for wanted in term if wanted.label in labels)


def _holds(wanted: Expression, value: str) -> bool:
    match wanted.operator:
        case "In":
            return value in wanted.values
        case "NotIn":
            return value not in wanted.values
        case "Gt" | "Lt":
            with suppress(ValueError):  # what is no number is neither
                number, limit = map(int, (value, *wanted.values))
                return number > limit if wanted.operator == "Gt" else number < limit
            return False
        case operator:
            return operator == "Exists"


def flavors_of(queue: Queue) -> Iterator[Key]:
    """Each flavor with each of its resources, in the order in which they are tried."""
    for group in queue.groups:
        for flavor in group.flavors:
            for resource in group.resources:
                yield flavor, resource
