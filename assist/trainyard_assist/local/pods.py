"""The pods of a JobSet, as its manifest describes them.

Called by `plan`. The operator's plugins have checked the types of what they
edit; the other fields are read here with their paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json
from trainyard_operator.core.build import templates
from trainyard_operator.core.build.resources import gpu_count

from ..logs import Place
from .model import MOST, LocalError

JOBS: Final = FieldPath("spec.replicatedJobs")
_DIGITS: Final = 9
"""The most digits of a number of processes: a longer number is too large."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a JobSet."""

    job: Json
    """Its ReplicatedJob."""
    place: Place
    host: str
    """Its address in the cluster."""
    jobset: str
    namespace: str

    @property
    def path(self) -> FieldPath:
        """The path of its ReplicatedJob."""
        return JOBS.key(self.place.job)

    @property
    def name(self) -> str:
        """Its name, without the characters that a Job appends."""
        return self.host.partition(".")[0]

    @property
    def index(self) -> str:
        """Its number in its Job."""
        return self.name.rpartition("-")[2]

    @property
    def spec(self) -> Json:
        """Its spec."""
        spec: Json = templates.pod_template(self.job)["spec"]
        return spec

    @property
    def container(self) -> Json:
        """The container that trains."""
        first: Json = next(iter(self.spec.get("containers") or ()), {})
        return templates.container(self.job, names.NODE) or first

    @property
    def image(self) -> str:
        """The image of that container."""
        return json_reader.text(self.container.get("image"), self.path.child("image")) or ""

    @property
    def volumes(self) -> frozenset[str]:
        """The names of its volumes."""
        return frozenset(volume["name"] for volume in self.spec.get("volumes") or ())

    @property
    def gpus(self) -> int:
        """How many GPUs the container asks for."""
        return gpu_count(self.container.get("resources") or {})

    @property
    def step(self) -> str | None:
        """Step of the TrainJob: a value of the ancestor label."""
        return templates.ancestor(self.job)

    @property
    def loads(self) -> bool:
        """Whether it loads a dataset or a model, and does not train."""
        return self.step in names.INITIALIZERS or self.place.job in names.INITIALIZERS

    @property
    def is_of_mpi(self) -> bool:
        """Whether it belongs to an MPI job."""
        return names.MPI_KEY_VOLUME in self.volumes

    @property
    def launches(self) -> bool:
        """Whether it starts the processes of an MPI job, its own and those of the others."""
        return self.is_of_mpi and names.MPI_HOSTS_VOLUME in self.volumes


def pods_of(jobset: Json) -> tuple[Pod, ...]:
    """The pods of a JobSet, in the order of its ReplicatedJobs.

    Raises:
        LocalError: They are too many for one machine, or none.
        InvalidFieldError: A number is none.
    """
    name, namespace, spec = jobset["metadata"]["name"], jobset["metadata"]["namespace"], jobset["spec"]
    subdomain = json_reader.mapping(spec.get("network"), FieldPath("spec.network")).get("subdomain") or name
    counts = [(job, _count(job, "replicas"), _pods_of_each(job)) for job in spec["replicatedJobs"]]
    require_few(sum(replicas * pods for _, replicas, pods in counts))
    return tuple(
        Pod(
            job,
            Place(job["name"], number),
            f"{name}-{job['name']}-{number // pods}-{number % pods}.{subdomain}",
            name,
            namespace,
        )
        for job, replicas, pods in counts
        for number in range(replicas * pods)
    )


def require_few(processes: int) -> None:
    """Refuse what one machine cannot run, and a TrainJob of nothing."""
    if processes < 1:
        raise LocalError("The TrainJob has no nodes: ask for at least one")
    if processes > MOST:
        raise LocalError(
            f"The TrainJob has {processes} processes, and one machine runs at most {MOST}: "
            "ask for fewer nodes, GPUs or CPUs, or send it to a cluster"
        )


def processes_of(pods: Sequence[Pod], variable: str) -> int:
    """How many processes the pods start, where the variable says how many a pod starts."""
    entries = (entry for pod in pods for entry in pod.container.get("env") or () if entry["name"] == variable)
    numbers = [str(entry.get("value", ""))[:_DIGITS] for entry in entries]
    return max(len(pods), sum(int(number) for number in numbers if number.isdecimal()))


def _pods_of_each(job: Json) -> int:
    spec = job["template"]["spec"]
    at = JOBS.key(job["name"])
    completions = json_reader.integer(spec.get("completions"), at.child("completions"))
    return _count(spec, "parallelism", at) if completions is None else max(0, completions)


def _count(owner: Json, field: str, at: FieldPath = JOBS) -> int:
    count = json_reader.integer(owner.get(field), at.child(field))
    return 1 if count is None else max(0, count)
