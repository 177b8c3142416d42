"""Settings of tenants: a namespace each, who may do what in it, and how much."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from pydantic import Field, model_validator

from trainyard_api import names, quantity
from trainyard_api.strict import Quantity, StrictModel

from . import data_cache
from .external_secrets import ExternalSecret
from .value_types import Annotations, Labels, ObjectName

NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
DEFAULT_ACCOUNT = "default"
"""The ServiceAccount of pods that name none."""
_RESERVED_KEYS = frozenset(
    {"app.kubernetes.io/managed-by", "kubernetes.io/metadata.name", "pod-security.kubernetes.io/enforce"}
)
_RESERVED_DOMAINS = (names.OWN_PREFIX, "pulumi.com/")
"""Of labels and annotations that have a meaning for the platform."""

SYSTEM = frozenset(
    {
        "cert-manager",
        "default",
        "jobset-system",
        names.KUBEFLOW_NAMESPACE,
        "kueue-system",
        "lws-system",
        "openshift",
        "scheduler-plugins",
        "volcano-system",
    }
)
"""Namespaces of Kubernetes and of what the platform installs or works with; never a tenant's."""
SYSTEM_PREFIXES = ("kube-", "openshift-", "trainyard-")
"""Of names that Kubernetes, OpenShift and this platform keep for themselves."""


def is_system(namespace: str) -> bool:
    """Whether no tenant may have this namespace: its limits would stop what runs there."""
    return namespace in SYSTEM or namespace.startswith(SYSTEM_PREFIXES)


class PodSecurity(StrEnum):
    """What pods may ask of their node, in the levels of Kubernetes' Pod Security Standards."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class SubjectKind(StrEnum):
    """Who somebody is."""

    USER = "User"
    GROUP = "Group"
    SERVICE_ACCOUNT = "ServiceAccount"


class Subject(StrictModel):
    """Somebody who gets a role."""

    kind: SubjectKind = SubjectKind.GROUP
    """Whether it is one user, a group of them or a ServiceAccount."""
    name: str = Field(min_length=1)
    """As the cluster's authentication calls them."""
    namespace: str | None = None
    """Namespace of a ServiceAccount."""

    @model_validator(mode="after")
    def _accounts_live_in_namespaces(self) -> "Subject":
        if (self.kind is SubjectKind.SERVICE_ACCOUNT) is not (self.namespace is not None):
            raise ValueError("only a ServiceAccount has a namespace")
        return self


class ContainerDefaults(StrictModel):
    """Requests and limits where a container has none."""

    requests: dict[str, Quantity] = Field(default={"cpu": "100m", "memory": "256Mi"})
    """What is set aside for it, by resource."""
    limits: dict[str, Quantity] = Field(default={})
    """What it may use at most, by resource."""


class Egress(StrictModel):
    """Addresses outside the cluster that jobs may talk to, such as a dataset's or a registry's."""

    cidr: str = Field(pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}$")
    """A block of addresses."""
    excluded: tuple[str, ...] = ()
    """Blocks within it that stay closed."""
    ports: tuple[int, ...] = ()
    """TCP ports; all of them if left out."""


class Right(StrEnum):
    """What data scientists may make or do beside TrainJobs, in the words of a role."""

    CONFIG_MAPS = "configmaps"
    CLAIMS = "persistentvolumeclaims"
    SECRETS = "secrets"
    RUNTIMES = names.TRAINING_RUNTIMES
    PODS = "pods"
    EXEC = "pods/exec"
    PORT_FORWARD = "pods/portforward"


GUIDED: Final = (
    Right.CONFIG_MAPS,
    Right.CLAIMS,
    Right.SECRETS,
    Right.PODS,
    Right.EXEC,
    Right.PORT_FORWARD,
)
"""What data scientists need for the guides."""


TRAINJOBS: Final = f"count/trainjobs.{names.TRAINER_GROUP}"
TRAINING_RUNTIMES: Final = f"count/trainingruntimes.{names.TRAINER_GROUP}"
COUNTED: Final = {
    "count/configmaps": "1000",
    "count/secrets": "1000",
    "persistentvolumeclaims": "1000",
    "requests.storage": "10Ti",
    TRAINJOBS: "500",
    TRAINING_RUNTIMES: "20",
}
"""The most that a namespace may hold of what the operator keeps in memory, and of what is large or costs
and would be unlimited; the stack file takes precedence."""


class Account(StrictModel):
    """A ServiceAccount that a tenant's pods run as."""

    labels: Labels = Field(default={})
    """Its labels."""
    annotations: Annotations = Field(default={})
    """Its annotations: with which identity of the cloud its pods speak, in the cloud's words."""


class Tenant(StrictModel):
    """A team: its namespace of the same name, its queue, its limits and its people."""

    cluster_queue: str
    """Its quota: a queue of queues.clusterQueues."""
    queue: str = Field(default="default", pattern=NAME)
    """Name of its LocalQueue; `default` also serves jobs that name no queue."""
    resource_quota: dict[str, Quantity] = Field(default={"pods": "1000"})
    """The most that its namespace holds at once, in the words of a ResourceQuota. TrainJobs and
    TrainingRuntimes are always counted: at most 500 and 20, unless `count/trainjobs.trainer.kubeflow.org` and
    `count/trainingruntimes.trainer.kubeflow.org` say otherwise. So are volumes: at most 1000
    `persistentvolumeclaims` with 10Ti of `requests.storage` in all."""
    container_defaults: ContainerDefaults = ContainerDefaults()
    """What a container gets that says nothing itself."""
    pod_security: PodSecurity = PodSecurity.BASELINE
    """What its pods may ask of a node."""
    egress: tuple[Egress, ...] = ()
    """What its jobs reach beside each other and the cluster's DNS."""
    labels: Labels = Field(default={})
    """Further labels of its namespace."""
    annotations: Annotations = Field(default={})
    """Annotations of its namespace."""
    pull_secrets: tuple[ObjectName, ...] = ()
    """Secrets in its namespace with which nodes pull the images of its pods."""
    service_accounts: dict[ObjectName, Account] = Field(default={})
    """ServiceAccounts of its namespace, by name; `default` is that of pods that name none."""
    external_secrets: dict[ObjectName, ExternalSecret] = Field(default={})
    """Secrets of its namespace, by name, that the External Secrets Operator fetches from a store."""
    data_scientists: tuple[Subject, ...] = ()
    """Who may submit TrainJobs and read their logs."""
    rights: tuple[Right, ...] = GUIDED
    """What they may read, make and delete in the namespace beside TrainJobs; by default what the guides have
    them do. With secrets that is each Secret in it; pods is to delete one; pods/exec is a shell in any."""
    viewers: tuple[Subject, ...] = ()
    """Who may look."""

    @property
    def quota(self) -> dict[str, str]:
        """The most that its namespace holds at once, with what each tenant is counted by."""
        return {**COUNTED, **self.resource_quota}

    @property
    def held(self) -> int:
        """How many TrainJobs and TrainingRuntimes it may have, which every replica of the operator holds."""
        return sum(quantity.parse(self.quota[counted]).ceil() for counted in (TRAINJOBS, TRAINING_RUNTIMES))


def problems(tenants: Mapping[str, Tenant]) -> Iterator[str]:
    """What a tenant sets on its namespace that only the platform may set, each with its path."""
    for name, tenant in tenants.items():
        if is_system(name):
            yield f"{name}: is a namespace of the system: a tenant's limits would stop what runs there"
        for place, keys in _keys(tenant):
            for key in keys:
                if key in _RESERVED_KEYS or key.startswith(_RESERVED_DOMAINS):
                    yield f"{name}.{place}.{key}: is the platform's own: remove it"
        if data_cache.ACCOUNT in tenant.service_accounts:
            yield f"{name}.serviceAccounts.{data_cache.ACCOUNT}: is the data cache's: remove it"


def _keys(tenant: Tenant) -> Iterator[tuple[str, Iterable[str]]]:
    yield "labels", tenant.labels
    yield "annotations", tenant.annotations
    for name, account in tenant.service_accounts.items():
        yield f"serviceAccounts.{name}.labels", account.labels
        yield f"serviceAccounts.{name}.annotations", account.annotations
