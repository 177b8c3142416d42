"""Admission policies for what the webhook of the policy rules cannot see (docs/adr/0042); pure."""

from collections.abc import Iterator
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects.admission_policies import WEBHOOKS, WITH_WEBHOOKS, WRITES, bound, policy

EXEMPTING_LABEL: Final = f"exempting-label.{names.POLICY_DOMAIN}"
PAST_THE_WEBHOOK: Final = f"nothing-past-the-webhook.{names.POLICY_DOMAIN}"
"""Its name is what people read: the API server has no words for a missing parameter."""
PODS_END: Final = f"deleted-pods-end.{names.POLICY_DOMAIN}"

_GRACE: Final = "request.options.?gracePeriodSeconds.orValue(0)"
"""The pod's own for who names none: the API server adds it before it evaluates a policy."""
_IN_TENANTS: Final[Manifest] = {
    "matchResources": {
        "namespaceSelector": {"matchExpressions": [{"key": names.TENANT_LABEL, "operator": "Exists"}]}
    }
}


def manifests(longest_grace: int | None) -> Iterator[Manifest]:
    """The policies, each with its binding.

    Args:
        longest_grace: The most seconds that a pod of a tenant may take to end; None if there is no limit.
    """
    yield from bound(EXEMPTING_LABEL, _exempting_label())
    yield from bound(PAST_THE_WEBHOOK, _past_the_webhook(), WITH_WEBHOOKS)
    if longest_grace is not None:
        yield from bound(PODS_END, _pods_end(longest_grace), _IN_TENANTS)


def _exempting_label() -> Manifest:
    """Only the user who rolls out a stack may exempt a ClusterTrainingRuntime from the webhooks."""
    label = f".metadata.?labels[?\"{names.WEBHOOK_VALIDATION_LABEL}\"].orValue('') == 'disabled'"
    group, resource, verb = names.EXEMPTING_RIGHT
    changed = (
        f"oldObject == null || !(oldObject{label}) || object.?spec != oldObject.?spec "
        "|| object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) "
        "|| object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})"
    )
    return policy(
        [names.CLUSTER_TRAINING_RUNTIMES],
        WRITES,
        f"authorizer.group('{group}').resource('{resource}').check('{verb}').allowed()",
        f"metadata.labels[{names.WEBHOOK_VALIDATION_LABEL}]: must not be disabled, which is for roll-outs of "
        f"a stack. Leave it out, or get the verb {verb} on {resource}.{group}",
        reason="Forbidden",
        matchConditions=[
            {"name": "labelled", "expression": f"object{label}"},
            {"name": "changed", "expression": changed},
        ],
    )


def _past_the_webhook() -> Manifest:
    """The webhook comes last and goes first: without it nothing of a namespace's users gets in."""
    return policy(
        [names.TRAINING_RUNTIMES, names.TRAINJOBS],
        WRITES,
        "params.?webhooks.orValue([]).exists(webhook, "
        f"webhook.name == object.kind.lowerAscii() + '.{names.POLICY_DOMAIN}')",
        f"ValidatingWebhookConfiguration {names.VALIDATING_WEBHOOKS} does not hold this kind to the rules of "
        "the stack. Have the platform team roll the stack out.",
        reason="Forbidden",
        paramKind=WEBHOOKS,
    )


def _pods_end(longest_grace: int) -> Manifest:
    """Whoever deletes a pod can give it longer than its spec does, which alone the rule sees.

    What the spec says is never refused: nobody, no controller either, could
    delete a pod that is older than the limit.
    """
    return policy(
        ["pods"],
        ["DELETE"],
        f"{_GRACE} <= {longest_grace} || oldObject != null "
        f"&& {_GRACE} <= oldObject.spec.?terminationGracePeriodSeconds.orValue(0)",
        f"gracePeriodSeconds: must be at most {longest_grace}, since the pod uses its GPUs beside the quota "
        "until it has ended. Delete the pod with a shorter grace period, or without one, or ask your "
        "platform team to allow more (policies.parameters.longestGrace in the stack file).",
        group=("", "v1"),
        reason="Forbidden",
    )
