"""Judges each object of a stack: reads it, and replaces it in a dry run with the manifest in git.

Called by `drift`, which may also repair what differs: then the same replace is
not a dry run. `trainyard_delivery.drift` decides what follows from the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from trainyard_api.json_types import Json
from trainyard_delivery.drift import comparison, writers
from trainyard_delivery.drift.comparison import Row
from trainyard_delivery.drift.verdicts import Ref, State, Verdict, consequence, going
from trainyard_kube.client import ApiError, Client, ConflictError, NotFoundError, Resource
from trainyard_kube.resources import CRDS

MANAGER: Final = "pulumi-kubernetes-trainyard"
"""Begins like the provider's own managers: the provider takes over fields written under such a name."""
AT_A_TIME: Final = 8
LARGE_AT_A_TIME: Final = 2
"""CRDs at a time; each way, the largest have a megabyte."""
TRIES: Final = 5
"""Tries for an object that others write between the read and the dry run."""
_CANNOT_CHANGE: Final = ("immutable", "cannot change roleRef", "Forbidden: updates to ")
"""The API server's words for a field that nobody can change; the last ones for StatefulSets and classes."""


class Kinds:
    """Finds the resource of a kind by discovery, once for each group and version."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked: dict[str, asyncio.Task[dict[str, Resource]]] = {}

    async def resource(self, api_version: str, kind: str) -> Resource | None:
        """The resource; None if the API server does not serve it. Raises the client's errors."""
        if api_version not in self._asked:
            self._asked[api_version] = asyncio.create_task(self._ask(api_version))
        return (await self._asked[api_version]).get(kind)

    async def _ask(self, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        try:
            served = await self._client.get(Resource(group, version, "", "").base)
        except NotFoundError:
            return {}
        return {
            resource["kind"]: Resource(
                group, version, resource["name"], resource["kind"], namespaced=resource["namespaced"]
            )
            for resource in served["resources"]
            if "/" not in resource["name"]
        }


async def judge(client: Client, manifests: Sequence[Json], rights: Sequence[writers.Right]) -> list[Verdict]:
    """A verdict for each of the objects, in their order; writes nothing."""
    judge = _Judge(client, rights)
    small, large = asyncio.Semaphore(AT_A_TIME), asyncio.Semaphore(LARGE_AT_A_TIME)

    async def verdict(manifest: Json) -> Verdict:
        async with large if manifest["kind"] == CRDS.kind else small:
            return await judge.verdict(manifest)

    return await asyncio.gather(*(verdict(manifest) for manifest in manifests))


async def put_right(
    client: Client, manifests: Sequence[Json], verdicts: Sequence[Verdict], rights: Sequence[writers.Right]
) -> AsyncIterator[Verdict]:
    """Repair each object that differs, in their order, and yield the outcome.

    Writes only what its verdict shows: an object that has changed since stays as it is.
    """
    judge = _Judge(client, rights)
    for manifest, verdict in zip(manifests, verdicts, strict=True):
        differs = verdict.state is State.DIFFERENT
        yield await judge.verdict(manifest, put_right=verdict.rows) if differs else verdict


class _Judge:
    """Judges one object after another."""

    def __init__(self, client: Client, rights: Sequence[writers.Right]) -> None:
        self._client = client
        self._kinds = Kinds(client)
        self._rights = rights

    async def verdict(self, manifest: Json, put_right: Sequence[Row] = ()) -> Verdict:
        """The object's verdict; repairs it if its differences are exactly `put_right`."""
        ref = Ref.of(manifest)
        try:
            resource = await self._kinds.resource(ref.api_version, ref.kind)
            if resource is None:
                return Verdict(ref, State.MISSING, why=f"the cluster has no {ref.kind} of {ref.api_version}")
            path = resource.path(ref.namespace or None, ref.name)
            for _ in range(TRIES):
                try:
                    return await self._tried(ref, path, manifest, put_right)
                except ConflictError:
                    continue
        except NotFoundError:
            return Verdict(ref, State.MISSING)
        except ApiError as error:
            if error.code == 422 and any(words in error.message for words in _CANNOT_CHANGE):
                return Verdict(ref, State.REPLACED, why=error.message)
            return Verdict(ref, State.UNJUDGED, why=str(error))
        return Verdict(ref, State.UNJUDGED, why=f"it was changed during each of {TRIES} tries; try again")

    async def _tried(self, ref: Ref, path: str, manifest: Json, put_right: Sequence[Row]) -> Verdict:
        live = await self._client.get(path)
        if going(live):
            return Verdict(ref, State.GOING, why=going(live))
        body = comparison.body(manifest, live, self._rights)
        answer = await self._client.replace(path, body, manager=MANAGER, dry_run=True)
        rows = comparison.rows(live, answer)
        mutated = comparison.mutated(live, answer, body)
        if not rows:
            return _of_admission(ref, mutated) if mutated else Verdict(ref, State.SAME)
        if owner := comparison.controller(live):
            return Verdict(ref, State.OWNED, rows, f"{owner} controls it")
        if not put_right:
            return Verdict(ref, State.DIFFERENT, (*rows, *mutated), consequence(ref, rows))
        if (*rows, *mutated) != put_right:
            return Verdict(ref, State.UNJUDGED, rows, "somebody has changed it since; try again")
        # Exactly the object that was compared: its resourceVersion is in the body.
        await self._client.replace(path, body, manager=MANAGER)
        return _of_admission(ref, mutated) if mutated else Verdict(ref, State.REPAIRED, rows)


def _of_admission(ref: Ref, rows: tuple[Row, ...]) -> Verdict:
    why = "by a webhook or policy of the cluster at each write; find it among those that are unmanaged"
    return Verdict(ref, State.MUTATED, rows, why)
