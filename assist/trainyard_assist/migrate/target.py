"""Builds a TrainJob from a blueprint, and a TrainingRuntime if it needs one.

Called by the modules of the kinds. The job uses a runtime of the catalog if
its pods can be built from it (`fit`), and if the TrainJob can express everything
else. Otherwise the job gets a runtime of its own name with the whole pod template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainyard_api import names
from trainyard_api.documents import Document
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from . import fit, pods
from . import policy as policies
from .notes import Notes
from .policy import Policy, Restarts
from .source import Job, Role

PLAIN: Final = "plain"
"""The framework, and the runtime of the catalog, that does not connect the pods."""
_SHOWN: Final = 8

Catalog = Mapping[str, Document]
"""ClusterTrainingRuntimes by name."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Replicas that become a ReplicatedJob of their own, with as many pods."""

    role: Role
    step: str
    own: Json
    """command, args and env in place of the container's own."""
    shared: Sequence[Json] = ()
    """The variables that the training operator also set in the other containers of the pods."""
    shares: bool = False
    """Whether a runtime of the catalog may have it: it runs the trainer's program, and asks for no
    resources."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The parts from which a TrainJob is built."""

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
    shared: Sequence[Json] | None = None
    """The variables that it also set in the other containers of the trainer's pods; None: the contract."""
    reserved: frozenset[str] = frozenset()
    """Variables that the platform sets, and refuses in a TrainJob."""
    command: Mapping[str, list[str]] | None = None
    """command and args in place of the container's own."""
    own: Json = field(default_factory=dict)
    """The environment to put into the runtime's container instead of the TrainJob."""
    step: str = names.NODE
    depends_on: Sequence[Json] = ()
    others: Sequence[Beside] = ()
    """ReplicatedJobs before the trainer's step."""
    jobset: Json = field(default_factory=dict)
    """Fields of the JobSet's spec, in addition to those of the run policy."""


def build(blueprint: Blueprint, policy: Policy, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob, after its runtime if it needs one; raises `InvalidFieldError`."""
    job, role, others = blueprint.job, blueprint.trainer, blueprint.others
    restarts_beside = [policies.restarts(other.role, job.kind, policy, notes) for other in others]
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
    alike = all(other.shares for other in others)
    for other, its in zip(others, restarts_beside, strict=True) if alike else ():
        reasons += [*its.reasons, *pods.beyond_a_trainjob(other.role, job.kind.port_name)]
    roles = {**{other.step: other.role for other in others}, blueprint.step: role}
    wanted = fit.Wanted(
        framework=blueprint.framework,
        policy=blueprint.policy,
        beside={other.step: other.role.replicas for other in others},
        success=blueprint.jobset.get("successPolicy"),
        program=trainer.keys(),
        tokens={step for step, its_role in roles.items() if pods.has_token(its_role)},
    )
    difference = fit.difference(catalog.get(blueprint.runtime), wanted)
    if alike and not reasons and difference is None:
        patch = pods.patch(roles)
        fitting: dict[str, Any] = {"runtimeRef": {"name": blueprint.runtime}}
        fitting["trainer"] = {**pods.trainer(role), **trainer}
        if patch:
            fitting["runtimePatches"] = [patch]
        return (_trainjob(job, {**fitting, **policy.trainjob}),)
    _say_why(blueprint, reasons, difference, notes)
    reference = {"kind": names.TRAINING_RUNTIME, "name": job.name}
    spec = {"runtimeRef": reference, "trainer": trainer, **policy.trainjob}
    beside = [_beside(other, its, policy) for other, its in zip(others, restarts_beside, strict=True)]
    return _runtime(blueprint, policy, restarts, beside), _trainjob(job, spec)


def _beside(other: Beside, restarts: Restarts, policy: Policy) -> dict[str, Any]:
    counts = {"parallelism": other.role.replicas, "completions": other.role.replicas}
    pod = pods.whole(other.role, other.own, restarts.pod, policy.pod, other.shared)
    return _replicated_job(other.step, {**counts, **restarts.job}, pod, {})


def _replicated_job(step: str, spec: Json, template: Json, labels: Json) -> dict[str, Any]:
    own: dict[str, Any] = {"metadata": {"labels": labels}} if labels else {}
    return {"name": step, "template": {**own, "spec": {**spec, "template": template}}}


def _runtime(blueprint: Blueprint, policy: Policy, restarts: Restarts, beside: Sequence[Json]) -> Json:
    job, role = blueprint.job, blueprint.trainer
    labels = {names.ANCESTOR_LABEL: names.ANCESTOR_TRAINER}
    shared = blueprint.contract if blueprint.shared is None else blueprint.shared
    pod = pods.whole(role, blueprint.own, restarts.pod, policy.pod, shared)
    own = _replicated_job(blueprint.step, restarts.job, pod, labels)
    if blueprint.depends_on:
        own["dependsOn"] = list(blueprint.depends_on)
    spec = {**blueprint.jobset, **policy.jobset, "replicatedJobs": [*beside, own]}
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


def _say_why(
    blueprint: Blueprint, reasons: Sequence[FieldPath], difference: str | None, notes: Notes
) -> None:
    """Note why the job has a runtime of its own; `difference` is that of the catalog's."""
    whose = f"TrainingRuntime {blueprint.job.name}"
    alike = all(other.shares for other in blueprint.others)
    if reasons or not alike:
        shown = [] if alike else ["pods that are not all alike"]
        shown += [str(path) for path in reasons[:_SHOWN]]
        shown += [f"{len(reasons) - _SHOWN} more"] if len(reasons) > _SHOWN else []
        message = f"{whose} holds what a TrainJob has no field for: {', '.join(shown)}"
        notes.changed(blueprint.trainer.path, message)
    if difference and alike and (blueprint.others or not reasons):
        message = f"{whose} takes the place of {blueprint.runtime}, which {difference}"
        notes.changed(blueprint.trainer.path, message)
