"""Settings of tenants: for each team a namespace, its limits, and the rights of its people."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from trainyard_api import names, quantity
from trainyard_api.strict import Quantity, StrictModel

from . import data_cache, resource_quotas
from .external_secrets import ExternalSecret
from .value_types import Annotations, Labels, ObjectName

NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
CIDR = r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"
CIDR_WORDS: Final = {CIDR: "must be a block of IP addresses, such as 10.0.0.0/8"}
DEFAULT_ACCOUNT = "default"
"""The ServiceAccount of pods that name none."""
_RESERVED_KEYS = frozenset(
    {"app.kubernetes.io/managed-by", names.NAMESPACE_LABEL, "pod-security.kubernetes.io/enforce"}
)
_RESERVED_DOMAINS = (names.OWN_PREFIX, "pulumi.com/")
"""Prefixes of labels and annotations that only the platform may set."""

SYSTEM = frozenset(
    {
        "cert-manager",
        "default",
        names.JOBSET_NAMESPACE,
        names.KUBEFLOW_NAMESPACE,
        names.KUEUE_NAMESPACE,
        names.LWS_NAMESPACE,
        "openshift",
        names.SCHEDULER_PLUGINS,
        names.VOLCANO_NAMESPACE,
    }
)
"""Namespaces of Kubernetes and of the platform's parts. A tenant cannot have such a name."""
SYSTEM_PREFIXES = ("kube-", "openshift-", "trainyard-")
"""Prefixes of namespaces that Kubernetes, OpenShift and this platform reserve."""


def is_system(namespace: str) -> bool:
    """Whether the namespace belongs to the system. A tenant's limits would stop the pods in it."""
    return namespace in SYSTEM or namespace.startswith(SYSTEM_PREFIXES)


class PodSecurity(StrEnum):
    """Level of Kubernetes' Pod Security Standards."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class SubjectKind(StrEnum):
    """Kind of a subject in RBAC."""

    USER = "User"
    GROUP = "Group"
    SERVICE_ACCOUNT = "ServiceAccount"


class Subject(StrictModel):
    """A user, group or ServiceAccount that gets a role."""

    kind: SubjectKind = SubjectKind.GROUP
    """User, Group or ServiceAccount."""
    name: str = Field(min_length=1)
    """Name of the subject, as the cluster's authentication reports it."""
    namespace: str | None = None
    """Namespace of a ServiceAccount."""

    @model_validator(mode="after")
    def _accounts_live_in_namespaces(self) -> "Subject":
        if (self.kind is SubjectKind.SERVICE_ACCOUNT) is not (self.namespace is not None):
            raise ValueError("only a ServiceAccount has a namespace")
        return self


LEAST: Final = {"cpu": "1m", "memory": "1Mi"}
"""The least that a container requests: no quota counts 0, and for the kubelet a limit of 0 is none."""


def _counted(amounts: dict[str, str]) -> dict[str, str]:
    """The same amounts, if a LimitRange with these minima can have them."""
    for name, least in LEAST.items():
        if name in amounts and quantity.parse(amounts[name]).nano < quantity.parse(least).nano:
            raise ValueError(f"{name} must be at least {least}; is {amounts[name]!r}")
    return amounts


Amounts = Annotated[dict[str, Quantity], AfterValidator(_counted)]


class ContainerDefaults(StrictModel):
    """Default requests and limits of containers."""

    requests: Amounts = Field(default={"cpu": "100m", "memory": "256Mi"})
    """Requests, by resource."""
    limits: Amounts = Field(default={})
    """Limits, by resource."""

    @model_validator(mode="after")
    def _limits_hold_requests(self) -> "ContainerDefaults":
        for name in sorted(self.requests.keys() & self.limits.keys()):
            request, limit = self.requests[name], self.limits[name]
            excess = quantity.parse(request).nano - quantity.parse(limit).nano
            given = f"requests.{name} is {request} and limits.{name} is {limit}"
            if excess > 0:
                raise ValueError(f"{given}: no request may exceed the limit; set both")
            if excess and not _overcommitted(name):
                raise ValueError(f"{given}: both must be the same for this resource")
        return self


def _overcommitted(resource: str) -> bool:
    """Whether a container may request less of it than its limit: not so for devices and huge pages."""
    native = "/" not in resource or "kubernetes.io/" in resource
    return native and not resource.startswith("hugepages-")


def _block(text: str) -> str:
    """The same text, if the API server accepts it as the block of a NetworkPolicy."""
    try:
        ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{CIDR_WORDS[CIDR]}; is {text!r}") from None
    return text


Block = Annotated[str, Field(pattern=CIDR), AfterValidator(_block)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Egress(StrictModel):
    """Addresses outside the cluster that jobs may connect to, such as those of a dataset or a registry."""

    cidr: Block
    """Block of IP addresses, such as 10.0.0.0/8."""
    excluded: tuple[Block, ...] = ()
    """Blocks within `cidr` that jobs cannot connect to."""
    ports: tuple[Port, ...] = ()
    """TCP ports. Default: all ports."""

    @field_validator("excluded")
    @classmethod
    def _excluded_is_within(cls, excluded: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if cidr := info.data.get("cidr"):
            whole = ip_network(cidr, strict=False)
            for text in excluded:
                block = ip_network(text, strict=False)
                if block.prefixlen <= whole.prefixlen or block.network_address not in whole:
                    raise ValueError(f"must be smaller blocks within cidr {cidr}; is {text!r}")
        return excluded


class Right(StrEnum):
    """A resource that data scientists may use in addition to TrainJobs, as in an RBAC role."""

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
"""The rights that the guides for data scientists need."""


TRAINJOBS: Final = f"count/trainjobs.{names.TRAINER_GROUP}"
TRAINING_RUNTIMES: Final = f"count/trainingruntimes.{names.TRAINER_GROUP}"
PER_JOB: Final = {
    f"count/{names.JOBSETS}.{names.JOBSET_GROUP}": 2,
    f"count/workloads.{names.KUEUE_GROUP}": 2,
    "count/jobs.batch": 20,
}
"""Objects that are created for a TrainJob: one, and two for a short time while one replaces the other. A
JobSet has rarely more than ten Jobs."""
PER_CACHE: Final = {
    f"count/leaderworkersets.{data_cache.GROUP}": 2,
    "count/serviceaccounts": 2,
    "count/services": 4,
    "count/statefulsets.apps": 4,
    "count/controllerrevisions.apps": 6,
}
"""Objects of a TrainJob with a data cache, and of its JobSet. A cache has three Services, two StatefulSets
and three ControllerRevisions. They stay if its LeaderWorkerSet is deleted without its dependents."""
_FEWEST_JOBS: Final = 500
"""The limits of these objects suffice at least for so many TrainJobs."""
COUNTED: Final = {
    "count/configmaps": "1000",
    "count/secrets": "1000",
    "persistentvolumeclaims": "1000",
    "requests.storage": "10Ti",
    TRAINJOBS: "500",
    TRAINING_RUNTIMES: "20",
}
"""Default quota of a tenant: limits the objects that the operator keeps in memory, and volumes, which would
be unlimited. The stack file takes precedence. `Tenant.quota` adds the objects of the TrainJobs."""


class Account(StrictModel):
    """A ServiceAccount that a tenant's pods run as."""

    labels: Labels = Field(default={})
    """Labels of the ServiceAccount."""
    annotations: Annotations = Field(default={})
    """Annotations of the ServiceAccount, such as those that give its pods a cloud identity."""


class Tenant(StrictModel):
    """A team: its namespace, which has the same name, its queue, its limits and its people."""

    cluster_queue: str
    """Name of the ClusterQueue with the team's quota, in queues.clusterQueues."""
    queue: str = Field(default="default", pattern=NAME)
    """Name of the team's LocalQueue. If it is `default`, jobs that name no queue also use this queue."""
    resource_quota: dict[str, Quantity] = Field(default={"pods": "1000"})
    """Limits of the namespace's ResourceQuota. For devices, write `requests.` before the resource, such as
    `requests.nvidia.com/gpu`. If you do not set them here, these limits also apply: 500
    `count/trainjobs.trainer.kubeflow.org`, 20 `count/trainingruntimes.trainer.kubeflow.org`, 1000
    `count/configmaps`, 1000 `count/secrets`, 1000 `persistentvolumeclaims` and 10Ti of `requests.storage`.
    For `count/jobsets.jobset.x-k8s.io` and `count/workloads.kueue.x-k8s.io`, the limit is two per TrainJob
    that the quota allows, and at least 1000. For `count/jobs.batch`, the limit is ten times as high. If the
    stack enables `dataCache`, the limit of JobSets also applies to
    `count/leaderworkersets.leaderworkerset.x-k8s.io` and `count/serviceaccounts`, twice this limit to
    `count/services` and `count/statefulsets.apps`, and three times this limit to
    `count/controllerrevisions.apps`."""
    container_defaults: ContainerDefaults = ContainerDefaults()
    """Requests and limits of containers that set none."""
    pod_security: PodSecurity = PodSecurity.BASELINE
    """Pod Security Standard that the namespace enforces."""
    egress: tuple[Egress, ...] = ()
    """Addresses that jobs may connect to. Jobs may always connect to each other and to the cluster's DNS."""
    labels: Labels = Field(default={})
    """Further labels of the namespace."""
    annotations: Annotations = Field(default={})
    """Annotations of the namespace."""
    pull_secrets: tuple[ObjectName, ...] = ()
    """Image pull secrets in the namespace, for the team's pods."""
    service_accounts: dict[ObjectName, Account] = Field(default={})
    """ServiceAccounts of the namespace, by name. Pods that name none use `default`."""
    external_secrets: dict[ObjectName, ExternalSecret] = Field(default={})
    """Secrets of the namespace, by name, that the External Secrets Operator fetches from a store."""
    data_scientists: tuple[Subject, ...] = ()
    """Users, groups and ServiceAccounts that may submit TrainJobs and read their logs."""
    rights: tuple[Right, ...] = GUIDED
    """Resources that data scientists may read, create and delete in the namespace, in addition to TrainJobs.
    Default: those that the guides use. `secrets` covers every Secret in the namespace. `pods` allows the
    deletion of pods. `pods/exec` allows a shell in any pod."""
    viewers: tuple[Subject, ...] = ()
    """Users, groups and ServiceAccounts that may only read."""

    def labels_of_namespace(self, name: str, further: Mapping[str, str] = {}) -> dict[str, str]:
        """Labels of the tenant's namespace, with further ones."""
        return {
            **self.labels,
            **further,
            names.TENANT_LABEL: name,
            "pod-security.kubernetes.io/enforce": str(self.pod_security),
        }

    def quota(self, *, caches: bool = False) -> dict[str, str]:
        """Limits of the namespace's ResourceQuota, the defaults included.

        Objects of TrainJobs are counted too: they stay if their TrainJob is deleted without its dependents.

        Args:
            caches: Whether its people can create what data caches consist of.
        """
        limits = {**COUNTED, **self.resource_quota}
        jobs = max(_FEWEST_JOBS, quantity.parse(limits[TRAINJOBS]).ceil())
        each = PER_JOB | (PER_CACHE if caches else {})
        return {**{counted: str(number * jobs) for counted, number in each.items()}, **limits}

    @property
    def held(self) -> int:
        """The most TrainJobs and TrainingRuntimes of the tenant. Each replica of the operator caches them."""
        limits = self.quota()
        return sum(quantity.parse(limits[counted]).ceil() for counted in (TRAINJOBS, TRAINING_RUNTIMES))


def problems(tenants: Mapping[str, Tenant]) -> Iterator[str]:
    """Settings of tenants that only the platform may make, and limits without effect, each with its path."""
    for name, tenant in tenants.items():
        if is_system(name):
            yield f"{name}: is a namespace of the system: a tenant's limits would stop what runs there"
        for place, keys in _keys(tenant):
            for key in keys:
                if key in _RESERVED_KEYS or key.startswith(_RESERVED_DOMAINS):
                    yield f"{name}.{place}.{key}: is the platform's own: remove it"
        for problem in resource_quotas.problems(tenant.resource_quota):
            yield f"{name}.resourceQuota.{problem}"
        if data_cache.ACCOUNT in tenant.service_accounts:
            yield f"{name}.serviceAccounts.{data_cache.ACCOUNT}: is the data cache's: remove it"


def _keys(tenant: Tenant) -> Iterator[tuple[str, Iterable[str]]]:
    yield "labels", tenant.labels
    yield "annotations", tenant.annotations
    for name, account in tenant.service_accounts.items():
        yield f"serviceAccounts.{name}.labels", account.labels
        yield f"serviceAccounts.{name}.annotations", account.annotations
