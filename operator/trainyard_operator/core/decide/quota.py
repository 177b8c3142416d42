"""Jobs that a queue can never admit: it does not exist, or no flavor has or can borrow enough.

Called when a TrainJob is sent and while it waits in a queue. The most that a
ClusterQueue can get is what Kueue (0.19) calls its maximum capacity: with what
its cohort and those above it lend, as if nobody used anything. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainyard_api import names, similar
from trainyard_api.errors import InvalidFieldError
from trainyard_api.quantity import Quantity
from trainyard_api.reasons import Reason

from ..build import resources
from ..build.framework import Framework, UnsupportedPolicyError
from ..build.info import Settings
from ..model import Cause, JobSet, Json, Observed, RuntimeProblem, TrainJob
from . import causes, child_annotations

REASONS: Final = frozenset({Reason.QUEUE_NOT_FOUND, Reason.QUEUE_TOO_SMALL})
"""Why a queue never admits a job, as reasons of `Blocked`."""

_NEVER: Final = frozenset(
    {"Inadmissible", "OnHold", "NoMatchingFlavor", "ExceedsMaxQuota", "Misconfigured", "Suspended"}
)
"""Reasons of a Workload's QuotaReserved=False that waiting does not change."""
_NEVER_SAID: Final = ("> maximum capacity", "unavailable in ClusterQueue", "doesn't exist")
"""In a message whose reason is the general `Pending`."""
_WAITS_SAID: Final = "insufficient unused quota"
_POD_SET: Final = "couldn't assign flavors to pod set"

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


def queue_of(job: TrainJob, queues: Queues) -> str:
    """The LocalQueue that a TrainJob names, or its namespace's default one; empty if it has neither."""
    default = names.DEFAULT_QUEUE if (job.namespace, names.DEFAULT_QUEUE) in queues.local else ""
    return job.labels.get(names.QUEUE_LABEL) or default


def never(jobset: Json, queue: str, queues: Queues) -> Cause | None:
    """Why the queue will never admit the JobSet, however long it waits; None if it may.

    Args:
        jobset: The JobSet as it is built, with the namespace that it is for.
        queue: Its LocalQueue.
        queues: All of the cluster.
    """
    namespace = jobset["metadata"]["namespace"]
    behind = queues.local.get((namespace, queue))
    if behind is None:
        hint = similar.hint(queue, queues.names_in(namespace))
        return causes.no_such_queue(queue, namespace, hint)
    pool = queues.cluster.get(behind)
    if pool is None:
        return None  # That is the platform team's to mend, and may be on its way.
    too_much = next(_too_much(_asked(jobset["spec"]), pool, queues), None)
    return None if too_much is None else causes.queue_too_small(queue, *too_much)


def _too_much(
    requests: Sequence[tuple[int, resources.Amounts]], pool: Pool, queues: Queues
) -> Iterator[tuple[str, str]]:
    """The request and the queue's maximum, for each resource that can never suffice."""
    totals: resources.Amounts = {}
    for count, amounts in requests:
        totals = resources.added(totals, {name: amount.times(count) for name, amount in amounts.items()})
    for name, total in sorted(totals.items()):
        if total.nano <= 0:
            continue
        group = next((group for group in pool.groups if name in group.resources), None)
        if group is None:
            yield _shown(name, total, requests), f"has no {name}"
            continue
        capacities = [queues.most(pool, (flavor, name)) for flavor in group.flavors]
        bounds = [most for most in capacities if most is not None]
        if len(bounds) < len(capacities):
            continue
        # All pods of a ReplicatedJob are of one flavor; those of several may share what there is.
        largest = max((amounts[name].times(n) for n, amounts in requests if name in amounts), key=_nano)
        if largest.nano > max(bounds, default=0):
            most, of = max(bounds, default=0), " in one flavor" if len(bounds) > 1 else ""
        elif total.nano > sum(bounds):
            most, of = sum(bounds), " in all flavors" if len(bounds) > 1 else ""
        else:
            continue
        yield _shown(name, total, requests), f"has at most {Quantity(most, total.notation)}{of}"


def _nano(amount: Quantity) -> int:
    return amount.nano


def _shown(name: str, total: Quantity, requests: Sequence[tuple[int, resources.Amounts]]) -> str:
    """`cpu 128 (2 x 64)`."""
    parts = [f"{count} x {amounts[name]}" for count, amounts in requests if count and name in amounts]
    return f"{name} {total} ({' + '.join(parts)})"


def _asked(spec: Json) -> list[tuple[int, resources.Amounts]]:
    """How many pods each ReplicatedJob has, and what each of them asks for, as Kueue counts it."""
    return [
        (
            int(job.get("replicas", 1)) * int(job["template"]["spec"].get("parallelism") or 1),
            resources.pod_requests(job, limits_count=True),
        )
        for job in spec["replicatedJobs"]
    ]


def hopeless(
    observed: Observed, jobset: JobSet, queues: Queues, settings: Settings, using: Framework
) -> Cause | None:
    """Why the queue of a JobSet that exists will never admit it; None if it may, or nobody can tell."""
    if isinstance(observed.runtime, RuntimeProblem):
        return None
    try:
        children = using.children(
            observed.trainjob, observed.runtime, child_annotations.as_begun(settings, jobset)
        )
    except (UnsupportedPolicyError, InvalidFieldError):
        return None
    built = (child.manifest for child in children if child.manifest["kind"] == names.JOBSET)
    return next((cause for manifest in built if (cause := never(manifest, jobset.queue, queues))), None)


def confirmed(cause: Cause, reason: str, message: str) -> Cause | None:
    """The cause with Kueue's words; None if these say by now that it only waits.

    Args:
        cause: What was computed.
        reason: Of the Workload's condition QuotaReserved=False; empty while Kueue has not looked at it.
        message: Of the same.
    """
    if not message:
        return cause
    return causes.with_words_of_kueue(cause, message) if is_never(reason, message) else None


def is_never(reason: str, message: str) -> bool:
    """Whether Kueue says of a Workload in its condition QuotaReserved=False that waiting does not help.

    Of several flavors, one whose quota is only in use is worth waiting for.
    """
    if reason in _NEVER:
        return True
    return any(
        any(words in part for words in _NEVER_SAID) and _WAITS_SAID not in part
        for part in message.split(_POD_SET)
    )
