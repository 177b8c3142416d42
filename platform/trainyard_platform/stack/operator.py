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
    """Issuer of the certificate for the operator's webhooks and status server."""

    OPERATOR = "operator"
    CERT_MANAGER = "cert-manager"


class KubeflowNamespace(StrEnum):
    """How the platform treats the namespace kubeflow-system, where Kubeflow's tools look for the Trainer."""

    CREATE = "create"
    EXISTING = "existing"
    ABSENT = "absent"


class Resources(StrictModel):
    """CPU and memory of each replica of the operator."""

    cpu: Quantity = "100m"
    """CPU request. There is no CPU limit, because a limit would only slow the controller down."""
    memory: Quantity | None = None
    """Memory request, and memory limit. Default: a request of 256Mi, and a limit that is large enough for all
    TrainJobs and TrainingRuntimes that the tenants' quotas allow."""


class LastLines(StrictModel):
    """The last log lines of a failed job, which the operator keeps in a ConfigMap next to the TrainJob."""

    lines: int = Field(default=200, ge=0, le=1000)
    """Lines per training node. With 0, the operator keeps no lines and has no right to read logs."""
    namespaces: tuple[Namespace, ...] = ()
    """Namespaces, in addition to the tenants', where the operator keeps log lines. It may read the logs of
    pods only in these and in the tenants' namespaces. "*" stands for all namespaces."""


class Operator(StrictModel):
    """Trainyard's own operator, which turns TrainJobs into JobSets."""

    image: Image
    """Image of the operator. Required, unless `artifacts.images` contains an image `operator`."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When nodes pull the image."""
    replicas: int = Field(default=1, ge=1, le=2)
    """Replicas: 1, or 2 for a standby that takes over at once."""
    resources: Resources = Resources()
    """CPU and memory of each replica."""
    args: tuple[str, ...] = ()
    """Further command-line arguments of the operator."""
    certificates: Certificates = Certificates.OPERATOR
    """Issuer of the certificate: the operator itself, or cert-manager, which the cluster must have."""
    controller: Controller = Controller()
    """Concurrency of the controller."""
    feature_gates: FeatureGates = FeatureGates()
    """Feature gates of Kubeflow Trainer."""
    limits: Limits = Limits()
    """Size limits of TrainJobs and runtimes. Admission refuses larger ones."""
    retention: Retention | None = None
    """When the operator deletes finished TrainJobs. Default: never."""
    suspended_condition: SuspendedCondition = "whileTrue"
    """The condition Suspended of a queued TrainJob. whileTrue: the condition exists only while it is true.
    upstream: after the TrainJob is resumed, the condition stays with status False, as in Kubeflow Trainer."""
    last_lines: LastLines = LastLines()
    """The last log lines of failed jobs, and where the operator keeps them."""
    mpi_namespaces: tuple[Namespace, ...] = ()
    """Namespaces, in addition to the tenants', where MPI jobs may run. The operator may read and create
    Secrets only in these and in the tenants' namespaces. "*" stands for all namespaces."""
    metrics_authentication: bool = True
    """Whether a client that reads the metrics needs TLS and the right to get the path /metrics."""
    disruption_budget: bool = True
    """Whether a PodDisruptionBudget keeps one of two replicas running while nodes are drained."""
    priority_class: bool = True
    """Whether the operator has a PriorityClass, so that it can preempt training pods on full nodes."""
    flow_schemas: bool = True
    """Whether FlowSchemas guarantee the operator its share of a busy API server."""
    kubeflow_namespace: KubeflowNamespace = KubeflowNamespace.CREATE
    """Namespace kubeflow-system, where the SDK reads the Trainer version. create: the platform creates it.
    existing: it already exists. absent: the platform does not use it."""
