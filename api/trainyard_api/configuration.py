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
    """Path of the kubeconfig. Default: $KUBECONFIG, or else the pod's ServiceAccount, or else
    ~/.kube/config."""
    context: str | None = Field(default=None, min_length=1)
    """Context in the kubeconfig. Default: the current context."""


class Logging(Part):
    """The operator's log, on stderr."""

    format: Literal["auto", "json", "text"] = "auto"
    """Format of the log: json, text or auto. With auto, the format is text on a terminal, and otherwise
    json."""


class LeaderElection(Part):
    """Leader election of the replicas, by a Lease."""

    identity: str | None = Field(default=None, min_length=1)
    """Name of this replica in the Lease. Default: the host's name with a random suffix."""
    lease_duration: Duration = 15.0
    """Time without a renewal of the Lease after which another replica becomes the leader."""
    renew_deadline: Duration = 10.0
    """Time without a successful renewal of the Lease after which the leader stops its work."""
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
    """Number of TrainJobs that the operator reconciles at the same time."""


class Webhook(Part):
    """The admission webhooks, on every replica."""

    enabled: bool = True
    """Whether the operator answers admission requests."""
    host: str | None = Field(default=None, min_length=1)
    """Address on which the webhooks listen. The operator's own certificate contains this address. Default:
    all addresses."""
    port: Port = names.WEBHOOK_PORT
    """Port of the webhooks. 0 selects a free port."""
    policies: str | None = Field(default=None, min_length=1)
    """Path of a file with the `levels` and `parameters` of the setting `policies` in the stack file. The
    webhook enforces the rules with these settings. Default: the webhook enforces no rules."""


class Metrics(Part):
    """Metrics and probes, on every replica."""

    host: str | None = Field(default=None, min_length=1)
    """Address on which the operator serves metrics and probes. Default: all addresses."""
    port: Port = names.METRICS_PORT
    """Port of the probes. If `authentication` is false, metrics use this port too. 0 selects a free port."""
    authentication: bool = False
    """If true, the operator serves metrics on `securePort`, and only over TLS. A client then needs the right
    to get the path /metrics."""
    secure_port: Port = names.SECURE_METRICS_PORT
    """Port of the metrics if `authentication` is true. 0 selects a free port."""


class CertManagement(Part):
    """The certificate of the webhooks and the status server."""

    folder: str | None = Field(default=None, min_length=1)
    """Folder with tls.crt, tls.key and ca.crt, such as a mounted Secret that cert-manager renews. Default:
    the operator issues and renews its own certificate."""


class StatusServer(Part):
    """Server to which training processes report progress (gate TrainJobStatus), on every replica."""

    host: str | None = Field(default=None, min_length=1)
    """Address on which the status server listens. Default: all addresses."""
    port: Port = names.STATUS_PORT
    """Port of the status server. 0 selects a free port."""
    qps: float = Field(default=1.0, gt=0, le=100, strict=False)
    """Average number of reports per second that the status server accepts from each TrainJob."""
    burst: int = Field(default=10, ge=1, le=1000)
    """Maximum number of reports that the status server accepts at once from each TrainJob."""


class FeatureGates(Part):
    """Features that are off by default."""

    train_job_status: bool = Field(default=False, alias="TrainJobStatus")
    """Whether training processes can report their progress to the status server."""

    @property
    def on(self) -> frozenset[str]:
        """The names of the gates that are on."""
        return frozenset(name for name, value in self.model_dump(by_alias=True).items() if value)


class Limits(Part):
    """Size limits. Admission refuses a TrainJob or a runtime that exceeds them."""

    max_nodes: int = Field(default=10_000, ge=1, le=100_000)
    """Maximum number of pods of a ReplicatedJob. Kubernetes allows at most 100,000 pods in an Indexed Job."""
    max_trainjob_bytes: int = Field(default=256 * 1024, ge=1024, le=1024 * 1024)
    """Maximum size of a TrainJob's spec as JSON, in bytes."""
    max_runtime_bytes: int = Field(default=256 * 1024, ge=1024, le=1024 * 1024)
    """Maximum size of a runtime's spec as JSON, in bytes."""
    max_jobset_bytes: int = Field(default=1024 * 1024, ge=1024, le=1280 * 1024)
    """Maximum size of a JobSet as JSON, in bytes. etcd stores objects of at most 1.5 MiB, including their
    status and managed fields."""


class Retention(Part):
    """When the operator deletes finished TrainJobs. The annotation `trainyard.dev/retention` of a TrainJob
    (`keep`, or a duration) takes precedence over these settings."""

    after_finished: Duration | None = None
    """Time from the end of a TrainJob until the operator deletes the TrainJob. Default: never."""
    max_finished_per_namespace: int | None = Field(default=None, ge=0)
    """Maximum number of finished TrainJobs per namespace. The operator deletes those that ended first.
    Default: no limit."""


class Configuration(Part):
    """Configuration of one operator process."""

    api_version: Literal["config.trainyard.dev/v1alpha1"] = API_VERSION
    kind: Literal["Configuration"] = KIND
    namespace: str = ""
    """Namespace of the operator, its Lease, its certificates and the runtime revisions. Default:
    $POD_NAMESPACE, or else the ServiceAccount's namespace, or else trainyard-system."""
    upstream_namespace: str = Field(default=names.KUBEFLOW_NAMESPACE, min_length=1)
    """Namespace of the Lease of Kubeflow Trainer's controller. While that controller holds its Lease, the
    operator does not work."""
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
    """When a queued TrainJob has the condition Suspended. whileTrue: only while the status of the condition
    is True. upstream: also after the TrainJob is resumed, then with status False, as with Kubeflow
    Trainer."""
    last_lines: int = Field(default=0, ge=0, le=1000)
    """Number of log lines that the operator keeps of each training node when an attempt of a TrainJob fails.
    The lines are in a ConfigMap next to the TrainJob. With 0, the operator keeps no lines."""
    retention: Retention | None = None
    """When the operator deletes finished TrainJobs. Default: never."""
