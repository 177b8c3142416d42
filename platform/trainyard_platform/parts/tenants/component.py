"""Tenants: a namespace each, with its limits, its network, its queue, its accounts and its people.

The namespace holds jobs, so neither `destroy` nor the removal of a tenant
deletes it (`objects.retention`), and what limits and protects the jobs in it stays with it.
Permissions are revoked at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from ...assembly import Assembly
from ...objects import retention
from ...objects.annotations import KEPT
from ...objects.declare import annotated, declare
from ...stack.tenants import Tenant
from ..operator import endpoints as operator
from ..queues.component import Queues
from . import manifests


@dataclass(frozen=True, kw_only=True)
class TenantsArgs:
    """The tenants by name, and the cluster that they share."""

    tenants: Mapping[str, Tenant]
    labels: Mapping[str, str]
    """Labels of each of their namespaces, by which the cluster's own tools find them."""
    dns_ports: Sequence[int]
    """Where the cluster's DNS answers."""
    reports: bool = False
    """Whether training processes report their progress to the operator."""
    after: Sequence[pulumi.Resource] = ()


class Tenants(pulumi.ComponentResource):
    """Declares the tenants."""

    namespaces: dict[str, pulumi.Resource]

    def __init__(self, name: str, args: TenantsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainyard:platform:Tenants", name, {}, opts)
        inside = pulumi.ResourceOptions(parent=self, depends_on=list(args.after))
        roles = [declare(role, inside) for role in manifests.roles()] if args.tenants else []
        self.namespaces = {
            tenant_name: self._tenant(tenant_name, tenant, args, [*roles, *args.after])
            for tenant_name, tenant in args.tenants.items()
        }
        self.register_outputs({})

    def _tenant(
        self, name: str, tenant: Tenant, args: TenantsArgs, after: list[pulumi.Resource]
    ) -> pulumi.Resource:
        namespace = declare(
            annotated(manifests.namespace(name, tenant, args.labels), KEPT),
            retention.options(self, after),
        )
        further = [operator.REPORTING] if args.reports else []
        contents = manifests.contents(name, tenant, args.dns_ports, further)
        accounts, secrets = (manifests.accounts(name, tenant), manifests.secrets(name, tenant))
        for manifest in (*contents, *accounts, *secrets):
            options = pulumi.ResourceOptions(
                parent=self, depends_on=[namespace, *after], deleted_with=namespace
            )
            declare(annotated(manifest, KEPT), options)
        for manifest in manifests.bindings(name, tenant):
            declare(manifest, pulumi.ResourceOptions(parent=self, depends_on=[namespace, *after]))
        return namespace


def install(assembly: Assembly) -> None:
    """Give each tenant its namespace, if the stack has Kueue."""
    stack = assembly.stack
    if not stack.kueue.enabled:
        return
    args = TenantsArgs(
        tenants=stack.tenants,
        labels=stack.labels_of_tenants,
        dns_ports=stack.cluster.dns_ports,
        reports=stack.operator.feature_gates.train_job_status,
        after=assembly.after(Queues),
    )
    assembly.add(Tenants("tenants", args, assembly.options))
