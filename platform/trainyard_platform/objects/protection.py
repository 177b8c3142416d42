"""What protects the platform's own controllers from the rest of the cluster, as manifests: pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainyard_api.json_types import Manifest

PRIORITY = 1_000_000
"""Above any training, and far below the cluster's own pods."""
LEASE_PRECEDENCE = 200
PRECEDENCE = 1000
"""Lower numbers take precedence. Kubernetes' own schema for all service accounts has 9000."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The ports that the pods of a namespace serve."""

    everybody: Sequence[int] = ()
    """Those that API servers call, which are on nodes or outside the cluster, where no selector finds
    them; and those for pods in the host network. They protect themselves."""
    pods: Sequence[int] = ()
    """Those for other pods only: metrics."""


def priority_class(name: str, labels: Mapping[str, str]) -> Manifest:
    """Makes the scheduler make room for the pods of that class."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": dict(labels)},
        "value": PRIORITY,
        "globalDefault": False,
        "preemptionPolicy": "PreemptLowerPriority",
        "description": "Trainyard's operator, without which no TrainJob starts.",
    }


def disruption_budget(name: str, namespace: str, labels: Mapping[str, str]) -> Manifest:
    """Makes drains evict one pod with those labels at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(labels)}},
    }


def flow_schemas(name: str, namespace: str, labels: Mapping[str, str]) -> Iterator[Manifest]:
    """Keeps floods of other clients from delaying a ServiceAccount's requests.

    The levels are Kubernetes' own: that of elections for the Lease, that of controllers for all else.
    """
    account = {"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": namespace}}
    leases = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": [namespace],
        "verbs": ["get", "create", "update"],
    }
    everything = {
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
        "verbs": ["*"],
    }
    paths = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    elections = {"subjects": [account], "resourceRules": [leases]}
    all_else = {"subjects": [account], "resourceRules": [everything], "nonResourceRules": [paths]}
    yield _flow_schema(f"{name}-lease", labels, "leader-election", LEASE_PRECEDENCE, elections)
    yield _flow_schema(name, labels, "workload-high", PRECEDENCE, all_else)


def network_policy(namespace: str, ports: Ports) -> Manifest:
    """Makes pods of the namespace reachable only at these ports; the kubelet of their node reaches all."""
    ingress: list[Manifest] = []
    if ports.everybody:
        ingress.append({"ports": _tcp(ports.everybody)})
    if ports.pods:
        ingress.append({"from": [{"namespaceSelector": {}}], "ports": _tcp(ports.pods)})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "trainyard", "namespace": namespace},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _tcp(ports: Sequence[int]) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _flow_schema(
    name: str, labels: Mapping[str, str], level: str, precedence: int, rules: Manifest
) -> Manifest:
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [rules],
        },
    }
