"""Kueue's quota: flavors, cohorts, queues and priorities.

A queue that is removed from the stack file is deleted. With the whole stack it
is not: Kueue holds a ClusterQueue until the last job that it admitted has
ended, and `destroy` neither waits for that nor stops the job. Like the CRDs,
the objects then stay, and the next `up` adopts them (`objects.retention`).
"""

from collections.abc import Iterable

import pulumi

from trainyard_api.json_types import Manifest

from ...assembly import Assembly
from ...objects import retention
from ...objects.annotations import KEPT
from ...objects.declare import annotated, declare
from ...stack.queues import Queues as Settings
from ..crds.component import Crds
from ..kueue.component import Kueue
from ..node_pools import manifests as pool_manifests
from . import gate, manifests, multikueue_manifests

_ACTIVE = {"pulumi.com/waitFor": "condition=Active"}


class Queues(pulumi.ComponentResource):
    """Declares what Kueue admits by, and waits until its queues are active."""

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        settings: Settings,
        policies: Iterable[Manifest],
        worker: Iterable[Manifest],
        deleted_with: pulumi.Resource,
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:Queues", name, {}, opts)
        # They exist before Kueue and outlive it.
        for manifest in policies:
            declare(annotated(manifest, KEPT), retention.options(self))
        active = {name for name, queue in settings.cluster_queues.items() if manifests.becomes_active(queue)}
        earlier: dict[str, list[pulumi.Resource]] = {}
        for manifest in manifests.manifests(settings):
            kind = manifest["kind"]
            before = [
                resource for other, resources in earlier.items() if other != kind for resource in resources
            ]
            wait = _ACTIVE if kind == "ClusterQueue" and manifest["metadata"]["name"] in active else {}
            resource = declare(
                annotated(manifest, {**KEPT, **wait}),
                pulumi.ResourceOptions(parent=self, depends_on=[*after, *before], deleted_with=deleted_with),
            )
            earlier.setdefault(kind, []).append(resource)
        for manifest in worker:
            declare(manifest, pulumi.ResourceOptions(parent=self, depends_on=after))
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Declare the stack's quota, with that of its node pools, if it has Kueue."""
    stack = assembly.stack
    if not stack.kueue.enabled:
        return
    settings = pool_manifests.with_pools(stack.queues, stack.node_pools)
    policies = gate.manifests(
        stack.kueue.namespace_selector.manifest(),
        holds_jobsets=stack.queues_hold_jobsets,
        admission=stack.admission.enabled,
    )
    accepts_jobs = settings.multi_kueue.accepts_jobs
    queues = Queues(
        "queues",
        assembly.options,
        settings=settings,
        policies=policies,
        worker=multikueue_manifests.worker(stack.kueue_namespace, stack.integrations) if accepts_jobs else (),
        deleted_with=assembly.deleted_with,
        after=assembly.after(Kueue) or assembly.after(Crds),
    )
    assembly.add(queues)
