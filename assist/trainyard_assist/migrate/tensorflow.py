"""TFJob.

On runtimes for TensorFlow the platform sets TF_CONFIG, which the training operator
wrote into every pod: the workers are the trainer's step, and chief, parameter
servers and evaluator are other ReplicatedJobs. Workers, with a chief that has
the same pods, are the nodes of `tensorflow-distributed`; with parameter servers
they run on `tensorflow-ps` if all have one program.
"""

from __future__ import annotations

from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, invalid, required
from trainyard_api.json_types import Json

from . import masters, pods, policy, references
from .notes import Notes
from .source import Job, Kind, Role, read
from .target import Beside, Blueprint, Catalog, build

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
_CHIEF: Final = "chief"
_SERVERS: Final = "PS"
_CONFIG: Final = frozenset({"TF_CONFIG"})


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
    steps = _steps(job, trainer)
    _note_leader(job, steps, notes)
    job = references.rewritten(job, steps, notes)
    trainer = job.roles[trainer.type]
    others = [role for role in job.roles.values() if steps[role.type] != names.NODE]
    reserved = _CONFIG if job.total > 1 else frozenset()
    # Beside the trainer's step, what has no command runs the TrainJob's program: it must not have one then.
    is_in_runtime = any(not (pods.commands(role) or _same_program(role, trainer)) for role in others)
    blueprint = Blueprint(
        job=job,
        trainer=trainer,
        nodes=sum(role.replicas for role in job.roles.values() if steps[role.type] == names.NODE),
        framework="tensorflow",
        runtime="tensorflow-ps" if _SERVERS in job.roles else "tensorflow-distributed",
        policy={},
        reserved=reserved,
        command={} if is_in_runtime else None,
        own=_program(trainer, reserved, notes) if is_in_runtime else {},
        others=[
            Beside(role, steps[role.type], {}, shares=_same_image(role, trainer))
            if _same_program(role, trainer) and not is_in_runtime
            else Beside(role, steps[role.type], _program(role, reserved, notes))
            for role in others
        ],
        jobset=_success(job, steps, notes),
    )
    return build(blueprint, run, catalog, notes)


def _steps(job: Job, trainer: Role) -> dict[str, str]:
    """The ReplicatedJob of each type, called as its tasks are in TF_CONFIG."""
    leaders = [job.roles[name] for name in _LEADERS if name in job.roles]
    if len(leaders) > 1:
        raise invalid(
            leaders[1].path, leaders[1].type, "must not be beside a Chief: TensorFlow has one chief"
        )
    for role in leaders:
        if role.replicas != 1:
            raise invalid(role.path.child("replicas"), role.replicas, "must be 1: TensorFlow has one chief")
    are_alike = job.roles.keys() <= {"Worker", *_LEADERS} and masters.alike(job)
    nodes = {*_LEADERS, "Worker"} if are_alike else {trainer.type}
    return {
        type_: names.NODE if type_ in nodes else _CHIEF if type_ in _LEADERS else type_.lower()
        for type_ in job.roles
    }


def _note_leader(job: Job, steps: dict[str, str], notes: Notes) -> None:
    """Note how a script knows its chief, where TF_CONFIG says it otherwise."""
    for role in (job.roles[name] for name in _LEADERS if name in job.roles and job.total > 1):
        if steps[role.type] == names.NODE:
            message = "is worker 0 in TF_CONFIG, which is the chief where no task is called so"
            notes.changed(role.path, message)
        elif role.type.lower() != _CHIEF:
            notes.changed(role.path, f"is the {_CHIEF} in TF_CONFIG")


def _program(role: Role, reserved: frozenset[str], notes: Notes) -> Json:
    return {**pods.commands(role), "env": pods.env(role, (), reserved, notes)}


def _same_program(role: Role, trainer: Role) -> bool:
    keys = ("command", "args", "env")
    return all((role.container.get(key) or []) == (trainer.container.get(key) or []) for key in keys)


def _same_image(role: Role, trainer: Role) -> bool:
    """Whether the TrainJob's image is the role's too, and the runtime's resources are enough."""
    return role.container.get("image") == trainer.container.get("image") and not role.container.get(
        "resources"
    )


def _success(job: Job, steps: dict[str, str], notes: Notes) -> Json:
    """When the job is done: with its chief or, without a chief, with its workers."""
    path = FieldPath("spec.successPolicy")
    success_policy = json_reader.text(job.spec.get("successPolicy"), path)
    deciding = (*_LEADERS, "Worker") if success_policy == "AllWorkers" else _LEADERS
    targets = [steps[name] for name in deciding if name in job.roles] or [names.NODE]
    if success_policy not in (None, "", "AllWorkers"):
        notes.lost(path, "is neither empty nor AllWorkers")
    if set(targets) == set(steps.values()):
        return {}
    return {"successPolicy": {"operator": "All", "targetReplicatedJobs": targets}}
