"""The policy rules in the cluster: admission policies because of which nobody gets past their webhook.

They come long before the webhook, which needs the operator. The API server
does not say whether it has read a policy; it does so within a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from ...assembly import Assembly
from ...objects.declare import annotated, declare
from ..crds.component import Crds
from ..system.component import System
from . import manifests

_WAIT = {"pulumi.com/waitFor": "jsonpath={.status.observedGeneration}"}
"""Until the controller manager has checked the types of a policy's expressions."""


@dataclass(frozen=True, kw_only=True)
class PolicyRulesArgs:
    """What the policies come after."""

    after: Sequence[pulumi.Resource] = ()


class PolicyRules(pulumi.ComponentResource):
    """Has the API server refuse what would get past the webhook of the rules."""

    def __init__(self, name: str, args: PolicyRulesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:PolicyRules", name, {}, opts)
        before = list(args.after)
        for manifest in manifests.manifests():
            # A binding comes after its policy.
            is_policy = manifest["kind"] == "ValidatingAdmissionPolicy"
            resource = declare(
                annotated(manifest, _WAIT) if is_policy else manifest,
                pulumi.ResourceOptions(parent=self, depends_on=before),
            )
            before = [resource] if is_policy else list(args.after)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Declare the admission policies, if the cluster itself enforces the rules."""
    if assembly.rules is None:
        return
    args = PolicyRulesArgs(after=assembly.after(Crds, System))
    assembly.add(PolicyRules("policies", args, assembly.options))
