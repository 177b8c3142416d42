"""The policy rules in the cluster: admission policies, as the rules themselves build them.

They come before the catalog, so that a stack that allows a new registry and
uses it in one change is not refused by the old rules. The API server does not
say whether it has read a policy; it does so within a second, and what slips
through before was checked in preview.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from trainyard_api import names
from trainyard_policies import cluster
from trainyard_policies.settings import Policies

from ...assembly import Assembly
from ...objects.declare import annotated, declare
from ..crds.component import Crds
from ..system.component import System

_WAIT = {"pulumi.com/waitFor": "jsonpath={.status.observedGeneration}"}
"""Until the controller manager has checked the types of a policy's expressions."""


@dataclass(frozen=True, kw_only=True)
class PolicyRulesArgs:
    """Levels and parameters of the stack."""

    policies: Policies
    after: Sequence[pulumi.Resource] = ()


class PolicyRules(pulumi.ComponentResource):
    """Has the API server enforce the rules that CEL can express on TrainJobs and runtimes."""

    def __init__(self, name: str, args: PolicyRulesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:PolicyRules", name, {}, opts)
        parameters, *rest = cluster.objects(args.policies, names.SYSTEM_NAMESPACE)
        first = declare(parameters, pulumi.ResourceOptions(parent=self, depends_on=list(args.after)))
        policy = first
        for manifest in rest:
            # A binding comes after its policy, which comes after the parameters.
            is_policy = manifest["kind"] == "ValidatingAdmissionPolicy"
            opts = pulumi.ResourceOptions(parent=self, depends_on=[first if is_policy else policy])
            resource = declare(annotated(manifest, _WAIT) if is_policy else manifest, opts)
            policy = resource if is_policy else policy
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Declare the rules, if the cluster itself enforces them."""
    if assembly.rules is None:
        return
    args = PolicyRulesArgs(policies=assembly.rules, after=assembly.after(Crds, System))
    assembly.add(PolicyRules("policies", args, assembly.options))
