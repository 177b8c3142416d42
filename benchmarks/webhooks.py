"""What leads an API server to a controller's webhooks: Trainer's own configurations, by URL. Pure."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from trainyard_api.webhook_paths import MUTATE_TRAINJOB, POLICIES, VALIDATE
from trainyard_kube.resources import WEBHOOK_CONFIGURATIONS

from .controllers import Controller

_CALLED = {
    "MutatingWebhookConfiguration": [("defaulter", "trainjob", MUTATE_TRAINJOB)],
    "ValidatingWebhookConfiguration": [
        (role, singular, path + singular)
        for role, path in (("validator", VALIDATE), ("policies", POLICIES))
        for singular in ("trainjob", "trainingruntime", "clustertrainingruntime")
    ],
}
"""Role, what it is asked about, and its path."""
_UNLESS_DISABLED = {
    "matchExpressions": [
        {"key": "trainer.kubeflow.org/webhook-validation", "operator": "NotIn", "values": ["disabled"]}
    ]
}


def configurations(controller: Controller, *, policies: bool = False) -> list[dict[str, Any]]:
    """The configurations for a controller's webhooks, as its own installation has them.

    With `policies`, also the configuration of the rules, which only ours has.
    """
    url, authorities = controller.webhook_url, controller.authorities
    trust = {"caBundle": b64encode(authorities).decode()} if authorities else {}
    return [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "webhooks": [
                _webhook(
                    role,
                    singular,
                    {"url": url + path, **trust},
                    controller.defaults_if if role == "defaulter" else None,
                )
                for role, singular, path in _CALLED[resource.kind]
                if policies or role != "policies"
            ],
        }
        for resource, name in WEBHOOK_CONFIGURATIONS
    ]


def _webhook(role: str, singular: str, client: dict[str, Any], only_if: str | None) -> dict[str, Any]:
    rule = {
        "apiGroups": ["trainer.kubeflow.org"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [f"{singular}s"],
    }
    return {
        "name": f"{role}.{singular}.trainer.kubeflow.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "matchConditions": [] if only_if is None else [{"name": "only-if", "expression": only_if}],
        "objectSelector": {} if singular == "trainjob" else _UNLESS_DISABLED,
        "rules": [rule],
        "sideEffects": "None",
    }
