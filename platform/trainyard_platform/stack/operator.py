"""Settings of Trainyard's operator."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from trainyard_api.configuration import Controller, FeatureGates, Limits, Retention, SuspendedCondition
from trainyard_api.strict import Quantity, StrictModel

from .tenants import NAME
from .value_types import Image, PullPolicy

EVERYWHERE = "*"
NAMESPACE = rf"{NAME}|^\*$"
Namespace = Annotated[str, Field(pattern=NAMESPACE)]


class Certificates(StrEnum):
    """Who makes the certificate of the operator's webhooks and status server."""

    OPERATOR = "operator"
    CERT_MANAGER = "cert-manager"


class KubeflowNamespace(StrEnum):
    """How the platform treats the namespace in which Kubeflow's own tools look for a Trainer."""

    CREATE = "create"
    EXISTING = "existing"
    ABSENT = "absent"


class Resources(StrictModel):
    """CPU and memory of a replica of the operator."""

    cpu: Quantity = "100m"
    """Requested CPU; a controller has no CPU limit, which would only slow it down."""
    memory: Quantity | None = None
    """Requested memory, and its limit. If left out, it requests 256Mi, and its limit is what the TrainJobs
    and TrainingRuntimes need that the tenants' quotas allow."""


class LastLines(StrictModel):
    """What the operator keeps of a failed job's logs, in a ConfigMap beside the TrainJob."""

    lines: int = Field(default=200, ge=0, le=1000)
    """Lines of each node; 0 keeps nothing, and the operator may then read no log."""
    namespaces: tuple[Namespace, ...] = ()
    """Namespaces beside the tenants' where they are kept. The operator may read the logs of pods there and in
    the tenants' namespaces, and nowhere else. "*" allows it everywhere."""


class Operator(StrictModel):
    """Trainyard's own operator, which turns TrainJobs into JobSets."""

    image: Image
    """Its image."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the image."""
    replicas: int = Field(default=1, ge=1, le=2)
    """1, or 2 for a second replica that takes over at once."""
    resources: Resources = Resources()
    """CPU and memory of a replica."""
    args: tuple[str, ...] = ()
    """Further arguments of the operator's command."""
    certificates: Certificates = Certificates.OPERATOR
    """Who makes its certificate: operator, it does so itself; cert-manager, which the cluster must have."""
    controller: Controller = Controller()
    """How much of its work is done at a time."""
    feature_gates: FeatureGates = FeatureGates()
    """Which of Kubeflow Trainer's feature gates are on."""
    limits: Limits = Limits()
    """How large a TrainJob may be; admission refuses a larger one."""
    retention: Retention | None = None
    """Deletes finished TrainJobs; if left out, all stay."""
    suspended_condition: SuspendedCondition = "whileTrue"
    """The condition Suspended of a TrainJob of a queue: whileTrue, it is there only while it is true;
    upstream, it stays as False once the TrainJob is resumed, as with Kubeflow Trainer."""
    last_lines: LastLines = LastLines()
    """What is kept of a failed job's logs."""
    mpi_namespaces: tuple[Namespace, ...] = ()
    """Namespaces beside the tenants' where MPI jobs may run. The operator may read and create Secrets there
    and in the tenants' namespaces, and nowhere else. "*" allows it everywhere."""
    metrics_authentication: bool = True
    """Whether its metrics are served over TLS, and only to those who may get the path /metrics."""
    disruption_budget: bool = True
    """Whether drains of nodes take one of two replicas at a time."""
    priority_class: bool = True
    """Whether the scheduler makes room for it where training fills the nodes."""
    flow_schemas: bool = True
    """Whether the API server answers it while other clients flood the API server."""
    kubeflow_namespace: KubeflowNamespace = KubeflowNamespace.CREATE
    """kubeflow-system, where the SDK reads the Trainer version: create, existing or absent."""
