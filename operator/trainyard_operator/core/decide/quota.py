"""Jobs that a queue can never admit: it does not exist, or no flavor has or can borrow enough.

Called when a TrainJob is sent and while it waits in a queue. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import names, similar
from trainyard_api.amounts import Amounts, added
from trainyard_api.capacity import Pool, Queues
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
    requests: Sequence[tuple[int, Amounts]], pool: Pool, queues: Queues
) -> Iterator[tuple[str, str]]:
    """The request and the queue's maximum, for each resource that can never suffice."""
    totals: Amounts = {}
    for count, amounts in requests:
        totals = added(totals, {name: amount.times(count) for name, amount in amounts.items()})
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
        largest = max(amounts[name].times(n).nano for n, amounts in requests if name in amounts)
        if largest > max(bounds, default=0):
            most, of = max(bounds, default=0), " in one flavor" if len(bounds) > 1 else ""
        elif total.nano > sum(bounds):
            most, of = sum(bounds), " in all flavors" if len(bounds) > 1 else ""
        else:
            continue
        yield _shown(name, total, requests), f"has at most {Quantity(most, total.notation)}{of}"


def _shown(name: str, total: Quantity, requests: Sequence[tuple[int, Amounts]]) -> str:
    """`cpu 128 (2 x 64)`."""
    parts = [f"{count} x {amounts[name]}" for count, amounts in requests if count and name in amounts]
    return f"{name} {total} ({' + '.join(parts)})"


def _asked(spec: Json) -> list[tuple[int, Amounts]]:
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
        children = using.build(
            observed.trainjob, observed.runtime, child_annotations.as_begun(settings, jobset)
        )
    except (UnsupportedPolicyError, InvalidFieldError):
        return None
    (built,) = (child for child in children if child["kind"] == names.JOBSET)
    return never(built, jobset.queue, queues)


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
