"""The existing companions of a JobSet: its PodGroup, and MPI's Secret and ConfigMap.

Called by the controller when the core asks. They are read one by one and as
metadata only: nothing is watched, so that no Secret or ConfigMap of the
cluster is ever held in memory, and no key is ever sent back here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainyard_kube.client import METADATA, ApiError, Client, NotFoundError

from ..core import model
from ..core.decide.views import companion_of
from .apply import RefusedError, refusal, resource_of


@dataclass(frozen=True, slots=True)
class Found:
    """What a look found, and why it could not find more, if so."""

    companions: tuple[model.Companion, ...] = ()
    rejection: model.Rejection | None = None
    """The API server does not serve a kind, or does not let us see it."""


class Companions:
    """Looks for companions of a JobSet."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find(
        self,
        namespace: str,
        identities: Iterable[model.Identity],
        before: Mapping[model.Identity, model.Companion],
    ) -> Found:
        """Those of the identities that exist; the companions of `before` are not read again.

        Raises the client's errors, and `RetryError`, for what a retry may fix.
        """
        companions = []
        rejection = None
        for identity in identities:
            companion = before.get(identity)
            if companion is None:
                try:
                    companion = await self._read(namespace, identity)
                except RefusedError as refused:
                    rejection = rejection or refused.rejection
            if companion is not None:
                companions.append(companion)
        return Found(tuple(companions), rejection)

    async def _read(self, namespace: str, identity: model.Identity) -> model.Companion | None:
        resource = resource_of(identity.api_version, identity.kind)
        path = resource.path(namespace, identity.name)
        try:
            return companion_of(identity, await self._client.get(path, accept=METADATA))
        except NotFoundError as error:
            if error.resource_missing:
                raise refusal(error, resource, identity.name) from error
            return None
        except ApiError as error:
            raise refusal(error, resource, identity.name) from error
