"""What protects the platform's own controllers from the rest of the cluster, as manifests: pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .manifest import Manifest

PRIORITY = 1_000_000
"""Above any training, and far below what the cluster itself needs."""
LEASE_PRECEDENCE = 200
PRECEDENCE = 1000
"""Lower numbers go first. Kubernetes' own schema for all service accounts has 9000."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The ports that the pods of a namespace serve."""

    everybody: Sequence[int] = ()
    """Those that API servers call, which are on nodes or outside of the cluster, where no selector finds
    them; and those for pods on the network of their node. They defend themselves."""
    pods: Sequence[int] = ()
    """Those that only other pods have business with: metrics."""


def priority_class(name: str, labels: Mapping[str, str]) -> Manifest:
    """That the scheduler makes room for the pods of that class."""
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
    """That drains take one pod with those labels at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(labels)}},
    }


def flow_schemas(name: str, namespace: str, labels: Mapping[str, str]) -> Iterator[Manifest]:
    """That the API server does not let other clients' floods hold up a ServiceAccount.

    The levels are Kubernetes' own: the Lease has that of elections, all else that of controllers.
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
    """That pods of the namespace are reached only at these ports; by kubelet, on its own node, at all."""
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
