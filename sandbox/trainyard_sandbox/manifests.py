"""Objects that a bare cluster needs before anything is installed into it."""

from __future__ import annotations

from trainyard_api.json_types import Manifest

STORAGE_NAMESPACE = "kube-system"
"""The namespace of the pods that make and remove volumes' folders."""

HELPER_SCRIPTS = "volume-helper"
"""The ConfigMap with the scripts of those pods."""


def _rights(user: str, *rules: tuple[str, str, str]) -> list[Manifest]:
    """What allows a user this everywhere: API group, resources and verbs, both separated by commas."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": user},
        "rules": [
            {"apiGroups": [group], "resources": resources.split(","), "verbs": verbs.split(",")}
            for group, resources, verbs in rules
        ],
    }
    return [role, _cluster_role_binding(user, user, user)]


def _cluster_role_binding(name: str, role: str, user: str) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


_NAMES = _rights(
    "trainyard:coredns",
    ("", "services,pods,namespaces", "list,watch"),
    ("discovery.k8s.io", "endpointslices", "list,watch"),
)

_VOLUMES: list[Manifest] = [
    *_rights(
        "trainyard:volumes",
        ("", "nodes,persistentvolumeclaims", "get,list,watch"),
        ("", "persistentvolumes", "create,delete,get,list,patch,update,watch"),
        ("", "events", "create,patch"),
        ("storage.k8s.io", "storageclasses", "get,list,watch"),
    ),
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "trainyard:volumes", "namespace": STORAGE_NAMESPACE},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete", "get"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "trainyard:volumes", "namespace": STORAGE_NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "trainyard:volumes"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "trainyard:volumes"}],
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": HELPER_SCRIPTS, "namespace": STORAGE_NAMESPACE},
        # Whatever user a container runs as, it may write to its volume.
        "data": {"setup": 'mkdir -m 0777 -p "$VOL_DIR"\n', "teardown": 'rm -rf "$VOL_DIR"\n'},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "local-path",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "rancher.io/local-path",
        "reclaimPolicy": "Delete",
        # A volume is on all nodes, so binding need not wait for the pod's node.
        "volumeBindingMode": "Immediate",
    },
]

_NETWORK_POLICIES = _rights(
    "trainyard:network-policies",
    ("", "nodes", "get"),
    ("", "pods,namespaces", "list,watch"),
    ("networking.k8s.io", "networkpolicies", "list,watch"),
)

BOOTSTRAP: list[Manifest] = [
    # The API server calls kubelets for logs, exec and port-forward.
    _cluster_role_binding(
        "trainyard:kubelet-api", "system:kubelet-api-admin", "kube-apiserver-kubelet-client"
    ),
    *_NAMES,
    *_VOLUMES,
    *_NETWORK_POLICIES,
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
