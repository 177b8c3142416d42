"""Drafts a TrainJob against its cluster, with the rights of its user, and sends it.

Called by `trainyard run` and `trainyard clone`. A draft only reads, and has the
API server try the TrainJob in a dry run: so what admission answers is the answer
of this cluster.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from trainyard_api import names, runtime_ref, shown, similar
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean
from trainyard_assist import offline, read
from trainyard_assist.quota.model import Answer
from trainyard_assist.quota.words import sentence
from trainyard_assist.run import interactive
from trainyard_assist.run.plan import Draft, Queue
from trainyard_assist.run.runtime import Runtime
from trainyard_assist.run.settings import Settings
from trainyard_assist.run.trainjob import GPU, base_name, comparable, gpu_of, names_gpu, trainjob
from trainyard_assist.workspace import Objects, Packed, carrier, with_workspace, without_workspace
from trainyard_delivery.drift import paths
from trainyard_delivery.drift.differences import ABSENT, differences
from trainyard_kube.client import (
    ApiError,
    Client,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    Resource,
    RetriableError,
    UnauthorizedError,
)
from trainyard_kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    RUNTIMES,
    SECRETS,
    TRAINJOBS,
    VOLUME_CLAIMS,
)

from . import job_names, queues, workspace
from .lists import everything
from .observe import expected

DEFAULT_RUNTIME: Final = "torch-distributed"
"""As in Kubeflow's SDK."""
CARRIER: Final = interactive.Waiting(seconds=3600.0, idle=0)
"""How long a carrier waits that nobody ends."""
TRIES: Final = 3
"""Names that are generated until one is free."""
_LONGEST: Final = 60
"""Characters of a value that has changed."""
_NO_RIGHT: Final = re.compile(r"cannot (create|get|list) resource")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,252}")
"""Keys of a Secret that can be variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for a draft."""

    namespace: str
    settings: Settings
    suffix: Callable[[], str]
    """Makes the end of a generated name, another each time."""
    folder: str = ""
    """The label of the folder that it is run from; empty for none."""
    copied: str = ""
    """The TrainJob that it is a copy of; empty for none."""
    packed: Packed | None = None
    """The folder that travels with it; None for none, or for that of the TrainJob that it is a copy of."""
    remarks: tuple[str, ...] = ()
    """What to say of that folder."""
    waiting: interactive.Waiting | None = None
    """How long it waits for its user; None if it runs a command."""


async def draft(client: Client, request: Request, warnings: Sequence[str]) -> Draft:
    """The TrainJob that would be sent, and what the cluster says of it; sends nothing.

    Args:
        client: Whose rights are used.
        request: The requested TrainJob.
        warnings: Where the client puts the warnings of the API server.

    Raises:
        UserError: The cluster lacks what the TrainJob names, or its user a right.
        InvalidFieldError: What the cluster has is no TrainJob or runtime.
        ApiError: The API server does not answer.
    """
    settings, namespace = request.settings, request.namespace
    copied = await _copied(client, namespace, request.copied) if request.copied else None
    runtime = await runtime_of(client, namespace, settings, copied)
    secret_keys, remarks = await _secret_keys(client, namespace, settings.secrets)
    base = interactive.NAME if request.waiting else base_name(settings.command, request.copied)
    if request.waiting is not None:
        command = request.waiting.command(settings.nodes or runtime.nodes)
        settings = settings.model_copy(update={"command": [*command]})
    packed, about = await _packed(client, request, copied)
    gpu, assumed = await _gpu(client, namespace, settings, runtime, copied)
    plain = trainjob(
        settings,
        runtime,
        namespace=namespace,
        name=settings.name or f"{base}-{request.suffix()}",
        folder=_folder(request, copied),
        secret_keys=secret_keys,
        copied=None if copied is None else without_workspace(copied),
        gpu=gpu,
    )
    objects = with_workspace(plain, packed, runtime.manifest, request.suffix()) if packed else None
    manifest = plain if objects is None else objects.trainjob
    carries = None
    if request.packed is not None and request.packed.claim:
        await _require_claim(client, namespace, request.packed.claim)
        carries = carrier(plain, runtime.manifest, request.packed.claim, CARRIER.command(1))
    refusal = await _refusal(client, manifest)
    warnings = tuple(dict.fromkeys(warnings))
    if carries is not None and not refusal and (why := await _refusal(client, carries)):
        refusal = f"TrainJob {carries['metadata']['name']}, which brings the folder: {why}"
    queue, last = await asyncio.gather(
        _queue(client, manifest, runtime.manifest), _last(client, namespace, request.folder, copied)
    )
    return Draft(
        trainjob=manifest,
        secret=(None if objects is None else objects.secret) or None,
        carrier=carries,
        shell=request.waiting.sentence(settings.nodes or runtime.nodes) if request.waiting else "",
        workspace=about,
        runtime=runtime,
        queue=queue,
        refusal=refusal,
        warnings=warnings,
        remarks=(*remarks, *assumed),
        last=last,
        changes=() if last is None else tuple(_changes(last, manifest)),
    )


async def send(client: Client, draft: Draft, new_name: Callable[[], str] | None) -> dict[str, Any]:
    """Create the TrainJob, with its workspace if it has one; returns it as it is stored.

    Args:
        client: Whose rights are used.
        draft: What to send.
        new_name: Another generated name, where this one is taken meanwhile; None if its user gave it.

    Raises:
        UserError: It was not sent; or nobody knows whether it was, and how to see that.
    """
    manifest = draft.trainjob
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    if draft.secret is not None:
        return await workspace.send(client, namespace, Objects(dict(manifest), dict(draft.secret)))
    for attempt in range(TRIES):
        try:
            return await create(client, manifest)
        except ConflictError as error:
            if new_name is None or attempt == TRIES - 1:
                raise _taken(client, namespace, name) from error
            name = new_name()
            manifest = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
    raise AssertionError  # the last try has returned or raised


async def create(client: Client, manifest: Json) -> dict[str, Any]:
    """Create a TrainJob; returns it as it is stored, also if nobody has said so.

    Raises:
        UserError: Nobody has answered, and it is not there, or nobody knows whether it is; says how to look.
        ApiError: It is refused.
    """
    try:
        return await client.create(TRAINJOBS.path(manifest["metadata"]["namespace"]), manifest)
    except UnauthorizedError:
        raise
    except RetriableError as error:
        return await _after_silence(client, manifest, error)


async def _after_silence(client: Client, manifest: Json, error: ApiError) -> dict[str, Any]:
    """The TrainJob, if it was stored though nobody has said so."""
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    jobs = client.credentials.command("trainyard", "jobs", "-n", namespace)
    try:
        stored = await client.get(TRAINJOBS.path(namespace, name))
    except NotFoundError:
        again = f"before you send it again, look for it once more: {jobs}"
        sentence = f"there is no TrainJob {namespace}/{name} after this answer: {error}; {again}"
        raise UserError(clean(sentence)) from error
    except ApiError:
        sentence = (
            f"it is unknown whether TrainJob {namespace}/{name} was created ({error}); look for it: {jobs}"
        )
        raise UserError(clean(sentence)) from error
    if read.at(stored, "spec", "trainer") != read.at(manifest, "spec", "trainer"):
        raise _taken(client, namespace, name) from error
    return stored


async def _copied(client: Client, namespace: str, job: str) -> Json:
    try:
        return await client.get(TRAINJOBS.path(namespace, job))
    except NotFoundError as error:
        raise await job_names.not_found(client, namespace, job, error) from error
    except ForbiddenError as error:
        raise _not_allowed(f"get TrainJob {job}", namespace) from error


def _folder(request: Request, copied: Json | None) -> str:
    """The label of the folder that it is sent from; a copy has none if it takes nothing along from there."""
    of_copied = read.texts(copied, "metadata", "labels").get(names.FOLDER_LABEL)
    is_from_there = copied is None or request.packed is not None or of_copied == request.folder
    return request.folder if is_from_there else ""


async def _packed(
    client: Client, request: Request, copied: Json | None
) -> tuple[Packed | None, tuple[str, ...]]:
    """The folder that travels with it, else that of what it copies; and what to say of it.

    Raises:
        UserError: The copy would lack the requirements that are installed for what it copies.
    """
    installed = read.texts(copied, "metadata", "annotations").get(names.REQUIREMENTS_ANNOTATION)
    if installed and request.packed is not None and not request.packed.requirements:
        raise UserError(
            clean(
                f"TrainJob {request.copied} installs the requirements of {installed}: name a file with them "
                "in the new folder with --requirements, or send the command with `trainyard run`"
            )
        )
    if request.packed is not None or copied is None or request.settings.workspace is not None:
        return request.packed, request.remarks
    packed = await workspace.fetch(client, request.namespace, copied)
    if packed is None:
        return None, ()
    return packed, ("; ".join(filter(None, (f"that of {request.copied}", packed.origin))),)


async def runtime_of(
    client: Client, namespace: str, settings: Settings, copied: Json | None = None
) -> Runtime:
    """The runtime that is named: of the namespace, or else of all.

    Args:
        client: Whose rights are used.
        namespace: That of the TrainJob.
        settings: What it says.
        copied: The TrainJob that it is a copy of.

    Raises:
        UserError: There is none, or its user may not see it.
        ApiError: The API server does not answer.
    """
    name, kinds = settings.runtime or DEFAULT_RUNTIME, list(RUNTIMES.values())
    if copied is not None and not settings.runtime:
        reference = runtime_ref.of(read.at(copied, "spec") or {})
        name, kinds = reference.name, [kind for kind in kinds if kind.kind == reference.kind]
    missing = 0
    refused: UserError | None = None
    for kind in kinds:
        try:
            return Runtime({**await client.get(kind.path(namespace, name)), "kind": kind.kind})
        except NotFoundError as error:
            missing += error.resource_missing
        except ForbiddenError:  # there may be one of all namespaces
            refused = refused or _not_allowed(f"get {kind.kind} {name}", namespace)
    if refused is not None:
        raise refused
    if missing == len(kinds):
        source = client.credentials.source
        raise UserError(clean(f"{source}: there is no TrainJob API: Trainyard is not installed"))
    allowed = [name for kind in RUNTIMES.values() for name in await _names(client, namespace, kind)]
    there = f" (there are: {', '.join(sorted(allowed))})" if allowed else ""
    raise UserError(clean(f"there is no runtime {name}{there}{similar.hint(name, allowed)}"))


async def _names(client: Client, namespace: str, kind: Resource) -> list[str]:
    try:
        return await job_names.names_in(client, namespace, kind)
    except ApiError:
        return []


async def _require_claim(client: Client, namespace: str, name: str) -> None:
    """Raises `UserError` if the namespace has no such claim; who may not see it hears so of its pods."""
    try:
        with suppress(ForbiddenError):
            await client.get(VOLUME_CLAIMS.path(namespace, name))
    except NotFoundError as error:
        near = similar.hint(name, await _names(client, namespace, VOLUME_CLAIMS))
        raise UserError(
            clean(f"namespace {namespace} has no PersistentVolumeClaim {name}{near}: make it first")
        ) from error


async def _secret_keys(
    client: Client, namespace: str, secrets: Sequence[str]
) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """The keys of each Secret that become variables, and those that cannot."""
    keys: dict[str, list[str]] = {}
    remarks = []
    for secret in secrets:
        name, _, key = secret.partition(":")
        try:
            there = sorted(read.texts(await client.get(SECRETS.path(namespace, name)), "data"))
        except NotFoundError as error:
            raise UserError(f"there is no Secret {name} in namespace {namespace}") from error
        except ForbiddenError as error:
            if not key:
                raise UserError(
                    f"you are not allowed to get Secret {name} in namespace {namespace}: "
                    f"name its keys, as in --secret {name}:KEY"
                ) from error
            there = [key]
        if key and key not in there:
            raise UserError(clean(f"Secret {name} has no key {key}{similar.hint(key, there)}"))
        usable = [key] if key else [key for key in there if _VARIABLE.fullmatch(key)]
        if not usable:
            raise UserError(
                clean(f"Secret {name} has no key that can be a variable (it has: {', '.join(there)})")
            )
        keys[name] = list(dict.fromkeys((*keys.get(name, ()), *usable)))
        if left := [] if key else [key for key in there if key not in usable]:
            remarks.append(f"keys of Secret {name} that cannot be variables: {', '.join(left)}")
    return keys, tuple(remarks)


async def _refusal(client: Client, manifest: Json) -> str:
    """Why the API server would refuse it; empty if it would store it."""
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    try:
        await client.create(TRAINJOBS.path(namespace), manifest, dry_run=True)
    except ConflictError as error:
        raise _taken(client, namespace, name) from error
    except NotFoundError as error:
        raise UserError(clean(f"there is no namespace {namespace}: {error.message}")) from error
    except RetriableError:
        raise
    except ApiError as error:
        if isinstance(error, ForbiddenError) and _NO_RIGHT.search(error.message):
            raise _not_allowed("create TrainJobs", namespace) from error
        return error.message
    return ""


def _taken(client: Client, namespace: str, name: str) -> UserError:
    delete = client.credentials.command("kubectl", "delete", "trainjob", name, "-n", namespace)
    return UserError(
        f"namespace {namespace} has a TrainJob {name} already: choose another --name, "
        f"or delete that one: {delete}"
    )


def _not_allowed(action: str, namespace: str) -> UserError:
    return UserError(clean(f"you are not allowed to {action} in namespace {namespace}"))


async def _queue(client: Client, manifest: Json, runtime: Json) -> Queue:
    """The queue that it goes into, whether it would start there now, and where it would wait."""
    namespace, labels = manifest["metadata"]["namespace"], read.texts(manifest, "metadata", "labels")
    name = labels.get(names.QUEUE_LABEL) or names.DEFAULT_QUEUE
    try:
        local = await client.get(LOCAL_QUEUES.path(namespace, name))
    except NotFoundError as error:
        if error.resource_missing:
            return Queue(name="")  # there is no Kueue
        if names.QUEUE_LABEL not in labels:
            return Queue(name="")
        hint = similar.hint(name, await _names(client, namespace, LOCAL_QUEUES))
        raise UserError(clean(f"namespace {namespace} has no LocalQueue {name}{hint}")) from error
    except ForbiddenError:
        unseen = "you are not allowed to get LocalQueues"
        return Queue(name=labels.get(names.QUEUE_LABEL, ""), unseen=unseen)
    active = read.condition(local, "Active")
    stopped = read.text(active, "message") if read.text(active, "status") == "False" else ""
    priority, unknown = await _priority(client, labels.get(names.PRIORITY_CLASS_LABEL, ""))
    workload = {
        "metadata": {
            "name": manifest["metadata"]["name"],
            "namespace": namespace,
            "creationTimestamp": f"{client.time.now():%Y-%m-%dT%H:%M:%SZ}",
        },
        "spec": {"queueName": name, "priority": priority},
    }
    if unknown:
        return Queue(name=name, stopped=stopped, unseen=unknown)
    seen, verdict = await asyncio.gather(
        expected(client, namespace, workload), _verdict(client, local, manifest, runtime, priority)
    )
    return Queue(name=name, verdict=verdict, place=seen.place, stopped=stopped, unseen=seen.unseen)


async def _gpu(
    client: Client, namespace: str, settings: Settings, runtime: Runtime, copied: Json | None
) -> tuple[str, tuple[str, ...]]:
    """The resource of a GPU, if settings want some and nothing else says which it is: that of the queue.

    And what to say of it, where the queue could not be seen.
    """
    if not settings.gpus or names_gpu(runtime, copied):
        return GPU, ()
    of_copied = read.texts(copied, "metadata", "labels").get(names.QUEUE_LABEL)
    name = settings.queue or of_copied or names.DEFAULT_QUEUE
    try:
        local = await client.get(LOCAL_QUEUES.path(namespace, name))
        behind = read.text(local, "spec", "clusterQueue")
        return gpu_of(await client.get(CLUSTER_QUEUES.path(None, behind))) if behind else GPU, ()
    except NotFoundError:
        return GPU, ()
    except ForbiddenError:
        why = f"you are not allowed to get LocalQueue {name} or its ClusterQueue"
        return GPU, (f"which GPUs the queue has: {why}; {GPU} is assumed",)


async def _verdict(client: Client, local: Json, manifest: Json, runtime: Json, priority: int) -> str:
    """The forecast if it is sent now, as text; empty if too little can be seen."""
    metadata = manifest["metadata"]
    job = f"{metadata['namespace']}/{metadata['name']}"
    try:
        verdict = await queues.forecast(client, local, offline.jobset(manifest, runtime), job, priority)
    except NotFoundError:
        return ""
    except ValueError:  # it is invalid, as admission says in the plan
        return ""
    # Who is before it, the plan says with its place.
    return "" if verdict.answer is Answer.UNKNOWN else sentence(replace(verdict, before=()))


async def _priority(client: Client, name: str) -> tuple[int, str]:
    """The number of a WorkloadPriorityClass, and why it cannot be seen."""
    if not name:
        return 0, ""
    try:
        return read.number(await client.get(PRIORITY_CLASSES.path(None, name)), "value"), ""
    except NotFoundError as error:
        hint = similar.hint(name, await _names(client, "", PRIORITY_CLASSES))
        raise UserError(clean(f"there is no WorkloadPriorityClass {name}{hint}")) from error
    except ForbiddenError:
        return 0, f"you are not allowed to get WorkloadPriorityClass {name}"


async def _last(client: Client, namespace: str, folder: str, copied: Json | None) -> Json | None:
    """The TrainJob to compare with: the copied one, else the newest visible one of the folder."""
    if copied is not None or not folder:
        return copied
    params = {"labelSelector": f"{names.FOLDER_LABEL}={folder}"}
    try:
        trainjobs = [job async for job in everything(client, TRAINJOBS, namespace, params=params)]
    except ApiError:
        return None
    of_folder = [
        job for job in trainjobs if read.texts(job, "metadata", "labels").get(names.FOLDER_LABEL) == folder
    ]
    return max(of_folder, key=lambda job: read.text(job, "metadata", "creationTimestamp"), default=None)


def _changes(before: Json, after: Json) -> Iterator[str]:
    """Each difference as `path: before -> after`."""
    for change in differences(comparable(before), comparable(after)):
        first, second = shown.apart(_value(change.git), _value(change.cluster), _LONGEST)
        yield f"{paths.text(change.path)}: {first} -> {second}"


def _value(value: Any) -> str:
    if value is ABSENT or value == "":
        return "nothing"
    return clean(value if isinstance(value, str) else msgspec.json.encode(value).decode())
