"""Kueue's quota: flavors, cohorts, queues and priorities.

A queue that is removed from the stack file is deleted. With the whole stack it
is not: Kueue holds a ClusterQueue until the last job that it admitted has
ended, and `destroy` neither waits for that nor stops the job. Like the CRDs,
the objects then stay, and the next `up` adopts them (`objects.retention`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from trainyard_api.json_types import Manifest

from ...assembly import Assembly
from ...objects import retention
from ...objects.annotations import KEPT
from ...objects.declare import annotated, declare
from ...stack.kueue import Integration
from ...stack.queues import Queues as Settings
from ..crds.component import Crds
from ..kueue.component import Kueue
from ..node_pools import manifests as pool_manifests
from . import gate, manifests, multikueue_manifests

_ACTIVE = {"pulumi.com/waitFor": "condition=Active"}


@dataclass(frozen=True, kw_only=True)
class QueuesArgs:
    """The queues, and the kinds of jobs that Kueue queues in them."""

    queues: Settings
    namespace: str
    """Where Kueue's controller runs."""
    deleted_with: pulumi.Resource
    """What is removed only with the whole stack: the queues then stay."""
    integrations: Sequence[Integration]
    holds_jobsets: bool
    """Whether they hold the JobSets of TrainJobs, and not the TrainJobs."""
    admission: bool
    """Whether the operator's webhooks judge TrainJobs."""
    looked_at: Manifest
    """The selector of the namespaces in which Kueue queues jobs."""
    after: Sequence[pulumi.Resource] = ()


class Queues(pulumi.ComponentResource):
    """Declares what Kueue admits by, and waits until its queues are active."""

    def __init__(self, name: str, args: QueuesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Queues", name, {}, opts)
        # It exists before Kueue and outlives it.
        policies = gate.manifests(args.looked_at, holds_jobsets=args.holds_jobsets, admission=args.admission)
        for manifest in policies:
            declare(annotated(manifest, KEPT), retention.options(self, []))
        earlier: dict[str, list[pulumi.Resource]] = {}
        for manifest in manifests.manifests(args.queues):
            kind = manifest["kind"]
            before = [
                resource for other, resources in earlier.items() if other != kind for resource in resources
            ]
            resource = self._declare(manifest, args, [*args.after, *before])
            earlier.setdefault(kind, []).append(resource)
        if args.queues.multi_kueue.accepts_jobs:
            for manifest in multikueue_manifests.worker(args.namespace, args.integrations):
                declare(manifest, pulumi.ResourceOptions(parent=self, depends_on=list(args.after)))
        self.register_outputs({})

    def _declare(
        self, manifest: Manifest, args: QueuesArgs, after: list[pulumi.Resource]
    ) -> pulumi.CustomResource:
        metadata = manifest["metadata"]
        queue = (
            args.queues.cluster_queues.get(metadata["name"]) if manifest["kind"] == "ClusterQueue" else None
        )
        wait = _ACTIVE if queue and manifests.becomes_active(queue) else {}
        return declare(
            annotated(manifest, {**KEPT, **wait}),
            pulumi.ResourceOptions(parent=self, depends_on=after, deleted_with=args.deleted_with),
        )


def install(assembly: Assembly) -> None:
    """Declare the stack's quota, with that of its node pools, if it has Kueue."""
    stack = assembly.stack
    if not stack.kueue.enabled:
        return
    args = QueuesArgs(
        queues=pool_manifests.with_pools(stack.queues, stack.node_pools),
        namespace=stack.kueue_namespace,
        deleted_with=assembly.deleted_with,
        integrations=stack.integrations,
        holds_jobsets=stack.queues_hold_jobsets,
        admission=stack.admission.enabled,
        looked_at=stack.kueue.namespace_selector.manifest(),
        after=assembly.after(Kueue) or assembly.after(Crds),
    )
    assembly.add(Queues("queues", args, assembly.options))
