"""Jobs in queues that would no longer hold them: found before a stack changes what its queues hold.

Called by `rollout`. Queries the cluster, with only read rights.
"""

from __future__ import annotations

from collections.abc import Collection

from trainyard_api import names
from trainyard_assist.explain import read
from trainyard_assist.explain.text import listed
from trainyard_operator.kube.client import Client, NotFoundError
from trainyard_operator.kube.resources import WORKLOADS
from trainyard_platform.parts.kueue.settings import Integration, holds_jobsets

from ..files import stackfile
from . import connection
from .lists import everything


def refusals(stack: str, kubeconfig: str | None, context: str | None) -> list[str]:
    """A sentence if jobs are in queues that would no longer hold them; queries nothing without Kueue.

    Raises:
        PlatformError: The stack file is invalid.
        ApiError, CredentialsError: The cluster cannot be queried.
    """
    settings = stackfile.read_as_pulumi(stack)
    if not settings.kueue.installs:
        return []
    credentials = connection.of_stack(settings.cluster, kubeconfig, context)
    return connection.ask(credentials, "preview", lambda client: refused(client, settings.integrations))


async def refused(client: Client, integrations: Collection[Integration]) -> list[str]:
    """The same with the kinds of jobs that the stack's Kueue queues."""
    others = _no_longer_held(integrations)
    if not others:
        return []
    jobs = set()
    try:
        async for workload in everything(client, WORKLOADS):
            owner = next(iter(read.objects(workload, "metadata", "ownerReferences")), {})
            if owner.get("kind") in others and not read.holds(workload, "Finished"):
                jobs.add(f"{read.text(workload, 'metadata', 'namespace')}/{read.text(owner, 'name')}")
    except NotFoundError:
        return []
    if not jobs:
        return []
    way = Integration.TRAINJOB if holds_jobsets(integrations) else Integration.JOBSET
    return [
        "refused: Kueue would no longer look at these jobs, and their quota would stay taken: "
        f"{listed(sorted(jobs))}. Wait until they have ended or delete them, or keep what Kueue queues now: "
        f"kueue.integrations: [{way}] in the stack file"
    ]


def _no_longer_held(integrations: Collection[Integration]) -> Collection[str]:
    """The kinds of the owners of Workloads that Kueue will not look at."""
    if holds_jobsets(integrations):
        return {names.TRAINJOB}
    return set() if Integration.JOBSET in integrations else {names.JOBSET}
