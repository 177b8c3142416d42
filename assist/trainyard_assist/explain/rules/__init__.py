"""The rules: one function for each cause, from an observation to a finding or None.

The order is that of the walk, and within a stage from a cause to its
consequences: the first rule that finds something has found the first cause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..model import Finding, Observation
from . import attempts, containers, gang, jobset, kueue, pods, ranks, scheduling, trainjob

Rule = Callable[[Observation], Finding | None]

BEFORE_THE_END: Final[tuple[Rule, ...]] = (
    trainjob.deleting,
    trainjob.operator_down,
    trainjob.blocked,
    trainjob.runtime_missing,
    kueue.down,
    trainjob.suspended,
    *kueue.BEFORE_ADMISSION,
    jobset.controller_down,
    kueue.not_resumed,
    jobset.not_created,
    jobset.jobs_refused,
    pods.over_quota,
    pods.refused,
    trainjob.blocked_by_refusals,
    trainjob.blocked_by_pods,
    scheduling.node_lost,
    scheduling.claim_missing,
    scheduling.claim_pending,
    gang.incomplete,
    scheduling.gated,
    scheduling.no_scheduler,
    scheduling.no_device,
    scheduling.no_node_fits,
    pods.image_not_pulled,
    pods.secret_missing,
    pods.config_missing,
    pods.sandbox_not_made,
    pods.volume_not_mounted,
    pods.cannot_start,
    pods.evicted,
    containers.another_failed_first,
    containers.oom_killed,
    containers.exited,
    pods.initializer_retries,
    pods.cache_waits,
    ranks.missing,
    ranks.left,
)
"""While the TrainJob could still run."""

ELSEWHERE: Final[tuple[Rule, ...]] = (trainjob.deleting, trainjob.managed_elsewhere)
"""While the TrainJob could still run, if another controller is responsible for it."""

AFTER_THE_END: Final[tuple[Rule, ...]] = (
    trainjob.deadline_exceeded,
    trainjob.failed_alike,
    pods.cannot_start,
    pods.evicted,
    containers.another_failed_first,
    containers.oom_killed,
    containers.exited,
    trainjob.runtime_unsupported,
    attempts.last_failed,
    jobset.has_failed,
)
"""Once it has failed."""
