"""From a Plan's writes to guarded requests.

Every write names the very object it was decided on (uid, resourceVersion), so
that the API server refuses a stale decision. The answers go into the cache, so
that a lagging watch causes no second write. A refusal that retries will not
change becomes `RefusedError`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from trainyard_api import names
from trainyard_api.reasons import Reason
from trainyard_kube.client import (
    METADATA,
    ApiError,
    Client,
    ConflictError,
    GoneError,
    NotFoundError,
    Resource,
    RetriableError,
)
from trainyard_kube.resources import JOBSETS, REVISIONS, SECRETS, TRAINJOBS, WORKLOADS

from ..core import model
from ..core.decide import queueing, refusals, revisions
from ..core.decide.jobset_update import spec_over
from ..core.decide.views import SeenJobSet, companion_of, jobset_of, revision_of, trainjob_of
from ..watch.cache import Cache, Key, version
from . import ssh_keys
from .queue import RetryError

logger = logging.getLogger(__name__)

MANAGER = "trainyard"
STATUS_MANAGER = "trainyard-status"


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Owner(msgspec.Struct):
    uid: str


class _WorkloadMeta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    owner_references: tuple[_Owner, ...] = ()


class _WorkloadSpec(msgspec.Struct):
    active: bool = True


class _WorkloadStatus(msgspec.Struct):
    conditions: tuple[_Condition, ...] = ()


class _Workload(msgspec.Struct):
    metadata: _WorkloadMeta
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)
    status: _WorkloadStatus = msgspec.field(default_factory=_WorkloadStatus)

    def is_open(self, uid: str) -> bool:
        """Whether it stands for the job with this uid, and has not finished."""
        finished = any(c.type == "Finished" and c.status == "True" for c in self.status.conditions)
        return not finished and any(owner.uid == uid for owner in self.metadata.owner_references)


_workload_decoder = msgspec.json.Decoder(_Workload)


class Stripped(NamedTuple):
    """Annotations of a child that were sent but are missing in the answer."""

    identity: model.Identity
    uid: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write."""

    changed: bool = True
    """False: everything was as wanted, and nothing was sent."""
    companion: model.Companion | None = None
    """The companion of the JobSet that was made or changed."""
    checked_jobset: tuple[str, int] | None = None
    """Uid and generation of the JobSet, whose spec is as wanted."""
    other: str = ""
    """The other field manager that wrote the object last; empty if unknown."""
    stripped: Stripped | None = None
    """What the cluster has removed from the child; None if the write is not of a child."""
    deactivated: bool = False
    """The JobSet has a Workload, and it is deactivated now."""


class RefusedError(Exception):
    """The API server refuses this write, however often it is sent."""

    def __init__(self, rejection: model.Rejection) -> None:
        super().__init__(f"{rejection.reason}: {rejection.message}")
        self.rejection = rejection


class Applier:
    """Carries out writes for one TrainJob at a time.

    `namespace` is the operator's, where runtime revisions are kept.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._cache = cache
        self._namespace = namespace
        self._clock = clock

    async def write(self, key: Key, write: model.Write) -> Written:
        """Carry out one write of the TrainJob `key`.

        Raises `RefusedError`, `RetryError` if what was observed has changed (the cache
        then has the current state), or the client's errors.
        """
        match write:
            case model.Create(manifest, generated):
                return await self._create(key, manifest, generated)
            case model.Update():
                return await self._update(key, write)
            case model.Delete():
                await self._delete(key, write)
            case model.RecordRevision():
                await self._record(write)
            case model.Label() | model.Suspend():
                await self._edit(key, write)
            case model.Activate():
                return await self._activate(write)
        return Written()

    async def status(self, trainjob: model.TrainJob, status: model.Json) -> model.Json | None:
        """Merge-patch the status of this very version of the TrainJob.

        Returns the status that it then has; None if the TrainJob is gone. Raises like `write`.
        """
        key = Key.of(trainjob)
        path = TRAINJOBS.path(key.namespace, key.name)
        body = {"metadata": {"resourceVersion": trainjob.resource_version}, "status": status}
        try:
            live = await self._client.patch(f"{path}/status", body, manager=STATUS_MANAGER)
        except NotFoundError:
            self._cache.trainjobs.gone(key, uid=trainjob.uid)
            return None
        except ConflictError as conflict:
            await self.refresh_trainjob(key)
            raise RetryError("the TrainJob has changed") from conflict
        self._cache.trainjobs.answered(key, trainjob_of(live), news=False)
        return live.get("status") or {}

    async def refresh_trainjob(self, key: Key) -> None:
        """Read the TrainJob itself into the cache."""
        before = self._cache.trainjobs.get(key)
        try:
            live = await self._client.get(TRAINJOBS.path(key.namespace, key.name))
        except NotFoundError:
            if before is not None:  # one of its name may have been created in the meantime
                self._cache.trainjobs.gone(key, uid=before.uid)
            return
        self._cache.trainjobs.answered(key, trainjob_of(live))

    async def refresh_jobset(self, key: Key) -> SeenJobSet | None:
        """Read the JobSet itself into the cache; returns what the cache then has."""
        before = self._cache.jobsets.get(key)
        try:
            live = await self._client.get(JOBSETS.path(key.namespace, key.name))
        except NotFoundError:
            if before is not None:
                self._cache.jobsets.remove(key, uid=before.uid)
        else:
            self._remember(key, JOBSETS, live)
        return self._cache.jobsets.get(key)

    async def present(self) -> int:
        """The version that TrainJobs are at now. Raises the client's errors."""
        async for page in self._client.list(TRAINJOBS.path(), limit=1):
            return version(page.metadata.resource_version)
        return 0

    async def _create(self, key: Key, manifest: model.Json, generated: model.Generated | None) -> Written:
        if generated is model.Generated.SSH_KEY:
            manifest = ssh_keys.drawn(manifest)
        resource = resource_of(manifest["apiVersion"], manifest["kind"])
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        # For companions the metadata is enough, and a key is not sent back.
        accept = "application/json" if resource == JOBSETS else METADATA
        try:
            path = resource.path(namespace)
            live = await self._client.create(path, manifest, manager=MANAGER, accept=accept)
        except ConflictError as conflict:
            if resource != JOBSETS:  # left by an earlier try, or somebody else's: look again
                raise RetryError(f"{resource.kind} {name} already exists") from conflict
            live = await self._client.get(resource.path(namespace, name))
            self._remember(key, resource, live)
            raise _taken(live) from None
        except ApiError as error:
            raise refusal(error, resource, name) from error
        return self._child_written(key, resource, live, manifest)

    async def _update(self, key: Key, write: model.Update) -> Written:
        manifest = write.manifest
        resource = resource_of(manifest["apiVersion"], manifest["kind"])
        target = manifest["metadata"]
        path = resource.path(target["namespace"], target["name"])
        live = await self._live(key, resource, path, write.uid, write.resource_version)
        metadata = live["metadata"]
        content = _content(manifest)
        if resource == JOBSETS:
            content["spec"] = spec_over(live["spec"], content["spec"])
            if content["spec"] == live["spec"] and _has(metadata, target):
                return replace(self._child_written(key, resource, live, manifest), changed=False)
        body = {
            **live,
            **content,
            "metadata": {
                **metadata,
                **{
                    part: queueing.kept(metadata.get(part) or {}, target.get(part) or {})
                    for part in ("labels", "annotations")
                },
            },
        }
        live = await self._replace(resource, path, target["name"], body)
        return replace(self._child_written(key, resource, live, manifest), other=_last_writer(metadata))

    async def _live(
        self, key: Key, resource: Resource, path: str, uid: str, resource_version: str
    ) -> model.Json:
        """The object, if it is what was observed; raises `RetryError` otherwise."""
        name = path.rpartition("/")[2]
        try:
            live = await self._client.get(path)
        except NotFoundError as error:
            if resource == JOBSETS:
                self._cache.jobsets.remove(key, uid=uid)
            raise RetryError(f"{resource.kind} {name} is gone") from error
        metadata = live["metadata"]
        if metadata["uid"] != uid or metadata["resourceVersion"] != resource_version:
            self._remember(key, resource, live)
            raise RetryError(f"{resource.kind} {name} is not what was observed")
        return live

    async def _replace(self, resource: Resource, path: str, name: str, body: model.Json) -> model.Json:
        try:
            return await self._client.replace(path, body, manager=MANAGER)
        except (ConflictError, NotFoundError) as error:
            raise RetryError(f"{resource.kind} {name} has changed") from error
        except ApiError as error:
            raise refusal(error, resource, name) from error

    async def _delete(self, key: Key, write: model.Delete) -> None:
        resource = resource_of(write.api_version, write.kind)
        try:
            answer = await self._client.delete(
                resource.path(write.namespace, write.name),
                uid=write.uid,
                resource_version=write.resource_version,
                propagation="Foreground" if write.foreground else "Background",
            )
        except NotFoundError:
            answer = {"kind": "Status"}
        except ConflictError as conflict:
            # Most likely another of its name, which is not ours to delete; but it may still be this one.
            live = await self._client.get(resource.path(write.namespace, write.name))
            self._remember(key, resource, live)
            if live["metadata"]["uid"] == write.uid:
                raise RetryError(f"{resource.kind} {write.name} still exists") from conflict
            return
        except ApiError as error:
            raise refusal(error, resource, write.name) from error
        if resource != JOBSETS:
            return
        if answer.get("kind") == JOBSETS.kind:
            self._remember(key, resource, answer)
        else:
            self._cache.jobsets.remove(key, uid=write.uid)

    async def _edit(self, key: Key, write: model.Label | model.Suspend) -> None:
        path = JOBSETS.path(write.namespace, write.name)
        live = await self._live(key, JOBSETS, path, write.uid, write.resource_version)
        if isinstance(write, model.Suspend):
            part, added = "annotations", write.annotations
            live = {**live, "spec": {**live["spec"], "suspend": True}}
        else:
            part, added = "labels", write.labels
        metadata = live["metadata"]
        body = {**live, "metadata": {**metadata, part: {**(metadata.get(part) or {}), **added}}}
        self._remember(key, JOBSETS, await self._replace(JOBSETS, path, write.name, body))

    async def _activate(self, write: model.Activate) -> Written:
        """Set `spec.active` of the JobSet's Workloads, unless they have it already.

        Kueue creates a Workload with a JobSet in a queue, and creates it active.
        """
        path = WORKLOADS.path(write.namespace)
        mine = {"labelSelector": f"{names.JOB_UID_LABEL}={write.uid}"}
        unfinished, changed = [], False
        try:
            async for page in self._client.list(path, params=mine):
                workloads = [_workload_decoder.decode(raw) for raw in page.items or ()]
                unfinished += [workload for workload in workloads if workload.is_open(write.uid)]
            for workload in unfinished:
                if workload.spec.active is not write.active:
                    version = {"resourceVersion": workload.metadata.resource_version}
                    body = {"metadata": version, "spec": {"active": write.active}}
                    await self._client.patch(f"{path}/{workload.metadata.name}", body, manager=MANAGER)
                    changed = True
        except ConflictError as conflict:
            raise RetryError("the Workload has changed") from conflict
        except ApiError as error:
            raise refusal(error, WORKLOADS, f"of JobSet {write.name}") from error
        if not unfinished and write.awaited:
            raise RetryError(f"Kueue has no Workload of JobSet {write.name} yet that could be deactivated")
        return Written(changed, deactivated=bool(unfinished) and not write.active)

    async def _record(self, write: model.RecordRevision) -> None:
        self._cache.revisions_used[write.name] = self._clock()
        async with self._cache.recording:  # many jobs of a new runtime may come at once: only one records it
            await self._record_once(write)

    async def _record_once(self, write: model.RecordRevision) -> None:
        if write.name in self._cache.revisions:
            return
        manifest = revisions.manifest_of(write.runtime, self._namespace)
        path = REVISIONS.path(self._namespace)
        try:
            live = await self._client.create(path, manifest, manager=MANAGER)
        except ConflictError:
            live = await self._client.get(f"{path}/{write.name}")
        except ApiError as error:
            raise refusal(error, REVISIONS, write.name) from error
        self._cache.revisions.answered(write.name, revision_of(live))

    def _child_written(
        self, key: Key, resource: Resource, live: Mapping[str, Any], manifest: model.Json
    ) -> Written:
        """The answer shows the object as the manifest wants it, except for what the cluster strips."""
        metadata = live["metadata"]
        kept = metadata.get("annotations") or {}
        annotations = manifest["metadata"].get("annotations") or {}
        stripped = {name: value for name, value in annotations.items() if name not in kept}
        if stripped:
            logger.warning(
                "%s %s: something in the cluster, such as a mutating admission policy, removes %s",
                resource.kind,
                key,
                ", ".join(sorted(stripped)),
            )
        return Written(
            companion=self._remember(key, resource, live),
            checked_jobset=(metadata["uid"], metadata.get("generation", 1)) if resource == JOBSETS else None,
            stripped=Stripped(
                model.Identity(resource.api_version, resource.kind, metadata["name"]),
                metadata["uid"],
                stripped,
            ),
        )

    def _remember(self, key: Key, resource: Resource, live: Mapping[str, Any]) -> model.Companion | None:
        """Puts a JobSet into the cache; returns the view of others, which have no cache."""
        if resource == JOBSETS:
            self._cache.jobsets.answered(key, jobset_of(msgspec.json.encode(live)))
            return None
        identity = model.Identity(resource.api_version, resource.kind, live["metadata"]["name"])
        return companion_of(identity, live)


def resource_of(api_version: str, kind: str) -> Resource:
    """The resource of a manifest; all that are written have the usual plural."""
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, f"{kind.lower()}s", kind)


def refusal(error: ApiError, resource: Resource, name: str) -> Exception:
    """The exception for a failed request: `RefusedError` if no retry will change the answer."""
    # A list whose next page has expired is gone: it is read again from its first page.
    if isinstance(error, RetriableError | ConflictError | GoneError):
        return error
    title = f"{resource.kind} {name}"
    causes = error.details.get("causes") or ()
    if any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
        return RetryError("the namespace is being deleted")
    if isinstance(error, NotFoundError):
        if not error.resource_missing:
            return RetryError(error.message)  # the namespace, and so the TrainJob, is gone
        return RefusedError(
            model.Rejection(
                Reason.CRD_MISSING,
                f"the API server does not know {resource.full_name}",
                resource=resource.full_name,
            )
        )
    if error.code == 403 and "status unknown for quota" in error.message:
        return RetryError(error.message)  # Kubernetes has not counted the objects of the namespace yet
    message = f"{title}: {error.message}"
    # Webhooks and admission policies answer 403 as well; only the rest is about permissions.
    denied = "admission webhook" in message or "denied request" in message
    if error.code == 403 and refusals.OVER_QUOTA in message:
        return RefusedError(model.Rejection(Reason.QUOTA_EXCEEDED, message))
    if error.code == 403 and not denied:
        if resource == SECRETS:
            message += ". MPI jobs run in namespaces of tenants and of the stack's operator.mpiNamespaces"
        return RefusedError(model.Rejection(Reason.FORBIDDEN, message))
    return RefusedError(model.Rejection(Reason.JOBSET_REJECTED, message))


def _taken(live: Mapping[str, Any]) -> Exception:
    """Why there is already a JobSet: the cache now has it if a TrainJob owns it."""
    if _controller(live).get("kind") == names.TRAINJOB:
        return RetryError("the JobSet already exists")
    message = f'JobSet "{live["metadata"]["name"]}" exists and belongs to another owner'
    return RefusedError(model.Rejection(Reason.JOBSET_CONFLICT, message))


def _controller(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def _has(metadata: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    """Whether it has the wanted labels and annotations."""
    return all(
        (target.get(part) or {}).items() <= (metadata.get(part) or {}).items()
        for part in ("labels", "annotations")
    )


def _last_writer(metadata: Mapping[str, Any]) -> str:
    """The field manager of the last write of somebody else to more than the status; empty for none."""
    writes = [
        (entry.get("time") or "", entry.get("manager") or "")
        for entry in metadata.get("managedFields") or ()
        if entry.get("manager") != MANAGER and not entry.get("subresource")
    ]
    return max(writes, default=("", ""))[1]


def _content(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest without its identity, its metadata and its status."""
    return {
        part: body
        for part, body in manifest.items()
        if part not in {"apiVersion", "kind", "metadata", "status"}
    }
