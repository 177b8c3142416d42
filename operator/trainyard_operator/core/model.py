"""The values that the core reads and returns.

Called by everything in this package; deliberately without behaviour beyond
reading its own fields: what follows from an observation is `reconcile`'s.
Manifests are plain JSON values (`Json`), as they travel on the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from trainyard_api.json_types import Json as Json  # noqa: PLC0414 - the modules of the core take it from here
from trainyard_api.reasons import Reason


@dataclass(frozen=True, slots=True)
class TrainJob:
    """A TrainJob as last observed."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    created: datetime
    spec: Json
    status: Json = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False
    collected: bool = False
    """While it is deleted, the garbage collector deletes what it owns, or sets it free."""
    held_by_kueue: bool = False
    """It has the entry that Kueue's own integration of TrainJobs adds to one that it takes. Anybody can write
    that entry: nothing depends on it but words, what admission refuses, and whether their own job stops as
    soon as it is deleted."""

    @property
    def suspended(self) -> bool:
        """Whether `spec.suspend` is true."""
        return self.spec.get("suspend") is True


@dataclass(frozen=True, slots=True)
class Runtime:
    """A (Cluster)TrainingRuntime: the live object, or a recorded revision of it."""

    kind: str
    name: str
    namespace: str | None
    uid: str
    spec: Json
    labels: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    """Name of the ControllerRevision this was read from; None for the live object."""
    created: datetime | None = None
    """When the runtime was created; None when unknown."""
    changed: datetime | None = None
    """Since when its spec has been what it is; None when unknown (see `revisions.live`)."""


@dataclass(frozen=True, slots=True)
class ReplicatedJobStatus:
    """How many child Jobs of one ReplicatedJob are in which state, as JobSet v1alpha2 writes it."""

    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """A metav1.Condition. `last_transition_time` stays text: it is copied, not computed with."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int | None = None


@dataclass(frozen=True, slots=True)
class JobSet:
    """The slim view of a JobSet: what a decision needs, not the pod templates."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str | None
    """uid of the controller ownerReference, None without one."""
    suspend: bool
    of_namesake: bool = False
    """A TrainJob of its name is its controller, perhaps an earlier one."""
    deleting: bool = False
    generation: int = 1
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Only the `trainyard.dev/` annotations."""
    conditions: Sequence[Condition] = ()
    replicated_jobs_status: Sequence[ReplicatedJobStatus] = ()
    restarts: int = 0
    """How often JobSet's controller has recreated all its Jobs because one failed."""
    nodes: int = 0
    """How many pods it has, without those of its initializers."""
    queue: str = ""
    """The LocalQueue that it is in; empty if it is in none."""
    queue_gates: str = ""
    """Who keeps Kueue from admitting it, separated by commas."""
    priority_class: str = ""
    """Its WorkloadPriorityClass; empty if it has none."""
    created: datetime | None = None
    """None when unknown."""
    suspend_written: datetime | None = None
    """When `spec.suspend` got the value that it has, or soon after; None when unknown."""
    owns_volumes: bool = False
    """It has volumes of its own, which are deleted with it unless it says otherwise."""


class Identity(NamedTuple):
    """Which object it is, among those in the namespace of a TrainJob."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Companion:
    """The slim view of a companion of a JobSet: PodGroup, Secret or ConfigMap, only its metadata."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str | None
    """uid of the controller ownerReference, None without one."""
    of_trainjob: str | None = None
    """Name of the TrainJob that is its controller, None if it has another or none."""
    deleted: datetime | None = None
    """Since when it is being deleted; None if it is not."""
    finalizers: tuple[str, ...] = ()
    """What keeps it while it is being deleted."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Only the `trainyard.dev/` annotations."""

    @property
    def identity(self) -> Identity:
        """Which object it is."""
        return Identity(self.api_version, self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Job:
    """The slim view of a Job of a JobSet."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    suspended: bool
    active: int
    """How many of its pods exist and are not terminating."""
    finished: bool
    deleting: bool = False
    placement: str | None = None
    """The stamp on its pods' template, None without one (see `job_recreation`)."""
    started: datetime | None = None
    """When it was last started or resumed; None while it has not been."""
    placed_by_kueue: bool = False
    """Its pods' template has what Kueue put into the JobSet's when it resumed it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What could not be created for a JobSet that should run (see `refusals`)."""

    reason: Reason
    """JOBS_REFUSED, PODS_REFUSED or PODS_OVER_QUOTA."""
    message: str
    first: datetime | None = None
    """When it was first reported; None if that is unknown."""
    started: datetime | None = None
    """When the Job whose pods are refused started."""


@dataclass(frozen=True, slots=True)
class PodEnd:
    """How a pod of a JobSet failed."""

    job: str
    """Its ReplicatedJob."""
    index: int
    """Its place in that: its number where there are several."""
    attempt: int
    """How often its JobSet had restarted before."""
    pod: str
    node: str
    """Where it ran; empty if no node was assigned."""
    container: str
    """The one that failed first; empty if the pod failed and none of them did."""
    exit_code: int
    reason: str
    """Kubernetes' reason: OOMKilled, Evicted, Error, ..."""
    at: datetime
    signal: str = ""
    """Name of the signal that ended the container; empty if none did."""
    message: str = ""
    """Its termination message."""
    rank: int | None = None
    """Of the process that failed first in it, if its launcher tells."""
    lost_others: bool = False
    """It failed as a consequence of another."""
    born: datetime | None = None
    """When the pod was created."""


class RuntimeProblem(StrEnum):
    """Why there is no runtime to build from."""

    NOT_FOUND = Reason.RUNTIME_NOT_FOUND
    NOT_SUPPORTED = Reason.RUNTIME_NOT_SUPPORTED


@dataclass(frozen=True, slots=True)
class Rejection:
    """The API server's refusal of an earlier write, which retries will not change."""

    reason: Reason
    """JOBSET_REJECTED, FORBIDDEN, QUOTA_EXCEEDED, CRD_MISSING or JOBSET_CONFLICT."""
    message: str
    at: datetime | None = None
    """When it was refused; None: just now, by the write before this reconciliation."""
    resource: str = ""
    """With CRDMissing: the name of that CRD, `<plural>.<group>`."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Reason and message of a condition."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything one reconciliation is decided on."""

    trainjob: TrainJob
    runtime: Runtime | RuntimeProblem
    jobset: JobSet | None
    runtimes: Collection[str] = ()
    """If there is no such runtime: the names of those of its kind."""
    rejection: Rejection | None = None
    """What the API server refused on the last try, if it did."""
    runtime_revision_lost: bool = False
    """The revision the job started with is gone and `runtime` is the live one."""
    jobset_checked: bool = True
    """Whether the spec of a suspended JobSet is known to be what was written; if not, it is looked at."""
    companions: Sequence[Companion] | None = None
    """The existing companions of the JobSet; None: not read, because few plans need them."""
    jobs: Sequence[Job] | None = None
    """The Jobs of the JobSet; None: not read, since few plans need them."""
    idle: float = 0.0
    """Seconds for which the JobSet has had no pod, though it should run; see `refusals.is_idle`."""
    refused: Sequence[Refused] | None = None
    """What is refused to the JobSet; None: not read, since few plans need it."""
    newest: Runtime | None = None
    """The runtime as it is now, read together with `refused`."""
    starts: Sequence[Cause] | None = None
    """What its pods wait for on their nodes, empty if nothing is known; None: nobody has looked."""
    waited: float = 0.0
    """Seconds for which a queue has held the JobSet back."""
    deactivated: bool = False
    """Whether its Workload is known to have been deactivated, and has not been activated since."""
    hopeless: Sequence[Cause] | None = None
    """Why that queue will never admit it, empty if it may; None: not looked at, since few plans need it."""
    queues_unread: bool = False
    """Whether somebody has looked at the queues, and they could not be read."""
    attempts: Sequence[Json] = ()
    """How each attempt failed, as far as it was seen (see `attempts`)."""
    runtime_renewed: bool = False
    """`runtime` is the live one, since what the job was created with was refused before any pod ran."""


class Generated(StrEnum):
    """A random value in an object, generated at its creation."""

    SSH_KEY = "ssh-key"
    """In `data`: `ssh-privatekey`, an ECDSA P-521 key as PEM, and `ssh-publickey`, its line for
    authorized_keys; both in base64."""


@dataclass(frozen=True, slots=True)
class Create:
    """POST the object; it must not exist."""

    manifest: Json
    generated: Generated | None = None
    """What to generate in place of the manifest's placeholders; None: nothing."""


@dataclass(frozen=True, slots=True)
class Update:
    """PUT over the object that was observed with this uid and resourceVersion, never another.

    A JobSet that is already as wanted is left as it is.

    `manifest` holds the whole desired spec, labels and annotations; the shell
    keeps the live object's other metadata.
    """

    manifest: Json
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE with `preconditions.uid`, and only of that version if it names one."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str | None = None
    foreground: bool = False
    """It stays until what it owns is gone, so that a new object of its name does not meet the remains."""


@dataclass(frozen=True, slots=True)
class RecordRevision:
    """Keep this runtime as a ControllerRevision in the operator's namespace, once."""

    runtime: Runtime
    name: str


@dataclass(frozen=True, slots=True)
class Activate:
    """Set `spec.active` of the Workload of the JobSet with this uid."""

    namespace: str
    name: str
    uid: str
    active: bool
    """False gives its quota back, and keeps Kueue from admitting it."""
    awaited: bool = False
    """Whether Kueue may be about to create the Workload, so that it is to be tried again if there is none."""


@dataclass(frozen=True, slots=True)
class Label:
    """Set labels of the JobSet that was observed with this uid and resourceVersion, and nothing else."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend the JobSet that was observed with this uid and resourceVersion, and note what it ran as."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    annotations: Mapping[str, str]


Write = Create | Update | Delete | RecordRevision | Activate | Label | Suspend


@dataclass(frozen=True, slots=True)
class EventNote:
    """A core/v1 Event about the TrainJob, to be aggregated by reason and message."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Needs:
    """Fields of `Observed` that must be read before a decision."""

    companions: tuple[Identity, ...] = ()
    """Which companion of the JobSet."""
    jobs: bool = False
    refused: bool = False
    """`newest` as well."""
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in order: `writes` one after another, then `status`, then `events`."""

    writes: tuple[Write, ...] = ()
    status: Json | None = None
    """The fields of `.status` to merge-patch (guarded by uid and resourceVersion); None: no patch."""
    events: tuple[EventNote, ...] = ()
    requeue_after: float | None = None
    """Seconds after which to look again though nothing has changed."""
    needs: Needs | None = None
    """Nothing is decided yet: call again with this; None: it is decided."""


NOTHING = Plan()
