"""The processes that run in place of a TrainJob's pods, from what `render` makes of it.

Called by `run --local`, which starts them. The operator's plugins have made the
command and the variables of each pod, so what runs here is what would run
there. Only the addresses are others.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, InvalidFieldError
from trainyard_api.json_types import Json

from ..logs import Place, label
from . import variables
from .addresses import Addresses
from .model import LocalError, Machine, Plan, Process
from .pods import Pod, pods_of, processes_of, require_few

GPUS: Final = "CUDA_VISIBLE_DEVICES"

_PATH: Final = "PYTHONPATH"
_PROCESSES: Final = "PET_NPROC_PER_NODE"
_AUTO: Final = "auto"
_OWN_ADDRESS: Final = "PET_LOCAL_ADDR"
"""Under which torchrun's ranks find each other; by default the machine's name, which may lead nowhere."""
_OF_REMOTE_SHELLS: Final = ("OMPI_MCA_plm_", "PRTE_MCA_plm_")
"""How variables begin that say how `mpirun` reaches other hosts: it ends where that cannot be."""
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - each machine has it
_NOT_MISSED: Final = (_SHARED_MEMORY, names.MODULE_FOLDER)
_VOLUMES_OF_MPI: Final = (names.MPI_KEY_VOLUME, names.MPI_HOSTS_VOLUME)
_POLICY: Final = FieldPath("spec.successPolicy")
_DEPENDS_ON: Final = "dependsOn"


def number_of_pods(children: Sequence[Json]) -> int:
    """How many pods a TrainJob has, and so how many ports it needs.

    Args:
        children: Its child objects, as `render` returns them.

    Raises:
        LocalError: They are too many for one machine, or none.
    """
    try:
        return len(pods_of(_jobset(children)))
    except InvalidFieldError as error:
        raise LocalError(str(error)) from error


def plan(children: Sequence[Json], machine: Machine) -> Plan:
    """The processes that run in place of a TrainJob's pods.

    Args:
        children: Its child objects, as `render` returns them.
        machine: What there is.

    Raises:
        LocalError: The TrainJob does not run on one machine.
    """
    try:
        return _plan(children, machine)
    except InvalidFieldError as error:
        raise LocalError(str(error)) from error


def _plan(children: Sequence[Json], machine: Machine) -> Plan:
    jobset = _jobset(children)
    pods = pods_of(jobset)
    # The other processes of an MPI job are those that `mpirun` starts.
    started = [pod for pod in pods if not pod.loads and (pod.launches or not pod.is_of_mpi)]
    slots = _slots(children)
    require_few(sum(slots) or processes_of(started, _PROCESSES))
    _require_one_step(started)
    gpus = {pod.place: pod.gpus * max(1, len(slots)) for pod in started}
    shares = _shares(gpus, machine.gpus)
    addresses = Addresses(pods, machine.ports, machine.hosts)
    jobs = {pod.place.job for pod in pods}
    policy = json_reader.mapping(jobset["spec"].get("successPolicy"), _POLICY)
    targets = json_reader.texts(policy.get("targetReplicatedJobs"), _POLICY.child("targetReplicatedJobs"))
    here = frozenset(pod.place.job for pod in started)
    missing = (
        *_missing(pods, started),
        *(sentence for pod in started for sentence in variables.missing(pod, machine.environment)),
        *_missing_gpus(sum(gpus.values()), len(machine.gpus)),
    )
    return Plan(
        processes=tuple(_process(pod, jobs, addresses, shares, machine) for pod in started),
        hosts=f"localhost slots={sum(slots)}\n" if slots else "",
        missing=tuple(dict.fromkeys(missing)),
        targets=here.intersection(targets) or here,
        any_target=policy.get("operator") == "Any",
    )


def _jobset(children: Sequence[Json]) -> Json:
    return next(child for child in children if child["kind"] == names.JOBSET)


def _slots(children: Sequence[Json]) -> list[int]:
    """The processes of each node of an MPI job; empty for others."""
    hosts = [child["data"].get("hostfile", "") for child in children if child["kind"] == "ConfigMap"]
    return [int(line.rpartition("slots=")[2]) for text in hosts for line in text.splitlines()]


def _require_one_step(started: Sequence[Pod]) -> None:
    """Refuse a TrainJob of which one part starts after another has ended."""
    jobs = {pod.place.job for pod in started}
    for pod in started:
        for other in json_reader.named_objects(pod.job.get(_DEPENDS_ON), pod.path.child(_DEPENDS_ON)):
            if other["name"] in jobs and other.get("status") == "Complete":
                raise LocalError(
                    f"{pod.place.job} starts after {other['name']} is complete, and here all of them start "
                    "at once: send the TrainJob to a cluster"
                )


def _process(
    pod: Pod, jobs: Collection[str], addresses: Addresses, shares: Mapping[Place, str], machine: Machine
) -> Process:
    container = pod.container
    if not container.get("command"):
        raise LocalError(
            f"What {pod.place} runs is in the image {pod.image}, which is not used here: "
            "say it as the command of the TrainJob (spec.trainer.command)"
        )
    environment = _environment(pod, addresses, machine)
    if pod.place in shares:
        environment.setdefault(GPUS, shares[pod.place])
    words = (*container["command"], *(container.get("args") or ()))
    return Process(
        place=pod.place,
        label=label(pod.place, jobs),
        command=tuple(addresses.local(variables.expanded(word, environment)) for word in words),
        environment={
            name: value for name, value in environment.items() if not name.startswith(_OF_REMOTE_SHELLS)
        },
    )


def _environment(pod: Pod, addresses: Addresses, machine: Machine) -> dict[str, str]:
    """The variables of the pod, in their order: each may contain those before it."""
    values: dict[str, str] = {}
    for variable in pod.container.get("env") or ():
        name = variable["name"]
        value = variables.value(pod, variable, machine.environment)
        if value is not None:
            text = value if variable.get("valueFrom") else variables.expanded(value, values)
            values[name] = addresses.port(pod, name, addresses.local(text))
    values.setdefault("JOB_COMPLETION_INDEX", pod.index)
    if values.get(_PROCESSES) == _AUTO:
        # One for each GPU, as in the cluster, also where there is none.
        values[_PROCESSES] = str(max(1, pod.gpus))
    if _PROCESSES in values:
        values.setdefault(_OWN_ADDRESS, variables.ADDRESS)
    _restore_path(values, machine.environment)
    return values


def _restore_path(values: dict[str, str], shell: Mapping[str, str]) -> None:
    """Put the PYTHONPATH of the shell in the place of the module that the catalog adds to its pods."""
    folders = values.get(_PATH, "").split(":")
    if names.MODULE_FOLDER not in folders:
        return
    own = (folder for folder in folders if folder not in ("", names.MODULE_FOLDER))
    values[_PATH] = os.pathsep.join((*own, *filter(None, (shell.get(_PATH),))))
    if not values[_PATH]:
        del values[_PATH]


def _shares(gpus: Mapping[Place, int], there: Sequence[str]) -> dict[Place, str]:
    """The GPUs that each pod sees: its own, if there are enough for all, else none."""
    if not there:
        return {}
    shares = {}
    first = 0
    enough = sum(gpus.values()) <= len(there)
    for place, count in gpus.items():
        shares[place] = ",".join(there[first : first + count]) if enough else ""
        first += count
    return shares


def _missing_gpus(requested: int, there: int) -> Iterator[str]:
    if there < requested:
        yield f"The TrainJob asks for {requested} GPUs, and {there} are here: its processes see none"
    elif there and not requested:
        yield f"The TrainJob asks for no GPU: its processes see none of the {there} that are here"


def _missing(pods: Sequence[Pod], started: Sequence[Pod]) -> Iterator[str]:
    """A sentence for each thing of the pods that the machine has not."""
    images = dict.fromkeys(pod.image for pod in started)
    yield f"The TrainJob runs with what is installed here, not with the image {' or '.join(images)}"
    for pod in pods:
        if pod.loads:
            paths = " and ".join(mount["mountPath"] for mount in pod.container.get("volumeMounts") or ())
            where = f" into {paths}" if paths else ""
            yield f"{pod.place.job} does not run here: what it loads{where} has to be here before"
    for pod in started:
        yield from _missing_of(pod)


def _missing_of(pod: Pod) -> Iterator[str]:
    others = [container for container in pod.spec.get("containers") or () if container is not pod.container]
    # Those of an MPI job prepare the key by which its hosts trust each other.
    others += [] if pod.is_of_mpi else pod.spec.get("initContainers") or []
    for container in others:
        yield f"The container {container['name']} of {pod.place.job} does not run here"
    if folder := pod.container.get("workingDir"):
        yield f"The command runs in the workspace, not in {folder}"
    for mount in pod.container.get("volumeMounts") or ():
        if mount.get("name") not in _VOLUMES_OF_MPI and mount["mountPath"] not in _NOT_MISSED:
            path = mount["mountPath"]
            yield f"The volume {mount.get('name')} is not here: under {path} is what this machine has there"
