"""Trainyard's own namespace.

It outlives the stack (`kept`): it holds the runtime revisions that running
jobs were built from, and the next `up` needs them.
"""

import pulumi
from pulumi_kubernetes.core.v1 import Namespace
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from trainyard_api import names

from ...assembly import Assembly
from ...objects import kept


class System(pulumi.ComponentResource):
    """Makes the namespace in which the operator and the policies' parameters are."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:System", name, {}, opts)
        Namespace(
            names.SYSTEM_NAMESPACE,
            metadata=ObjectMetaArgs(
                name=names.SYSTEM_NAMESPACE,
                labels={
                    "app.kubernetes.io/name": names.OPERATOR,
                    "app.kubernetes.io/part-of": "trainyard",
                    "pod-security.kubernetes.io/enforce": "restricted",
                },
                annotations=kept.ANNOTATIONS,
            ),
            opts=kept.options(self, []),
        )
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Make Trainyard's own namespace."""
    assembly.add(System("system", assembly.options))
