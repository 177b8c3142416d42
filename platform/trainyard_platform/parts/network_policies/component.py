"""Closes the namespaces of the platform's own controllers, except for the ports that they serve.

Without an engine for NetworkPolicies in the cluster they exist, but have no
effect.
"""

from collections.abc import Iterable

import pulumi

from ...assembly import Assembly, Served
from ...objects.declare import declare
from ...objects.protection import network_policy


class NetworkPolicies(pulumi.ComponentResource):
    """Declares a NetworkPolicy for each of the namespaces."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions, *, served: Iterable[Served]) -> None:
        super().__init__("trainyard:platform:NetworkPolicies", name, {}, opts)
        for entry in served:
            inside = pulumi.ResourceOptions(parent=self, depends_on=[entry.namespace])
            declare(network_policy(entry.name, entry.ports), inside)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Close all ports of the platform's own pods but those that they serve."""
    if assembly.stack.network_policies:
        NetworkPolicies("network-policies", assembly.options, served=assembly.served)
