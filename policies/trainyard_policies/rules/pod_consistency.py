"""What a pod's parts name exists, and no two of them contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import json_reader, names, quantity, similar
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json
from trainyard_api.names import StorageRole

from ..manifest import Container, ReplicatedJob, Resources, Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity, among, listed
from ..subject import Subject
from .accelerators_equal import amount, is_accelerator

_HANDLERS: Final = ("exec", "grpc", "httpGet", "tcpSocket")
_LEAST_MEMORY: Final = quantity.parse("1Mi")
"""With less no container starts: the unit must be wrong."""
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def check(workload: Workload, _: Parameters) -> Iterator[Finding]:
    """As Kubernetes' and JobSet's own validation does; a TrainJob's patches see only their own part."""
    whole = workload.subject is Subject.RUNTIMES
    above: list[str] = []
    for job in workload.jobs:
        if whole:
            yield from _order(job, above)
            yield from _volumes(job)
            yield from _mounts(job, _mountable(workload, job))
        above.append(job.name)
        yield from _names(job)
        yield from _overhead(job)
    yield from _claims(workload)
    for container in workload.containers():
        yield from _ports(container)
        yield from _env(container)
        yield from _probes(container)
    for resources in workload.resources():
        yield from _amounts(resources)


def _order(job: ReplicatedJob, above: Sequence[str]) -> Iterator[Finding]:
    """JobSet starts jobs in their order, so one waits only for those above it."""
    at = job.path.child("dependsOn")
    for position, dependency in enumerate(job.dependencies):
        if dependency["name"] not in above:
            message = f"must be a ReplicatedJob above this one{among(dependency['name'], above)}"
            yield Finding(at.index(position).child("name"), message)


def _volumes(job: ReplicatedJob) -> Iterator[Finding]:
    at = job.pod_path.child("volumes")
    for position, volume in enumerate(job.volumes):
        yield from _one_of(volume, [key for key in volume if key != "name"], at.index(position), "source")


def _mountable(workload: Workload, job: ReplicatedJob) -> list[str]:
    """The volumes that a job's containers may mount: the pod's own, the JobSet's claims, the operator's."""
    made = [json_reader.below(claim, path, "metadata")[0].get("name") for claim, path in workload.claims()]
    policy, _ = workload.ml_policy
    added = (names.MPI_KEY_VOLUME, names.MPI_HOSTS_VOLUME) if policy.get("mpi") is not None else ()
    return [*(volume["name"] for volume in job.volumes), *(str(name) for name in made), *added]


def _mounts(job: ReplicatedJob, volumes: Sequence[str]) -> Iterator[Finding]:
    mountable = {*volumes, names.INITIALIZER_VOLUME}  # the rule `initializers` checks that one
    for container in job.containers():
        at = container.path.child("volumeMounts")
        seen: set[str] = set()
        for position, mount in enumerate(container.mounts):
            if mount["name"] not in mountable:
                message = (
                    f"must be a volume of the pod, or a claim of the runtime{among(mount['name'], volumes)}"
                )
                yield Finding(at.index(position).child("name"), message)
            path = str(mount.get("mountPath"))
            if path in seen:
                yield Finding(
                    at.index(position).child("mountPath"),
                    f"must be unique: {json_reader.shown(path)} is mounted twice",
                )
            seen.add(path)


def _claims(workload: Workload) -> Iterator[Finding]:
    for claim, path in workload.claims():
        at = path.child("metadata", "annotations")
        annotations = json_reader.text_map(
            json_reader.below(claim, path, "metadata")[0].get("annotations"), at
        )
        role = annotations.get(names.STORAGE_ANNOTATION)
        if role is not None and role not in list(StorageRole):
            message = f"must be a role of storage{among(role, list(StorageRole))}"
            yield Finding(at.key(names.STORAGE_ANNOTATION), message)


def _names(job: ReplicatedJob) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for container in job.containers():
        place = container.path.text.rpartition(".")[2]
        if container.name not in first:
            first[container.name] = place
        elif first[container.name].partition("[")[0] != place.partition("[")[0]:  # else the list is malformed
            yield Finding(
                container.path.child("name"),
                f"must be unique: {first[container.name]} has the same name",
            )


def _ports(container: Container) -> Iterator[Finding]:
    at = container.path.child("ports")
    seen: set[str] = set()
    for position, port in enumerate(json_reader.objects(container.value.get("ports"), at)):
        name = json_reader.text(port.get("name"), at.index(position).child("name"))
        if name and name in seen:
            yield Finding(at.index(position).child("name"), f"must be unique: two ports are named {name}")
        seen.add(name or "")


def _env(container: Container) -> Iterator[Finding]:
    for position, entry in enumerate(container.env):
        at = container.path.child("env").index(position)
        source = json_reader.optional_mapping(entry.get("valueFrom"), at.child("valueFrom"))
        if source is None:
            continue
        if entry.get("value"):
            yield Finding(at, "must have value or valueFrom, not both")
        yield from _one_of(source, list(source), at.child("valueFrom"), "source")


def _probes(container: Container) -> Iterator[Finding]:
    for name in _PROBES:
        at = container.path.child(name)
        probe = json_reader.optional_mapping(container.value.get(name), at)
        if probe is not None:
            yield from _one_of(probe, _HANDLERS, at, f"of {', '.join(_HANDLERS)}")


def _overhead(job: ReplicatedJob) -> Iterator[Finding]:
    """Kueue counts it unchecked, and Kubernetes refuses pods whose overhead is not the RuntimeClass's."""
    if job.pod.get("overhead"):
        at = job.pod_path.child("overhead")
        yield Finding(at, "must be left out: Kubernetes takes it from the RuntimeClass", (Edit(at),))


def _amounts(resources: Resources) -> Iterator[Finding]:
    limits, limits_path = resources.amounts("limits")
    for part in ("requests", "limits"):
        amounts, path = resources.amounts(part)
        for name, value in amounts.items():
            size = amount(value, path.key(name))
            if size.nano < 0:
                yield Finding(path.key(name), f"must not be negative, is {size}")
            elif is_accelerator(name) and size.nano % 10**9:
                yield Finding(path.key(name), f"must be a whole number of devices, is {size}")
            elif name == "memory" and 0 < size.nano < _LEAST_MEMORY.nano:
                hint = similar.meant(f"{value[:-1]}Mi" if str(value).endswith("m") else None)
                yield Finding(path.key(name), f"must be at least {_LEAST_MEMORY}, is {size} bytes{hint}")
            elif part == "requests" and limits.get(name) is not None and not is_accelerator(name):
                most = amount(limits[name], limits_path.key(name))
                if size.nano > most.nano:
                    yield Finding(path.key(name), f"must be at most its limit, {most}; is {size}")


def _one_of(value: Json, choices: Sequence[str], path: FieldPath, noun: str) -> Iterator[Finding]:
    chosen = [name for name in choices if value.get(name) is not None]
    if len(chosen) != 1:
        yield Finding(path, f"must have one {noun}, has {listed(chosen, ' and ')}")


RULE = Rule(
    id="pod-consistency",
    title="References within a pod exist, and its parts do not contradict each other",
    why="The API server accepts such a runtime, and Kubernetes refuses what is built from it: the TrainJob "
    "is admitted and holds its quota, and no pod of it ever runs. With amounts below 0, the job gets more "
    "quota than there is.",
    remedy="Reference only declared names, declare each name once, and request no more than the limit.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    fixes=True,
    check=check,
)
