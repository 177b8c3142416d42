"""Changes that somebody makes by hand in a cluster: to each kind of object that the sandbox's stack owns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

HAND: Final = "by-hand"
"""The name that they are written under."""
_POD: Final = "/spec/template/spec"
_RUNTIME: Final = f"{_POD}/replicatedJobs/0/template/spec/template/spec"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        kind: As kubectl has it; `namespace` is empty for an object of the cluster's.
        path: Where the difference is, as the report of drift has it, or the beginning of that.
        patch: A merge patch, or the operations of a JSON patch.
        removes: Whether it takes something away, of which nobody can say who did it.
    """

    kind: str
    namespace: str
    name: str
    path: str
    patch: Mapping[str, Any] | tuple[Mapping[str, Any], ...]
    removes: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.path}"


def _add(path: str, value: Any) -> tuple[Mapping[str, Any], ...]:
    return ({"op": "add", "path": path, "value": value},)


def _remove(path: str) -> tuple[Mapping[str, Any], ...]:
    return ({"op": "remove", "path": path},)


EVERYTHING: Final = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
SOMEBODY: Final = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}

CHANGES: Final = (
    Change("clusterrole", "", "trainyard-operator", "rules[", _add("/rules/-", EVERYTHING)),
    Change("clusterrole", "", "trainyard-viewer", "rules[", _remove("/rules/0"), removes=True),
    Change(
        "clusterrole",
        "",
        "trainyard-viewer",
        "metadata.labels",
        {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}}},
    ),
    Change("clusterrolebinding", "", "trainyard-metrics", "subjects[", _add("/subjects/-", SOMEBODY)),
    Change("role", "trainyard-system", "trainyard-operator", "rules[", _add("/rules/0/verbs/-", "patch")),
    Change("rolebinding", "team-a", "trainyard-data-scientist", "subjects[", _add("/subjects/-", SOMEBODY)),
    Change("networkpolicy", "team-a", "tenant", "spec.egress[", _add("/spec/egress/-", {})),
    Change(
        "networkpolicy", "team-a", "tenant", "spec.policyTypes[", _remove("/spec/policyTypes/0"), removes=True
    ),
    Change(
        "deployment",
        "trainyard-system",
        "trainyard-operator",
        "spec.template.spec.hostNetwork",
        _add(f"{_POD}/hostNetwork", True),
    ),
    Change(
        "deployment",
        "trainyard-system",
        "trainyard-operator",
        "spec.template.spec.containers[name=side]",
        _add(f"{_POD}/containers/-", {"name": "side", "image": "docker.io/library/side:1"}),
    ),
    Change(
        "deployment",
        "trainyard-system",
        "trainyard-operator",
        "metadata.annotations.note",
        {"metadata": {"annotations": {"note": "mine"}}},
    ),
    Change(
        "service",
        "trainyard-system",
        "trainyard-operator",
        "spec.ports[name=discard]",
        _add("/spec/ports/-", {"name": "discard", "port": 9}),
    ),
    Change(
        "service",
        "trainyard-system",
        "trainyard-operator",
        "spec.externalIPs",
        {"spec": {"externalIPs": ["192.0.2.1"]}},
    ),
    Change(
        "serviceaccount",
        "trainyard-system",
        "trainyard-operator",
        "imagePullSecrets",
        {"imagePullSecrets": [{"name": "mine"}]},
    ),
    Change("configmap", "trainyard-system", "trainyard-operator", "data.more", {"data": {"more": "1"}}),
    Change("configmap", "trainyard-system", "trainyard-jobs-dashboard", "data", {"data": None}, removes=True),
    Change(
        "namespace",
        "",
        "team-a",
        "metadata.labels[pod-security.kubernetes.io/enforce]",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
    ),
    Change(
        "namespace",
        "",
        "team-b",
        "metadata.labels[pod-security.kubernetes.io/enforce]",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}},
        removes=True,
    ),
    Change("resourcequota", "team-a", "tenant", "spec.hard.pods", {"spec": {"hard": {"pods": "100000"}}}),
    Change("resourcequota", "team-a", "tenant", "spec.hard.services", {"spec": {"hard": {"services": "1"}}}),
    Change(
        "limitrange",
        "team-a",
        "tenant",
        "spec.limits[type=Container].default",
        _add("/spec/limits/0/default", {"cpu": "9"}),
    ),
    Change(
        "clusterqueue",
        "",
        "team-a",
        "spec.preemption.withinClusterQueue",
        {"spec": {"preemption": {"withinClusterQueue": "Never"}}},
    ),
    Change("cohort", "", "sandbox", "spec.fairSharing", {"spec": {"fairSharing": {"weight": "2"}}}),
    Change("localqueue", "team-a", "default", "spec.stopPolicy", {"spec": {"stopPolicy": "Hold"}}),
    Change("resourceflavor", "", "cpu", "spec.nodeLabels.more", {"spec": {"nodeLabels": {"more": "1"}}}),
    Change("topology", "", "gpu", "metadata.labels", {"metadata": {"labels": {"more": "1"}}}),
    Change("workloadpriorityclass", "", "low", "description", {"description": "mine"}),
    Change("priorityclass", "", "trainyard-operator", "description", {"description": "mine"}),
    Change(
        "clustertrainingruntime",
        "",
        "torch-distributed",
        "spec.template.spec.replicatedJobs[name=node]",
        _add(f"{_RUNTIME}/priorityClassName", "high"),
    ),
    Change(
        "clustertrainingruntime",
        "",
        "jax-distributed",
        "spec.template.spec.replicatedJobs[name=node].template.spec.template.spec.containers[name=side]",
        _add(f"{_RUNTIME}/containers/-", {"name": "side", "image": "docker.io/library/side:1"}),
    ),
    Change(
        "mutatingwebhookconfiguration",
        "",
        "defaulter.trainer.kubeflow.org",
        "webhooks[name=defaulter.trainjob.trainer.kubeflow.org].namespaceSelector",
        _add("/webhooks/0/namespaceSelector", {"matchLabels": {"a": "b"}}),
    ),
    Change(
        "validatingwebhookconfiguration",
        "",
        "validator.trainer.kubeflow.org",
        "webhooks[name=validator.clustertrainingruntime.trainer.kubeflow.org].failurePolicy",
        _add("/webhooks/0/failurePolicy", "Ignore"),
    ),
    Change(
        "validatingadmissionpolicy",
        "",
        "exempting-label.policy.trainyard.dev",
        "spec.matchConditions",
        _add("/spec/matchConditions", [{"name": "never", "expression": "false"}]),
    ),
    Change(
        "validatingadmissionpolicybinding",
        "",
        "exempting-label.policy.trainyard.dev",
        "spec.matchResources",
        {"spec": {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}},
    ),
    Change(
        "validatingadmissionpolicybinding",
        "",
        "nothing-past-the-webhook.policy.trainyard.dev",
        "spec.validationActions",
        {"spec": {"validationActions": ["Audit"]}},
    ),
    Change(
        "customresourcedefinition",
        "",
        "trainjobs.trainer.kubeflow.org",
        "metadata.annotations.note",
        {"metadata": {"annotations": {"note": "mine"}}},
    ),
    Change(
        "flowschema",
        "",
        "trainyard-operator",
        "spec.matchingPrecedence",
        {"spec": {"matchingPrecedence": 9999}},
    ),
    Change(
        "storageclass",
        "",
        "trainyard-shared",
        "metadata.annotations",
        {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}},
    ),
    Change(
        "servicemonitor",
        "trainyard-system",
        "trainyard-operator",
        "spec.endpoints[",
        _add("/spec/endpoints/-", {"port": "more"}),
    ),
    Change(
        "prometheusrule",
        "trainyard-system",
        "trainyard",
        "spec.groups[",
        _remove("/spec/groups/0"),
        removes=True,
    ),
    Change(
        "apiservice",
        "",
        "v1beta1.visibility.kueue.x-k8s.io",
        "spec.groupPriorityMinimum",
        {"spec": {"groupPriorityMinimum": 1}},
    ),
    Change(
        "job",
        "volcano-system",
        "volcano-admission-init",
        "metadata.labels",
        {"metadata": {"labels": {"more": "1"}}},
    ),
    Change(
        "secret",
        "kueue-system",
        "kueue-webhook-server-cert",
        "metadata.labels.control-plane",
        {"metadata": {"labels": {"control-plane": None}}},
        removes=True,
    ),
    Change("node", "", "gpu-0", "spec.taints", _remove("/spec/taints"), removes=True),
)
"""No two of them touch the same place."""
