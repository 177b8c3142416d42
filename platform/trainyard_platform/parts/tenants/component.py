"""Tenants: a namespace each, with its limits, its network, its queue, its accounts and its people.

The namespace holds jobs, so neither `destroy` nor the removal of a tenant
deletes it (`objects.retention`), and what limits and protects the jobs in it stays with it.
Permissions are revoked at once.
"""

from collections.abc import Mapping, Sequence

import pulumi

from ...assembly import Assembly
from ...objects import retention
from ...objects.annotations import KEPT
from ...objects.declare import annotated, declare
from ...stack import queues as stack_queues
from ...stack.tenants import Tenant
from ..node_pools import manifests as pool_manifests
from ..operator import endpoints as operator
from ..queues.component import Queues
from . import manifests


class Tenants(pulumi.ComponentResource):
    """Declares the tenants."""

    namespaces: dict[str, pulumi.Resource]

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        tenants: Mapping[str, Tenant],
        labels: Mapping[str, str],
        dns_ports: Sequence[int],
        reports: bool,
        caches: bool,
        queues: stack_queues.Queues,
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:Tenants", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=after)
        roles = [declare(role, inside) for role in manifests.roles()] if tenants else []
        before = [*roles, *after]
        further = [operator.REPORTING] if reports else []
        self.namespaces = {}
        for tenant_name, tenant in tenants.items():
            namespace = declare(
                annotated(manifests.namespace(tenant_name, tenant, labels), KEPT),
                retention.options(self, before),
            )
            self.namespaces[tenant_name] = namespace
            within = pulumi.ResourceOptions(
                parent=self, depends_on=[namespace, *before], deleted_with=namespace
            )
            limits = [
                declare(annotated(manifest, KEPT), within)
                for manifest in manifests.contents(tenant_name, tenant, dns_ports, further, caches=caches)
            ]
            for manifest in (
                *manifests.accounts(tenant_name, tenant),
                *manifests.secrets(tenant_name, tenant),
            ):
                declare(annotated(manifest, KEPT), within)
            # Nobody sends a job before its limits, its network policy and its queue are there.
            bound = pulumi.ResourceOptions(parent=self, depends_on=[namespace, *limits, *before])
            for manifest in manifests.bindings(tenant_name, tenant, queues):
                declare(manifest, bound)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Give each tenant its namespace, if the stack has Kueue."""
    stack = assembly.stack
    if not stack.kueue.enabled:
        return
    tenants = Tenants(
        "tenants",
        assembly.options,
        tenants=stack.tenants,
        labels=stack.labels_of_tenants,
        dns_ports=stack.cluster.dns_ports,
        reports=stack.operator.feature_gates.train_job_status,
        caches=stack.data_cache.enabled,
        queues=pool_manifests.with_pools(stack.queues, stack.node_pools),
        after=assembly.after(Queues),
    )
    assembly.add(tenants)
