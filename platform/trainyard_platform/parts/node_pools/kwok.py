"""Simulated nodes, for which a KWOK controller, such as the sandbox's, plays the kubelet.

A node's capacity is in its status, which an apply to an existing node does not change: a changed machine or
accelerator replaces the node.
"""

import pulumi

from trainyard_api.pools import NodePool

from ...objects.declare import declare
from . import manifests


class KwokPool(pulumi.ComponentResource):
    """Declares the nodes of one pool."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions, *, pool: NodePool) -> None:
        super().__init__("trainyard:platform:KwokPool", name, {}, opts)
        for manifest in manifests.nodes(name, pool):
            declare(
                manifest,
                pulumi.ResourceOptions(
                    parent=self, replace_on_changes=["status"], delete_before_replace=True
                ),
            )
        self.register_outputs({})
