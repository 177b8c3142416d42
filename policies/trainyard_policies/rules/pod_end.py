"""A pod terminates soon after its deletion."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from ..manifest import ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """No pod may take longer than the stack allows, and neither a pod nor its Job waits for a finalizer."""
    for job in workload.jobs:
        yield from _grace(job, parameters.longest_grace)
        for template, path in job.templates():
            yield from _finalizers(template, path)


def _grace(job: ReplicatedJob, most: int) -> Iterator[Finding]:
    path = job.pod_path.child("terminationGracePeriodSeconds")
    seconds = json_reader.integer(job.pod.get("terminationGracePeriodSeconds"), path)
    if seconds is not None and seconds > most:
        message = f"must be at most {most} on this platform, is {json_reader.shown(seconds)}"
        yield Finding(path, message, against="longestGrace")


def _finalizers(template: Json, path: FieldPath) -> Iterator[Finding]:
    metadata, path = json_reader.below(template, path, "metadata")
    if metadata.get("finalizers"):
        at = path.child("finalizers")
        yield Finding(at, "must be left out", (Edit(at),))


RULE = Rule(
    id="pod-end",
    title="A pod terminates soon after its deletion",
    why="A process may ignore the signal to end until terminationGracePeriodSeconds have passed. Meanwhile, "
    "its pod still uses its GPUs, although Kueue already gives their quota to other jobs, and a drain of its "
    "node waits. A pod with a finalizer stays after its TrainJob is deleted, until somebody removes the "
    "finalizer, which a data scientist may not.",
    remedy="Leave out finalizers, and save a checkpoint in the time that is allowed, or ask your platform "
    "team to allow more (policies.parameters.longestGrace in the stack file).",
    severity=Severity.HIGH,
    parameters=("longest_grace",),
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    fixes=True,
    check=check,
)
