"""Jobs with one master and workers, all numbered: the master is rank 0.

Called by `pytorch` and `xgboost`. If master and workers have the same pods,
they become the nodes of one step, numbered as before. If not, the master
becomes a ReplicatedJob of its own, and the workers become the trainer's step.
A line of shell numbers them from 1, since a Job numbers its pods from 0. No
mlPolicy of Trainer v2.3 fits such a job, so its runtime has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trainyard_api import names
from trainyard_api.errors import required
from trainyard_api.json_types import Json

from . import pods
from .notes import Notes
from .policy import Policy
from .ranks import after, variable
from .source import Job, Role
from .target import PLAIN, Blueprint, replicated_job

STEP: Final = "master"
"""The ReplicatedJob of the master."""


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


def merged(job: Job) -> Role | None:
    """The role that all replicas can share; None if their pods differ."""
    first, *others = job.roles.values()
    return first if all(first.same_pods(other) for other in others) else None


def apart(group: Group, policy: Policy, notes: Notes) -> Blueprint:
    """The master beside the workers; raises `InvalidFieldError`."""
    job = group.job
    master, workers = job.roles["Master"], job.roles["Worker"]
    if master.replicas != 1:
        raise required(master.path.child("replicas"), "must be 1 where the workers' template differs")
    first = [variable(name, 0) for name in group.numbered]
    env = pods.env(master, [*group.contract, *group.fixed, *first], frozenset(), notes)
    own = {**pods.commands(master), "env": env}
    beside = replicated_job(master, STEP, job.kind, policy, notes, own=own)
    number = " ".join(f"{name}=$((JOB_COMPLETION_INDEX + 1))" for name in group.numbered)
    return Blueprint(
        job=job,
        trainer=workers,
        nodes=workers.replicas,
        framework=PLAIN,
        runtime="",
        policy={},
        contract=[*group.contract, *group.fixed],
        command=after(f"export {number}", workers),
        others=[beside],
        jobset={"successPolicy": {"operator": "All", "targetReplicatedJobs": [STEP]}},
    )
