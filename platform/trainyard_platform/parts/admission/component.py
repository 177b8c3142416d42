"""The webhooks that the API server calls before it stores a TrainJob or a runtime.

Named and shaped like Kubeflow Trainer's, so that what knows those knows these.
The operator answers them and writes the caBundle, for which `up` waits; after
that the stack ignores it, or a renewed authority would be drift. They come
after the operator and are deleted before it: with nobody to answer, no TrainJob
could be written, suspended or changed.
"""

import pulumi

from trainyard_api import names

from ...assembly import Assembly
from ...objects.declare import declare
from ...stack.operator import Certificates
from ..operator.component import Operator
from . import manifests
from .manifests import CA_BUNDLES, WebhookSettings


class Admission(pulumi.ComponentResource):
    """Points the API server to the operator's webhooks, and waits until it trusts them."""

    def __init__(
        self, name: str, opts: pulumi.ResourceOptions, *, webhooks: WebhookSettings, operator: Operator
    ) -> None:
        super().__init__("trainyard:platform:Admission", name, {}, opts)
        last = pulumi.ResourceOptions(
            parent=self,
            depends_on=[operator],
            ignore_changes=[CA_BUNDLES],
            custom_timeouts=pulumi.CustomTimeouts(create="3m", update="3m"),
        )
        declare(manifests.mutating(webhooks), last, names.MUTATING_WEBHOOKS)
        declare(manifests.validating(webhooks), last, names.VALIDATING_WEBHOOKS)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Have the API server call the operator's webhooks, if the stack wants it."""
    stack, operator = assembly.stack, assembly.find(Operator)
    if operator is None or not stack.admission.enabled:
        return
    kueue = stack.kueue
    webhooks = WebhookSettings(
        cert_manager=stack.operator.certificates is Certificates.CERT_MANAGER,
        policies=assembly.rules is not None,
        queued=kueue.namespace_selector if kueue.enabled and not stack.queues_hold_jobsets else None,
    )
    Admission("admission", assembly.options, webhooks=webhooks, operator=operator)
