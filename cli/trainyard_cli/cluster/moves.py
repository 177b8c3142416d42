"""Whether a stack was rolled out to another cluster than the one that its file names now.

Called by `rollout`, before Pulumi runs. A refresh goes by Pulumi's state: where
the file has got another kubeconfig or context since, it reads the old cluster.
"""

from __future__ import annotations

from dataclasses import replace

from trainyard_delivery import pulumi_state
from trainyard_delivery.replacements import Move
from trainyard_kube.credentials import CredentialsError
from trainyard_platform.errors import PlatformError

from ..files import rendering, stackfile
from . import connection


def found(stack: str, kubeconfig: str | None, context: str | None) -> Move | None:
    """How the stack moves; None if it stays, or was never rolled out.

    Another way to the same server is no move.

    Raises:
        PlatformError: The stack file is invalid.
    """
    cluster = stackfile.read_as_pulumi(stack).cluster
    try:
        before = pulumi_state.provider(rendering.rolled_out(stack))
    except PlatformError:
        return None  # Pulumi says it in its own words when it runs
    if before is None:
        return None
    before = replace(before, kubeconfig=connection.expanded(before.kubeconfig))
    after_kubeconfig, after_context = connection.choose(cluster, None, None)
    if (before.kubeconfig, before.context) == (after_kubeconfig, after_context):
        return None
    changed = [
        f"cluster.{field}"
        for field, old, new in (
            ("kubeconfig", before.kubeconfig, after_kubeconfig),
            ("context", before.context, after_context),
        )
        if old != new
    ]
    was = _server(before.kubeconfig or kubeconfig, before.context)
    becomes = _server(after_kubeconfig or kubeconfig, after_context or context)
    if was == becomes and not isinstance(was, CredentialsError):
        return None
    return Move(
        before.urn,
        tuple(changed),
        _shown(was, before.kubeconfig, before.context),
        _shown(becomes, after_kubeconfig, after_context),
    )


def _server(kubeconfig: str | None, context: str | None) -> str | CredentialsError:
    try:
        return connection.load(kubeconfig, context).server
    except CredentialsError as error:
        return error


def _shown(server: str | CredentialsError, kubeconfig: str | None, context: str | None) -> str:
    where = server if isinstance(server, str) else "an unknown server"
    by = f"context {context}" if context else "the current context"
    return f"{where} ({by}{f' of {kubeconfig}' if kubeconfig else ''})"
