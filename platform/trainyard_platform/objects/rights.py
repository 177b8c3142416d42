"""Roles, and who has them, as manifests: pure.

With a namespace in their metadata they are a Role and a RoleBinding, without
one a ClusterRole and a ClusterRoleBinding.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainyard_api.json_types import Manifest

RBAC: Final = "rbac.authorization.k8s.io"
_VERSION: Final = f"{RBAC}/v1"


def rule(group: str, resources: Sequence[str], verbs: Sequence[str], *, only: Sequence[str] = ()) -> Manifest:
    """Verbs that are allowed on resources of one API group; `only` on the objects of these names."""
    names = {"resourceNames": list(only)} if only else {}
    return {"apiGroups": [group], "resources": list(resources), **names, "verbs": list(verbs)}


def role(metadata: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> Manifest:
    """A role with these rules."""
    return {
        "apiVersion": _VERSION,
        "kind": _kind(metadata),
        "metadata": dict(metadata),
        "rules": [dict(rule) for rule in rules],
    }


def binding(
    metadata: Mapping[str, Any], name: str, subjects: Sequence[Mapping[str, Any]], *, kind: str = ""
) -> Manifest:
    """Gives subjects the role `name`, in the namespace of the binding or everywhere.

    Args:
        metadata: Of the binding.
        name: Of the role.
        subjects: Who gets it.
        kind: Of the role; if left out, Role in a namespace and ClusterRole otherwise.
    """
    return {
        "apiVersion": _VERSION,
        "kind": f"{_kind(metadata)}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": RBAC, "kind": kind or _kind(metadata), "name": name},
        "subjects": [dict(subject) for subject in subjects],
    }


def account(name: str, namespace: str) -> Manifest:
    """A ServiceAccount as the subject of a binding."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def _kind(metadata: Mapping[str, Any]) -> str:
    return "Role" if "namespace" in metadata else "ClusterRole"
