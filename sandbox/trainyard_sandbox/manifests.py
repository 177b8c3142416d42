"""Objects that a bare cluster needs before anything is installed into it."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def _cluster_role_binding(name: str, role: str, user: str) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


BOOTSTRAP: list[Manifest] = [
    # The API server asks kubelets for logs, exec and port-forward.
    _cluster_role_binding(
        "trainyard:kubelet-api", "system:kubelet-api-admin", "kube-apiserver-kubelet-client"
    ),
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "trainyard:coredns"},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    },
    _cluster_role_binding("trainyard:coredns", "trainyard:coredns", "trainyard:coredns"),
]


def _fake_node(number: int) -> Manifest:
    size = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"fake-{number}",
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"type": "kwok", "kubernetes.io/hostname": f"fake-{number}"},
        },
        "status": {"allocatable": size, "capacity": size},
    }


FAKE_NODES: list[Manifest] = [_fake_node(number) for number in range(2)]
