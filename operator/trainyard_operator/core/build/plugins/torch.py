"""Torch: what `torchrun` reads to find its peers (Trainer v2.3, plugin `Torch`).

Recognizes a GPU by `gpu` in the resource's name, exactly as Trainer does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import json_reader, names, quantity
from trainyard_api.errors import ErrorType, FieldError, FieldPath, invalid

from ...model import JobSet, Json, TrainJob
from .. import resources, templates
from ..info import Info, PodSet
from . import reserved

_TRAINER: Final = FieldPath("spec.trainer")
_TARGETS: Final = FieldPath("spec.mlPolicy.torch.envInjection.targets")
AUTO: Final = "auto"
"""The number of processes that torchrun finds by itself: one for each GPU."""
_TORCHTUNE_COMMAND: Final = ("tune", "run")
_NODES: Final = "--nnodes"
_ELASTIC: Final = re.compile(rf"{_NODES}[= ]\S{{0,200}}:(?!-)")
"""Torchrun's option with a least and a most; the default of a shell's variable is none (`${N:-1}`)."""
_LEAST: Final = re.compile(rf'{_NODES}[= ]"?\$\{{(\w{{1,100}}):-')
"""The variable that has the least."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_NOBODY: Final = PodSet(names.NODE, None, 1)
"""The error about injection targets in a runtime without a trainer."""


class Torch:
    """Sets the trainer's pod count, variables and port for PyTorch."""

    name = "torch"
    implements = frozenset({"mlPolicy.torch"})

    def validate(self, info: Info, old: TrainJob | None, jobset: JobSet | None) -> Sequence[FieldError]:
        """Injection targets that are missing, and PET_* variables that the TrainJob sets."""
        policy = info.policy("torch")
        if policy is None:
            return ()
        return (*_missing_targets(info, policy), *reserved.errors(info, names.RESERVED_ENV["torch"]))

    def warnings(self, info: Info) -> Sequence[str]:
        """Warnings about what an elastic runtime does not get, and more ranks than accelerators."""
        if info.policy("torch") is None:
            return ()
        return (*_elastic_warnings(info), *_uncounted_warnings(info))

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the PET_* variables; raises `InvalidFieldError` for a missing injection target."""
        policy = info.policy("torch")
        if policy is None:
            return info
        step = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        pods = _NOBODY if step is None else info.counted(step)
        rendezvous = _rendezvous(info, pods, processes(info))
        if step is not None:
            info = info.with_count(pods.name, pods.count)
        if step is not None and not info.injects_nothing:
            injected = rendezvous[:3] if runs_torchtune(info.trainer or {}) else rendezvous
            info = info.with_env(pods.name, (*info.env, *injected))
            info = info.with_port(pods.name)
        return _injected(info, policy, rendezvous)


def _elastic_warnings(info: Info) -> Iterator[str]:
    """A command of the TrainJob's own takes the place of the one that makes its runtime elastic."""
    containers = (templates.container(job, names.NODE) or {} for job in info.jobs)
    words = (word for container in containers for word in container.get("command") or ())
    elastic = [word for word in words if _ELASTIC.search(word)]
    if not elastic:
        return
    trainer = info.trainer or {}
    own = [*_words(trainer, "command"), *_words(trainer, "args")]
    if trainer.get("command") is None:
        yield from _least_warnings(info, elastic)
    elif not any(_NODES in word for word in own):
        yield (
            f"spec.trainer.command: replaces the command that makes {info.runtime.name} elastic, so this "
            "job fails when it loses a node: give the script as spec.trainer.args, without torchrun"
        )


def _least_warnings(info: Info, elastic: Sequence[str]) -> Iterator[str]:
    """A least number of nodes that torchrun refuses."""
    step = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
    if step is None:
        return
    nodes = info.counted(step).count
    least = {match[1] for word in elastic for match in _LEAST.finditer(word)}
    for variable in reserved.variables(info):
        value = variable.get("value")
        # An empty one counts as none, and only the kubelet knows that of another variable.
        if variable["name"] not in least or not isinstance(value, str) or not value or "$(" in value:
            continue
        if not (_NUMBER.fullmatch(value) and 1 <= int(value) <= nodes):
            yield (
                f"{reserved.ENV_PATH}: {variable['name']} is {json_reader.shown(value)}, and numNodes is "
                f"{nodes}: set it to a number from 1 to numNodes, or torchrun does not start"
            )


def _uncounted_warnings(info: Info) -> Iterator[str]:
    """Accelerators without `gpu` in their name are no GPUs, so that CPUs are counted, as with Trainer."""
    ranks = processes(info)
    if info.processes is not None or ranks == AUTO:
        return
    uncounted = resources.uncounted(resources.per_node(info))
    there = sum(uncounted.values())
    if uncounted and there < int(ranks):
        wanted = 1 if any(map(resources.is_partition, uncounted)) else there
        yield (
            f"{_TRAINER.child('numProcPerNode')}: each node has {ranks} ranks, one for each CPU, since "
            f"{' and '.join(uncounted)} does not count as a GPU: set this to {wanted}"
        )


def _words(trainer: Json, field: str) -> Sequence[str]:
    return json_reader.texts(trainer.get(field), _TRAINER.child(field))


def runs_torchtune(trainer: Json) -> bool:
    """Whether TorchTune's own launcher runs: it finds its peers by an argument, not by PET_MASTER_*."""
    return tuple(_words(trainer, "command")) == _TORCHTUNE_COMMAND


def processes(info: Info) -> str:
    """PET_NPROC_PER_NODE: what the TrainJob says, else `auto` with GPUs, else one for each CPU."""
    if info.processes is not None:
        return str(info.processes)
    per_node = resources.per_node(info)
    if resources.gpu_count(per_node) != 0:
        return AUTO
    amounts = [quantity.parse(per_node.get(kind, {}).get("cpu", 0)) for kind in ("requests", "limits")]
    cpu = amounts[0] if amounts[0].nano else amounts[1]
    return str(max(1, cpu.ceil()))


def _rendezvous(info: Info, pods: PodSet, processes: str) -> tuple[Json, ...]:
    return (
        {"name": "PET_NNODES", "value": str(pods.count)},
        {"name": "PET_NPROC_PER_NODE", "value": processes},
        templates.rank("PET_NODE_RANK"),
        {"name": "PET_MASTER_ADDR", "value": info.rendezvous(pods)},
        {"name": "PET_MASTER_PORT", "value": str(names.TRAINER_PORT)},
    )


def _injection_targets(policy: Json) -> Iterator[Json]:
    """The targets, each with a list of container names."""
    injection = json_reader.mapping(policy.get("envInjection"), FieldPath("spec.mlPolicy.torch.envInjection"))
    targets = json_reader.named_objects(injection.get("targets"), _TARGETS, key="jobName")
    for position, target in enumerate(targets):
        path = _TARGETS.index(position).child("containerNames")
        yield {
            "jobName": target["jobName"],
            "containerNames": json_reader.texts(target.get("containerNames"), path),
        }


def _missing_targets(info: Info, policy: Json) -> Iterator[FieldError]:
    containers = _containers(info)
    for target in _injection_targets(policy):
        job = target["jobName"]
        for container in target["containerNames"]:
            if container not in containers.get(job, ()):
                yield FieldError(ErrorType.INVALID, "spec.runtimeRef", target, _missing(job, container))


def _injected(info: Info, policy: Json, env: tuple[Json, ...]) -> Info:
    """`info` with the variables in all targets, each of which must exist."""
    containers = _containers(info)
    targets: dict[str, set[str]] = {}
    for target in _injection_targets(policy):
        job = target["jobName"]
        for container in target["containerNames"]:
            if container not in containers.get(job, ()):
                raise invalid(
                    _TARGETS, {"jobName": job, "containerName": container}, _missing(job, container)
                )
            targets.setdefault(job, set()).add(container)

    def edit(job: Json) -> Json:
        return templates.with_containers(job, targets[job["name"]], lambda c: templates.with_env(c, env))

    return info.with_jobs(targets.keys(), edit)


def _containers(info: Info) -> dict[str, frozenset[str]]:
    """By ReplicatedJob: the names of its containers and init containers."""
    pods = {job["name"]: templates.pod_template(job)["spec"] for job in info.jobs}
    return {
        name: frozenset(c["name"] for c in (*spec.get("initContainers", ()), *spec.get("containers", ())))
        for name, spec in pods.items()
    }


def _missing(job: str, container: str) -> str:
    return f'envInjection target podSet "{job}" container "{container}" not found in runtime template'
