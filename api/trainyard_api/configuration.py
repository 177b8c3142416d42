"""The operator's configuration: `apiVersion: config.trainyard.dev/v1alpha1, kind: Configuration`.

The contract between the platform, which writes the file from the stack's
settings, and the operator, which reads it; the words are those of Kubeflow
Trainer's own Configuration and of Kubernetes' component configurations where
they have one. Values in, values out: reads and writes no files.
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
    """File to read; if left out: $KUBECONFIG, the pod's service account, or ~/.kube/config."""
    context: str | None = Field(default=None, min_length=1)
    """Context of the kubeconfig; its current one if left out."""


class Logging(Part):
    """What the operator says, on stderr."""

    format: Literal["auto", "json", "text"] = "auto"
    """json, text, or auto: text on a terminal."""


class LeaderElection(Part):
    """How the Lease is kept that says which replica works."""

    identity: str | None = Field(default=None, min_length=1)
    """This replica's name in the Lease; if left out, the host's name and a random suffix."""
    lease_duration: Duration = 15.0
    """How long a dead leader is waited for."""
    renew_deadline: Duration = 10.0
    """How long after its last renewal a leader gives up."""
    retry_period: Duration = 2.0
    """How often the Lease is tried for or renewed."""

    @model_validator(mode="after")
    def _in_order(self) -> LeaderElection:
        if not self.lease_duration > self.renew_deadline > self.retry_period > 0:
            raise ValueError("must have leaseDuration > renewDeadline > retryPeriod > 0s")
        return self


class Controller(Part):
    """The work on TrainJobs."""

    concurrency: int = Field(default=8, ge=1, le=256)
    """TrainJobs reconciled at a time."""


class Webhook(Part):
    """The admission webhooks, on every replica."""

    enabled: bool = True
    """Whether to answer admission requests."""
    host: str | None = Field(default=None, min_length=1)
    """Address to listen on, which the certificate then names too; all if left out."""
    port: Port = names.WEBHOOK_PORT
    """Port; 0 picks a free one."""
    policies: str | None = Field(default=None, min_length=1)
    """File with what the stack says about policies (`levels` and `parameters`): the webhook then answers
    for the rules; if left out, for none."""


class Metrics(Part):
    """Metrics and probes, on every replica."""

    host: str | None = Field(default=None, min_length=1)
    """Address to listen on; all if left out."""
    port: Port = names.METRICS_PORT
    """Port of probes, and of metrics unless `authentication` is on; 0 picks a free one."""
    authentication: bool = False
    """Whether reading metrics needs TLS, on securePort, and the right to get the path /metrics."""
    secure_port: Port = names.SECURE_METRICS_PORT
    """Port of metrics if `authentication` is on; 0 picks a free one."""


class CertManagement(Part):
    """The certificate of the webhooks and the status server."""

    folder: str | None = Field(default=None, min_length=1)
    """Folder with tls.crt, tls.key and ca.crt, renewed by others, such as a mounted Secret of cert-manager;
    if left out, the operator makes and renews its own."""


class StatusServer(Part):
    """Where training processes report their progress (gate TrainJobStatus), on every replica."""

    host: str | None = Field(default=None, min_length=1)
    """Address to listen on; all if left out."""
    port: Port = names.STATUS_PORT
    """Port; 0 picks a free one."""
    qps: float = Field(default=1.0, gt=0, le=100, strict=False)
    """Reports a second of one TrainJob, in the long run."""
    burst: int = Field(default=10, ge=1, le=1000)
    """Reports of one TrainJob at once."""


class FeatureGates(Part):
    """Features that are off by default."""

    train_job_status: bool = Field(default=False, alias="TrainJobStatus")
    """Training processes may report their progress to the status server."""

    @property
    def on(self) -> frozenset[str]:
        """The names of the gates that are on."""
        return frozenset(name for name, value in self.model_dump(by_alias=True).items() if value)


class Limits(Part):
    """Sizes beyond which admission refuses a TrainJob or a runtime."""

    max_nodes: int = Field(default=10_000, ge=1, le=100_000)
    """Pods of one ReplicatedJob; Kubernetes runs no Indexed Job with more than 100,000."""
    max_trainjob_bytes: int = Field(default=256 * 1024, ge=1024, le=1024 * 1024)
    """The TrainJob's spec as JSON."""
    max_runtime_bytes: int = Field(default=256 * 1024, ge=1024, le=1024 * 1024)
    """The runtime's spec as JSON."""
    max_jobset_bytes: int = Field(default=1024 * 1024, ge=1024, le=1280 * 1024)
    """The JobSet as JSON; etcd takes 1.5 MiB, status and bookkeeping included."""


class Retention(Part):
    """What becomes of TrainJobs that have finished. The annotation `trainyard.dev/retention` of a TrainJob
    (`keep`, or a duration) takes precedence over all of it."""

    after_finished: Duration | None = None
    """A finished TrainJob is deleted this long after its end; never, if left out."""
    max_finished_per_namespace: int | None = Field(default=None, ge=0)
    """Of a namespace's finished TrainJobs only so many stay, the latest; all, if left out."""


class Configuration(Part):
    """Everything that one operator process is told at its start."""

    api_version: Literal["config.trainyard.dev/v1alpha1"] = API_VERSION
    kind: Literal["Configuration"] = KIND
    namespace: str = ""
    """The operator's own, where its Lease, certificates and the runtime revisions are kept; if left out:
    $POD_NAMESPACE, the service account's, or trainyard-system."""
    upstream_namespace: str = Field(default=names.KUBEFLOW_NAMESPACE, min_length=1)
    """Where Kubeflow Trainer's controller would hold its Lease."""
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
    """What Kueue holds in its queues: the kind that its configuration names in integrations.frameworks."""
    suspended_condition: SuspendedCondition = "whileTrue"
    """The condition Suspended of a TrainJob of a queue: whileTrue, it is there only while it is true;
    upstream, it stays as False once the TrainJob is resumed, as with Kubeflow Trainer."""
    last_lines: int = Field(default=0, ge=0, le=1000)
    """So many lines of each node's log are kept when a job fails, in a ConfigMap beside the TrainJob; 0
    keeps nothing."""
    retention: Retention | None = None
    """Deletes finished TrainJobs; if left out, all stay."""
