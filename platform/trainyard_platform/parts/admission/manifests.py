"""The configurations of the operator's webhooks, named and shaped as Kubeflow Trainer's; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from trainyard_api import names, webhook_paths
from trainyard_api.json_types import Manifest

from ...objects.annotations import KEPT
from ...stack.value_types import LabelSelector
from ..operator import cert_manager
from ..operator import endpoints as operator

TIMEOUT_SECONDS: Final = 10
CA_BUNDLES: Final = "webhooks[*].clientConfig.caBundle"

_VERSION: Final = "admissionregistration.k8s.io/v1"
_WAIT: Final = {"pulumi.com/waitFor": f"jsonpath={{.{CA_BUNDLES}}}"}
_UNLESS_DISABLED: Final[Manifest] = {
    "matchExpressions": [{"key": names.WEBHOOK_VALIDATION_LABEL, "operator": "NotIn", "values": ["disabled"]}]
}
# The garbage collector removes its finalizer by an update: a deletion succeeds even if nobody answers.
_UNLESS_IT_GOES: Final = {
    "name": "unless-it-goes-unchanged",
    "expression": "!(has(object.metadata.deletionTimestamp) && object.?spec == oldObject.?spec)",
}
_SELECTORS: Final[Mapping[str, Manifest]] = {
    "clustertrainingruntime": {"objectSelector": _UNLESS_DISABLED},
    "trainingruntime": {},
    "trainjob": {},
}
"""A label that a namespace's users can set must lift neither limits nor rules."""
_IF_THERE_IS_SOMETHING_TO_DEFAULT: Final = {
    "name": "has-runtime-patches",
    "expression": names.HAS_RUNTIME_PATCHES,
}
_SUSPENDED: Final = "object.?spec.?suspend.orValue(false) == true"
_GATES: Final = f"object.metadata.?annotations[?'{names.QUEUE_GATES_ANNOTATION}'].orValue('')"
_IF_IT_IS_HELD_OR_RESUMED: Final = {
    "name": "comes-suspended-or-is-resumed",
    "expression": f"oldObject == null ? {_SUSPENDED} : "
    f"{_GATES}.contains('{names.SENT_SUSPENDED}') && !({_SUSPENDED})",
}


@dataclass(frozen=True, kw_only=True)
class WebhookSettings:
    """What the API server asks the operator about."""

    cert_manager: bool = False
    """Whether cert-manager writes the caBundle, and not the operator."""
    policies: bool = False
    """Whether the operator holds them to the policy rules."""
    queued: LabelSelector | None = None
    """The namespaces whose TrainJobs Kueue holds; None if it holds none."""


def mutating(settings: WebhookSettings) -> Manifest:
    """The webhooks that fill in what a TrainJob leaves out."""
    return _configuration("Mutating", names.MUTATING_WEBHOOKS, settings, list(_mutators(settings)))


def validating(settings: WebhookSettings) -> Manifest:
    """The webhooks that check a TrainJob or a runtime."""
    webhooks = [*_validators(), *(_holders() if settings.policies else ())]
    return _configuration("Validating", names.VALIDATING_WEBHOOKS, settings, webhooks)


def _configuration(prefix: str, name: str, settings: WebhookSettings, webhooks: list[Manifest]) -> Manifest:
    annotations = {**_WAIT, **KEPT}
    if settings.cert_manager:
        annotations[cert_manager.INJECT_FROM] = f"{names.SYSTEM_NAMESPACE}/{names.OPERATOR}"
    return {
        "apiVersion": _VERSION,
        "kind": f"{prefix}WebhookConfiguration",
        "metadata": {"name": name, "labels": operator.LABELS, "annotations": annotations},
        "webhooks": webhooks,
    }


def _mutators(settings: WebhookSettings) -> Iterator[Manifest]:
    yield _webhook(
        f"defaulter.trainjob.{names.TRAINER_GROUP}",
        webhook_paths.MUTATE_TRAINJOB,
        "trainjob",
        _IF_THERE_IS_SOMETHING_TO_DEFAULT,
        reinvocationPolicy="IfNeeded",
    )
    if settings.queued is not None:
        # Called once, before Kueue's webhook, which suspends every job of a queue.
        yield _webhook(
            f"holder.trainjob.{names.OWN_PREFIX.removesuffix('/')}",
            webhook_paths.HOLD_TRAINJOB,
            "trainjob",
            _IF_IT_IS_HELD_OR_RESUMED,
            reinvocationPolicy="Never",
            namespaceSelector=settings.queued.manifest(),
        )


def _validators() -> Iterator[Manifest]:
    for singular, selector in _SELECTORS.items():
        path = webhook_paths.VALIDATE + singular
        yield _webhook(f"validator.{singular}.{names.TRAINER_GROUP}", path, singular, **selector)


def _holders() -> Iterator[Manifest]:
    for singular, selector in _SELECTORS.items():
        path = webhook_paths.POLICIES + singular
        yield _webhook(f"{singular}.{names.POLICY_DOMAIN}", path, singular, **selector)


def _webhook(
    name: str, path: str, singular: str, *conditions: Mapping[str, str], **further: object
) -> Manifest:
    service = {
        "name": names.OPERATOR,
        "namespace": names.SYSTEM_NAMESPACE,
        "path": path,
        "port": 443,
    }
    rule = {
        "apiGroups": [names.TRAINER_GROUP],
        "apiVersions": [names.TRAINER_VERSION],
        "operations": ["CREATE", "UPDATE"],
        "resources": [f"{singular}s"],
        "scope": "*",
    }
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "rules": [rule],
        "failurePolicy": "Fail",
        "matchConditions": [_UNLESS_IT_GOES, *conditions],
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        **further,
    }
