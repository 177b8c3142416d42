"""MPI: the key, the hosts and the variables by which a launcher starts processes (Trainer v2.3, `MPI`).

The workers are the ReplicatedJob `node`, the launcher is the one of that
name; both train in their container `node`. The SSH key is generated once, when the Secret is created.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import ErrorType, FieldError, FieldPath, invalid

from ...model import Generated, JobSet, Json, TrainJob
from .. import resources, templates
from ..info import Child, Info, PodSet
from . import owned, reserved

MAX_HOSTFILE_BYTES: Final = 1_000_000
"""A ConfigMap holds 1 MiB."""
PLACEHOLDER: Final = "(generated)"
"""Stands in the Secret until the key is generated."""

_TRAINER: Final = FieldPath("spec.trainer")
_POLICY: Final = FieldPath("spec.mlPolicy.mpi")
_OPEN_MPI: Final = "OpenMPI"

_KEY_SUFFIX: Final = "-mpi-ssh-auth"
_CONFIG_MAP_SUFFIX: Final = "-mpi-hostfile"
_HOSTS_FILE: Final = "hostfile"
_HOSTS_FOLDER: Final = "/etc/mpi"
_DEFAULT_KEY_FOLDER: Final = "/root/.ssh"
_DEFAULTS: Final = {
    "numProcPerNode": 1,
    "mpiImplementation": _OPEN_MPI,
    "sshAuthMountPath": _DEFAULT_KEY_FOLDER,
    "runLauncherAsNode": False,
}
_PRIVATE_KEY: Final = "ssh-privatekey"
_PUBLIC_KEY: Final = "ssh-publickey"

_HOSTS_VARIABLE: Final = "OMPI_MCA_orte_default_hostfile"
_NAMES_VARIABLE: Final = "OMPI_MCA_orte_keep_fqdn_hostnames"
_SLOTS_VARIABLE: Final = "OMPI_MCA_orte_set_default_slots"
_SHELL_VARIABLE: Final = "OMPI_MCA_plm_rsh_args"
_SHELL_ARGUMENTS: Final = "-o ConnectionAttempts=10"
_RESERVED: Final = frozenset({_HOSTS_VARIABLE, _NAMES_VARIABLE, _SLOTS_VARIABLE, _SHELL_VARIABLE})

_PRTE_HOSTS_VARIABLE: Final = "PRTE_MCA_prte_default_hostfile"
_PRTE_NAMES_VARIABLE: Final = "PRTE_MCA_prte_keep_fqdn_hostnames"
_PRTE_SLOTS_VARIABLE: Final = "PRTE_MCA_prte_set_default_slots"
_PRTE_SHELL_VARIABLE: Final = "PRTE_MCA_plm_ssh_args"
"""Variables of Open MPI 5 and later, which ignores the older ones."""
_OF_OPEN_MPI_5: Final = frozenset(
    {_PRTE_HOSTS_VARIABLE, _PRTE_NAMES_VARIABLE, _PRTE_SLOTS_VARIABLE, _PRTE_SHELL_VARIABLE}
)
"""Trainer v2.3 does not set them, and so lets a TrainJob set them: its values take precedence."""

_OWN_PREFIX: Final = "OMPI_"
"""How the variables begin that `mpirun` passes on by itself."""
_STARTERS: Final = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})
_FORWARD: Final = "-x"
_SHOWN: Final = 4
"""Variables that a warning names."""


class MPI:
    """Sets the number of workers, mounts the key and the hosts, and builds both."""

    name = "mpi"
    implements = frozenset({"mlPolicy.mpi"})
    defaults = (("mlPolicy.mpi", _DEFAULTS),)

    def trains(self, info: Info, job: Json) -> bool:
        """The workers, where the launcher, which is the trainer's step, trains too."""
        policy = info.policy("mpi")
        return policy is not None and job["name"] == names.NODE and _launcher_trains(policy)

    def validate(self, info: Info, old: TrainJob | None, jobset: JobSet | None) -> Sequence[FieldError]:
        """More than one node without both kinds of pods, and OMPI_* variables that the TrainJob sets."""
        policy = info.policy("mpi")
        if policy is None:
            return ()
        return (*_node_errors(info, policy), *reserved.errors(info, _RESERVED))

    def warnings(self, info: Info) -> Sequence[str]:
        """Warnings about one node, an image of only some pods, and variables of ranks and of Open MPI 5."""
        policy = info.policy("mpi")
        if policy is None:
            return ()
        return (
            *_node_warnings(info, policy),
            *_image_warnings(info),
            *_variable_warnings(info),
            *_own_values_warnings(info),
        )

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the number of workers, the volumes, and the launcher's variables.

        Where the launcher trains it counts as one of the nodes,
        but there is always a worker.

        Raises `InvalidFieldError` for an implementation other than OpenMPI.
        """
        policy = info.policy("mpi")
        if policy is None:
            return info
        trains_too = _launcher_trains(policy)
        if info.nodes is not None:
            info = info.with_count(names.NODE, max(info.nodes - 1, 1) if trains_too else info.nodes)
        for job in (names.NODE, names.LAUNCHER):
            info = info.with_volumes(job, (_key_volume(info),))
            info = info.with_mounts(job, (_key_mount(policy),))
        info = info.with_volumes(names.LAUNCHER, (_hosts_volume(info),))
        if info.container(names.LAUNCHER) is not None:
            info = info.with_mounts(names.LAUNCHER, (_HOSTS_MOUNT,))
            info = info.with_env(names.LAUNCHER, _launcher_env(info, policy))
        if trains_too:
            info = info.with_env(names.NODE, info.env)
        return _with_one_image(info)

    def build(self, info: Info) -> Sequence[Child]:
        """The Secret with the key and the ConfigMap with the hosts.

        Raises `InvalidFieldError` for more hosts than a ConfigMap holds,
        before the file is built.
        """
        policy = info.policy("mpi")
        if policy is None:
            return ()
        return (
            Child(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": owned.metadata(info.trainjob, _KEY_SUFFIX),
                    "type": "kubernetes.io/ssh-auth",
                    "immutable": True,
                    "data": {_PRIVATE_KEY: PLACEHOLDER, _PUBLIC_KEY: PLACEHOLDER},
                },
                Generated.SSH_KEY,
            ),
            Child(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": owned.metadata(info.trainjob, _CONFIG_MAP_SUFFIX),
                    "data": {_HOSTS_FILE: _hosts(info, policy)},
                }
            ),
        )


def _node_warnings(info: Info, policy: Json) -> Iterator[str]:
    if info.nodes == 1 and _launcher_trains(policy) and _has_both(info):
        yield (
            f"{_TRAINER.child('numNodes')}: 1 makes two pods, the launcher and one more node, each with the "
            "resources of a node, as 2 does: a runtime with mlPolicy.mpi always has both"
        )


def _variable_warnings(info: Info) -> Iterator[str]:
    """Ranks on other nodes are sessions of sshd, which have none of its container's variables."""
    trainer = info.trainer or {}
    given = (json_reader.texts(trainer.get(field), _TRAINER.child(field)) for field in ("command", "args"))
    # A shell's line is one of them.
    words = [word.strip("\"'") for part in given for line in part for word in line.split()]
    if not any(PurePosixPath(word).name in _STARTERS for word in words):
        return
    forwarded = {word.partition("=")[0] for option, word in pairwise(words) if option == _FORWARD}
    given_names = [variable["name"] for variable in reserved.variables(info)]
    missing = [
        name
        for name in given_names
        if name not in forwarded | _OF_OPEN_MPI_5 and not name.startswith(_OWN_PREFIX)
    ]
    if missing:
        more = " and others" if len(missing) > _SHOWN else ""
        yield (
            f"{reserved.ENV_PATH}: ranks on other nodes do not get {', '.join(missing[:_SHOWN])}{more}: "
            f"mpirun passes on only what its command names, as with {_FORWARD} {missing[0]}"
        )


def _own_values_warnings(info: Info) -> Iterator[str]:
    """With another list of hosts, for example, Open MPI 5 starts all ranks on one node, and they succeed."""
    kept = sorted({variable["name"] for variable in reserved.variables(info)} & _OF_OPEN_MPI_5)
    if kept:
        yield (
            f"{reserved.ENV_PATH}: {', '.join(kept)}: the job's own value replaces that of the operator, so "
            "Open MPI 5 may not start the ranks on all nodes: leave it out"
        )


def _image_warnings(info: Info) -> Iterator[str]:
    beside, images = _beside(info), _images(info)
    if _image(info) is None or len(set(images.values())) < 2 or not beside:
        return
    reached = " and ".join(job for job in images if job not in beside)
    kept = " and ".join(f"{job} keeps {images[job]}" for job in beside)
    yield (
        f"{_TRAINER.child('image')}: applies only to pods of {reached or 'no ReplicatedJob'}: {kept}, "
        f"since the runtime has different images for them"
    )


def _has_both(info: Info) -> bool:
    return {names.NODE, names.LAUNCHER} <= {pods.name for pods in info.pod_sets}


def _node_errors(info: Info, policy: Json) -> Iterator[FieldError]:
    if info.nodes is None or info.nodes < 2 or not _launcher_trains(policy):
        return
    if not _has_both(info):
        detail = (
            "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode "
            "does not have either launcher and node"
        )
        yield FieldError(ErrorType.INVALID, str(_TRAINER.child("numNodes")), info.nodes, detail)


def _launcher_trains(policy: Json) -> bool:
    return json_reader.boolean(policy.get("runLauncherAsNode"), _POLICY.child("runLauncherAsNode"))


def _slots(info: Info, policy: Json) -> int:
    """Processes per node: the TrainJob's, else one for each GPU if the runtime has 1, else the runtime's."""
    if info.processes is not None:
        return info.processes
    given = json_reader.integer(policy.get("numProcPerNode"), _POLICY.child("numProcPerNode"))
    slots = 1 if given is None else given
    return max(1, resources.gpu_count(resources.per_node(info))) if slots == 1 else slots


def _launcher_env(info: Info, policy: Json) -> tuple[Json, ...]:
    path = _POLICY.child("mpiImplementation")
    implementation = json_reader.text(policy.get("mpiImplementation"), path)
    if implementation not in (None, _OPEN_MPI):
        raise invalid(path, implementation, f"must be {_OPEN_MPI}")
    hosts, slots = f"{_HOSTS_FOLDER}/{_HOSTS_FILE}", str(_slots(info, policy))
    env = (
        {"name": _HOSTS_VARIABLE, "value": hosts},
        {"name": _NAMES_VARIABLE, "value": "true"},
        {"name": _SLOTS_VARIABLE, "value": slots},
        {"name": _SHELL_VARIABLE, "value": _SHELL_ARGUMENTS},
    )
    if info.settings.as_trainer_builds:
        return env
    return (
        *env,
        {"name": _PRTE_HOSTS_VARIABLE, "value": hosts},
        # With whole names Open MPI 5 does not recognize the launcher in the list, and connects to itself.
        {"name": _PRTE_NAMES_VARIABLE, "value": "false"},
        {"name": _PRTE_SLOTS_VARIABLE, "value": slots},
        {"name": _PRTE_SHELL_VARIABLE, "value": _SHELL_ARGUMENTS},
    )


def _image(info: Info) -> str | None:
    return json_reader.text((info.trainer or {}).get("image"), _TRAINER.child("image"))


def _images(info: Info) -> dict[str, str | None]:
    """The images of launcher and workers, by ReplicatedJob, as the runtime has them."""
    containers = {job: info.container(job) for job in (names.LAUNCHER, names.NODE)}
    return {job: container.get("image") for job, container in containers.items() if container is not None}


def _beside(info: Info) -> list[str]:
    """Those of launcher and workers that are not the trainer's step: only that gets the TrainJob's image."""
    steps = {pods.name for pods in info.pod_sets if pods.ancestor == names.ANCESTOR_TRAINER}
    return [job for job in _images(info) if job not in steps]


def _with_one_image(info: Info) -> Info:
    """With the TrainJob's image in launcher and workers alike, where the runtime has one image for both."""
    image = _image(info)
    if image is None or info.settings.as_trainer_builds or len(set(_images(info).values())) > 1:
        return info

    def edit(job: Json) -> Json:
        return templates.with_container(job, names.NODE, lambda container: {**container, "image": image})

    return info.with_jobs(frozenset(_beside(info)), edit)


def _key_volume(info: Info) -> Json:
    return {
        "name": names.MPI_KEY_VOLUME,
        "secret": {
            "secretName": f"{info.trainjob.name}{_KEY_SUFFIX}",
            "defaultMode": 0o400,
            "items": [
                {"key": _PRIVATE_KEY, "path": "id_rsa", "mode": 0o640},
                {"key": _PUBLIC_KEY, "path": "id_rsa.pub", "mode": 0o644},
                {"key": _PUBLIC_KEY, "path": "authorized_keys", "mode": 0o644},
            ],
        },
    }


def _key_mount(policy: Json) -> Json:
    folder = json_reader.text(policy.get("sshAuthMountPath"), _POLICY.child("sshAuthMountPath"))
    return {"name": names.MPI_KEY_VOLUME, "mountPath": _DEFAULT_KEY_FOLDER if folder is None else folder}


def _hosts_volume(info: Info) -> Json:
    return {
        "name": names.MPI_HOSTS_VOLUME,
        "configMap": {
            "name": f"{info.trainjob.name}{_CONFIG_MAP_SUFFIX}",
            "items": [{"key": _HOSTS_FILE, "path": _HOSTS_FILE, "mode": 0o444}],
        },
    }


_HOSTS_MOUNT: Final = {"name": names.MPI_HOSTS_VOLUME, "mountPath": _HOSTS_FOLDER}


def _hosts(info: Info, policy: Json) -> str:
    hosts = (names.NODE, names.LAUNCHER) if _launcher_trains(policy) else (names.NODE,)
    pod_sets = [pods for pods in info.pod_sets if pods.name in hosts and pods.count > 0]
    slots = _slots(info, policy)
    _require_room(info, pod_sets, slots)
    return "".join(_line(host, slots) for pods in pod_sets for host in info.endpoints(pods))


def _line(host: str, slots: int) -> str:
    return f"{host} slots={slots}\n"


def _require_room(info: Info, pod_sets: Sequence[PodSet], slots: int) -> None:
    """Refuse a file that would be too long, before it is built."""
    pods = sum(pod_set.count for pod_set in pod_sets)
    longest = max(
        (len(_line(info.endpoint(pod_set, pod_set.count - 1), slots)) for pod_set in pod_sets), default=1
    )
    if pods * longest > MAX_HOSTFILE_BYTES:
        room = MAX_HOSTFILE_BYTES // longest
        detail = (
            f"must be less than or equal to {room}, since the list of hosts is kept in a ConfigMap, "
            "which holds 1 MiB"
        )
        raise invalid(_TRAINER.child("numNodes"), pods, detail)
