"""What Kubeflow's own tools look for: the Trainer version, in the namespace `kubeflow-system`.

The SDK reads it before it submits; whoever may talk to the cluster may read
it. The namespace is shared with other Kubeflow components, so it outlives the
stack (`objects.retention`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from trainyard_api import names

from ...artifacts import Artifacts
from ...assembly import Assembly
from ...objects import retention
from ...objects.declare import declare
from ...stack.operator import KubeflowNamespace, Operator
from . import manifests


@dataclass(frozen=True, kw_only=True)
class KubeflowArgs:
    """The version to show, and who owns the namespace."""

    trainer_version: str
    namespace: KubeflowNamespace
    after: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(cls, operator: Operator, artifacts: Artifacts) -> "KubeflowArgs":
        """What the stack says, with the version of the CRDs."""
        return cls(trainer_version=artifacts.version("trainer"), namespace=operator.kubeflow_namespace)


class Kubeflow(pulumi.ComponentResource):
    """Shows Kubeflow's tools which Trainer API the cluster speaks."""

    def __init__(self, name: str, args: KubeflowArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Kubeflow", name, {}, opts)
        if args.namespace is not KubeflowNamespace.ABSENT:
            self._show_version(args)
        self.register_outputs({})

    def _show_version(self, args: KubeflowArgs) -> None:
        after = list(args.after)
        if args.namespace is KubeflowNamespace.CREATE:
            namespace = declare(
                manifests.namespace(), retention.options(self, after), names.KUBEFLOW_NAMESPACE
            )
            after.append(namespace)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        for manifest in manifests.version(args.trainer_version):
            declare(manifest, inside, names.TRAINER_PUBLIC_CONFIG)


def install(assembly: Assembly) -> None:
    """Show Kubeflow's own tools which Trainer API the cluster speaks."""
    args = KubeflowArgs.of(assembly.stack.operator, assembly.artifacts)
    assembly.add(Kubeflow("kubeflow", args, assembly.options))
    pulumi.export("trainerVersion", args.trainer_version)
