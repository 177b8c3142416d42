"""Kueue's classical preemption, as in 0.19: the jobs that it stops so that another can start.

With `kueue.fairSharing` Kueue weighs shares instead, and may choose others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final

from .model import Amounts, Holder, Job, Key, Policy, Rules
from .tree import Node, Tree

_NOW: Final = datetime.max.replace(tzinfo=UTC)
"""When what is not sent yet is created."""
_EVER: Final = datetime.min.replace(tzinfo=UTC)


class _Kind(Enum):
    SAME_QUEUE = auto()
    HAS_OUR_SHARE = auto()
    """It uses quota that is nearer to us: its priority does not matter."""
    UNLESS_BORROWING = auto()
    """Only if the job itself then borrows nothing."""
    EVEN_BORROWING = auto()


@dataclass(frozen=True, slots=True)
class _Candidate:
    holder: Holder
    kind: _Kind
    common: Node | None = None
    """The lowest cohort above both queues."""


def targets(
    tree: Tree,
    holders: Sequence[Holder],
    own: Rules,
    job: Job,
    wanted: Amounts,
    *,
    scarce: Collection[Key],
) -> tuple[Holder, ...]:
    """The jobs that are stopped for it; none if that would not do.

    Args:
        tree: The quota; as before, once this returns.
        holders: Who uses it.
        own: The rules of the job's ClusterQueue.
        job: What waits.
        wanted: What it asks for of each flavor.
        scarce: What of that is not free.
    """
    same, nearer, others = _candidates(tree, holders, own, job, wanted, scarce=scarce)
    evicted, running = (
        [c for group in (nearer, others, same) for c in group if c.holder.evicted is gone]
        for gone in (True, False)
    )
    node = tree.queues[job.queue]
    within = all(node.used[key] < node.own(key).nominal for key in scarce)
    if not (nearer or others) or (not own.borrows and not within):
        ways: tuple[bool, ...] = (True,)
    elif not own.borrows and not nearer:
        ways = (False, True)
    else:
        ways = (True, False)
    for borrowing in ways:
        stopped = _stopped(tree, [*evicted, *running], job, wanted, scarce, borrowing=borrowing)
        if stopped:
            return stopped
    return ()


def _candidates(
    tree: Tree,
    holders: Sequence[Holder],
    own: Rules,
    job: Job,
    wanted: Amounts,
    *,
    scarce: Collection[Key],
) -> tuple[list[_Candidate], list[_Candidate], list[_Candidate]]:
    """Jobs of the same queue, jobs that use our quota, and others, each in Kueue's order."""
    same: list[_Candidate] = []
    nearer: list[_Candidate] = []
    others: list[_Candidate] = []
    by_queue: dict[str, list[Holder]] = {}
    for holder in sorted(holders, key=lambda holder: _order(holder, job.queue)):
        if any(holder.used.get(key) for key in scarce):
            by_queue.setdefault(holder.queue, []).append(holder)
    for holder in by_queue.get(job.queue, ()):
        if _may(own.within, job, holder):
            same.append(_Candidate(holder, _Kind.SAME_QUEUE))
    node = tree.queues[job.queue]
    if own.reclaim is Policy.NEVER:
        return same, nearer, others
    ours, rest = _fits(node, wanted)
    seen: Node = node
    for cohort in node.above:
        for queue in _borrowing(cohort, seen, scarce):
            for holder in by_queue.get(queue.name, ()):
                if not _may(own.reclaim, job, holder):
                    continue
                if ours:
                    nearer.append(_Candidate(holder, _Kind.HAS_OUR_SHARE, cohort))
                else:
                    others.append(_Candidate(holder, _kind(own, job, holder), cohort))
        fits, rest = _fits(cohort, rest)
        ours, seen = ours or fits, cohort
    for group in (nearer, others):
        group.sort(key=lambda candidate: _order(candidate.holder, job.queue))
    return same, nearer, others


def _stopped(
    tree: Tree,
    candidates: Sequence[_Candidate],
    job: Job,
    wanted: Amounts,
    scarce: Collection[Key],
    *,
    borrowing: bool,
) -> tuple[Holder, ...]:
    """As many as it takes, without those that were not needed in the end."""
    stopped: list[Holder] = []
    enough = False
    for candidate in candidates:
        if not _is_valid(tree, candidate, job.queue, scarce, borrowing=borrowing):
            continue
        tree.change(candidate.holder.queue, candidate.holder.used, -1)
        stopped.append(candidate.holder)
        enough = _has_room(tree, job.queue, wanted, borrowing=borrowing)
        if enough:
            break
    needed = list(stopped)
    for holder in reversed(stopped[:-1] if enough else ()):
        tree.change(holder.queue, holder.used)
        if _has_room(tree, job.queue, wanted, borrowing=borrowing):
            needed.remove(holder)
        else:
            tree.change(holder.queue, holder.used, -1)
    for holder in needed:
        tree.change(holder.queue, holder.used)
    return tuple(needed) if enough else ()


def _has_room(tree: Tree, queue: str, wanted: Amounts, *, borrowing: bool) -> bool:
    node = tree.queues[queue]
    return all(
        amount <= tree.available(queue, key) and (borrowing or not node.borrows(key, amount))
        for key, amount in wanted.items()
    )


def _is_valid(
    tree: Tree, candidate: _Candidate, queue: str, scarce: Collection[Key], *, borrowing: bool
) -> bool:
    """Whether its queue still has borrowed what the job lacks, and so has each below the common one."""
    if candidate.holder.queue == queue:
        return True
    if borrowing and candidate.kind is _Kind.UNLESS_BORROWING:
        return False
    node = tree.queues[candidate.holder.queue]
    for at in (node, *node.above):
        if at is candidate.common:
            break
        if not any(at.borrows(key) for key in scarce):
            return False
    return True


def _borrowing(cohort: Node, seen: Node, scarce: Collection[Key]) -> Iterator[Node]:
    """The queues below a cohort that use more than their quota, apart from what was looked at before."""
    for child in cohort.children:
        if child is seen or not any(child.borrows(key) for key in scarce):
            continue
        if child.is_queue:
            yield child
        else:
            yield from _borrowing(child, seen, scarce)


def _fits(node: Node, wanted: Amounts) -> tuple[bool, Amounts]:
    """Whether its quota holds this, and how much of it is not its own."""
    fits = not any(node.borrows(key, amount) for key, amount in wanted.items())
    return fits, {key: max(0, amount - node.left(key)) for key, amount in wanted.items()}


def _kind(own: Rules, job: Job, holder: Holder) -> _Kind:
    if not own.borrows or holder.priority is None or holder.priority >= job.priority:
        return _Kind.UNLESS_BORROWING
    above = own.threshold is not None and holder.priority > own.threshold
    return _Kind.UNLESS_BORROWING if above else _Kind.EVEN_BORROWING


def _may(policy: Policy, job: Job, holder: Holder) -> bool:
    """Whether the policy lets the job have the other stopped; of a job that cannot be seen, only if any."""
    if policy is Policy.ANY or holder.priority is None:
        return policy is Policy.ANY
    if policy is Policy.NEVER:
        return False
    lower = holder.priority < job.priority
    if policy is Policy.LOWER:
        return lower
    newer = (job.created or _NOW) < (holder.created or _EVER)
    return lower or (holder.priority == job.priority and newer)


def _order(holder: Holder, queue: str) -> tuple[bool, bool, int, float, str]:
    """Sort key: evicted jobs first, then other queues, low priority, and late admission."""
    since = 0.0 if holder.since is None else holder.since.timestamp()
    return not holder.evicted, holder.queue == queue, holder.priority or 0, -since, holder.name
