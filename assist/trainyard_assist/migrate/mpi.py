"""MPIJob of both operators: the training operator's (v1) and the MPI operator's (v2beta1).

The result always has a runtime of its own: launcher and workers have two pod
templates, and a TrainJob covers only the launcher's. As in v2beta1, the
launcher starts the ranks over SSH; v1 used `kubectl exec`, for which an image
needed no SSH server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, required
from trainyard_api.json_types import Json

from . import pods, policy, references
from .notes import Notes
from .source import Job, Kind, Role, count, read
from .target import Beside, Blueprint, Catalog, build

KIND_V1: Final = Kind(
    name="MPIJob",
    replicas="mpiReplicaSpecs",
    types=("Launcher", "Worker"),
    container=None,
    port_name="mpi-port",
    port=9999,
    restart_policy="Never",
    others=frozenset({"slotsPerWorker", "cleanPodPolicy", "mainContainer"}),
)
KIND_V2: Final = replace(
    KIND_V1,
    restart_policy="OnFailure",
    never_is_final=False,
    others=frozenset(
        {
            "slotsPerWorker",
            "sshAuthMountPath",
            "launcherCreationPolicy",
            "mpiImplementation",
            "runLauncherAsWorker",
            "waitForWorkers",
        }
    ),
)
_DEFAULT_KEYS: Final = "/root/.ssh"
_SSH_SERVER: Final = ("/usr/sbin/sshd", "-De")
_SPEC: Final = FieldPath("spec")


def convert_v1(value: Json, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob and its runtime for a job of the training operator; raises `InvalidFieldError`."""
    spec = json_reader.mapping(value.get("spec"), _SPEC)
    main = json_reader.text(spec.get("mainContainer"), _SPEC.child("mainContainer"))
    job = read(value, replace(KIND_V1, container=main or None), notes)
    if "cleanPodPolicy" in spec and "cleanPodPolicy" not in job.run_policy:
        job = replace(job, run_policy={**job.run_policy, "cleanPodPolicy": spec["cleanPodPolicy"]})
    message = "ranks are started over SSH, no longer by kubectl exec: the image needs sshd and ssh"
    notes.lost(_SPEC.child(KIND_V1.replicas), message)
    worker = job.roles.get("Worker")
    if worker is not None and pods.commands(worker):
        message = f"is {' '.join(_SSH_SERVER)}: workers wait for ssh, no longer for kubectl exec"
        notes.changed(worker.container_path.child("command"), message)
        idle = {key: value for key, value in worker.container.items() if key not in ("command", "args")}
        job = replace(job, roles={**job.roles, "Worker": worker.with_container(idle)})
    return _convert(job, {}, catalog, notes)


def convert_v2(value: Json, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob and its runtime for a job of the MPI operator; raises `InvalidFieldError`."""
    job = read(value, KIND_V2, notes)
    path = _SPEC.child("mpiImplementation")
    implementation = json_reader.text(job.spec.get("mpiImplementation"), path)
    if implementation not in (None, "", "OpenMPI"):
        notes.refused(path, "Trainer v2.3 supports only Open MPI")
        return ()
    keys = json_reader.text(job.spec.get("sshAuthMountPath"), _SPEC.child("sshAuthMountPath"))
    both = json_reader.boolean(job.spec.get("runLauncherAsWorker"), _SPEC.child("runLauncherAsWorker"))
    mpi_policy: dict[str, Any] = {"sshAuthMountPath": keys or _DEFAULT_KEYS}
    if both:
        mpi_policy["runLauncherAsNode"] = True
    return _convert(job, mpi_policy, catalog, notes)


def _convert(job: Job, mpi_policy: Json, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    path = _SPEC.child(job.kind.replicas)
    for type_ in job.kind.types:
        if type_ not in job.roles:
            raise required(path.child(type_), "an MPI job has a launcher and at least one worker")
    job = references.rewritten(job, {"Launcher": names.LAUNCHER, "Worker": names.NODE}, notes)
    keys = str(mpi_policy.get("sshAuthMountPath", _DEFAULT_KEYS))
    launcher, worker = (_reading(job.roles[type_], keys, notes) for type_ in job.kind.types)
    if launcher.replicas != 1:
        raise required(launcher.path.child("replicas"), "there is one launcher")
    run = policy.read(job, notes)
    slots = count(job.spec.get("slotsPerWorker"), _SPEC.child("slotsPerWorker")) or 1
    implied = {"numProcPerNode": 1, "mpiImplementation": "OpenMPI"}
    env = json_reader.objects(launcher.container.get("env"), launcher.container_path.child("env"))
    blueprint = Blueprint(
        job=job,
        trainer=launcher,
        nodes=worker.replicas + (1 if mpi_policy.get("runLauncherAsNode") else 0),
        framework="mpi",
        runtime="mpi-distributed",
        policy={"mpi": {**implied, **mpi_policy}},
        processes=slots,
        own={"env": list(env)},
        step=names.LAUNCHER,
        depends_on=[{"name": names.NODE, "status": "Ready"}],
        others=[Beside(worker, names.NODE, own=_serving(worker))],
        jobset={
            "network": {"publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [names.LAUNCHER]},
        },
    )
    return build(blueprint, run, catalog, notes)


def _reading(role: Role, keys: str, notes: Notes) -> Role:
    """The role with pods that may read the SSH keys: those of a user other than root, by their group."""
    path = role.pod_path.child("securityContext")
    context = json_reader.mapping(role.pod.get("securityContext"), path)
    if keys == _DEFAULT_KEYS or context.get("fsGroup") is not None:
        return role
    at = role.container_path.child("securityContext")
    own = json_reader.mapping(role.container.get("securityContext"), at)
    user = json_reader.integer(own.get("runAsUser", context.get("runAsUser")), at.child("runAsUser"))
    if user is None:
        message = "only root and this group may read the keys: set it to the group of the image's user"
        notes.lost(path.child("fsGroup"), message)
        return role
    notes.changed(path.child("fsGroup"), f"is {user}, so that the user may read the keys in {keys}")
    return replace(role, pod={**role.pod, "securityContext": {**context, "fsGroup": user}})


def _serving(worker: Role) -> Json:
    """What the workers run: their own command, otherwise the SSH server, as with the MPI operator."""
    own: dict[str, Any] = pods.commands(worker) or {"command": list(_SSH_SERVER)}
    env = json_reader.objects(worker.container.get("env"), worker.container_path.child("env"))
    return {**own, **({"env": list(env)} if env else {})}
