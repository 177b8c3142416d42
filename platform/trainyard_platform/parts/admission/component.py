"""The webhooks that the API server asks before it stores a TrainJob or a runtime.

Named and shaped as Kubeflow Trainer's, so that what knows those knows these.
The operator answers them and writes the caBundle, for which `up` waits; after
that nobody here looks at it again, or a renewed authority would be drift. They
come after the operator and go before it: with nobody to answer, no TrainJob
could be written, suspended or changed any more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.admissionregistration.v1 import (
    MatchConditionArgs,
    MutatingWebhookArgs,
    MutatingWebhookConfiguration,
    RuleWithOperationsArgs,
    ServiceReferenceArgs,
    ValidatingWebhookArgs,
    ValidatingWebhookConfiguration,
    WebhookClientConfigArgs,
)
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, LabelSelectorRequirementArgs, ObjectMetaArgs

from trainyard_api import names

from ...assembly import Assembly
from ...model import LabelSelector
from ...objects import kept
from ..operator import cert_manager
from ..operator import endpoints as operator
from ..operator.component import Operator
from ..operator.settings import Certificates

TIMEOUT_SECONDS = 10
CA_BUNDLES = "webhooks[*].clientConfig.caBundle"

_WAIT = {"pulumi.com/waitFor": f"jsonpath={{.{CA_BUNDLES}}}"}
_UNLESS_DISABLED = LabelSelectorArgs(
    match_expressions=[
        LabelSelectorRequirementArgs(
            key=names.WEBHOOK_VALIDATION_LABEL, operator="NotIn", values=["disabled"]
        )
    ]
)
# The garbage collector takes its finalizer away by an update: what is to go goes, even with nobody to ask.
_UNLESS_IT_GOES = MatchConditionArgs(
    name="unless-it-goes-unchanged",
    expression="!(has(object.metadata.deletionTimestamp) && object.?spec == oldObject.?spec)",
)
_IF_THERE_IS_SOMETHING_TO_DEFAULT = MatchConditionArgs(
    name="has-runtime-patches", expression=names.HAS_RUNTIME_PATCHES
)

_SUSPENDED = "object.?spec.?suspend.orValue(false) == true"
_GATES = f"object.metadata.?annotations[?'{names.QUEUE_GATES_ANNOTATION}'].orValue('')"
_IF_IT_IS_HELD_OR_RESUMED = MatchConditionArgs(
    name="comes-suspended-or-is-resumed",
    expression=f"oldObject == null ? {_SUSPENDED} : "
    f"{_GATES}.contains('{names.SENT_SUSPENDED}') && !({_SUSPENDED})",
)


@dataclass(frozen=True, kw_only=True)
class AdmissionArgs:
    """Where the operator is, which has to answer before anybody asks."""

    namespace: pulumi.Input[str]
    after: Sequence[pulumi.Resource]
    cert_manager: bool = False
    """Whether cert-manager writes the caBundle, and not the operator."""
    policies: bool = False
    """Whether the operator answers for the policy rules that no admission policy holds."""
    queued: LabelSelector | None = None
    """The namespaces whose TrainJobs Kueue queues; None without it."""


class Admission(pulumi.ComponentResource):
    """Leads the API server to the operator's webhooks, and waits until it trusts them."""

    def __init__(self, name: str, args: AdmissionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Admission", name, {}, opts)
        last = pulumi.ResourceOptions(
            parent=self,
            depends_on=list(args.after),
            ignore_changes=[CA_BUNDLES],
            custom_timeouts=pulumi.CustomTimeouts(create="3m", update="3m"),
        )
        MutatingWebhookConfiguration(
            names.MUTATING_WEBHOOKS,
            metadata=_metadata(names.MUTATING_WEBHOOKS, args),
            webhooks=list(_mutators(args)),
            opts=last,
        )
        ValidatingWebhookConfiguration(
            names.VALIDATING_WEBHOOKS,
            metadata=_metadata(names.VALIDATING_WEBHOOKS, args),
            webhooks=[*_validators(args), *(_holders(args) if args.policies else ())],
            opts=last,
        )
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Have the API server ask the operator's webhooks, if the stack wants it."""
    stack, operator = assembly.stack, assembly.find(Operator)
    if operator is None or not stack.admission.enabled:
        return
    args = AdmissionArgs(
        namespace=operator.namespace,
        after=[operator],
        cert_manager=stack.operator.certificates is Certificates.CERT_MANAGER,
        policies=assembly.rules is not None,
        queued=stack.kueue.namespace_selector if stack.kueue.enabled else None,
    )
    Admission("admission", args, assembly.options)


def _mutators(args: AdmissionArgs) -> Iterator[MutatingWebhookArgs]:
    yield _mutating(
        f"defaulter.trainjob.{names.TRAINER_GROUP}",
        "mutate",
        _IF_THERE_IS_SOMETHING_TO_DEFAULT,
        args,
        reinvocation="IfNeeded",
    )
    if args.queued is not None:
        # Asked before Kueue's webhook, after which every job of a queue is suspended, and not again.
        yield _mutating(
            f"holder.trainjob.{names.OWN_PREFIX.removesuffix('/')}",
            "hold",
            _IF_IT_IS_HELD_OR_RESUMED,
            args,
            reinvocation="Never",
            namespaces=_selector(args.queued),
        )


def _mutating(
    name: str,
    asked: str,
    condition: MatchConditionArgs,
    args: AdmissionArgs,
    *,
    reinvocation: str,
    namespaces: LabelSelectorArgs | None = None,
) -> MutatingWebhookArgs:
    return MutatingWebhookArgs(
        name=name,
        admission_review_versions=["v1"],
        client_config=_called(f"{asked}-{_dashed()}-trainjob", args),
        rules=[_rule(names.TRAINJOBS)],
        namespace_selector=namespaces,
        failure_policy="Fail",
        match_conditions=[_UNLESS_IT_GOES, condition],
        match_policy="Equivalent",
        reinvocation_policy=reinvocation,
        side_effects="None",
        timeout_seconds=TIMEOUT_SECONDS,
    )


def _selector(selector: LabelSelector) -> LabelSelectorArgs:
    return LabelSelectorArgs(
        match_labels=selector.match_labels or None,
        match_expressions=[
            LabelSelectorRequirementArgs(
                key=one.key, operator=str(one.operator), values=list(one.values) or None
            )
            for one in selector.match_expressions
        ]
        or None,
    )


def _validators(args: AdmissionArgs) -> list[ValidatingWebhookArgs]:
    return [
        _validating(f"validator.{singular}.{names.TRAINER_GROUP}", "validate", singular, selector, args)
        for singular, selector in (
            ("clustertrainingruntime", _UNLESS_DISABLED),
            ("trainingruntime", _UNLESS_DISABLED),
            ("trainjob", None),
        )
    ]


def _holders(args: AdmissionArgs) -> list[ValidatingWebhookArgs]:
    """A label that a namespace's users can set is no way round the rules."""
    return [
        _validating(f"{singular}.{names.POLICY_DOMAIN}", "policies", singular, selector, args)
        for singular, selector in (
            ("clustertrainingruntime", _UNLESS_DISABLED),
            ("trainingruntime", None),
            ("trainjob", None),
        )
    ]


def _validating(
    name: str, asked: str, singular: str, selector: LabelSelectorArgs | None, args: AdmissionArgs
) -> ValidatingWebhookArgs:
    return ValidatingWebhookArgs(
        name=name,
        admission_review_versions=["v1"],
        client_config=_called(f"{asked}-{_dashed()}-{singular}", args),
        rules=[_rule(f"{singular}s")],
        object_selector=selector,
        failure_policy="Fail",
        match_conditions=[_UNLESS_IT_GOES],
        match_policy="Equivalent",
        side_effects="None",
        timeout_seconds=TIMEOUT_SECONDS,
    )


def _metadata(name: str, args: AdmissionArgs) -> ObjectMetaArgs:
    annotations: dict[str, pulumi.Input[str]] = {**_WAIT, **kept.ANNOTATIONS}
    if args.cert_manager:
        annotations[cert_manager.INJECT_FROM] = f"{names.SYSTEM_NAMESPACE}/{names.OPERATOR}"
    return ObjectMetaArgs(name=name, labels=operator.LABELS, annotations=annotations)


def _dashed() -> str:
    return f"{names.TRAINER_GROUP.replace('.', '-')}-{names.TRAINER_VERSION}"


def _called(path: str, args: AdmissionArgs) -> WebhookClientConfigArgs:
    return WebhookClientConfigArgs(
        service=ServiceReferenceArgs(name=names.OPERATOR, namespace=args.namespace, path=f"/{path}", port=443)
    )


def _rule(plural: str) -> RuleWithOperationsArgs:
    return RuleWithOperationsArgs(
        api_groups=[names.TRAINER_GROUP],
        api_versions=[names.TRAINER_VERSION],
        operations=["CREATE", "UPDATE"],
        resources=[plural],
        scope="*",
    )
