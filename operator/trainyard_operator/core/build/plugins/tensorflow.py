"""TensorFlow: TF_CONFIG, in which each task finds the others and which of them it is (ADR 41).

The trainer's step are the workers. Another ReplicatedJob with the name `chief`, `ps` or `evaluator` is of
that type, and runs the TrainJob's program
too unless the runtime gives it one of its own. Trainer v2.3 has no such plugin.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import invalid

from ...model import Json
from .. import templates
from ..info import Info, PodSet
from . import peers, program, reserved

VARIABLE: Final = "TF_CONFIG"
INDEX: Final = "TF_TASK_INDEX"
"""Its number among the tasks of its type, which only a pod knows: Kubernetes puts it into TF_CONFIG, where
it must be a variable before that. JOB_COMPLETION_INDEX, which the Job adds, comes behind."""

_WORKER: Final = "worker"
_EVALUATOR: Final = "evaluator"
"""The type that reads checkpoints, and that the others do not know."""
_BESIDE: Final = frozenset({"chief", "ps", _EVALUATOR})


class TensorFlow:
    """Sets TF_CONFIG and the port of each task."""

    name = "tensorflow"
    implements: frozenset[str] = frozenset()

    def warnings(self, info: Info) -> Sequence[str]:
        """A warning if the TrainJob sets TF_CONFIG itself."""
        variables = [entry["name"] for entry in reserved.variables(info)]
        if VARIABLE not in variables or peers.trainers(info, self.name) is None:
            return ()
        path = reserved.ENV_PATH.index(variables.index(VARIABLE))
        return (
            f"{path}: {VARIABLE} stays as it is, so a node "
            "does not know the others: leave it out, and each node gets its own",
        )

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with TF_CONFIG where there is more than one task, and what they run.

        Raises `InvalidFieldError` for tasks that cannot be counted, or are too many.
        """
        workers = peers.trainers(info, self.name)
        if workers is None:
            return info
        beside = [pods for pods in info.pod_sets if pods.name in _BESIDE and pods != workers]
        run = program.edit(info)
        for pods in beside:
            _require_one_job(info, pods)
            info = info.with_job(pods.name, lambda job: _with_program(job, run))
        tasks = [workers, *beside]
        if sum(pods.count for pods in tasks) == 1:
            return info
        hosts = peers.addresses(info, workers, [pods for pods in beside if pods.name != _EVALUATOR])
        cluster = {_type(pods, workers): hosts[pods.name] for pods in tasks if pods.name in hosts}
        for pods in tasks:
            if not peers.sets(info.container(pods.name), VARIABLE):
                info = info.with_env(pods.name, _env(cluster, _type(pods, workers)))
            info = info.with_port(pods.name)
        return info


def _type(pods: PodSet, workers: PodSet) -> str:
    return _WORKER if pods == workers else pods.name


def _env(cluster: Json, type_: str) -> tuple[Json, ...]:
    # No string of JSON: Kubernetes puts the number in its place.
    task = f'{{"type":"{type_}","index":$({INDEX})}}'
    text = f'{{"cluster":{json.dumps(cluster, separators=(",", ":"))},"task":{task}}}'
    return (
        templates.rank(INDEX),
        {"name": VARIABLE, "value": text},
    )


def _with_program(job: Json, run: templates.Edit) -> Json:
    """The ReplicatedJob with the TrainJob's program, if the runtime names none for it."""
    container = templates.container(job, names.NODE) or {}
    if container.get("command") or container.get("args") or peers.sets(container, VARIABLE):
        return job
    return templates.with_container(job, names.NODE, run)


def _require_one_job(info: Info, pods: PodSet) -> None:
    """The number of a task is that of its pod in its Job."""
    path = templates.SPEC_PATH.child("replicatedJobs")
    position, job = next((i, job) for i, job in enumerate(info.jobs) if job["name"] == pods.name)
    path = path.index(position).child("replicas")
    replicas = json_reader.integer(job.get("replicas"), path)
    if replicas not in (None, 1):
        raise invalid(path, replicas, "must be 1: the number of pods is template.spec.parallelism")
