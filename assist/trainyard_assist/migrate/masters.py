"""Jobs with one master and workers, all numbered: the master is rank 0.

Called by `pytorch` and `xgboost`. If master and workers have the same pods,
they become the nodes of one step, numbered as before. If not, the master
becomes a ReplicatedJob of its own, and the workers become the trainer's step.
A line of shell numbers them from 1, since a Job numbers its pods from 0. No
mlPolicy of Trainer v2.3 fits such a job, so its runtime has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainyard_api import names
from trainyard_api.errors import required
from trainyard_api.json_types import Json

from . import pods
from .notes import Notes
from .ranks import after, variable
from .source import Job, Role
from .target import PLAIN, Beside, Blueprint

STEP: Final = "master"
"""The ReplicatedJob of the master."""
_STRICTNESS: Final = {"Never": 0, "ExitCode": 1}


@dataclass(frozen=True, slots=True)
class Group:
    """A master, workers, and what their environment says."""

    job: Job
    contract: Sequence[Json]
    numbered: Sequence[str]
    """Variables with the number of the pod."""
    fixed: Sequence[Json]
    """Variables that are the same in all pods."""


def steps(job: Job) -> dict[str, str]:
    """The ReplicatedJob of each type: the master has one of its own if its pods differ."""
    own = STEP if merged(job) is None else names.NODE
    return {type_: own if type_ == "Master" else names.NODE for type_ in job.roles}


def alike(job: Job) -> bool:
    """Whether all replicas have the same pods."""
    first, *others = job.roles.values()
    return all(first.same_pods(other) for other in others)


def merged(job: Job) -> Role | None:
    """The role that all replicas can share; None if their pods differ.

    Where a shell cannot number the workers, since they have no command, it is
    enough if the pods differ in their restart policies: the strictest is all replicas'.
    """
    if alike(job):
        return next(iter(job.roles.values()))
    strictest = min(job.roles.values(), key=lambda role: _STRICTNESS.get(role.restart_policy or "", 2))
    same = [replace(role, restart_policy=strictest.restart_policy) for role in job.roles.values()]
    if same[-1].container.get("command") or not alike(
        replace(job, roles=dict(zip(job.roles, same, strict=True)))
    ):
        return None
    return same[0]


def note_merged(job: Job, role: Role, notes: Notes) -> None:
    """Note what changes for master and workers whose pods are those of `role` now."""
    if "Master" in job.roles and job.total > 1:
        message = "no longer completes the job when it succeeds: all nodes of the TrainJob must succeed"
        notes.changed(job.roles["Master"].path, message)
    for other in job.roles.values():
        if other.restart_policy != role.restart_policy:
            message = f"is {role.restart_policy}: master and workers are nodes of one step"
            notes.lost(other.path.child("restartPolicy"), f"{message}; write out the command to keep both")


def apart(group: Group, notes: Notes) -> Blueprint:
    """The master of a job with workers; raises `InvalidFieldError`."""
    job = group.job
    master, workers = job.roles["Master"], job.roles["Worker"]
    if master.replicas != 1:
        raise required(master.path.child("replicas"), "must be 1 where the workers' template differs")
    first = [variable(name, 0) for name in group.numbered]
    variables = [*group.contract, *group.fixed, *first]
    env = pods.env(master, variables, frozenset(), notes)
    beside = Beside(master, STEP, own={**pods.commands(master), "env": env}, shared=variables)
    for path in workers.sidecars:
        numbers = " and ".join(group.numbered)
        notes.lost(path.child("env"), f"lacks {numbers}: a line of shell sets that in the training container")
    number = " ".join(f"{name}=$((JOB_COMPLETION_INDEX + 1))" for name in group.numbered)
    return Blueprint(
        job=job,
        trainer=workers,
        nodes=workers.replicas,
        framework=PLAIN,
        runtime="",
        policy={},
        contract=[*group.contract, *group.fixed],
        command=after(f"export {number}", workers, group.numbered, notes),
        others=[beside],
        jobset={"successPolicy": {"operator": "All", "targetReplicatedJobs": [STEP]}},
    )
