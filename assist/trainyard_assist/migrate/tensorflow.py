"""TFJob.

Trainer v2.3 has no policy for TensorFlow. TF_CONFIG, which the training
operator wrote into every pod, differs between the pods of a type only in the
number of the pod, which Kubernetes fills in. A job of only workers runs on the
plain runtime; chief, parameter servers and evaluator become ReplicatedJobs
beside them.
"""

from __future__ import annotations

import json
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, required
from trainyard_api.json_types import Json

from . import pods, policy, references
from .notes import Notes
from .ranks import index, variable
from .source import Job, Kind, Role, read
from .target import PLAIN, Blueprint, Catalog, build, replicated_job

KIND: Final = Kind(
    name="TFJob",
    replicas="tfReplicaSpecs",
    types=("Chief", "Master", "Worker", "PS", "Evaluator"),
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    restart_policy="Never",
    others=frozenset({"successPolicy", "enableDynamicWorker"}),
)
_LEADERS: Final = ("Chief", "Master")
_OUTSIDE: Final = "Evaluator"
"""The type that is not a member of the cluster."""
_NUMBER: Final = "TF_TASK_INDEX"
_PLACE: Final = "@"


def convert(value: Json, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob, and its runtime if it needs one; raises `InvalidFieldError`."""
    job = read(value, KIND, notes)
    trainer = next((job.roles[name] for name in ("Worker", *_LEADERS) if name in job.roles), None)
    if trainer is None:
        raise required(FieldPath("spec.tfReplicaSpecs.Worker"), "a TFJob needs workers or a chief")
    if json_reader.boolean(job.spec.get("enableDynamicWorker"), FieldPath("spec.enableDynamicWorker")):
        message = "the number of workers does not change while a TrainJob runs; TF_CONFIG names all of them"
        notes.lost("spec.enableDynamicWorker", message)
    run = policy.read(job, notes)
    steps = {type_: names.NODE if type_ == trainer.type else type_.lower() for type_ in job.roles}
    job = references.rewritten(job, steps, notes)
    trainer = job.roles[trainer.type]
    others = []
    for role in job.roles.values():
        if role is trainer:
            continue
        env = pods.env(role, _config(job, role, steps), frozenset(), notes)
        own = {**pods.commands(role), "env": env}
        others.append(replicated_job(role, steps[role.type], KIND, run, notes, own=own))
    blueprint = Blueprint(
        job=job,
        trainer=trainer,
        nodes=trainer.replicas,
        framework="tensorflow",
        runtime=PLAIN,
        policy={},
        contract=_config(job, trainer, steps),
        others=others,
        jobset=_success(job, steps, notes),
    )
    return build(blueprint, run, catalog, notes)


def _config(job: Job, role: Role, steps: dict[str, str]) -> list[Json]:
    """TF_CONFIG of the role's pods; a single pod has none."""
    if job.total == 1:
        return []
    cluster = {
        member.type.lower(): [f"{host}:{member.port}" for host in _hosts(job, member, steps)]
        for member in job.roles.values()
        if member.type != _OUTSIDE
    }
    task = {"type": role.type.lower(), "index": _PLACE}
    text = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"}, separators=(",", ":"))
    return [index(_NUMBER), variable("TF_CONFIG", text.replace(f'"{_PLACE}"', f"$({_NUMBER})"))]


def _hosts(job: Job, role: Role, steps: dict[str, str]) -> list[str]:
    return job.hosts(steps[role.type], role.replicas)


def _success(job: Job, steps: dict[str, str], notes: Notes) -> Json:
    """When the job is done: with its chief or, without a chief, with its workers."""
    path = FieldPath("spec.successPolicy")
    success_policy = json_reader.text(job.spec.get("successPolicy"), path)
    leaders = [steps[name] for name in _LEADERS if name in job.roles]
    if success_policy == "AllWorkers":
        targets = [*leaders, *(steps[name] for name in ("Worker",) if name in job.roles)]
    else:
        targets = leaders or [names.NODE]
    if success_policy not in (None, "", "AllWorkers"):
        notes.lost(path, "is neither empty nor AllWorkers")
    if set(targets) == set(steps.values()):
        return {}
    return {"successPolicy": {"operator": "All", "targetReplicatedJobs": targets}}
