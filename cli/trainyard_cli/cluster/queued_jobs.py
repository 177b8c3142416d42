"""Jobs in queues that would no longer hold them: found before a stack changes what its queues hold.

Called by `rollout`. Queries the cluster, with only read rights. Jobs that Kueue has admitted in one way
cannot continue in the other, and jobs that wait in a queue start without quota when Kueue is disabled
(docs/adr/0038).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from typing import Any, Final

from trainyard_api import names
from trainyard_api.shown import listed
from trainyard_assist import read
from trainyard_kube.client import METADATA_OF_ALL, Client, NotFoundError
from trainyard_kube.resources import ADMISSION_POLICY_BINDINGS, JOBSETS, WORKLOADS
from trainyard_platform.parts.queues import gate
from trainyard_platform.stack.kueue import Integration, holds_jobsets
from trainyard_platform.stack.settings import StackSettings
from trainyard_platform.stack.tenants import TRAINJOBS

from . import connection
from .lists import everything

_NO_NEW_ONES: Final = json.dumps({"spec": {"hard": {TRAINJOBS: "0"}}}, separators=(",", ":"))


def close(options: Sequence[str] = ()) -> str:
    """The command that lets no new TrainJobs into the tenants' namespaces; `make up` undoes it.

    `options` are those of kubectl that lead to the cluster.
    """
    kubectl = shlex.join(["kubectl", *options])
    return (
        f"{kubectl} get namespaces -l {names.TENANT_LABEL} -o jsonpath='{{.items[*].metadata.name}}' | "
        f"xargs -n1 {kubectl} patch resourcequota tenant --type=merge -p '{_NO_NEW_ONES}' -n"
    )


def refusals(settings: StackSettings, connect: connection.Connect) -> list[str]:
    """The refusal if jobs are in queues that would no longer hold them.

    Raises:
        ApiError, CredentialsError: The cluster cannot be queried.
    """
    if not settings.kueue.enabled:
        return connection.ask(connect(), "preview", refused_without_kueue)
    integrations, installs = settings.integrations, settings.kueue.installs
    return connection.ask(
        connect(), "preview", lambda client: refused(client, integrations, installs=installs)
    )


async def refused(client: Client, integrations: Collection[Integration], *, installs: bool) -> list[str]:
    """The same with the kinds of jobs that Kueue queues, and whether the stack sets them."""
    workloads = await _unfinished(client)
    others = await _no_longer_held(client, workloads, integrations, installs=installs)
    if not others:
        return []
    is_to_hold_jobsets = holds_jobsets(integrations)
    now, then = (names.TRAINJOB, names.JOBSET) if is_to_hold_jobsets else (names.JOBSET, names.TRAINJOB)
    way = Integration.TRAINJOB if is_to_hold_jobsets else Integration.JOBSET
    return [
        f"refused: the queues hold {now}s, and would hold {then}s: Kueue would stop the jobs that are in "
        f"them, or keep their quota forever. {_states(others)}",
        f"To leave it as it is, say in the stack file: kueue.integrations: [{way}]",
        "To change it, let these jobs end, or delete them. So that no new ones come meanwhile, run this; "
        f"make up then gives the tenants their quota back: {close(client.credentials.options)}",
    ]


async def refused_without_kueue(client: Client) -> list[str]:
    """The same if the stack has no Kueue. The jobs of another Kueue, which the stack never had, stay."""
    workloads = await _unfinished(client)
    held = await _of_trainjobs(
        client, [workload for workload in workloads if _owner(workload) == names.JOBSET]
    )
    of_trainjobs = [workload for workload in workloads if _owner(workload) == names.TRAINJOB]
    if of_trainjobs and await _had_kueue(client):
        held += of_trainjobs
    if not held:
        return []
    return [
        "refused: the stack file disables Kueue, and jobs are in the queues: those that wait would start "
        f"without quota, or never. {_states(held)}",
        "To keep Kueue, say in the stack file: kueue.enabled: true",
        "To disable it, let these jobs end, or delete them. So that no new ones come meanwhile, run this: "
        f"{close(client.credentials.options)}",
    ]


async def _had_kueue(client: Client) -> bool:
    """Whether a roll-out of the stack has had Kueue: its admission policies have stayed since."""
    try:
        await client.get(ADMISSION_POLICY_BINDINGS.path(name=gate.NAME))
    except NotFoundError:
        return False
    return True


async def _unfinished(client: Client) -> list[dict[str, Any]]:
    """The Workloads that have not finished; none if the cluster does not know Kueue."""
    try:
        return [
            workload
            async for workload in everything(client, WORKLOADS)
            if not read.holds(workload, "Finished")
        ]
    except NotFoundError:
        return []


def _states(workloads: list[dict[str, Any]]) -> str:
    """The jobs with quota, and those that wait."""
    holding = {_job(workload) for workload in workloads if read.holds(workload, "QuotaReserved")}
    waiting = {_job(workload) for workload in workloads} - holding
    return ". ".join(
        f"{state}: {listed(sorted(jobs))}"
        for state, jobs in (("With quota", holding), ("Waiting", waiting))
        if jobs
    )


async def _no_longer_held(
    client: Client, workloads: list[dict[str, Any]], integrations: Collection[Integration], *, installs: bool
) -> list[dict[str, Any]]:
    """The Workloads whose owners Kueue would treat otherwise than it does now."""
    others = [workload for workload in workloads if _owner(workload) == names.TRAINJOB]
    if holds_jobsets(integrations):
        return others
    others = [] if Integration.TRAINJOB in integrations else others
    of_jobsets = [workload for workload in workloads if _owner(workload) == names.JOBSET]
    if Integration.JOBSET in integrations or not installs:
        # Those that people send themselves stay where they are.
        of_jobsets = await _of_trainjobs(client, of_jobsets)
    return [*others, *of_jobsets]


async def _of_trainjobs(client: Client, of_jobsets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of these Workloads of JobSets whose JobSet is a TrainJob's."""
    if not of_jobsets:
        return []
    of_trainjobs = {
        f"{read.text(jobset, 'metadata', 'namespace')}/{read.name(jobset)}"
        async for jobset in everything(client, JOBSETS, accept=METADATA_OF_ALL)
        if _owner(jobset) == names.TRAINJOB
    }
    return [workload for workload in of_jobsets if _job(workload) in of_trainjobs]


def _owner(of: dict[str, Any]) -> str:
    """The kind of what owns an object."""
    return read.text(next(iter(read.objects(of, "metadata", "ownerReferences")), {}), "kind")


def _job(workload: dict[str, Any]) -> str:
    owner = next(iter(read.objects(workload, "metadata", "ownerReferences")), {})
    return f"{read.text(workload, 'metadata', 'namespace')}/{read.text(owner, 'name')}"
