"""The values that a takeover is decided on, and the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from trainyard_api import documents, names
from trainyard_api.json_types import Json
from trainyard_operator.core import model
from trainyard_operator.core.build.info import DEFAULT_SETTINGS, Settings

NAMESPACE: Final = names.KUBEFLOW_NAMESPACE
CONTROLLER: Final = "kubeflow-trainer-controller-manager"
"""Trainer's Deployment, as its manifests and its chart name it."""
OWN: Final = names.OPERATOR
"""Our operator's Deployment, and the Service of its webhooks."""
CONFIGURATION: Final = "kubeflow-trainer-config"
CONFIGURATION_KEY: Final = "controller_manager_config.yaml"
PUBLIC: Final = names.TRAINER_PUBLIC_CONFIG
PUBLIC_KEY: Final = names.TRAINER_PUBLIC_VERSION
WEBHOOK_MANAGER: Final = "trainyard-adopt-webhooks"
"""The field manager of a webhook's failurePolicy until `pulumi up` sets it again."""
RECORD: Final = "trainyard-adoption"
"""The ConfigMap, in the namespace of Trainer's Deployment, that records the state before."""
RECORD_KEY: Final = "before.yaml"
REPLICAS_KEY: Final = "replicas"
VERSION: Final = "v2.3"
"""The version of Trainer whose API this operator uses."""


class Ref(NamedTuple):
    """Which object it is; the namespace is empty for a cluster-scoped one."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


def ref_of(manifest: Json) -> Ref:
    """The object that a manifest describes."""
    metadata = manifest["metadata"]
    return Ref(manifest["apiVersion"], manifest["kind"], metadata.get("namespace") or "", metadata["name"])


@dataclass(frozen=True, slots=True)
class Before:
    """What was there before the takeover."""

    replicas: int
    """Of Trainer's Deployment."""
    objects: Mapping[Ref, Json]


def recorded(record: Json) -> Before | None:
    """What the record says; None if it is not as `adopt` wrote it."""
    try:
        data = record["data"]
        manifests = [document.value for document in documents.parse(data[RECORD_KEY], RECORD)]
        return Before(int(data[REPLICAS_KEY]), {ref_of(manifest): manifest for manifest in manifests})
    except (documents.DocumentError, AttributeError, KeyError, TypeError, ValueError):
        return None


class Level(StrEnum):
    """The result of a check."""

    FINE = "fine"
    NOTE = "note"
    """Worth knowing; it does not prevent the takeover."""
    STOP = "stop"
    """It must be fixed first."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check with its result."""

    level: Level
    about: str
    message: str


class State(StrEnum):
    """The present state of a TrainJob."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    WAITING = "waiting"
    """It has no JobSet yet."""
    FINISHED = "finished"
    ELSEWHERE = "elsewhere"
    """Its spec.managedBy names another controller."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to a TrainJob."""

    namespace: str
    name: str
    state: State
    becomes: str
    level: Level = Level.FINE


@dataclass(frozen=True, slots=True)
class ForeignJob:
    """A TrainJob, its JobSet, and the runtime that it would be built from."""

    trainjob: model.TrainJob
    jobset: model.JobSet | None
    runtime: model.Runtime | model.RuntimeProblem
    lost: bool = False
    """Whether the content that the job started with is no longer known."""
    snapshot: bool = False
    """Whether Trainer's ConfigMap with its runtime exists."""
    occupied: bool = False
    """Whether another ConfigMap has the name of that one."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed objects of the cluster."""

    now: datetime
    controller: Json | None
    """Trainer's Deployment."""
    objects: Sequence[Json] = ()
    """Objects of both Trainer's installation and the platform: CRDs, webhooks, runtimes and so on."""
    configuration: Json | None = None
    """The ConfigMap with the settings of Trainer's controller."""
    jobs: Sequence[ForeignJob] = ()
    unreadable: Sequence[str] = ()
    """`namespace/name` of TrainJobs that cannot be read."""
    own: Json | None = None
    """Our operator's Deployment."""
    jobset_webhooks: Json | None = None
    """JobSet's ValidatingWebhookConfiguration, unless it is the platform's own."""
    policy_bindings: Sequence[Json] = ()
    """The bindings of the platform's admission policies."""
    working: Set[Ref] = frozenset()
    """The Deployments of both operators with a pod that may be working, also while it is being deleted."""
    record: Json | None = None
    only_recorded: Sequence[Json] = ()
    """Objects that the record names too, but not the catalog, which may be another than it was then."""
    namespace: str = NAMESPACE
    settings: Settings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class Keep:
    """Create the ConfigMap that keeps what was there before."""

    manifest: Json

    def __str__(self) -> str:
        return f"save the current state in {ref_of(self.manifest)}, for --back"


@dataclass(frozen=True, slots=True)
class Scale:
    """Set the replicas of a Deployment from `before` to `after`, and wait until it has them."""

    ref: Ref
    uid: str
    before: int
    after: int

    def __str__(self) -> str:
        until = "its pods are gone" if self.after == 0 else "it is ready"
        return f"scale {self.ref} from {self.before} to {self.after}, and wait until {until}"


@dataclass(frozen=True, slots=True)
class HandOver:
    """Make the platform the owner of an object's fields, at this version. Nothing else changes."""

    ref: Ref
    uid: str
    resource_version: str
    owners: Sequence[str]
    """Who owned them before."""
    managed_fields: Sequence[Json]

    def __str__(self) -> str:
        return f"hand {self.ref} over from {', '.join(self.owners)} to the platform"


@dataclass(frozen=True, slots=True)
class LetPass:
    """Have the API server ignore failures of these webhooks: the name of each by its index."""

    ref: Ref
    uid: str
    webhooks: Mapping[int, str]

    def __str__(self) -> str:
        webhooks = ", ".join(self.webhooks.values())
        return f"let runtimes be written while nothing serves {webhooks} of {self.ref}"


@dataclass(frozen=True, slots=True)
class Put:
    """Write an object as before; `uid` and `resource_version` are those of the present one, if any."""

    manifest: Json
    uid: str | None = None
    resource_version: str | None = None
    why: str = "as it was before"
    trainjob: str = ""
    """`namespace/name` of the job whose snapshot it is. If the API server refuses it, the steps go on."""

    def __str__(self) -> str:
        verb = "create" if self.uid is None else "write"
        return f"{verb} {ref_of(self.manifest)} {self.why}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object."""

    ref: Ref
    uid: str
    why: str

    def __str__(self) -> str:
        return f"delete {self.ref}: {self.why}"


Step = Keep | HandOver | LetPass | Scale | Put | Delete


@dataclass(frozen=True, slots=True)
class Plan:
    """The results of the checks, and the steps in their order."""

    back: bool
    checks: tuple[Check, ...]
    fates: tuple[Fate, ...] = ()
    steps: tuple[Step, ...] = ()
    next_steps: tuple[str, ...] = ()
    """The user's next command after all steps."""

    @property
    def refused(self) -> bool:
        """Whether something must be fixed first."""
        levels = [check.level for check in self.checks] + [fate.level for fate in self.fates]
        return Level.STOP in levels


def as_mapping(value: object) -> Mapping[str, object]:
    """The value if it is an object, otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}
