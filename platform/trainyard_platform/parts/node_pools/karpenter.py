"""Nodes that Karpenter creates when jobs ask for them, and removes when they have ended.

Plain objects of the cluster, for a Karpenter that already exists: no package
of a cloud is needed. A NodePool's nodes are deleted with it, and what runs
there; so a pool that leaves the stack file is deleted, but with the whole
stack it is not (`objects.retention`): it creates no more nodes than jobs ask for.
"""

import pulumi

from trainyard_api.pools import NodePool

from ...objects.annotations import KEPT
from ...objects.declare import annotated, declare
from ...stack.node_pools import Karpenter
from . import karpenter_manifests


class KarpenterPool(pulumi.ComponentResource):
    """Declares one pool."""

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        pool: NodePool,
        cluster: Karpenter,
        deleted_with: pulumi.Resource,
    ) -> None:
        super().__init__("trainyard:platform:KarpenterPool", name, {}, opts)
        before: list[pulumi.Resource] = []
        for manifest in karpenter_manifests.manifests(name, pool, cluster):
            options = pulumi.ResourceOptions(parent=self, depends_on=list(before), deleted_with=deleted_with)
            before.append(declare(annotated(manifest, KEPT), options))
        self.register_outputs({})
