"""Initializers have their container, and load to where the trainer reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trainyard_api import json_reader, names

from ..manifest import Container, ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject

STEPS: Final = (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER)


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Each step at most once, with its container, its volume, and the trainer waiting for it."""
    first: dict[str, str] = {}
    for job in workload.jobs:
        if job.step not in STEPS:
            continue
        if job.step in first:
            yield Finding(job.path, f"must be the only {job.step}, but {first[job.step]!r} is one too")
        first.setdefault(job.step, job.name)
        container = job.container(job.step)
        if container is None:
            at = job.pod_path.child("containers")
            yield Finding(at, f"must have a container named {job.step!r}, like the step")
            continue
        yield from _volume(workload, job, container)
        yield from _waiting(workload, job)


def _volume(workload: Workload, job: ReplicatedJob, container: Container) -> Iterator[Finding]:
    if any(entry["name"] == names.CACHE_IMAGE for entry in container.env):
        return
    trainers = ((node, trainer) for trainer in workload.trainers() if (node := trainer.container(names.NODE)))
    for needed, pod in ((container, job), *trainers):
        if all(mount["name"] != names.INITIALIZER_VOLUME for mount in needed.mounts):
            reason = "it loads into it" if needed is container else f"the step {job.step} loads into it"
            at = needed.path.child("volumeMounts")
            yield Finding(at, f"must mount the volume {names.INITIALIZER_VOLUME!r}: {reason}")
        elif not _declared(workload, pod):
            at = pod.pod_path.child("volumes")
            yield Finding(
                at,
                f"must declare the volume {names.INITIALIZER_VOLUME!r}, "
                "or spec.template.spec.volumeClaimPolicies a claim of that name",
            )


def _declared(workload: Workload, job: ReplicatedJob) -> bool:
    return any(volume["name"] == names.INITIALIZER_VOLUME for volume in job.volumes) or (
        names.INITIALIZER_VOLUME in _claims(workload)
    )


def _claims(workload: Workload) -> Iterator[Any]:
    for claim, path in workload.claims():
        yield json_reader.below(claim, path, "metadata")[0].get("name")


def _waiting(workload: Workload, job: ReplicatedJob) -> Iterator[Finding]:
    for trainer in workload.trainers():
        if _awaits(trainer, job.name) or _reaches(workload, trainer, job.name):
            continue
        at = trainer.path.child("dependsOn")
        kept = [dict(dependency) for dependency in trainer.dependencies if dependency["name"] != job.name]
        dependencies = [*kept, {"name": job.name, "status": "Complete"}]
        yield Finding(at, f"must wait until {job.name!r} is Complete", (Edit(at, dependencies),))


def _awaits(job: ReplicatedJob, initializer: str) -> bool:
    return any(
        dependency["name"] == initializer and dependency.get("status") == "Complete"
        for dependency in job.dependencies
    )


def _reaches(workload: Workload, trainer: ReplicatedJob, initializer: str) -> bool:
    """Whether a job that the trainer waits for waits for the initializer, as MPI's nodes do."""
    direct = {dependency["name"] for dependency in trainer.dependencies}
    return any(_awaits(job, initializer) for job in workload.jobs if job.name in direct)


RULE = Rule(
    id="initializers",
    title="Initializers have their container and volume, and the trainer waits for them",
    why=(
        "A TrainJob's initializer settings apply to the container named like the step. The trainer finds the "
        "data only in the volume `initializer`, and only after the step is complete."
    ),
    remedy="Name the container dataset-initializer or model-initializer like its step, mount the volume "
    f"{names.INITIALIZER_VOLUME} in it and in the trainer's container, and let the trainer depend on it "
    "with status Complete.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY},
    fixes=True,
    check=check,
)
