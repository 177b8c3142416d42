"""The policy rules in the cluster: admission policies for what their webhook cannot see.

They come long before the webhook, which needs the operator. The API server
does not say whether it has read a policy; it does so within a second.
"""

import pulumi

from trainyard_policies.rules import pod_end
from trainyard_policies.subject import Subject

from ...assembly import Assembly
from ...objects.declare import annotated, declare
from ..crds.component import Crds
from ..system.component import System
from . import manifests

_WAIT = {"pulumi.com/waitFor": "jsonpath={.status.observedGeneration}"}
"""Until the controller manager has checked the types of a policy's expressions."""


class PolicyRules(pulumi.ComponentResource):
    """Has the API server refuse what would get past the webhook of the rules."""

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        longest_grace: int | None,
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:PolicyRules", name, {}, opts)
        before = after
        for manifest in manifests.manifests(longest_grace):
            # A binding comes after its policy.
            is_policy = manifest["kind"] == "ValidatingAdmissionPolicy"
            resource = declare(
                annotated(manifest, _WAIT) if is_policy else manifest,
                pulumi.ResourceOptions(parent=self, depends_on=before),
            )
            before = [resource] if is_policy else after
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Declare the admission policies, if the cluster itself enforces the rules."""
    rules = assembly.rules
    if rules is None:
        return
    level = rules.level(pod_end.RULE, Subject.TRAINJOBS)
    grace = rules.parameters.longest_grace if level.refuses else None
    after = assembly.after(Crds, System)
    assembly.add(PolicyRules("policies", assembly.options, longest_grace=grace, after=after))
