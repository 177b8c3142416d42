"""Objects that a stack would take over but cannot: an immutable field differs, or they are being deleted.

They have stayed in the cluster after they left the stack, as a tenant's
LocalQueue does. Called by `rollout` after its preview; tries a dry run of each,
with the rights of the user.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from trainyard_api.json_types import Json
from trainyard_delivery.drift import writers
from trainyard_delivery.drift.verdicts import Ref, State, Verdict, going
from trainyard_kube.client import METADATA_OF_ALL, Client
from trainyard_kube.credentials import Credentials
from trainyard_kube.resources import CRDS

from .drift_judge import judge
from .lists import everything


async def refusals(client: Client, manifests: Sequence[Json]) -> list[str]:
    """A sentence for each of these objects that exists and cannot become what its manifest says."""
    # A CRD has no field that a later version could not change, and a megabyte: its metadata will do.
    crds = [Ref.of(manifest) for manifest in manifests if manifest["kind"] == CRDS.kind]
    tried = [manifest for manifest in manifests if manifest["kind"] != CRDS.kind]
    verdicts = [*await _going(client, crds), *await judge(client, tried, writers.table())]
    return [
        _being_deleted(verdict) if verdict.state is State.GOING else _immutable(verdict, client.credentials)
        for verdict in verdicts
        if verdict.state in (State.GOING, State.REPLACED)
    ]


async def _going(client: Client, crds: Collection[Ref]) -> list[Verdict]:
    """A verdict for each of these CRDs that is being deleted."""
    if not crds:
        return []
    by_name = {ref.name: ref for ref in crds}
    return [
        Verdict(by_name[name], State.GOING, why=why)
        async for live in everything(client, CRDS, accept=METADATA_OF_ALL)
        if (name := live["metadata"]["name"]) in by_name and (why := going(live))
    ]


def _immutable(verdict: Verdict, credentials: Credentials) -> str:
    ref = verdict.ref
    place = ["-n", ref.namespace] if ref.namespace else []
    delete = credentials.command("kubectl", "delete", ref.kind.lower(), ref.name, *place)
    return (
        f"refused: {ref.key} is in the cluster from before, and differs from the stack in a field "
        f"that nobody can change: {verdict.why}. Give the field its old value in the stack file. Or, if no "
        f"jobs need the object, delete it: {delete}"
    )


def _being_deleted(verdict: Verdict) -> str:
    return (
        f"refused: {verdict.ref.key} is in the cluster from before, and is being deleted {verdict.why}. Wait "
        "until it is gone, then run the same command again"
    )
