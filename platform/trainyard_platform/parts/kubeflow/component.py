"""What Kubeflow's own tools look for: the Trainer version, in the namespace `kubeflow-system`.

The SDK reads it before it submits; everybody with access to the cluster may read it. The namespace is shared
with other Kubeflow components, so it outlives the
stack (`objects.retention`).
"""

import pulumi

from trainyard_api import names

from ...assembly import Assembly
from ...objects import retention
from ...objects.declare import declare
from ...stack.operator import KubeflowNamespace
from . import manifests


class Kubeflow(pulumi.ComponentResource):
    """Shows Kubeflow's tools which Trainer API the cluster speaks."""

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        trainer_version: str,
        namespace: KubeflowNamespace,
    ) -> None:
        super().__init__("trainyard:platform:Kubeflow", name, {}, opts)
        before: list[pulumi.Resource] = []
        if namespace is KubeflowNamespace.CREATE:
            options = retention.options(self)
            before.append(declare(manifests.namespace(), options, names.KUBEFLOW_NAMESPACE))
        if namespace is not KubeflowNamespace.ABSENT:
            inside = pulumi.ResourceOptions(parent=self, depends_on=before)
            for manifest in manifests.version(trainer_version):
                declare(manifest, inside, names.TRAINER_PUBLIC_CONFIG)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Show Kubeflow's own tools which Trainer API the cluster speaks."""
    version, namespace = assembly.artifacts.version("trainer"), assembly.stack.operator.kubeflow_namespace
    assembly.add(Kubeflow("kubeflow", assembly.options, trainer_version=version, namespace=namespace))
    pulumi.export("trainerVersion", version)
