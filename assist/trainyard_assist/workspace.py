"""A TrainJob that brings a folder with it: what holds the folder, a Secret or a volume, and what unpacks it.

Called by `trainyard run --workspace` with a folder that is packed already. The
result is a plain TrainJob: a patch that mounts what holds the folder and an
empty volume into each pod that trains, and a command that unpacks the one into
the other, installs the requirements that a file of the folder names, if the
user has said which file, and runs the TrainJob's own command there. No image of ours
takes part: an image needs `sh`, `tar` and `gzip`, and for requirements Python
with pip. Pure; writes nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainyard_api import json_reader, names, runtime_ref
from trainyard_api.errors import FieldPath, InvalidFieldError, UserError
from trainyard_api.json_types import Json, Manifest
from trainyard_api.printable import clean
from trainyard_operator.core.build.framework import UnsupportedPolicyError
from trainyard_operator.core.build.plugins import torch

from . import offline
from .workspace_scripts import ARCHIVE, FOLDER, INSTALLER, PACKED, WRAPPERS

MOST: Final = 700 * 1024
"""Bytes of a packed folder: a Secret holds 1 MiB."""
ON_VOLUME: Final = "trainyard-workspaces"
"""The folder of a claim in which each folder that was sent has one of its own, by its digest."""
_CARRIER: Final = {"cpu": "500m", "memory": "256Mi"}
"""What a carrier has: it writes a file."""
_CARRIER_SUFFIX: Final = "-folder"
_LONGEST_CARRIER: Final = 33
"""Characters of its name: a runtime with a `dataset-initializer` has room for no more."""
_MARK: Final = 6
"""Characters of a digest that tell a name that is cut from others."""
_FOLDER_VOLUME: Final = "trainyard-workspace"
_PACKED_VOLUME: Final = "trainyard-packed"

_ANNOTATIONS: Final = (
    names.WORKSPACE,
    names.GIT_COMMIT_ANNOTATION,
    names.GIT_BRANCH_ANNOTATION,
    names.GIT_DIRTY_ANNOTATION,
    names.REQUIREMENTS_ANNOTATION,
    names.WORKSPACE_VOLUME_ANNOTATION,
)
_DIGEST: Final = "sha256:"
_SHOWN: Final = 10
"""Characters of the digest in the name of a Secret."""
_LONGEST_BRANCH: Final = 200
_TRAINER: Final = FieldPath("spec.trainer")
_METADATA: Final = FieldPath("metadata")
_PATCHES: Final = FieldPath("spec.runtimePatches")


class WorkspaceError(UserError):
    """A folder cannot travel with a TrainJob; says why, and the way out."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A folder as one archive."""

    archive: bytes
    """A gzipped tar."""
    digest: str
    """SHA-256 of the tar, as hexadecimal digits: the same for the same content."""
    commit: str = ""
    """The commit that it is a copy of; empty outside of git."""
    branch: str = ""
    dirty: bool = False
    """Whether it has changes that the commit has not."""
    requirements: str = ""
    """The file of it, relative to it, whose requirements are installed before the command; empty for none."""
    claim: str = ""
    """The PersistentVolumeClaim on which the archive is, or will be; empty: in a Secret."""

    @property
    def origin(self) -> str:
        """Its commit, in words; empty outside of git."""
        branch = f" of {clean(self.branch)}" if self.branch else ""
        changes = " with changes that it has not" if self.dirty else ""
        return f"commit {clean(self.commit)[:_SHOWN]}{branch}{changes}" if self.commit else ""


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects that are created for a TrainJob with a folder, in this order.

    A pod waits until a Secret that it mounts is there, and the Secret can only belong to what exists.
    """

    trainjob: Manifest
    secret: Manifest
    """Without its owner (`owned`); empty where the folder is on a volume."""


def with_workspace(manifest: Json, packed: Packed, runtime: Json, nonce: str) -> Objects:
    """The TrainJob that unpacks the folder on each node and runs its command there, and the Secret for it.

    Args:
        manifest: The TrainJob as it would be sent without the folder; it has a name and a namespace. A
            folder that it has is replaced.
        packed: The folder.
        runtime: The runtime to which the TrainJob refers, as the API server returns it.
        nonce: Some characters that no other TrainJob of this name had: what was deleted may not be gone yet.

    Raises:
        WorkspaceError: The folder is too large, the TrainJob or its runtime is invalid, or nobody knows which
            command they start.
    """
    if not packed.claim and len(packed.archive) > MOST:
        raise WorkspaceError(f"the packed workspace has {len(packed.archive)} bytes, but may have {MOST}")
    try:
        return _with_workspace(manifest, packed, runtime, nonce)
    except InvalidFieldError as error:
        raise WorkspaceError(clean(str(error))) from error


def carrier(manifest: Json, runtime: Json, claim: str, command: Sequence[str]) -> Manifest:
    """A small TrainJob that has a claim at `PACKED`, to bring a folder there before it is sent.

    Args:
        manifest: The TrainJob that has the folder; the carrier runs where that would, on one node.
        runtime: The runtime to which it refers, as the API server returns it.
        claim: The PersistentVolumeClaim.
        command: What the carrier runs.

    Raises:
        WorkspaceError: The TrainJob or its runtime is invalid.
    """
    try:
        plain = without_workspace(manifest)
        metadata, trainer = plain["metadata"], plain["spec"].get("trainer") or {}
        labels = {**(metadata.get("labels") or {})}
        labels.pop(names.FOLDER_LABEL, None)
        small = {"requests": _CARRIER, "limits": _CARRIER}
        kept = {"image": trainer["image"]} if trainer.get("image") else {}
        started: Manifest = {
            **plain,
            "metadata": {
                "name": _carrier_name(metadata["name"]),
                "namespace": metadata["namespace"],
                **({"labels": labels} if labels else {}),
            },
            "spec": {
                **plain["spec"],
                "trainer": {**kept, "numNodes": 1, "command": [*command], "resourcesPerNode": small},
            },
        }
        pod = {
            "volumes": [{"name": _PACKED_VOLUME, "persistentVolumeClaim": {"claimName": claim}}],
            "containers": [
                {"name": names.NODE, "volumeMounts": [{"name": _PACKED_VOLUME, "mountPath": PACKED}]}
            ],
        }
        patch = _patch_of(tuple(_jobs(started, runtime, command)), pod)
        patches = [*(started["spec"].get("runtimePatches") or ()), patch]
        return {**started, "spec": {**started["spec"], "runtimePatches": patches}}
    except InvalidFieldError as error:
        raise WorkspaceError(clean(str(error))) from error


def _carrier_name(name: str) -> str:
    """That of the carrier of a TrainJob: a long name is cut, and a digest tells it from others."""
    if len(name) + len(_CARRIER_SUFFIX) > _LONGEST_CARRIER:
        mark = f"-{hashlib.sha256(name.encode()).hexdigest()[:_MARK]}{_CARRIER_SUFFIX}"
        return name[: _LONGEST_CARRIER - len(mark)] + mark
    return name + _CARRIER_SUFFIX


def without_workspace(manifest: Json) -> Manifest:
    """The TrainJob without the folder that it brings with it, if it does; its command then starts elsewhere.

    Raises:
        InvalidFieldError: It is no TrainJob where that is looked for.
    """
    metadata = json_reader.mapping(manifest.get("metadata"), _METADATA)
    spec = dict(json_reader.mapping(manifest.get("spec"), FieldPath("spec")))
    trainer = json_reader.mapping(spec.get("trainer"), _TRAINER)
    command = json_reader.texts(trainer.get("command"), _TRAINER.child("command"))
    if tuple(command[:4]) in WRAPPERS:
        own = command[4:]
        if tuple(own[:4]) == INSTALLER:
            own = own[5:]
        spec["trainer"] = {**trainer, "command": list(own)}
    if patches := json_reader.objects(spec.pop("runtimePatches", None), _PATCHES):
        others = [patch for patch in patches if patch.get("manager") != names.WORKSPACE]
        spec |= {"runtimePatches": others} if others else {}
    annotations = json_reader.text_map(metadata.get("annotations"), _METADATA.child("annotations"))
    kept = {key: text for key, text in annotations.items() if key not in _ANNOTATIONS}
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**manifest, "metadata": {**rest, **({"annotations": kept} if kept else {})}, "spec": spec}


def owned(secret: Json, trainjob: Json) -> Manifest:
    """The Secret as it is created: it is deleted with the TrainJob, which the API server has stored."""
    metadata = trainjob["metadata"]
    owner = {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": names.TRAINJOB,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {**secret, "metadata": {**secret["metadata"], "ownerReferences": [owner]}}


def secret_of(manifest: Json) -> str | None:
    """The name of the Secret that holds a TrainJob's folder; None without one.

    Raises:
        InvalidFieldError: It is no TrainJob where that is looked for.
    """
    spec = json_reader.mapping(manifest.get("spec"), FieldPath("spec"))
    for position, patch in enumerate(json_reader.objects(spec.get("runtimePatches"), _PATCHES)):
        if patch.get("manager") == names.WORKSPACE:
            return next(_secret_names(patch, _PATCHES.index(position)), None)
    return None


def on_volume(manifest: Json) -> Packed | None:
    """The folder that a TrainJob has on a volume, without its archive, to send it again; None without one.

    Raises:
        InvalidFieldError: It is no TrainJob where that is looked for.
    """
    packed = _packed(b"", manifest)
    return packed if packed.claim else None


def packed_in(secret: Json, trainjob: Json) -> Packed:
    """The folder that a TrainJob was sent with, to send it again.

    Raises:
        WorkspaceError: The Secret holds none.
    """
    name = clean(str(secret["metadata"]["name"]))
    try:
        archive = base64.b64decode((secret.get("data") or {})[ARCHIVE], validate=True)
    except (KeyError, TypeError, ValueError) as error:
        raise WorkspaceError(
            f"Secret {name} holds no workspace: send the TrainJob with its folder"
        ) from error
    return _packed(archive, trainjob)


def _packed(archive: bytes, trainjob: Json) -> Packed:
    """What the annotations of a TrainJob say of its folder."""
    metadata = json_reader.mapping(trainjob.get("metadata"), _METADATA)
    annotations = json_reader.text_map(metadata.get("annotations"), _METADATA.child("annotations"))
    return Packed(
        archive,
        annotations.get(names.WORKSPACE, "").removeprefix(_DIGEST),
        annotations.get(names.GIT_COMMIT_ANNOTATION, ""),
        annotations.get(names.GIT_BRANCH_ANNOTATION, ""),
        dirty=annotations.get(names.GIT_DIRTY_ANNOTATION) == "true",
        requirements=annotations.get(names.REQUIREMENTS_ANNOTATION, ""),
        claim=annotations.get(names.WORKSPACE_VOLUME_ANNOTATION, ""),
    )


def _with_workspace(manifest: Json, packed: Packed, runtime: Json, nonce: str) -> Objects:
    plain = without_workspace(manifest)
    metadata = json_reader.mapping(plain.get("metadata"), _METADATA)
    name = json_reader.required_text(metadata.get("name"), _METADATA.child("name"))
    secret_name = f"{name}-workspace-{packed.digest[:_SHOWN]}-{nonce}"
    wrapper = WRAPPERS[_is_mpi(runtime)]
    if packed.requirements and _is_mpi(runtime):
        raise WorkspaceError(
            "requirements are not installed on the nodes of an MPI job, which start no command of the "
            "TrainJob: put them into the image"
        )
    installer = (*INSTALLER, packed.requirements) if packed.requirements else ()
    started = _with_command(plain, [*wrapper, *installer, *_command(plain, runtime)])
    jobs = tuple(_jobs(started, runtime, wrapper))
    source = _on_volume(packed) if packed.claim else _in_secret(secret_name)
    patches = [*(started["spec"].get("runtimePatches") or ()), _patch(jobs, *source)]
    annotations = {**(metadata.get("annotations") or {}), **_annotations(packed)}
    trainjob = {
        **started,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**started["spec"], "runtimePatches": patches},
    }
    namespace = json_reader.required_text(metadata.get("namespace"), _METADATA.child("namespace"))
    return Objects(trainjob, {} if packed.claim else _secret(namespace, secret_name, packed))


def _annotations(packed: Packed) -> dict[str, str]:
    texts = {
        names.GIT_COMMIT_ANNOTATION: packed.commit,
        names.GIT_BRANCH_ANNOTATION: clean(packed.branch, _LONGEST_BRANCH),
        names.GIT_DIRTY_ANNOTATION: "true" if packed.dirty else "",
        names.REQUIREMENTS_ANNOTATION: packed.requirements,
        names.WORKSPACE_VOLUME_ANNOTATION: packed.claim,
    }
    return {names.WORKSPACE: _DIGEST + packed.digest, **{key: text for key, text in texts.items() if text}}


def _secret(namespace: str, name: str, packed: Packed) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,  # whoever applies it may be in another one
            "annotations": {names.WORKSPACE: _DIGEST + packed.digest},
        },
        "type": names.WORKSPACE,
        "immutable": True,
        "data": {ARCHIVE: base64.b64encode(packed.archive).decode()},
    }


def _is_mpi(runtime: Json) -> bool:
    policy, _ = json_reader.below(runtime, FieldPath(), "spec", "mlPolicy")
    return policy.get("mpi") is not None


def _command(manifest: Json, runtime: Json) -> Sequence[str]:
    """The TrainJob's command, or else that of its runtime."""
    trainer = json_reader.mapping(manifest["spec"].get("trainer"), _TRAINER)
    if torch.runs_torchtune(trainer):
        raise WorkspaceError(
            "the platform completes the command `tune run` by itself, so a workspace cannot travel with it: "
            "name another command, or a runtime such as trl-sft"
        )
    command = json_reader.texts(trainer.get("command"), _TRAINER.child("command"))
    if command:
        return command
    if trainer.get("command") is not None:
        raise WorkspaceError(
            "the TrainJob's command is empty, so the image's own starts, which is not known here: give a "
            "command"
        )
    for job in _replicated_jobs(manifest, runtime):
        labels = (job["template"].get("metadata") or {}).get("labels") or {}
        if labels.get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER and _container(job).get("command"):
            return list(_container(job)["command"])
    name = runtime_ref.of(manifest["spec"]).name
    raise WorkspaceError(
        f"neither the TrainJob nor runtime {clean(name)} names a command, "
        "and what the image starts by itself is not known here: give a command"
    )


def _with_command(manifest: Json, command: Sequence[str]) -> Manifest:
    trainer = {**(manifest["spec"].get("trainer") or {}), "command": list(command)}
    return {**manifest, "spec": {**manifest["spec"], "trainer": trainer}}


def _jobs(manifest: Json, runtime: Json, wrapper: Sequence[str]) -> Iterator[str]:
    """The ReplicatedJobs whose pods need the folder: those that start the command, and MPI's nodes."""
    for job in _replicated_jobs(manifest, runtime):
        starts = tuple(_container(job).get("command") or ())[: len(wrapper)] == tuple(wrapper)
        if starts or (_is_mpi(runtime) and job["name"] == names.NODE):
            yield job["name"]


def _replicated_jobs(manifest: Json, runtime: Json) -> Sequence[Json]:
    """ReplicatedJobs of the JobSet that the operator would build."""
    try:
        jobs: Sequence[Json] = offline.jobset(manifest, runtime)["spec"]["replicatedJobs"]
    except UnsupportedPolicyError as error:
        raise WorkspaceError(f"runtime {clean(runtime_ref.of(manifest['spec']).name)}: {error}") from error
    return jobs


def _container(job: Json) -> Json:
    """The container that trains; empty without one."""
    containers: Sequence[Json] = job["template"]["spec"]["template"]["spec"].get("containers") or ()
    return next((container for container in containers if container.get("name") == names.NODE), {})


def _in_secret(name: str) -> tuple[Manifest, Manifest]:
    """The volume that holds the archive, and its mount."""
    items = [{"key": ARCHIVE, "path": ARCHIVE}]
    return {"secret": {"secretName": name, "items": items}}, {"readOnly": True}


def _on_volume(packed: Packed) -> tuple[Manifest, Manifest]:
    claim = {"persistentVolumeClaim": {"claimName": packed.claim}}
    return claim, {"subPath": f"{ON_VOLUME}/{packed.digest}", "readOnly": True}


def _patch(jobs: Sequence[str], source: Manifest, mount: Manifest) -> Manifest:
    pod = {
        "volumes": [{"name": _FOLDER_VOLUME, "emptyDir": {}}, {"name": _PACKED_VOLUME, **source}],
        "containers": [
            {
                "name": names.NODE,
                "volumeMounts": [
                    {"name": _FOLDER_VOLUME, "mountPath": FOLDER},
                    {"name": _PACKED_VOLUME, "mountPath": PACKED, **mount},
                ],
            }
        ],
    }
    return _patch_of(jobs, pod)


def _patch_of(jobs: Sequence[str], pod: Manifest) -> Manifest:
    replicated = [{"name": job, "template": {"spec": {"template": {"spec": pod}}}} for job in jobs]
    return {
        "manager": names.WORKSPACE,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": replicated}}},
    }


def _secret_names(patch: Json, path: FieldPath) -> Iterator[str]:
    spec, at = json_reader.below(patch, path, "trainingRuntimeSpec", "template", "spec")
    at = at.child("replicatedJobs")
    for position, job in enumerate(json_reader.objects(spec.get("replicatedJobs"), at)):
        pod, where = json_reader.below(job, at.index(position), "template", "spec", "template", "spec")
        where = where.child("volumes")
        for place, volume in enumerate(json_reader.objects(pod.get("volumes"), where)):
            if volume.get("name") == _PACKED_VOLUME and "secret" in volume:
                source, of = json_reader.below(volume, where.index(place), "secret")
                yield json_reader.required_text(source.get("secretName"), of.child("secretName"))
