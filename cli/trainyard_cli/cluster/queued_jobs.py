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
from trainyard_platform.parts.kueue.settings import Integration, Kueue

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
    return connection.ask(credentials, "preview", lambda client: refused(client, settings.kueue))


async def refused(client: Client, kueue: Kueue) -> list[str]:
    """The same with the stack's settings of Kueue."""
    others = _no_longer_held(kueue)
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
    return [
        "refused: kueue.integrations is another than it was. Kueue would no longer look at these jobs, and "
        f"their quota would stay taken: {listed(sorted(jobs))}. Wait until they have ended or delete them, "
        "or leave kueue.integrations as it was"
    ]


def _no_longer_held(kueue: Kueue) -> Collection[str]:
    """The kinds of the owners of Workloads that Kueue will not look at."""
    if kueue.holds_jobsets:
        return {names.TRAINJOB}
    return set() if Integration.JOBSET in kueue.integrations else {names.JOBSET}
