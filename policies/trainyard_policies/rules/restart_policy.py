"""Finished Jobs stay finished, and restart policies are valid for Jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import json_reader

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject

_POLICIES: Final = ("OnFailure", "Never")


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """restartPolicy is one that a Job allows, and no Job is deleted before its JobSet."""
    for job in workload.jobs:
        path = job.pod_path.child("restartPolicy")
        policy = json_reader.text(job.pod.get("restartPolicy"), path)
        if policy is not None and policy not in _POLICIES:
            yield Finding(path, f"must be OnFailure or Never, is {policy}", (Edit(path, "OnFailure"),))
        template, path = json_reader.below(job.value, job.path, "template", "spec")
        path = path.child("ttlSecondsAfterFinished")
        if template.get("ttlSecondsAfterFinished") is not None:
            yield Finding(path, "must be left out: it is the JobSet's", (Edit(path),))


RULE = Rule(
    id="restart-policy",
    title="Finished Jobs stay finished, and restart policies are valid for Jobs",
    why="A Job does not accept restartPolicy Always. And a JobSet recreates a Job that its own time to live "
    "has deleted: the training restarts.",
    remedy="Set restartPolicy OnFailure or Never, and ttlSecondsAfterFinished in spec.template.spec, the "
    "JobSet's.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY},
    fixes=True,
    check=check,
)
