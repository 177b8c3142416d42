"""ValidatingAdmissionPolicies with their bindings: pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainyard_api import names
from trainyard_api.json_types import Manifest

_VERSION: Final = "admissionregistration.k8s.io/v1"
_TRAINER: Final = (names.TRAINER_GROUP, names.TRAINER_VERSION)

WRITES: Final = ("CREATE", "UPDATE")
WEBHOOKS: Final[Manifest] = {"apiVersion": _VERSION, "kind": "ValidatingWebhookConfiguration"}
"""`paramKind` of a policy whose `params` are the operator's validating webhooks."""
WITH_WEBHOOKS: Final[Manifest] = {
    "paramRef": {"name": names.VALIDATING_WEBHOOKS, "parameterNotFoundAction": "Deny"}
}
"""Of the binding of such a policy, which refuses everything while they are missing."""


def policy(
    resources: Sequence[str],
    operations: Sequence[str],
    expression: str,
    message: str,
    *,
    also: Mapping[str, str] = {},
    group: tuple[str, str] = _TRAINER,
    reason: str | None = None,
    **further: Any,
) -> Manifest:
    """The spec of a policy that refuses where one of its expressions is false, or cannot be evaluated.

    Args:
        resources: Plurals of what it looks at.
        operations: Of `CREATE`, `UPDATE` and `DELETE`, those that it looks at.
        expression: CEL.
        message: What people read who are refused.
        also: Further expressions, each with its message.
        group: API group and version of the resources.
        reason: Kubernetes' word for the refusal; `Invalid` if left out.
        **further: Other fields of the spec.
    """
    rule = {
        "apiGroups": [group[0]],
        "apiVersions": [group[1]],
        "operations": list(operations),
        "resources": list(resources),
    }
    reasoned = {"reason": reason} if reason else {}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [
            {"expression": expression, "message": message, **reasoned}
            for expression, message in {expression: message, **also}.items()
        ],
        **further,
    }


def bound(name: str, policy: Manifest, where: Mapping[str, Any] = {}) -> Iterator[Manifest]:
    """A policy and its binding, both of this name.

    Args:
        name: The name.
        policy: The policy's spec.
        where: Further fields of the binding's spec, such as `matchResources`.
    """
    binding = {"policyName": name, "validationActions": ["Deny"], **where}
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        yield {"apiVersion": _VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
