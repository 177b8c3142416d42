"""A runtime has exactly one trainer step, with a container `node`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath

from ..manifest import ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject

JOBS: Final = FieldPath("spec.template.spec.replicatedJobs")


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """One ReplicatedJob has the step's label, one replica, and the container."""
    trainers = workload.trainers()
    if not trainers:
        yield Finding(
            JOBS,
            f"must have a ReplicatedJob whose template has the label "
            f"{names.ANCESTOR_LABEL}: {names.ANCESTOR_TRAINER}",
            _label(workload.jobs),
        )
    for second in trainers[1:]:
        yield Finding(
            second.path,
            f"must be the only trainer step, but {trainers[0].name!r} is one too: "
            f"take the label {names.ANCESTOR_LABEL} from one of them",
        )
    for job in trainers:
        if job.container(names.NODE) is None:
            at = job.pod_path.child("containers")
            yield Finding(at, f"must have a container named {names.NODE!r}: {job.name!r} is the trainer step")
        replicas = job.path.child("replicas")
        if json_reader.integer(job.value.get("replicas"), replicas) not in (None, 1):
            edits = (Edit(replicas, 1),)
            yield Finding(replicas, "must be 1: the number of nodes is spec.mlPolicy.numNodes", edits)


def _label(jobs: Sequence[ReplicatedJob]) -> tuple[Edit, ...]:
    """The label on the only job that can be meant."""
    able = [job for job in jobs if job.step is None and job.container(names.NODE) is not None]
    if len(able) != 1:
        return ()
    labels = able[0].path.child("template", "metadata", "labels")
    return (Edit(labels.key(names.ANCESTOR_LABEL), names.ANCESTOR_TRAINER),)


RULE = Rule(
    id="trainer-step",
    title="A runtime has exactly one trainer step, with a container node",
    why="A TrainJob's image, command, environment and resources go into the container `node` of the "
    "trainer step. Without it they have no effect, and the job runs something else.",
    remedy=f"Label the template of one ReplicatedJob {names.ANCESTOR_LABEL}: {names.ANCESTOR_TRAINER} "
    f"and call its training container {names.NODE}.",
    severity=Severity.CRITICAL,
    levels={Subject.RUNTIMES: Level.MANDATORY},
    fixes=True,
    check=check,
)
