"""What `trainyard adopt` looks at, and how it carries out the steps: one guarded request each.

This module decides what to look at, `trainyard_assist.adopt` what follows
from it. Every write names the uid of the object, and its version if the step
depends on it, so the API server refuses a step that no longer fits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_assist import adopt
from trainyard_assist.adopt.model import (
    CONFIGURATION,
    CONTROLLER,
    OWN,
    PUBLIC,
    RECORD,
    WEBHOOK_MANAGER,
    Ref,
)
from trainyard_delivery import foreign
from trainyard_kube.client import ApiError, Client, NotFoundError, Resource, RetriableError
from trainyard_kube.resources import (
    ADMISSION_POLICY_BINDINGS,
    CONFIGMAPS,
    CRDS,
    DEPLOYMENTS,
    JOBSETS,
    PODS,
    REVISIONS,
    ROLE_BINDINGS,
    ROLES,
    RUNTIMES,
    TRAINJOBS,
    VALIDATING_WEBHOOKS,
    WEBHOOK_CONFIGURATIONS,
)
from trainyard_operator.core import model
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.decide.views import (
    RuntimeKey,
    jobset_of,
    revision_of,
    runtime_key,
    runtime_of,
    trainjob_of,
)

from .lists import everything, undecoded

MANAGER: Final = "trainyard-adopt"
_JOBSET_WEBHOOKS: Final = "jobset-validating-webhook-configuration"
"""Of JobSet, by its manifests and its chart, whatever namespace its controller is in."""
PATIENCE: Final = 180.0
"""Seconds for a Deployment to reach its replicas, and for its webhooks to answer."""
PAUSE: Final = 0.5
"""Seconds between two looks at whether it has."""
_ENDED: Final = frozenset({"Failed", "Succeeded"})
"""Phases of pods of which no container runs."""
_AT_ONCE: Final = 16
_RESOURCES: Final = {
    (resource.api_version, resource.kind): resource
    for resource in (
        CONFIGMAPS,
        DEPLOYMENTS,
        CRDS,
        ROLES,
        ROLE_BINDINGS,
        ADMISSION_POLICY_BINDINGS,
        *(resource for resource, _ in WEBHOOK_CONFIGURATIONS),
        *RUNTIMES.values(),
    )
}


async def observe(
    client: Client, runtimes: Sequence[str], *, trainer_namespace: str, operator_namespace: str
) -> adopt.Observed:
    """Read everything that the takeover depends on; changes nothing.

    `runtimes` are the names of the platform's ClusterTrainingRuntimes. Raises the client's errors.
    """
    record = await _get(client, CONFIGMAPS, trainer_namespace, RECORD)
    others = [
        *((CRDS, None, resource.full_name) for resource in (TRAINJOBS, *RUNTIMES.values())),
        *((resource, None, name) for resource, name in WEBHOOK_CONFIGURATIONS),
        *((resource, trainer_namespace, PUBLIC) for resource in (CONFIGMAPS, ROLES, ROLE_BINDINGS)),
        *((RUNTIMES[names.CLUSTER_TRAINING_RUNTIME], None, name) for name in runtimes),
    ]
    single = [
        (DEPLOYMENTS, trainer_namespace, CONTROLLER),
        (CONFIGMAPS, trainer_namespace, CONFIGURATION),
        (DEPLOYMENTS, operator_namespace, OWN),
    ]
    manifests = await asyncio.gather(*(_get(client, *place) for place in (*single, *others)))
    controller, configuration, own, *objects = manifests
    only_recorded = [place for place in _recorded(record) if place not in others]
    jobset = await _get(client, VALIDATING_WEBHOOKS, None, _JOBSET_WEBHOOKS)
    jobs, unreadable = await _jobs(client, operator_namespace)
    return adopt.Observed(
        now=client.time.now(),
        controller=controller,
        objects=[manifest for manifest in objects if manifest is not None],
        configuration=configuration,
        jobs=jobs,
        unreadable=unreadable,
        own=own,
        jobset_webhooks=None if jobset is None or not foreign.owner(jobset) else jobset,
        policy_bindings=[
            binding
            async for binding in everything(client, ADMISSION_POLICY_BINDINGS)
            if binding["metadata"]["name"].endswith(f".{names.POLICY_DOMAIN}")
        ],
        working={
            adopt.model.ref_of(deployment)
            for deployment in (controller, own)
            if deployment is not None and await _is_working(client, deployment)
        },
        record=record,
        only_recorded=[
            manifest
            for manifest in await asyncio.gather(*(_get(client, *place) for place in only_recorded))
            if manifest is not None
        ],
        namespace=trainer_namespace,
    )


async def carry_out(client: Client, step: adopt.Step) -> adopt.Check | None:
    """Do one step, or return what is lost without it, if the steps can go on.

    Raises the client's errors, or `TimeoutError` if a Deployment takes too long.
    """
    match step:
        case adopt.Keep(manifest):
            ref = adopt.model.ref_of(manifest)
            await client.create(_resource(ref).path(ref.namespace), manifest, manager=MANAGER)
        case adopt.Put(trainjob=""):
            await _put(client, step)
        case adopt.Put(trainjob=job):
            return await _put_if_allowed(client, step, job)
        case adopt.HandOver(ref, uid, version):
            operations = (
                {"op": "test", "path": "/metadata/uid", "value": uid},
                {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                {"op": "replace", "path": "/metadata/managedFields", "value": list(step.managed_fields)},
            )
            await client.patch(_path(ref), operations, kind="json", manager=MANAGER)
        case adopt.LetPass(ref, uid, webhooks):
            await client.patch(_path(ref), _let_pass(uid, webhooks), kind="json", manager=WEBHOOK_MANAGER)
        case adopt.Delete(ref, uid):
            await client.delete(_path(ref), uid=uid)
        case adopt.Scale():
            await _scale(client, step)
    return None


def _let_pass(uid: str, webhooks: Mapping[int, str]) -> tuple[Json, ...]:
    operations: list[Json] = [{"op": "test", "path": "/metadata/uid", "value": uid}]
    for index, name in webhooks.items():
        at = f"/webhooks/{index}"
        operations.append({"op": "test", "path": f"{at}/name", "value": name})
        operations.append({"op": "add", "path": f"{at}/failurePolicy", "value": "Ignore"})
    return tuple(operations)


async def _put(client: Client, step: adopt.Put) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await _is_put(client, step):  # noqa: ASYNC110 - the API server is asked
            await asyncio.sleep(PAUSE)


async def _put_if_allowed(client: Client, step: adopt.Put, job: str) -> adopt.Check | None:
    """Write the snapshot of a job, or return the note that its namespace does not take one."""
    try:
        await _put(client, step)
    except RetriableError:
        raise
    except ApiError as error:
        if not 400 <= error.code < 500:
            raise
        return adopt.without_snapshot(job, error.shown)
    return None


async def _is_put(client: Client, step: adopt.Put) -> bool:
    """Write the object; False if its webhook does not answer yet, though its Deployment is ready."""
    ref = adopt.model.ref_of(step.manifest)
    try:
        if step.uid is None:
            await client.create(_resource(ref).path(ref.namespace), step.manifest, manager=MANAGER)
        else:
            guard = {"uid": step.uid, "resourceVersion": step.resource_version}
            manifest = {**step.manifest, "metadata": {**step.manifest["metadata"], **guard}}
            await client.replace(_path(ref), manifest, manager=MANAGER)
    except ApiError as error:
        if error.code == 500 and names.UNANSWERED in error.message:
            return False
        raise
    return True


async def _scale(client: Client, step: adopt.Scale) -> None:
    operations = (
        {"op": "test", "path": "/metadata/uid", "value": step.uid},
        {"op": "test", "path": "/spec/replicas", "value": step.before},
        {"op": "replace", "path": "/spec/replicas", "value": step.after},
    )
    if step.before != step.after:
        await client.patch(_path(step.ref), operations, kind="json", manager=MANAGER)
    async with asyncio.timeout(PATIENCE):
        while not await _is_scaled(client, step):  # noqa: ASYNC110 - the API server is asked
            await asyncio.sleep(PAUSE)


async def _is_scaled(client: Client, step: adopt.Scale) -> bool:
    deployment = await client.get(_path(step.ref))
    if step.after == 0:
        return not await _is_working(client, deployment)
    status = deployment.get("status") or {}
    seen = status.get("observedGeneration") == deployment["metadata"].get("generation")
    return seen and status.get("readyReplicas") == step.after


async def _is_working(client: Client, deployment: Json) -> bool:
    """Whether a pod of a Deployment may be working.

    The Deployment's status no longer counts one that is being deleted. A pod that
    has ended, such as an evicted one, may stay for ever.
    """
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    own = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}
    pods = everything(client, PODS, deployment["metadata"]["namespace"], params=own)
    phases = [(pod.get("status") or {}).get("phase") async for pod in pods]
    return any(phase not in _ENDED for phase in phases)


async def _jobs(client: Client, operator_namespace: str) -> tuple[list[adopt.ForeignJob], list[str]]:
    """Every TrainJob with what it is built from, and the names of those that cannot be read."""
    trainjobs: list[model.TrainJob] = []
    unreadable: list[str] = []
    try:
        async for manifest in everything(client, TRAINJOBS):
            try:
                trainjobs.append(trainjob_of(manifest))
            except (AttributeError, KeyError, TypeError, ValueError):
                metadata = manifest["metadata"]
                unreadable.append(f"{metadata.get('namespace')}/{metadata.get('name')}")
    except NotFoundError:
        return [], []
    jobsets = {(jobset.namespace, jobset.name): jobset async for jobset in _jobsets(client)}
    kept = [revision_of(raw).runtime async for raw in everything(client, REVISIONS, operator_namespace)]
    live: dict[RuntimeKey, model.Runtime] = {}
    for kind, resource in RUNTIMES.items():
        async for manifest in everything(client, resource):
            runtime = runtime_of(manifest, kind).runtime
            live[RuntimeKey(kind, runtime.namespace, runtime.name)] = runtime
    recorded = [runtime for runtime in kept if runtime is not None]
    gate = asyncio.Semaphore(_AT_ONCE)

    async def job_of(trainjob: model.TrainJob) -> adopt.ForeignJob:
        jobset = jobsets.get((trainjob.namespace, trainjob.name))
        async with gate:
            configmap = await _get(
                client, CONFIGMAPS, trainjob.namespace, trainjob.name + revisions.SNAPSHOT_SUFFIX
            )
        snapshot = None if configmap is None else revisions.read_snapshot(configmap, trainjob)
        chosen = revisions.choose(trainjob, jobset, live.get(runtime_key(trainjob)), recorded, snapshot)
        occupied = configmap is not None and snapshot is None
        return adopt.ForeignJob(trainjob, jobset, chosen.runtime, chosen.lost, snapshot is not None, occupied)

    return list(await asyncio.gather(*map(job_of, trainjobs))), unreadable


async def _jobsets(client: Client) -> AsyncIterator[model.JobSet]:
    try:
        async for raw in undecoded(client, JOBSETS):
            yield jobset_of(raw).jobset
    except NotFoundError:
        return


async def _get(client: Client, resource: Resource, namespace: str | None, name: str) -> Json | None:
    try:
        return await client.get(resource.path(namespace, name))
    except NotFoundError:
        return None


def _recorded(record: Json | None) -> Iterator[tuple[Resource, str | None, str]]:
    """The places of the objects that the record names."""
    before = None if record is None else adopt.model.recorded(record)
    for ref in before.objects if before is not None else ():
        if (ref.api_version, ref.kind) in _RESOURCES:
            yield _resource(ref), ref.namespace or None, ref.name


def _resource(ref: Ref) -> Resource:
    return _RESOURCES[ref.api_version, ref.kind]


def _path(ref: Ref) -> str:
    return _resource(ref).path(ref.namespace, ref.name)
