"""The values that go into an explanation and come out of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from trainyard_api.json_types import Json
from trainyard_api.reasons import Reason

from .. import read
from ..queue_place import QueuePlace


class Subject(StrEnum):
    """Kinds of observed objects; the value is the name in the report if they could not be read."""

    RUNTIME = "runtime"
    OPERATOR_LEASE = "operator's Lease"
    WORKLOADS = "Workloads"
    QUEUE = "place in the queue"
    JOBSET = "JobSet"
    JOBSET_CONTROLLER = "JobSet controller"
    KUEUE = "Kueue"
    POD_GROUPS = "PodGroup"
    JOBS = "Jobs"
    PODS = "pods"
    NODES = "nodes"
    CLAIMS = "PersistentVolumeClaims"
    EVENTS = "events"
    LOGS = "logs"


@dataclass(frozen=True, slots=True)
class Silence:
    """The silence of a pod: no rank prints or computes."""

    pod: str
    since: datetime
    pids: str
    """Process IDs of its ranks, separated by spaces."""


@dataclass(frozen=True, kw_only=True)  # slots would leave no room for the cached properties
class Observation:
    """The observed objects of a TrainJob and around it, as the API server returns them.

    Which of its pods count, and which events are about which object, are computed once: there may be
    thousands, and nearly every rule needs them.
    """

    now: datetime
    """By the clock of the API server."""
    trainjob: Json
    runtime: Json | None = None
    runtimes: Sequence[Json] = ()
    """All runtimes, listed only if the TrainJob's own is missing."""
    leases: Sequence[Json] = ()
    """Leases of the operators that could serve the TrainJob."""
    workloads: Sequence[Json] = ()
    queue_place: QueuePlace | None = None
    local_queues: Sequence[str] = ()
    """The names of those of its namespace, looked at only while it waits for quota."""
    preemptor: Json | None = None
    """The Workload that took its quota, if the user may see it."""
    jobset: Json | None = None
    jobset_controller: Json | None = None
    """Its Deployment."""
    kueue: Json | None = None
    """Kueue's Deployment, looked at only while the job waits for Kueue."""
    pod_groups: Sequence[Json] = ()
    jobs: Sequence[Json] = ()
    pods: Sequence[Json] = ()
    nodes: Sequence[Json] = ()
    claims: Sequence[Json] = ()
    """The PersistentVolumeClaims of the namespace."""
    events: Sequence[Json] = ()
    """The warnings of the namespace, and all events about pending claims."""
    log: Sequence[str] = ()
    """The last lines of the container that `follow_ups` asked for."""
    silences: Sequence[Silence] = ()
    """The silence of each pod in `follow_ups`, in order; empty if one is not silent."""
    unseen: Mapping[Subject, str] = field(default_factory=dict)
    """Objects that could not be read, and why."""
    options: tuple[str, ...] = ()
    """The options of kubectl that lead to the cluster."""

    @cached_property
    def current_pods(self) -> Sequence[Json]:
        """The newest pod of each index of each Job, without those that are being deleted."""
        return self._newest(pod for pod in self.pods if not read.deleting(pod))

    @cached_property
    def last_pods(self) -> Sequence[Json]:
        """The newest pod of each index of each Job, being deleted or not: on a lost node it never goes."""
        return self._newest(self.pods)

    def job_of(self, pod: Json) -> Json | None:
        """The Job that the pod belongs to."""
        owners = (read.text(owner, "uid") for owner in read.objects(pod, "metadata", "ownerReferences"))
        return next((self._jobs[uid] for uid in owners if uid in self._jobs), None)

    def pods_of(self, job: Json) -> Sequence[Json]:
        """The current pods of the Job."""
        return self._pods_by_job.get(read.uid(job), ())

    def events_of(self, of: Json) -> Sequence[Json]:
        """The events about exactly this object, and not about another of its name."""
        return self._events_by_object.get(read.uid(of), ())

    @cached_property
    def _events_by_object(self) -> Mapping[str, Sequence[Json]]:
        events: defaultdict[str, list[Json]] = defaultdict(list)
        for event in self.events:
            events[read.text(event, "involvedObject", "uid")].append(event)
        return events

    @cached_property
    def _jobs(self) -> Mapping[str, Json]:
        return {read.uid(job): job for job in self.jobs}

    @cached_property
    def _pods_by_job(self) -> Mapping[str, Sequence[Json]]:
        pods: defaultdict[str, list[Json]] = defaultdict(list)
        for pod in self.current_pods:
            if (job := self.job_of(pod)) is not None:
                pods[read.uid(job)].append(pod)
        return pods

    def _newest(self, pods: Iterable[Json]) -> Sequence[Json]:
        newest: dict[tuple[str, int | str], Json] = {}
        for pod in sorted(pods, key=lambda p: read.moment(p, "metadata", "creationTimestamp")):
            if (job := self.job_of(pod)) is not None:
                place = read.index(pod)
                newest[read.uid(job), read.name(pod) if place is None else place] = pod
        return sorted(newest.values(), key=read.name)


@dataclass(frozen=True, slots=True)
class Ref:
    """An object, named as `kubectl` does."""

    kind: str
    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The first cause."""

    cause: Reason
    object: Ref
    message: str
    next_step: str
    ranks: Sequence[int] = ()
    """The training nodes that others wait for: each may have several ranks."""
    log: Sequence[str] = ()
    """The last lines that the container wrote."""


class State(StrEnum):
    """The state of the TrainJob."""

    COMPLETE = "Complete"
    RUNNING = "Running"
    STARTING = "Starting"
    HELD = "Held"
    FAILED = "Failed"


class Mark(StrEnum):
    """The state of a stage of the walk."""

    FINE = "fine"
    HELD = "held"
    UNSEEN = "unseen"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the walk from the TrainJob to the nodes."""

    stage: str
    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """Objects that the user could not read."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer: why a TrainJob does not run, or that it runs."""

    trainjob: Ref
    state: State
    answer: str
    """One sentence."""
    finding: Finding | None
    """The first cause; None if nothing is wrong."""
    walk: Sequence[Stage]
    unseen: Sequence[Unseen]
