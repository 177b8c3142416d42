"""What a stack sets for the platform's pods, for those that no chart renders: pure."""

from typing import Final

from trainyard_api.json_types import Manifest

from ..stack.pod_settings import Controllers

RESTRICTED_CONTAINER: Final[Manifest] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The security context of a container that needs nothing."""


def spec(controllers: Controllers) -> Manifest:
    """Fields of a pod's spec; empty ones are left out."""
    fields = {
        "nodeSelector": dict(controllers.node_selector),
        "tolerations": [
            toleration.model_dump(mode="json", exclude_none=True) for toleration in controllers.tolerations
        ],
        "priorityClassName": controllers.priority_class,
        "imagePullSecrets": [{"name": secret} for secret in controllers.pull_secrets],
    }
    return {name: value for name, value in fields.items() if value}


def restricted(user: int | None) -> Manifest:
    """The security context of a pod that meets the Pod Security Standard `restricted`.

    Args:
        user: Whom its containers run as, and which group; None where the cluster assigns them.
    """
    return {
        "runAsNonRoot": True,
        **({} if user is None else {"runAsUser": user, "runAsGroup": user}),
        "seccompProfile": {"type": "RuntimeDefault"},
    }
