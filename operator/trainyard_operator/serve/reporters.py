"""Who reports: from a pod's token to the TrainJob that the pod trains for.

A token names a namespace and an audience, and anybody who may create pods can
get one for any TrainJob there. So the pod itself is checked: the API server
vouches for token and pod (TokenReview), and pod, Job, JobSet and TrainJob are
held together by their uids.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from trainyard_api import names
from trainyard_kube.client import METADATA, Client, NotFoundError, Resource
from trainyard_kube.resources import JOBS, JOBSETS, PODS

from ..core import model
from ..core.status import progress
from ..watch.cache import Cache, Key
from .tokens import RefusedTokenError, Tokens, reviewed

POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"


class Reporters:
    """Identifies who reports; `clock` gives seconds that never go back."""

    def __init__(self, client: Client, cache: Cache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._cache = cache
        self._jobsets: Tokens[str] = Tokens(clock)
        """By token: uid of the JobSet that its pod belongs to."""

    async def identify(self, token: str, key: Key, address: str) -> model.TrainJob | None:
        """The TrainJob `key` if the token is one of its pods', None if there is no such TrainJob.

        `address` is the peer's. Raises `RefusedTokenError`, and the client's errors.
        """
        audience = progress.audience(*key)
        claimed = progress.claimed_audiences(token)
        if audience not in claimed:
            if any(progress.is_trainjob_audience(other) for other in claimed):
                raise RefusedTokenError(403, "the token belongs to another TrainJob")
            raise RefusedTokenError(401, f"the token is not meant for {audience}")
        # Its audience is this TrainJob, so a known token is known for no other.
        jobset = await self._jobsets.find(token, address, lambda: self._jobset_uid(token, key, audience))
        trainjob = self._cache.trainjobs.get(key)
        if trainjob is None:
            return None
        seen = self._cache.jobsets.get(key)
        if seen is None or seen.uid != jobset or seen.jobset.owner_uid != trainjob.uid:
            raise _belongs_to_none()
        return trainjob

    async def _jobset_uid(self, token: str, key: Key, audience: str) -> str:
        return await self._owning_jobset(await self._pod(token, key, audience), key)

    async def _owning_jobset(self, pod: dict[str, Any], key: Key) -> str:
        """The uid of the JobSet whose Job created the pod.

        Labels prove nothing: a user who may create Jobs writes the labels of their pods. Owners are known by
        uid.
        """
        owner = _controller(pod, JOBS)
        labels = pod["metadata"].get("labels") or {}
        if owner is not None and labels.get(names.JOBSET_NAME_LABEL) == key.name:
            try:
                job = await self._client.get(JOBS.path(key.namespace, owner["name"]), accept=METADATA)
            except NotFoundError:
                raise _belongs_to_none() from None
            above = _controller(job, JOBSETS)
            if job["metadata"]["uid"] == owner["uid"] and above is not None and above["name"] == key.name:
                return str(above["uid"])
        raise _belongs_to_none()

    async def _pod(self, token: str, key: Key, audience: str) -> dict[str, Any]:
        """The metadata of the pod that the token belongs to, as the API server says."""
        user = await reviewed(self._client, token, audience)
        extra = user.get("extra") or {}
        names: list[str] = extra.get(POD_NAME) or []
        uids: list[str] = extra.get(POD_UID) or []
        of_namespace = str(user.get("username")).startswith(f"system:serviceaccount:{key.namespace}:")
        if not of_namespace or len(names) != 1 or len(uids) != 1:
            raise RefusedTokenError(403, "the token does not belong to a pod of this namespace")
        try:
            pod = await self._client.get(PODS.path(key.namespace, names[0]), accept=METADATA)
        except NotFoundError:
            raise RefusedTokenError(403, "the token's pod is gone") from None
        if pod["metadata"]["uid"] != uids[0]:
            raise RefusedTokenError(403, "the token's pod is gone")
        return pod


def _controller(child: dict[str, Any], kind: Resource) -> dict[str, str] | None:
    """The reference to the controller of this kind, whatever its version."""
    for owner in child["metadata"].get("ownerReferences") or ():
        group = str(owner.get("apiVersion", "")).split("/")[0]
        if owner.get("controller") and (group, owner.get("kind")) == (kind.group, kind.kind):
            return dict(owner)
    return None


def _belongs_to_none() -> RefusedTokenError:
    return RefusedTokenError(403, "the token's pod does not belong to a JobSet of this TrainJob")
