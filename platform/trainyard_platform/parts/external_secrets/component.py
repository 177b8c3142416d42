"""Has the Secrets of the platform's own pods fetched into each of their namespaces."""

from collections.abc import Mapping

import pulumi

from ...assembly import Assembly
from ...objects.declare import declare
from ...stack.external_secrets import ExternalSecret
from .manifests import manifest


class ExternalSecrets(pulumi.ComponentResource):
    """Declares each of the secrets in each of the namespaces.

    Nothing waits for them: nodes keep trying to pull, so the charts are up
    once the store has answered.
    """

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions,
        *,
        secrets: Mapping[str, ExternalSecret],
        namespaces: Mapping[str, pulumi.Resource],
    ) -> None:
        super().__init__("trainyard:platform:ExternalSecrets", name, {}, opts)
        for namespace, resource in namespaces.items():
            inside = pulumi.ResourceOptions(parent=self, depends_on=[resource])
            for secret_name, secret in secrets.items():
                declare(manifest(secret_name, namespace, secret), inside)
        self.register_outputs({})


def install(assembly: Assembly) -> None:
    """Fetch the stack's secrets into each of the platform's namespaces."""
    secrets = assembly.stack.controllers.external_secrets
    if not secrets:
        return
    homes = {served.name: served.namespace for served in assembly.served} | assembly.unserved
    ExternalSecrets("external-secrets", assembly.options, secrets=secrets, namespaces=homes)
