"""The security contexts of the platform's own pods, those that no chart renders: pure."""

from typing import Final

from trainyard_api.json_types import Manifest

RESTRICTED_CONTAINER: Final[Manifest] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The security context of a container that needs nothing."""


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
