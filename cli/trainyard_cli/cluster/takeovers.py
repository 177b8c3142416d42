"""Objects that a stack would take over but cannot change: an immutable field has another value.

They have stayed in the cluster after they left the stack, as a tenant's
LocalQueue does. Called by `rollout` after its preview; tries a dry run of each,
with the rights of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard_api.json_types import Json
from trainyard_delivery.drift import writers
from trainyard_delivery.drift.verdicts import State, Verdict
from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials

from .drift_judge import judge

_CRD: Final = "CustomResourceDefinition"
"""Has no field that a later version of it could not change, and a megabyte to send."""


async def refusals(client: Client, manifests: Sequence[Json]) -> list[str]:
    """A sentence for each of these objects that exists and cannot become what its manifest says."""
    tried = [manifest for manifest in manifests if manifest["kind"] != _CRD]
    verdicts = await judge(client, tried, writers.table())
    return [_refusal(verdict, client.credentials) for verdict in verdicts if verdict.state is State.REPLACED]


def _refusal(verdict: Verdict, credentials: Credentials) -> str:
    ref = verdict.ref
    place = ["-n", ref.namespace] if ref.namespace else []
    delete = credentials.command("kubectl", "delete", ref.kind.lower(), ref.name, *place)
    return (
        f"refused: {ref.key} is in the cluster from before, and differs from the stack in a field "
        f"that nobody can change: {verdict.why}. Give the field its old value in the stack file. Or, if no "
        f"jobs need the object, delete it: {delete}"
    )
