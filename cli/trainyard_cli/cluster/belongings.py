"""Secrets and ConfigMaps of a TrainJob that its pods mount, for the TrainJob that comes after it.

Called by `resend`. What belongs to a TrainJob is deleted with it, so it is
released before, and handed over afterwards. `trainyard_assist.resend` says which
owners it then has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from trainyard_api.json_types import Json
from trainyard_assist import read, resend
from trainyard_kube.client import METADATA, ApiError, Client, ForbiddenError, NotFoundError, UnauthorizedError
from trainyard_kube.resources import CONFIGMAPS, SECRETS

from .patience import in_time

MOST: Final = 16
"""Objects that are looked at, at most."""
_KINDS: Final = {resource.kind: resource for resource in (SECRETS, CONFIGMAPS)}


@dataclass(slots=True)
class _Child:
    title: str
    path: str
    before: Json
    """With its owners as they were."""
    version: str

    @property
    def owners(self) -> list[Json]:
        return read.objects(self.before, "metadata", "ownerReferences")


class Belongings:
    """Objects that belong to one TrainJob."""

    def __init__(
        self, client: Client, trainjob: Json, children: Sequence[_Child], hidden: Sequence[str]
    ) -> None:
        """Hold what `find` has found."""
        self._client = client
        self._trainjob = trainjob
        self._children = children
        self.released: list[str] = []
        """Objects without an owner now: kind and name of each."""
        self.hidden = hidden
        """Mounted objects that the user may not see, so that nobody can tell whose they are."""

    @classmethod
    async def find(cls, client: Client, trainjob: Json) -> Self:
        """Look at what the TrainJob mounts, as far as the user may see it.

        Raises:
            ApiError: It could not be queried.
        """
        children, hidden = [], []
        for kind, name in resend.mounted(trainjob)[:MOST]:
            path = _KINDS[kind].path(read.text(trainjob, "metadata", "namespace"), name)
            try:
                child = await in_time(client.get(path, accept=METADATA))
            except NotFoundError:
                continue
            except ForbiddenError:
                hidden.append(f"{kind} {name}")
                continue
            if read.owned(child, trainjob) is not None:
                version = read.text(child, "metadata", "resourceVersion")
                children.append(_Child(f"{kind} {name}", path, child, version))
        return cls(client, trainjob, children, hidden)

    async def release(self) -> str:
        """Have them stay when the TrainJob goes; says why one cannot, and then none does."""
        for child in self._children:
            self.released.append(child.title)
            try:
                await self._write(child, resend.owners(child.before, self._trainjob))
            except UnauthorizedError:
                raise
            except ApiError as error:
                self.released.remove(child.title)
                await self.give_back()
                return f"{child.title} belongs to it, is deleted with it, and cannot be kept: {error}"
        return ""

    async def give_back(self) -> None:
        """Have those that are released belong to the TrainJob again."""
        for child in self._children:
            if child.title in self.released:
                await self._write(child, child.owners)
                self.released.remove(child.title)

    async def hand_over(self, new: Json, *, shared: bool = False) -> None:
        """Have them belong to another TrainJob, or if they are `shared`, to both."""
        for child in self._children:
            await self._write(child, resend.owners(child.before, self._trainjob, new, shared=shared))
            if not shared:
                self.released.remove(child.title)

    async def _write(self, child: _Child, owners: Sequence[Json]) -> None:
        metadata: dict[str, Any] = {"resourceVersion": child.version, "ownerReferences": list(owners)}
        written = await in_time(self._client.patch(child.path, {"metadata": metadata}))
        child.version = read.text(written, "metadata", "resourceVersion")
