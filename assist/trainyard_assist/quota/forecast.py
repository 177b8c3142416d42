"""Forecast for a job by the rules of Kueue 0.19: it starts, preempts others, or waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from ..queue_place import NAMED
from .assignment import Assignment, Chooser
from .model import Answer, Holder, Job, Key, Policy, Queue, State, Verdict
from .tree import Tree

_LATEST: Final = datetime.max.replace(tzinfo=UTC)


def forecast(state: State, job: Job) -> Verdict:
    """Forecast for a job that waits in its queue, or that would be sent now.

    Quota, order and preemption are Kueue's. It says nothing of what comes after the quota: placement by
    topology, and the admission checks that it names.

    Args:
        state: What can be seen of quota and jobs.
        job: One of those that wait, or another one.
    """
    queue = state.queues.get(job.queue)
    if queue is None:
        why = f"ClusterQueue {job.queue} cannot be seen" if job.queue else "its LocalQueue cannot be seen"
        return Verdict(answer=Answer.UNKNOWN, why=why, sure=False)
    waiting = [other for other in state.waiting if other.queue == job.queue and other.name != job.name]
    tried = [other for other in waiting if not other.backoff]
    before = sorted((other for other in tried if _order(other) < _order(job)), key=_order)
    names = tuple(other.name for other in before[:NAMED])
    if closed := job.closed or queue.closed:
        return Verdict(answer=Answer.WAITS, why=closed, before=names)
    if job.backoff:
        return Verdict(answer=Answer.WAITS, why=job.backoff)
    if queue.strict and queue.waiting > len(waiting) + _is_in(job, state):
        why = f"jobs that you may not see wait in ClusterQueue {queue.name}, one after the other"
        return Verdict(answer=Answer.WAITS, why=why, before=names, sure=False)
    tree = Tree(state.queues.values(), state.cohorts)
    unseen = tuple(unseen_holders(state))
    chooser = Chooser(tree, state.queues, state.flavors, (*state.holders, *unseen))
    whole = state.whole or not queue.cohort
    first = _holds_up(chooser, queue, before, waiting)
    chosen = chooser.assign(job)
    if first is not None:
        return _waits(chosen, (first.name,) if first not in before else names, whole=whole, sure=whole)
    _reserve(chooser, state, job, chosen.reach)
    chosen = chooser.assign(job)
    lacks = chosen.fails or bool(chosen.scarce)
    sure = whole and not (lacks and _hides_priorities(tree, queue, unseen))
    if chosen.fails:
        return _waits(chosen, names, whole=whole, sure=sure)
    stopped: tuple[Holder, ...] = ()
    if chosen.scarce:
        stopped = chooser.targets(job, chosen.used, chosen.scarce)
        if not stopped:
            return _waits(chosen, names, whole=whole, sure=sure)
    return Verdict(
        answer=Answer.PREEMPTS if stopped else Answer.STARTS,
        preempts=tuple(holder.name for holder in stopped),
        flavors=dict(chosen.flavors),
        checks=queue.checks,
        sure=sure,
    )


def unseen_holders(state: State) -> Iterator[Holder]:
    """Use by jobs that cannot be seen, one holder per ClusterQueue."""
    seen: defaultdict[str, defaultdict[Key, int]] = defaultdict(lambda: defaultdict(int))
    for holder in state.holders:
        for key, amount in holder.used.items():
            seen[holder.queue][key] += amount
    for queue in state.queues.values():
        rest = {
            key: amount - seen[queue.name][key]
            for key, amount in queue.used.items()
            if amount > seen[queue.name][key]
        }
        if rest:
            yield Holder(
                name=f"jobs of ClusterQueue {queue.name}", queue=queue.name, used=rest, priority=None
            )


def _waits(chosen: Assignment, before: Sequence[str], *, whole: bool, sure: bool) -> Verdict:
    tried = {short.flavor for short in chosen.short}
    too_much = {short.flavor for short in chosen.short if short.wanted > short.most}
    never = chosen.fails and whole and tried == too_much
    return Verdict(
        answer=Answer.NEVER if never else Answer.WAITS,
        why="; ".join(chosen.why),
        short=tuple(chosen.short),
        before=() if never else before,
        sure=sure or never,
    )


def _holds_up(chooser: Chooser, queue: Queue, before: Sequence[Job], waiting: Sequence[Job]) -> Job | None:
    """The job of the same queue that Kueue serves first; takes the quota of those that start before."""
    # Kueue stays with the job that it makes room for, also where it is not strict.
    for other in before if queue.strict else waiting:
        if other.preempting:
            return other
    for other in before:
        if other.considered:
            if queue.strict:
                return other
            continue
        if other.closed or not other.pods:
            continue
        chosen = chooser.assign(other)
        if not (chosen.fails or chosen.scarce):
            chooser.tree.change(queue.name, chosen.used)
        elif queue.strict or (not chosen.fails and chooser.targets(other, chosen.used, chosen.scarce)):
            return other
    return None


def _reserve(chooser: Chooser, state: State, job: Job, reach: int) -> None:
    """Take what Kueue keeps for the first jobs of strict queues that lack it and may not reclaim it.

    They are looked at in each round, those that borrow less before those that borrow more.
    """
    tree = chooser.tree
    top = tree.queues[job.queue].above[-1:]
    ours = (reach, *_order(job))
    for queue in state.queues.values():
        if not queue.strict or queue.closed or queue.name == job.queue or not top:
            continue
        if tree.queues[queue.name].above[-1:] != top or queue.rules.reclaim is Policy.ANY:
            continue
        tried = (other for other in state.waiting if other.queue == queue.name and not other.backoff)
        head = min(tried, key=_order, default=None)
        if head is None or head.closed:
            continue
        chosen = chooser.assign(head)
        if chosen.fails or not chosen.scarce or (chosen.reach, *_order(head)) > ours:
            continue
        if not chooser.targets(head, chosen.used, chosen.scarce):
            tree.change(queue.name, _kept_for(tree, queue, chosen))


def _kept_for(tree: Tree, queue: Queue, chosen: Assignment) -> dict[Key, int]:
    kept = {}
    node = tree.queues[queue.name]
    for key, amount in chosen.used.items():
        quota = node.own(key)
        if not chosen.reach:
            kept[key] = max(0, min(amount, quota.nominal - node.used[key]))
        elif quota.borrowing_limit is None:
            kept[key] = amount
        else:
            kept[key] = min(amount, quota.nominal + quota.borrowing_limit - node.used[key])
    return kept


def _is_in(job: Job, state: State) -> bool:
    """Whether the job waits already."""
    return any(other.name == job.name and other.queue == job.queue for other in state.waiting)


def _hides_priorities(tree: Tree, queue: Queue, unseen: Sequence[Holder]) -> bool:
    """Whether Kueue might stop jobs for one of the queue, by a priority that cannot be seen."""
    top = tree.queues[queue.name].above[-1:]
    for holder in unseen:
        is_own = holder.queue == queue.name
        policy = queue.rules.within if is_own else queue.rules.reclaim
        shares = is_own or (top and tree.queues[holder.queue].above[-1:] == top)
        if shares and policy in (Policy.LOWER, Policy.LOWER_OR_NEWER):
            return True
    return False


def _order(job: Job) -> tuple[int, datetime, str]:
    return -job.priority, job.created or _LATEST, job.name
