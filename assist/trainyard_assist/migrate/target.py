"""Builds a TrainJob from a blueprint, and a TrainingRuntime if it needs one.

Called by the modules of the kinds. The job uses a runtime of the catalog if
its pods can be built from it: if the catalog has it, if it brings no command
where the job has none, and if the TrainJob can express everything else.
Otherwise the job gets a runtime of its own name with the whole pod template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.documents import Document
from trainyard_api.errors import FieldPath, InvalidFieldError
from trainyard_api.json_types import Json
from trainyard_operator.core.build import templates

from . import pods
from . import policy as policies
from .notes import Notes
from .policy import Policy, Restarts
from .source import Job, Kind, Role

PLAIN: Final = "plain"
"""The framework, and the runtime of the catalog, that connects the pods in no way."""
_SHOWN: Final = 8

Catalog = Mapping[str, Document]
"""ClusterTrainingRuntimes by name."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What a TrainJob is made from."""

    job: Job
    trainer: Role
    """The replicas that become the trainer's step."""
    nodes: int
    framework: str
    runtime: str
    """The runtime of the catalog."""
    policy: Json
    """The runtime's mlPolicy without the number of nodes."""
    processes: int | None = None
    """Per node; None leaves it to the platform."""
    contract: Sequence[Json] = ()
    """The variables that the training operator set."""
    reserved: frozenset[str] = frozenset()
    """Variables that the platform sets, and refuses in a TrainJob."""
    command: Mapping[str, list[str]] | None = None
    """command and args in place of the container's own."""
    own: Json = field(default_factory=dict)
    """The environment to put into the runtime's container instead of the TrainJob."""
    step: str = names.NODE
    depends_on: Sequence[Json] = ()
    others: Sequence[Json] = ()
    """ReplicatedJobs before the trainer's; they need a runtime of their own."""
    jobset: Json = field(default_factory=dict)
    """Fields of the JobSet's spec; they need a runtime of their own too."""


def build(blueprint: Blueprint, policy: Policy, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob, after its runtime if it needs one; raises `InvalidFieldError`."""
    job, role = blueprint.job, blueprint.trainer
    restarts = policies.restarts(role, job.kind, policy, notes)
    commands: Json = pods.commands(role) if blueprint.command is None else blueprint.command
    trainer: dict[str, Any] = {**commands}
    trainer["numNodes"] = blueprint.nodes
    env = [] if blueprint.own else pods.env(role, blueprint.contract, blueprint.reserved, notes)
    if env:
        trainer["env"] = env
    if blueprint.processes is not None:
        trainer["numProcPerNode"] = blueprint.processes
    reasons = [*policy.reasons, *restarts.reasons, *pods.beyond_a_trainjob(role, job.kind.port_name)]
    special = bool(blueprint.others or blueprint.jobset)
    if not special and not reasons and _fits(catalog.get(blueprint.runtime), blueprint, trainer):
        patch = pods.patch(role)
        fitting: dict[str, Any] = {"runtimeRef": {"name": blueprint.runtime}}
        fitting["trainer"] = {**pods.trainer(role), **trainer}
        if patch:
            fitting["runtimePatches"] = [patch]
        return (_trainjob(job, {**fitting, **policy.trainjob}),)
    _say_why(blueprint, reasons, special, notes)
    reference = {"kind": names.TRAINING_RUNTIME, "name": job.name}
    spec = {"runtimeRef": reference, "trainer": trainer, **policy.trainjob}
    return _runtime(blueprint, policy, restarts), _trainjob(job, spec)


def replicated_job(
    role: Role, step: str, kind: Kind, policy: Policy, notes: Notes, *, own: Json
) -> dict[str, Any]:
    """A ReplicatedJob beside the trainer's, with as many pods as the role has replicas.

    `own` are the fields that replace the container's command, arguments and
    environment.
    """
    restarts = policies.restarts(role, kind, policy, notes)
    counts = {"parallelism": role.replicas, "completions": role.replicas}
    spec = {**counts, **restarts.job}
    return _replicated_job(step, spec, pods.whole(role, own, restarts.pod, policy.pod), {})


def _replicated_job(step: str, spec: Json, template: Json, labels: Json) -> dict[str, Any]:
    own: dict[str, Any] = {"metadata": {"labels": labels}} if labels else {}
    return {"name": step, "template": {**own, "spec": {**spec, "template": template}}}


def _runtime(blueprint: Blueprint, policy: Policy, restarts: Restarts) -> Json:
    job, role = blueprint.job, blueprint.trainer
    labels = {names.ANCESTOR_LABEL: names.ANCESTOR_TRAINER}
    pod = pods.whole(role, blueprint.own, restarts.pod, policy.pod)
    own = _replicated_job(blueprint.step, restarts.job, pod, labels)
    if blueprint.depends_on:
        own["dependsOn"] = list(blueprint.depends_on)
    spec = {**blueprint.jobset, **policy.jobset, "replicatedJobs": [*blueprint.others, own]}
    template: dict[str, Any] = {"spec": spec}
    if policy.annotations:
        template["metadata"] = {"annotations": policy.annotations}
    runtime: dict[str, Any] = {"mlPolicy": {"numNodes": 1, **blueprint.policy}, "template": template}
    if policy.group:
        runtime["podGroupPolicy"] = policy.group
    where = {"namespace": job.metadata["namespace"]} if "namespace" in job.metadata else {}
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": names.TRAINING_RUNTIME,
        "metadata": {"name": job.name, **where, "labels": {names.FRAMEWORK_LABEL: blueprint.framework}},
        "spec": runtime,
    }


def _trainjob(job: Job, spec: Json) -> Json:
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": names.TRAINJOB,
        "metadata": job.metadata,
        "spec": spec,
    }


def _say_why(blueprint: Blueprint, reasons: Sequence[FieldPath], special: bool, notes: Notes) -> None:
    """Note why the job has a runtime of its own."""
    whose = f"TrainingRuntime {blueprint.job.name}"
    if reasons or special:
        shown = [str(path) for path in reasons[:_SHOWN]]
        alike = ["pods that are not all alike"] if special else []
        more = [f"{len(reasons) - _SHOWN} more"] if len(reasons) > _SHOWN else []
        message = f"{whose} holds what a TrainJob has no field for: {', '.join(alike + shown + more)}"
    else:
        message = (
            f"{whose} takes the place of {blueprint.runtime}, which the catalog lacks, "
            "or which would run a command of its own"
        )
    notes.changed(blueprint.trainer.path, message)


def _fits(runtime: Document | None, blueprint: Blueprint, trainer: Json) -> bool:
    """Whether the runtime of the catalog does exactly what the job asks for."""
    if runtime is None:
        return False
    path = FieldPath("spec")
    try:
        spec = json_reader.mapping(runtime.value.get("spec"), path)
        policy = json_reader.mapping(spec.get("mlPolicy"), path.child("mlPolicy"))
        template = json_reader.mapping(spec.get("template"), path.child("template"))
        jobset = json_reader.mapping(template.get("spec"), templates.SPEC_PATH)
        jobs = templates.checked(jobset, templates.SPEC_PATH)["replicatedJobs"]
    except InvalidFieldError:
        return False
    node = templates.container(jobs[0], names.NODE) if len(jobs) == 1 else None
    if node is None or jobs[0]["name"] != names.NODE:
        return False
    if policy.keys() - {"numNodes"} != blueprint.policy.keys():
        return False
    return not any(node.get(key) and not trainer.get(key) for key in ("command", "args"))
