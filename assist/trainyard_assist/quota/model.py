"""The values that go into a forecast and come out of it. Amounts are in billionths, as of a `Quantity`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trainyard_api.capacity import FlavorResource, Group, Quota
from trainyard_api.json_types import Json
from trainyard_api.pools import Taint

Key = FlavorResource
Amounts = Mapping[Key, int]


class Policy(StrEnum):
    """Jobs that may be preempted for a waiting job."""

    NEVER = "Never"
    ANY = "Any"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a ClusterQueue chooses among flavors, and whom it preempts."""

    within: Policy = Policy.NEVER
    """In the ClusterQueue itself."""
    reclaim: Policy = Policy.NEVER
    """Jobs of other queues that borrow."""
    borrows: bool = False
    """Whether others may be preempted by a job that itself would borrow."""
    threshold: int | None = None
    """The highest priority of those; None: only the job's own priority limits it."""
    next_if_borrowing: bool = False
    """Whether the next flavor is tried before it borrows."""
    next_if_preempting: bool = True
    """Whether the next flavor is tried before it preempts."""
    rather_preempts: bool = False
    """Whether it rather preempts than borrows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue."""

    name: str
    cohort: str = ""
    groups: Sequence[Group] = ()
    quotas: Mapping[Key, Quota] = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    """Quota that its jobs have reserved."""
    strict: bool = False
    """Whether a job that does not fit holds up those behind it."""
    closed: str = ""
    """Why it admits nothing, in words; empty if it does."""
    rules: Rules = Rules()
    checks: Sequence[str] = ()
    """Admission checks that a job has to pass after it has its quota."""
    waiting: int = 0
    """How many jobs wait, as it says itself."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """Queues that lend each other what they do not use, with quota that belongs to none of them."""

    name: str
    parent: str = ""
    quotas: Mapping[Key, Quota] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flavor:
    """A ResourceFlavor: which nodes it is."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    tolerations: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """What a node affinity wants of a label."""

    label: str
    operator: str
    values: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Equal pods of a job."""

    requests: Mapping[str, int]
    """Requests of all pods together, by resource."""
    count: int = 1
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Json] = ()
    affinity: Sequence[Sequence[Expression]] = ()
    """The terms of the required node affinity, one of which has to hold; without any, each node will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that waits, or that is not sent yet."""

    name: str
    """In words, such as `team-a/my-training`."""
    queue: str
    """The ClusterQueue."""
    pods: Sequence[PodSet] = ()
    priority: int = 0
    created: datetime | None = None
    """None for one that is not sent yet, which is younger than all others."""
    considered: bool = False
    """Whether Kueue has looked at it, and found no room."""
    preempting: bool = False
    """Whether jobs are being stopped for it."""
    closed: str = ""
    """Why its LocalQueue admits nothing, in words."""
    backoff: str = ""
    """Why Kueue does not try it now, in words. Until then, those behind it go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A job that has its quota."""

    name: str
    """In words; of jobs that cannot be seen, those of which ClusterQueue."""
    queue: str
    used: Amounts
    priority: int | None = 0
    """None for jobs that cannot be seen."""
    created: datetime | None = None
    since: datetime | None = None
    evicted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that can be seen of the quota, and of who has it and wants it."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    flavors: Mapping[str, Flavor] = field(default_factory=dict)
    """Those that are not there, or cannot be seen, hold any pod."""
    holders: Sequence[Holder] = ()
    waiting: Sequence[Job] = ()
    whole: bool = True
    """Whether all queues that share their quota could be seen."""


class Answer(StrEnum):
    """Outcome of a forecast."""

    STARTS = "Starts"
    PREEMPTS = "Preempts"
    """It starts as soon as other jobs have been stopped for it."""
    WAITS = "Waits"
    NEVER = "Never"
    """It asks for more than its queue can ever have."""
    UNKNOWN = "Unknown"
    """Too little can be seen."""


@dataclass(frozen=True, slots=True)
class Short:
    """A resource of a flavor of which too little is free."""

    resource: str
    flavor: str
    """Empty if no flavor of the queue has the resource."""
    wanted: int
    free: int
    most: int
    """The queue's maximum if nobody used any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The forecast for a job, with its reason."""

    answer: Answer
    why: str = ""
    """A reason other than missing quota, as text."""
    short: Sequence[Short] = ()
    """The missing quota, per flavor that was tried."""
    before: Sequence[str] = ()
    """The jobs before it, in words, of those that can be seen; the next first."""
    preempts: Sequence[str] = ()
    """The jobs that are stopped for it."""
    flavors: Mapping[str, str] = field(default_factory=dict)
    """By resource: what it gets."""
    checks: Sequence[str] = ()
    """Admission checks that it then has to pass."""
    sure: bool = True
    """Whether all could be seen that it depends on."""
