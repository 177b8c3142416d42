"""From a secret in a store to the object that has it fetched: pure."""

from collections.abc import Mapping
from typing import Any

from ...stack.external_secrets import ExternalSecret


def manifest(
    name: str, namespace: str, secret: ExternalSecret, labels: Mapping[str, str] = {}
) -> dict[str, Any]:
    """The object that creates the Secret of this name in this namespace."""
    metadata = {"name": name, "namespace": namespace, **({"labels": dict(labels)} if labels else {})}
    source: dict[str, Any] = {"dataFrom": [{"extract": {"key": secret.key}}]}
    if secret.data:
        source = {
            "data": [
                {"secretKey": key, "remoteRef": reference.model_dump(mode="json", exclude_none=True)}
                for key, reference in secret.data.items()
            ]
        }
    return {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": metadata,
        "spec": {
            "refreshInterval": secret.refresh_interval,
            "secretStoreRef": {"kind": str(secret.store.kind), "name": secret.store.name},
            "target": {"name": name, "creationPolicy": "Owner", "template": {"type": secret.type}},
            **source,
        },
    }
