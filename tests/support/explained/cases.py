"""What a case of a cause is, and the words that the cases share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainyard_assist.explain import Finding, Observation, Ref, State

from .objects import QUEUED, Object, condition, jobset, seen, suspended, trainjob, workload

PODS = "uid-of-tj-node-0"
FIRST, SECOND = Ref("Pod", "tj-node-0-0-x", "team"), Ref("Pod", "tj-node-0-1-x", "team")
SELF = Ref("TrainJob", "tj", "team")
WORKLOAD = Ref("Workload", "trainjob-tj-1", "team")
FITS = (
    "change resourcesPerNode, nodeSelector or tolerations so that a node matches, or have the platform team "
    "add a matching node"
)
INSUFFICIENT = (
    "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No victims."
)
ASKS: dict[str, Any] = {"containers": [{"name": "node", "resources": {"requests": {"cpu": "64"}}}]}
QUOTA_SAID = (
    "couldn't assign flavors to pod set node: insufficient unused quota for cpu in flavor spot, 2 more needed"
)
UNANSWERED = (
    'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post '
    '"https://jobset-webhook-service.jobset-system.svc:443/mutate--v1-pod": connection refused'
)
ANSWER = (
    "have the platform team look at the service of the webhook, which does not answer: the TrainJob then "
    "continues by itself"
)


@dataclass(frozen=True)
class Case:
    id: str
    seen: Observation
    finding: Finding
    state: State = State.HELD


def queued(*conditions: Object, **changed: Any) -> Observation:
    changed = {"workloads": (workload(*conditions),), **changed}
    return suspended(**{"trainjob": trainjob(suspend=True, more=QUEUED), **changed})


def held_jobset(
    *conditions: Object, suspend: bool = False, more: Object | None = None, **changed: Any
) -> Observation:
    """One whose JobSet a queue holds."""
    waits = jobset(suspend=True)
    waits["metadata"] |= QUEUED | (more or {})
    return queued(
        *conditions, **{"trainjob": trainjob(suspend=suspend, more=QUEUED), "jobset": waits, **changed}
    )


def failed(*conditions: Object, **changed: Any) -> Observation:
    reason = condition("Failed", "FailedJobs", "jobset failed due to one or more job failures")
    return seen(**{"trainjob": trainjob(*(conditions or (reason,))), **changed})
