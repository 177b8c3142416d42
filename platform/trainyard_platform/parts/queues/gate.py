"""An admission policy: no TrainJob of a queue starts because Kueue was not running (ADR 17)."""

from collections.abc import Mapping
from typing import Any, Final

from trainyard_api import names

NAME: Final = f"queued-jobs-wait.{names.POLICY_DOMAIN}"
_GROUP: Final = "admissionregistration.k8s.io"
_QUEUE: Final = f"object.metadata.?labels[?'{names.QUEUE_LABEL}'].orValue('')"
_PATCHED: Final = (
    f"object.spec.?runtimePatches.orValue([]).exists(patch, patch.manager == '{names.KUEUES_PATCHES}')"
)
"""What Kueue's webhook adds; without it Kueue admits the job, and never resumes it."""
_SUSPENDED: Final = "object.spec.?suspend.orValue(false) == true"
_TENANT: Final = f"namespaceObject.metadata.?labels[?'{names.TENANT_LABEL}'].orValue('')"


def manifests(namespace_selector: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The policy, and its binding to the namespaces that Kueue looks at.

    Kueue's webhook names the queue of a TrainJob that is created, suspends it
    and adds the entry for its own patches, before this is asked.
    What another controller creates is left to that controller, as in Kueue.
    """
    kind = {
        "apiGroups": [names.TRAINER_GROUP],
        "apiVersions": [names.TRAINER_VERSION],
        "operations": ["CREATE"],
        "resources": [names.TRAINJOBS],
    }
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [kind]},
        "matchConditions": [
            {
                "name": "is-nobodys-child",
                "expression": "!object.metadata.?ownerReferences.orValue([])"
                ".exists(owner, owner.?controller.orValue(false) == true)",
            },
        ],
        "validations": [
            {
                # A match condition cannot see the namespace.
                "expression": f"{_QUEUE} == '' ? {_TENANT} == '' : {_SUSPENDED} && {_PATCHED}",
                "message": "a TrainJob of a queue cannot be created now: Kueue, which holds it until there "
                "is quota, is missing. Create it again when the platform is back. If Kueue is gone for "
                f"good, delete ValidatingAdmissionPolicyBinding {NAME}.",
            }
        ],
    }
    binding = {
        "policyName": NAME,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": dict(namespace_selector)},
    }
    return [
        _object("ValidatingAdmissionPolicy", policy),
        _object("ValidatingAdmissionPolicyBinding", binding),
    ]


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": NAME}, "spec": spec}
