"""Nodes that Karpenter creates when jobs ask for them, and removes when they have ended.

Plain objects of the cluster, for a Karpenter that already exists: no package
of a cloud is needed. A NodePool's nodes are deleted with it, and what runs
there; so a pool that leaves the stack file is deleted, but with the whole
stack it is not (`objects.retention`): it creates no more nodes than jobs ask for.
"""

from dataclasses import dataclass

import pulumi

from trainyard_api.pools import NodePool

from ...objects.annotations import KEPT
from ...objects.declare import annotated, declare
from ...stack.node_pools import Karpenter
from . import karpenter_manifests


@dataclass(frozen=True, kw_only=True)
class KarpenterPoolArgs:
    """The pool, and the cluster's Karpenter."""

    pool: NodePool
    cluster: Karpenter
    deleted_with: pulumi.Resource
    """What is removed only with the whole stack: the pool then stays."""


class KarpenterPool(pulumi.ComponentResource):
    """Declares one pool."""

    def __init__(
        self, name: str, args: KarpenterPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("trainyard:platform:KarpenterPool", name, {}, opts)
        before: list[pulumi.Resource] = []
        for manifest in karpenter_manifests.manifests(name, args.pool, args.cluster):
            options = pulumi.ResourceOptions(
                parent=self, depends_on=list(before), deleted_with=args.deleted_with
            )
            before.append(declare(annotated(manifest, KEPT), options))
        self.register_outputs({})
