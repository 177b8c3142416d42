"""From a tenant's settings to its namespace and all that is in it: pure."""

from collections.abc import Iterator, Mapping, Sequence

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects import rights
from ...stack.queues import LocalQueue, Queues
from ...stack.tenants import DEFAULT_ACCOUNT, LEAST, Account, Egress, Right, Subject, Tenant
from ..external_secrets import manifests
from ..queues import manifests as queue_manifests

DATA_SCIENTIST = "trainyard-data-scientist"
VIEWER = "trainyard-viewer"
CLUSTER_VIEWER = "trainyard-runtime-viewer"
QUEUE_VIEWER = "trainyard-queue-viewer"
FURTHER_RIGHTS = f"{DATA_SCIENTIST}-further"

_LOOK = ["get", "list", "watch"]
_VISIBLE = [
    ("", ["events", "pods", "persistentvolumeclaims"]),
    ("batch", ["jobs"]),
    (names.JOBSET_GROUP, [names.JOBSETS]),
    (names.KUEUE_GROUP, ["localqueues", "workloads"]),
    ("scheduling.volcano.sh", ["podgroups"]),
    ("scheduling.x-k8s.io", ["podgroups"]),
    (names.TRAINER_GROUP, [names.TRAINING_RUNTIMES, names.TRAINJOBS]),
]
"""What is created for a TrainJob: enough to see why it waits. Never Secrets, never ConfigMaps."""
_LOGS = ("", ["pods/log"])
_PLACES = (f"visibility.{names.KUEUE_GROUP}", ["localqueues/pendingworkloads"])
"""Where the own jobs wait among those of others, whose names it does not say."""
_METRICS = (names.METRICS_GROUP, ["pods"])
"""What pods use, for `trainyard seff` and `kubectl top pods`. It cannot be watched."""
_LIMITS = ("", ["limitranges"])
"""What containers of the namespace request that say nothing, which `trainyard run` counts."""
_KEEP = ["create", "delete", "get", "list", "patch", "update", "watch"]
_RIGHTS = {
    Right.CONFIG_MAPS: ("", ["configmaps"], _KEEP),
    Right.CLAIMS: ("", ["persistentvolumeclaims"], _KEEP),
    Right.SECRETS: ("", ["secrets"], _KEEP),
    Right.RUNTIMES: (names.TRAINER_GROUP, [names.TRAINING_RUNTIMES], _KEEP),
    Right.PODS: ("", ["pods"], ["delete"]),
    Right.EXEC: ("", ["pods/exec"], ["create", "get"]),
    Right.PORT_FORWARD: ("", ["pods/portforward"], ["create", "get"]),
}
"""One rule each. A WebSocket, as kubectl opens for exec and port-forward, begins with a get."""

_NO_AFFINITY_TO_OTHERS = {
    "hard": {"pods": "0"},
    "scopeSelector": {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]},
}
"""No pod whose affinity selects pods of other namespaces: it would keep them off nodes."""


def roles() -> list[Manifest]:
    """The ClusterRoles that tenants' people are bound to, once for all tenants."""
    look = [rights.rule(group, resources, _LOOK) for group, resources in _VISIBLE]
    seen = [
        rights.rule(*_METRICS, ["get", "list"]),
        rights.rule(*_LOGS, ["get"]),
        rights.rule(*_LIMITS, ["get", "list"]),
        rights.rule(*_PLACES, ["get"]),
    ]
    write = rights.rule(names.TRAINER_GROUP, [names.TRAINJOBS], ["create", "delete", "patch", "update"])
    runtimes = rights.rule(names.TRAINER_GROUP, [names.CLUSTER_TRAINING_RUNTIMES], _LOOK)
    priorities = rights.rule(names.KUEUE_GROUP, ["workloadpriorityclasses"], ["get", "list"])
    return [
        rights.role({"name": DATA_SCIENTIST}, [*look, *seen, write]),
        rights.role({"name": VIEWER}, [*look, *seen]),
        rights.role({"name": CLUSTER_VIEWER}, [runtimes, priorities]),
    ]


def namespace(name: str, tenant: Tenant, further: Mapping[str, str] = {}) -> Manifest:
    """The tenant's namespace, with further labels."""
    labels = tenant.labels_of_namespace(name, further)
    metadata = {"name": name, "labels": labels, **_annotations(tenant.annotations)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def accounts(name: str, tenant: Tenant) -> Iterator[Manifest]:
    """The ServiceAccounts of the tenant's pods: each that it names, and for pull secrets the default one."""
    service_accounts = dict(tenant.service_accounts)
    if tenant.pull_secrets:
        service_accounts.setdefault(DEFAULT_ACCOUNT, Account())
    pull_secrets = [{"name": secret} for secret in tenant.pull_secrets]
    for account_name, account in service_accounts.items():
        labels = {**account.labels, names.TENANT_LABEL: name}
        metadata = {"name": account_name, "namespace": name, "labels": labels}
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**metadata, **_annotations(account.annotations)},
            **({"imagePullSecrets": pull_secrets} if pull_secrets else {}),
        }


def contents(
    name: str,
    tenant: Tenant,
    dns_ports: Sequence[int] = (53,),
    further: Sequence[Manifest] = (),
    *,
    caches: bool = False,
) -> list[Manifest]:
    """What limits and protects the jobs in the namespace.

    Args:
        name: The namespace.
        tenant: The tenant that it belongs to.
        dns_ports: Ports on which the cluster's DNS answers, behind its Service.
        further: Rules of egress for what else of the platform its pods talk to.
        caches: Whether the stack has data caches.
    """
    queue = LocalQueue(name=tenant.queue, namespace=name, cluster_queue=tenant.cluster_queue)
    network = _network(tenant.egress, dns_ports, further)
    return [
        _inside(name, "v1", "ResourceQuota", "tenant", {"hard": tenant.quota(caches=caches)}),
        _inside(name, "v1", "ResourceQuota", "tenant-affinity", _NO_AFFINITY_TO_OTHERS),
        _inside(name, "v1", "LimitRange", "tenant", {"limits": [_container_limits(tenant)]}),
        _inside(name, "networking.k8s.io/v1", "NetworkPolicy", "tenant", network),
        queue_manifests.local_queue(queue),
    ]


def secrets(name: str, tenant: Tenant) -> Iterator[Manifest]:
    """The objects that fetch the tenant's Secrets."""
    for secret_name, secret in tenant.external_secrets.items():
        yield manifests.manifest(secret_name, name, secret, {names.TENANT_LABEL: name})


def bindings(name: str, tenant: Tenant, queues: Queues | None = None) -> Iterator[Manifest]:
    """Who may do what, in the namespace, with the catalog, and with the queues.

    Args:
        name: The namespace.
        tenant: The tenant that it belongs to.
        queues: All of the stack, of which some share their quota with the tenant's.
    """
    for role, people in ((DATA_SCIENTIST, tenant.data_scientists), (VIEWER, tenant.viewers)):
        if people:
            yield _bound({"name": role, "namespace": name}, role, people, "ClusterRole")
    if tenant.rights and tenant.data_scientists:
        metadata = {"name": FURTHER_RIGHTS, "namespace": name}
        yield rights.role(metadata, [rights.rule(*_RIGHTS[right]) for right in sorted(set(tenant.rights))])
        yield _bound(metadata, FURTHER_RIGHTS, tenant.data_scientists)
    everybody = list(dict.fromkeys((*tenant.data_scientists, *tenant.viewers)))
    if everybody:
        metadata = {"name": f"{CLUSTER_VIEWER}-{name}"}
        yield _bound(metadata, CLUSTER_VIEWER, everybody)
        metadata = {"name": f"{QUEUE_VIEWER}-{name}"}
        yield rights.role(metadata, _of_queues(name, tenant, queues or Queues()))
        yield _bound(metadata, metadata["name"], everybody)


def _of_queues(name: str, tenant: Tenant, queues: Queues) -> list[Manifest]:
    """To see the quota, by name: these objects say how much is used, and not by whom."""
    behind = {tenant.cluster_queue} | queues.behind(name)
    shares = [queues.sharing(queue) for queue in behind]
    by_name = {
        "clusterqueues": {queue for shared, _ in shares for queue in shared},
        "cohorts": {cohort for _, cohorts in shares for cohort in cohorts},
        "resourceflavors": {flavor for queue in behind for flavor in queues.flavors_of(queue)},
    }
    return [
        rights.rule(names.KUEUE_GROUP, [resource], ["get"], only=sorted(only))
        for resource, only in by_name.items()
        if only
    ]


def _annotations(annotations: Mapping[str, str]) -> Manifest:
    return {"annotations": dict(annotations)} if annotations else {}


def _container_limits(tenant: Tenant) -> Manifest:
    defaults = tenant.container_defaults
    limits = {"default": dict(defaults.limits)} if defaults.limits else {}
    return {"type": "Container", "min": LEAST, "defaultRequest": dict(defaults.requests), **limits}


def _network(egress: Sequence[Egress], dns_ports: Sequence[int], further: Sequence[Manifest]) -> Manifest:
    """Closed, except for what training needs: the job's other pods, DNS, and what the stack file opens.

    DNS is wherever the cluster has it, in some on a node's own address: its
    port is open to everywhere.
    """
    each_other: list[Manifest] = [{"podSelector": {}}]
    dns = [{"protocol": protocol, "port": port} for port in dns_ports for protocol in ("UDP", "TCP")]
    return {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": each_other}],
        "egress": [{"to": each_other}, {"ports": dns}, *further, *(_opened(block) for block in egress)],
    }


def _opened(egress: Egress) -> Manifest:
    excluded = {"except": list(egress.excluded)} if egress.excluded else {}
    ports = {"ports": [{"protocol": "TCP", "port": port} for port in egress.ports]} if egress.ports else {}
    return {"to": [{"ipBlock": {"cidr": egress.cidr, **excluded}}], **ports}


def _bound(metadata: Manifest, role: str, people: Sequence[Subject], kind: str = "") -> Manifest:
    return rights.binding(metadata, role, [_subject(subject) for subject in people], kind=kind)


def _subject(subject: Subject) -> Manifest:
    if subject.namespace is not None:
        return {"kind": str(subject.kind), "name": subject.name, "namespace": subject.namespace}
    return {"kind": str(subject.kind), "name": subject.name, "apiGroup": rights.RBAC}


def _inside(namespace_name: str, version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": namespace_name}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
