"""Trainyard's own namespace.

It outlives the stack (`objects.retention`): it holds the runtime revisions that running
jobs were built from, and the next `up` needs them.
"""

import pulumi

from trainyard_api import names

from ...assembly import Assembly
from ...objects import manifest, retention
from ...objects.annotations import KEPT
from ...objects.declare import declare
from ..operator import endpoints as operator


class System(pulumi.ComponentResource):
    """Creates the namespace of the operator and of the policies' parameters."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions) -> None:
        super().__init__("trainyard:platform:System", name, {}, opts)
        declare(
            manifest.namespace(names.SYSTEM_NAMESPACE, labels=operator.LABELS, annotations=KEPT),
            retention.options(self),
            names.SYSTEM_NAMESPACE,
        )
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Create Trainyard's own namespace."""
    assembly.add(System("system", assembly.options))
