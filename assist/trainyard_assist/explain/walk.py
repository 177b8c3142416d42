"""The walk from a TrainJob to its nodes: one line for each stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainyard_api import names
from trainyard_api.json_types import Json
from trainyard_api.shown import listed

from .. import read, text
from . import facts
from .causes import TABLE, At
from .model import Finding, Mark, Observation, Stage, Subject
from .rules import attempts, kueue

Teller = Callable[[Observation], str]


def stages(observation: Observation, finding: Finding | None) -> tuple[Stage, ...]:
    """The stages that concern this TrainJob, in order."""
    held = None if finding is None else TABLE[finding.cause].at
    return tuple(_stages(observation, held))


def _stages(observation: Observation, held: At | None) -> Iterator[Stage]:
    tellers: tuple[tuple[At, Subject | None, Teller], ...] = (
        (At.TRAINJOB, None, _trainjob),
        (At.RUNTIME, Subject.RUNTIME, _runtime),
        (At.WORKLOAD, Subject.WORKLOADS, _workload),
        (At.JOBSET, Subject.JOBSET, _jobset),
        (At.ATTEMPTS, None, attempts.summary),
        (At.JOBS, Subject.JOBS, _jobs),
        (At.GANG, Subject.POD_GROUPS, _pod_groups),
        (At.PODS, Subject.PODS, _pods),
        (At.NODES, Subject.NODES, _nodes),
    )
    for at, subject, tell in tellers:
        line = tell(observation)
        if at is held:
            yield Stage(at, Mark.HELD, line or "none")
        elif line:
            yield Stage(at, Mark.FINE, line)
        elif subject in observation.unseen or (at is At.WORKLOAD and _hides_workload(observation)):
            yield Stage(at, Mark.UNSEEN, "not seen")
        elif _belongs(at, observation):
            yield Stage(at, Mark.ABSENT, "none")


def _belongs(at: At, observation: Observation) -> bool:
    """Whether the stage is one that this TrainJob should have."""
    if at is At.WORKLOAD:
        return bool(facts.queue(observation))
    if at is At.NODES:  # else they were not seen, and change nothing
        return not _assigned_nodes(observation)
    return at not in (At.ATTEMPTS, At.GANG)


def _hides_workload(observation: Observation) -> bool:
    return bool(facts.queue(observation)) and kueue.is_unseen(observation)


def _trainjob(observation: Observation) -> str:
    age = text.duration(facts.age(observation, observation.trainjob))
    parts = [f"{read.name(observation.trainjob)}, created {age} ago"]
    if read.suspended(observation.trainjob):
        parts.append("suspended")
    parts += [
        kind
        for kind in (names.BLOCKED, names.COMPLETE, names.FAILED)
        if read.holds(observation.trainjob, kind)
    ]
    return ", ".join(parts)


def _runtime(observation: Observation) -> str:
    return "" if observation.runtime is None else str(facts.named_runtime(observation))


def _workload(observation: Observation) -> str:
    workload = kueue.current(observation) or next(iter(observation.workloads), None)
    if workload is None:
        return ""
    steps = ("Finished", "Admitted", "QuotaReserved")
    reached = next((step for step in steps if read.holds(workload, step)), "pending")
    return f"{read.name(workload)} in LocalQueue {read.text(workload, 'spec', 'queueName')}: {reached}"


def _jobset(observation: Observation) -> str:
    if observation.jobset is None:
        return ""
    parts = [read.name(observation.jobset)]
    if read.suspended(observation.jobset):
        parts.append("suspended")
    if restarts := read.number(observation.jobset, "status", "restarts"):
        parts.append(f"{restarts} restarts")
    parts += [kind for kind in ("Completed", "Failed") if read.holds(observation.jobset, kind)]
    return ", ".join(parts)


def _jobs(observation: Observation) -> str:
    return listed(_job(job) for job in sorted(observation.jobs, key=read.name))


def _job(job: Json) -> str:
    active, succeeded, failed = (read.number(job, "status", key) for key in ("active", "succeeded", "failed"))
    line = f"{read.name(job)}: {active} active of {facts.ranks(job)}"
    line += f", {succeeded} succeeded" if succeeded else ""
    return line + (f", {failed} failed" if failed else "")


def _pod_groups(observation: Observation) -> str:
    return listed(
        f"{read.name(group)}, {read.text(group, 'status', 'phase') or 'no phase'}"
        for group in observation.pod_groups
    )


def _pods(observation: Observation) -> str:
    pods = observation.current_pods
    if not pods:
        return ""
    ready = sum(map(facts.is_ready, pods))
    others = [f"{read.name(p)} {read.text(p, 'status', 'phase')}" for p in pods if not facts.is_ready(p)]
    return f"{ready} of {len(pods)} ready" + (f"; {listed(others)}" if others else "")


def _nodes(observation: Observation) -> str:
    on = _assigned_nodes(observation)
    return listed(
        f"{read.name(node)} {'Ready' if read.holds(node, 'Ready') else 'not Ready'}"
        for node in observation.nodes
        if read.name(node) in on
    )


def _assigned_nodes(observation: Observation) -> set[str]:
    """The nodes that its pods are on."""
    return {read.text(pod, "spec", "nodeName") for pod in observation.current_pods} - {""}
