"""The operator's configuration: `apiVersion: config.trainyard.dev/v1alpha1, kind: Configuration`.

The contract between the platform, which writes the file from the stack's
settings, and the operator, which reads it. Names are those of Kubeflow
Trainer's own Configuration and of Kubernetes' component configurations.
Pure: this module reads and writes no files.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from . import durations, names
from .strict import StrictModel

API_VERSION: Final = "config.trainyard.dev/v1alpha1"
KIND: Final = "Configuration"


def _read(value: object) -> object:
    return value if isinstance(value, float) else durations.seconds(value)


Duration = Annotated[
    float,
    BeforeValidator(_read),
    PlainSerializer(lambda value: f"{value:.0f}s", return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{durations.PATTERN}$"}),
]
"""Seconds, written as `15s`, `10m`, `24h` or `7d`."""
Port = Annotated[int, Field(ge=0, le=65535)]
SuspendedCondition = Literal["whileTrue", "upstream"]


class Part(StrictModel):
    """Base of every part. It converts no values, such as the text "5" to a number."""

    model_config = ConfigDict(strict=True)


class ClientConnection(Part):
    """How the operator reaches the API server."""

    kubeconfig: str | None = Field(default=None, min_length=1)
    """Path of the kubeconfig. Default: $KUBECONFIG, the pod's ServiceAccount, or ~/.kube/config."""
    context: str | None = Field(default=None, min_length=1)
    """Context in the kubeconfig. Default: the current context."""


class Logging(Part):
    """The operator's log, on stderr."""

    format: Literal["auto", "json", "text"] = "auto"
    """json, text, or auto: text on a terminal, else json."""


class LeaderElection(Part):
    """Leader election of the replicas, by a Lease."""

    identity: str | None = Field(default=None, min_length=1)
    """Name of this replica in the Lease. Default: the host's name with a random suffix."""
    lease_duration: Duration = 15.0
    """How long standbys wait for a leader that no longer renews the Lease."""
    renew_deadline: Duration = 10.0
    """How long after its last renewal a leader stops."""
    retry_period: Duration = 2.0
    """Time between two attempts to acquire or renew the Lease."""

    @model_validator(mode="after")
    def _in_order(self) -> LeaderElection:
        if not self.lease_duration > self.renew_deadline > self.retry_period > 0:
            raise ValueError("must have leaseDuration > renewDeadline > retryPeriod > 0s")
        return self


class Controller(Part):
    """The controller of TrainJobs."""

    concurrency: int = Field(default=8, ge=1, le=256)
    """TrainJobs that are reconciled at the same time."""


class Webhook(Part):
    """The admission webhooks, on every replica."""

    enabled: bool = True
    """Whether to answer admission requests."""
    host: str | None = Field(default=None, min_length=1)
    """Address to listen on, which the certificate also names. Default: all addresses."""
    port: Port = names.WEBHOOK_PORT
    """Port. 0 selects a free port."""
    policies: str | None = Field(default=None, min_length=1)
    """Path of a file with the stack's `policies` (`levels` and `parameters`), which the webhook enforces.
    Default: the webhook enforces no rules."""


class Metrics(Part):
    """Metrics and probes, on every replica."""

    host: str | None = Field(default=None, min_length=1)
    """Address to listen on. Default: all addresses."""
    port: Port = names.METRICS_PORT
    """Port of probes, and of metrics unless `authentication` is on. 0 selects a free port."""
    authentication: bool = False
    """Whether metrics need TLS, on securePort, and the right to get the path /metrics."""
    secure_port: Port = names.SECURE_METRICS_PORT
    """Port of metrics if `authentication` is on. 0 selects a free port."""


class CertManagement(Part):
    """The certificate of the webhooks and the status server."""

    folder: str | None = Field(default=None, min_length=1)
    """Folder with tls.crt, tls.key and ca.crt, such as a mounted Secret that cert-manager renews. Default:
    the operator issues and renews its own certificate."""


class StatusServer(Part):
    """Server to which training processes report progress (gate TrainJobStatus), on every replica."""

    host: str | None = Field(default=None, min_length=1)
    """Address to listen on. Default: all addresses."""
    port: Port = names.STATUS_PORT
    """Port. 0 selects a free port."""
    qps: float = Field(default=1.0, gt=0, le=100, strict=False)
    """Reports per second and TrainJob, on average."""
    burst: int = Field(default=10, ge=1, le=1000)
    """Reports per TrainJob in a burst."""


class FeatureGates(Part):
    """Features that are off by default."""

    train_job_status: bool = Field(default=False, alias="TrainJobStatus")
    """Whether training processes may report their progress to the status server."""

    @property
    def on(self) -> frozenset[str]:
        """The names of the gates that are on."""
        return frozenset(name for name, value in self.model_dump(by_alias=True).items() if value)


class Limits(Part):
    """Size limits. Admission refuses a TrainJob or a runtime that exceeds them."""

    max_nodes: int = Field(default=10_000, ge=1, le=100_000)
    """Pods of one ReplicatedJob. Kubernetes allows at most 100,000 in an Indexed Job."""
    max_trainjob_bytes: int = Field(default=256 * 1024, ge=1024, le=1024 * 1024)
    """Bytes of the TrainJob's spec as JSON."""
    max_runtime_bytes: int = Field(default=256 * 1024, ge=1024, le=1024 * 1024)
    """Bytes of the runtime's spec as JSON."""
    max_jobset_bytes: int = Field(default=1024 * 1024, ge=1024, le=1280 * 1024)
    """Bytes of the JobSet as JSON. etcd stores at most 1.5 MiB, with status and managed fields."""


class Retention(Part):
    """When the operator deletes finished TrainJobs. The annotation `trainyard.dev/retention` of a TrainJob
    (`keep`, or a duration) takes precedence over these settings."""

    after_finished: Duration | None = None
    """How long after its end a TrainJob is deleted. Default: never."""
    max_finished_per_namespace: int | None = Field(default=None, ge=0)
    """How many finished TrainJobs each namespace keeps, the latest ones. Default: no limit."""


class Configuration(Part):
    """Configuration of one operator process."""

    api_version: Literal["config.trainyard.dev/v1alpha1"] = API_VERSION
    kind: Literal["Configuration"] = KIND
    namespace: str = ""
    """Namespace of the operator, with its Lease, its certificates and the runtime revisions. Default:
    $POD_NAMESPACE, the ServiceAccount's namespace, or trainyard-system."""
    upstream_namespace: str = Field(default=names.KUBEFLOW_NAMESPACE, min_length=1)
    """Namespace in which Kubeflow Trainer's controller would hold its Lease."""
    client_connection: ClientConnection = ClientConnection()
    logging: Logging = Logging()
    leader_election: LeaderElection = LeaderElection()
    controller: Controller = Controller()
    webhook: Webhook = Webhook()
    metrics: Metrics = Metrics()
    cert_management: CertManagement = CertManagement()
    status_server: StatusServer = StatusServer()
    feature_gates: FeatureGates = FeatureGates()
    limits: Limits = Limits()
    queue_holds: Literal["TrainJob", "JobSet"] = "TrainJob"
    """Kind of object that Kueue queues: TrainJob, or the JobSet of each TrainJob."""
    suspended_condition: SuspendedCondition = "whileTrue"
    """The condition Suspended of a queued TrainJob. whileTrue: it exists only while it is true. upstream: it
    stays with status False after the TrainJob is resumed, as with Kubeflow Trainer."""
    last_lines: int = Field(default=0, ge=0, le=1000)
    """Log lines per training node that the operator keeps when a job fails, in a ConfigMap next to the
    TrainJob. With 0, it keeps none."""
    retention: Retention | None = None
    """When the operator deletes finished TrainJobs. Default: never."""
