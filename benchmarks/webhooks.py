"""What leads an API server to a controller's webhooks: Trainer's own configurations, by URL. Pure."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from trainyard_api.webhook_paths import MUTATE_TRAINJOB, POLICIES, VALIDATE
from trainyard_kube.resources import WEBHOOK_CONFIGURATIONS

from .controllers import Controller

_CALLED = {
    "MutatingWebhookConfiguration": {"trainjob": ("defaulter", MUTATE_TRAINJOB)},
    "ValidatingWebhookConfiguration": {
        singular: ("validator", VALIDATE + singular)
        for singular in ("trainjob", "trainingruntime", "clustertrainingruntime")
    },
}
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
                    f"{role}.{singular}",
                    singular,
                    {"url": url + path, **trust},
                    controller.defaults_if if role == "defaulter" else None,
                )
                for singular, (role, path) in _CALLED[resource.kind].items()
            ]
            + [
                _webhook(f"policies.{singular}", singular, {"url": url + POLICIES + singular, **trust})
                for singular in _CALLED[resource.kind]
                if policies and resource.kind == "ValidatingWebhookConfiguration"
            ],
        }
        for resource, name in WEBHOOK_CONFIGURATIONS
    ]


def _webhook(name: str, singular: str, client: dict[str, Any], only_if: str | None = None) -> dict[str, Any]:
    rule = {
        "apiGroups": ["trainer.kubeflow.org"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [f"{singular}s"],
    }
    return {
        "name": f"{name}.trainer.kubeflow.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "matchConditions": [] if only_if is None else [{"name": "only-if", "expression": only_if}],
        "objectSelector": {} if singular == "trainjob" else _UNLESS_DISABLED,
        "rules": [rule],
        "sideEffects": "None",
    }
