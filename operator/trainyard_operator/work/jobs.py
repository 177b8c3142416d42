"""The Jobs of a JobSet, read when the core asks for them.

Called for a JobSet that was suspended and is to be resumed with other content, and for
one that runs nothing. Nothing is watched: a cluster has very many Jobs, and the
JobSet's status tells when they change.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from trainyard_api import names
from trainyard_kube.client import ApiError, Client
from trainyard_kube.resources import JOBS

from ..core import model
from .apply import refusal


class _Owner(msgspec.Struct):
    uid: str
    controller: bool | None = None


class _PodMeta(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Meta(msgspec.Struct, rename="camel"):
    namespace: str
    name: str
    uid: str
    resource_version: str
    deletion_timestamp: str | None = None
    owner_references: list[_Owner] | None = None


class _Template(msgspec.Struct):
    metadata: _PodMeta | None = None


class _Spec(msgspec.Struct):
    template: _Template
    suspend: bool | None = None


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct, rename="camel"):
    active: int = 0
    start_time: datetime | None = None
    conditions: list[_Condition] | None = None


class _Job(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Job)


class Jobs:
    """Looks for the Jobs of a JobSet."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of(self, jobset: model.JobSet) -> tuple[model.Job, ...]:
        """The Jobs that the JobSet owns.

        Raises `RefusedError` if they may not be listed, and the client's errors for what
        a retry may fix.
        """
        params = {"labelSelector": f"{names.JOBSET_UID_LABEL}={jobset.uid}"}
        jobs = []
        try:
            async for page in self._client.list(JOBS.path(jobset.namespace), params=params):
                jobs += [_decoder.decode(raw) for raw in page.items or ()]
        except ApiError as error:
            raise refusal(error, JOBS, f"of JobSet {jobset.name}") from error
        return tuple(_view(job) for job in jobs if _owner(job) == jobset.uid)


def _owner(job: _Job) -> str | None:
    return next((owner.uid for owner in job.metadata.owner_references or () if owner.controller), None)


def _view(job: _Job) -> model.Job:
    metadata, template = job.metadata, job.spec.template.metadata
    stamps: Mapping[str, Any] = (template and template.annotations) or {}
    labels: Mapping[str, Any] = (template and template.labels) or {}
    ended = {condition.type for condition in job.status.conditions or () if condition.status == "True"}
    return model.Job(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        suspended=bool(job.spec.suspend),
        active=job.status.active,
        finished=bool(ended & {"Complete", "Failed"}),
        deleting=metadata.deletion_timestamp is not None,
        placement=stamps.get(names.PLACEMENT_ANNOTATION),
        started=job.status.start_time,
        placed_by_kueue=names.POD_SET_LABEL in labels,
    )
