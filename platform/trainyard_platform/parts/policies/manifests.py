"""Admission policies: nobody gets past the webhook that holds objects to the rules (docs/adr/0042); pure."""

from collections.abc import Iterator
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects.admission_policies import WEBHOOKS, WITH_WEBHOOKS, bound, policy

EXEMPTING_LABEL: Final = f"exempting-label.{names.POLICY_DOMAIN}"
PAST_THE_WEBHOOK: Final = f"nothing-past-the-webhook.{names.POLICY_DOMAIN}"
"""Its name is what people read: the API server has no words for a missing parameter."""

_WRITES: Final = ("CREATE", "UPDATE")


def manifests() -> Iterator[Manifest]:
    """The policies, each with its binding."""
    yield from bound(EXEMPTING_LABEL, _exempting_label())
    yield from bound(PAST_THE_WEBHOOK, _past_the_webhook(), WITH_WEBHOOKS)


def _exempting_label() -> Manifest:
    """Only the user who rolls out a stack may exempt a ClusterTrainingRuntime from the webhooks."""
    label = f".metadata.?labels[?\"{names.WEBHOOK_VALIDATION_LABEL}\"].orValue('') == 'disabled'"
    group, resource, verb = names.EXEMPTING_RIGHT
    changed = (
        f"oldObject == null || !(oldObject{label}) || object.?spec != oldObject.?spec "
        "|| object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})"
    )
    return policy(
        [names.CLUSTER_TRAINING_RUNTIMES],
        _WRITES,
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
        _WRITES,
        "params.?webhooks.orValue([]).exists(webhook, "
        f"webhook.name == object.kind.lowerAscii() + '.{names.POLICY_DOMAIN}')",
        f"ValidatingWebhookConfiguration {names.VALIDATING_WEBHOOKS} does not hold this kind to the rules of "
        "the stack. Have the platform team roll the stack out.",
        reason="Forbidden",
        paramKind=WEBHOOKS,
    )
