"""What protects the platform's own controllers, as manifests and in the graph."""

from typing import Any

import pytest

from trainyard_platform.objects import protection as manifests
from trainyard_platform.objects.protection import Ports

LABELS = {"app": "operator"}
METADATA = {"name": "operator", "namespace": "home", "labels": LABELS}
ACCOUNT = {"kind": "ServiceAccount", "serviceAccount": {"name": "operator", "namespace": "home"}}


def test_of_several_replicas_one_at_a_time_is_drained() -> None:
    assert manifests.disruption_budget("operator", "home", LABELS) == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": METADATA,
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}},
    }


def test_the_operator_comes_before_training_and_after_the_cluster_itself() -> None:
    assert manifests.priority_class("operator", LABELS) == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "operator", "labels": LABELS},
        "value": 1_000_000,
        "globalDefault": False,
        "preemptionPolicy": "PreemptLowerPriority",
        "description": "Trainyard's operator, without which no TrainJob starts.",
    }


def test_the_lease_is_served_as_elections_are_and_all_else_as_controllers_are() -> None:
    def schema(name: str, level: str, precedence: int, **rules: Any) -> dict[str, Any]:
        return {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": name, "labels": LABELS},
            "spec": {
                "priorityLevelConfiguration": {"name": level},
                "matchingPrecedence": precedence,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{"subjects": [ACCOUNT], **rules}],
            },
        }

    leases = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": ["home"],
        "verbs": ["get", "create", "update"],
    }
    everything = {
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
        "verbs": ["*"],
    }
    paths = [{"nonResourceURLs": ["*"], "verbs": ["*"]}]
    assert list(manifests.flow_schemas("operator", "home", LABELS)) == [
        schema("operator-lease", "leader-election", 200, resourceRules=[leases]),
        schema("operator", "workload-high", 1000, resourceRules=[everything], nonResourceRules=paths),
    ]


def tcp(*ports: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port} for port in ports]


@pytest.mark.parametrize(
    ("ports", "ingress"),
    [
        (Ports(), []),
        (Ports(everybody=(9443, 10443)), [{"ports": tcp(9443, 10443)}]),
        (
            Ports(everybody=(9443,), pods=(8080,)),
            [{"ports": tcp(9443)}, {"from": [{"namespaceSelector": {}}], "ports": tcp(8080)}],
        ),
    ],
)
def test_pods_of_a_namespace_are_reached_at_the_ports_that_they_serve(
    ports: Ports, ingress: list[dict[str, Any]]
) -> None:
    assert manifests.network_policy("home", ports) == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "trainyard", "namespace": "home"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress},
    }
