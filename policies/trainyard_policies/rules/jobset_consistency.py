"""What a JobSet's policies name is among its ReplicatedJobs, and of exclusive choices one is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from ..manifest import Workload
from ..name_patterns import FAILURE_RULE, STRICT_LABEL
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity, among, listed
from ..subject import Subject

_SPEC: Final = FieldPath("spec")
_REASONS: Final = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_MOST_PODS: Final = 2**31 - 1


def check(workload: Workload, _: Parameters) -> Iterator[Finding]:
    """As JobSet's own webhook and schema do (0.12)."""
    jobset, at = json_reader.below(workload.spec, _SPEC, "template", "spec")
    jobs = {job.name: job.value for job in workload.jobs}
    yield from _gang(workload.spec)
    yield from _order(workload, jobset, at.child("startupPolicy"))
    yield from _network(jobset, at.child("network"))
    for job in workload.jobs:
        yield from _label(job.value, job.path, "groupName")
        if (pods := job.pods) > _MOST_PODS:
            has = json_reader.shown(pods)
            yield Finding(job.path, f"replicas times parallelism must be at most {_MOST_PODS}, is {has}")
    policy = at.child("successPolicy")
    yield from _targets(json_reader.mapping(jobset.get("successPolicy"), policy), policy, list(jobs))
    yield from _failure(*json_reader.below(jobset, at, "failurePolicy"), list(jobs))
    yield from _coordinator(
        json_reader.optional_mapping(jobset.get("coordinator"), at.child("coordinator")), jobs
    )


def _gang(spec: Json) -> Iterator[Finding]:
    at = _SPEC.child("podGroupPolicy")
    policy = json_reader.mapping(spec.get("podGroupPolicy"), at)
    chosen = [name for name, value in policy.items() if value is not None]
    if len(chosen) > 1:
        yield Finding(at, f"must have one gang scheduler, has {listed(chosen, ' and ')}")


def _order(workload: Workload, jobset: Json, at: FieldPath) -> Iterator[Finding]:
    policy = json_reader.mapping(jobset.get("startupPolicy"), at)
    waiting = [job.name for job in workload.jobs if job.value.get("dependsOn")]
    if policy.get("startupPolicyOrder") == "InOrder" and waiting:
        message = f"must be left out where a ReplicatedJob has dependsOn, as has {listed(waiting)}"
        yield Finding(at, message)


def _network(jobset: Json, at: FieldPath) -> Iterator[Finding]:
    yield from _label(json_reader.mapping(jobset.get("network"), at), at, "subdomain")


def _label(value: Json, at: FieldPath, field: str) -> Iterator[Finding]:
    text = json_reader.text(value.get(field), at.child(field))
    if text and not STRICT_LABEL.fits(text):
        yield Finding(at.child(field), f"{STRICT_LABEL.sentence}, is {json_reader.shown(text)}")


def _failure(policy: Json, at: FieldPath, jobs: Sequence[str]) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for position, rule in enumerate(json_reader.objects(policy.get("rules"), at.child("rules"))):
        path = at.child("rules").index(position)
        name = json_reader.text(rule.get("name"), path.child("name"))
        if name is not None:
            yield from _rule_name(name, path.child("name"), first.setdefault(name, position), position)
        reasons = path.child("onJobFailureReasons")
        for index, reason in enumerate(json_reader.texts(rule.get("onJobFailureReasons"), reasons)):
            if reason not in _REASONS:
                yield Finding(
                    reasons.index(index), f"must be a reason of a failed Job{among(reason, _REASONS)}"
                )
        yield from _targets(rule, path, jobs)


def _rule_name(name: str, at: FieldPath, first: int, position: int) -> Iterator[Finding]:
    if not FAILURE_RULE.fits(name):
        yield Finding(at, f"{FAILURE_RULE.sentence}, is {json_reader.shown(name)}")
    if first != position:
        yield Finding(at, f"must be unique: rules[{first}] has the same name")


def _targets(policy: Json, at: FieldPath, jobs: Sequence[str]) -> Iterator[Finding]:
    path = at.child("targetReplicatedJobs")
    for position, name in enumerate(json_reader.texts(policy.get("targetReplicatedJobs"), path)):
        if name not in jobs:
            yield Finding(path.index(position), f"must be a ReplicatedJob{among(name, jobs)}")


def _coordinator(coordinator: Json | None, jobs: dict[str, Json]) -> Iterator[Finding]:
    if coordinator is None:
        return
    at = _SPEC.child("template", "spec", "coordinator")
    name = json_reader.text(coordinator.get("replicatedJob"), at.child("replicatedJob")) or ""
    if name not in jobs:
        yield Finding(at.child("replicatedJob"), f"must be a ReplicatedJob{among(name, list(jobs))}")
        return
    declared = json_reader.integer(jobs[name].get("replicas"), FieldPath("replicas"))
    replicas = 1 if declared is None else declared
    index = json_reader.integer(coordinator.get("jobIndex"), at.child("jobIndex")) or 0
    if not 0 <= index < replicas:
        yield Finding(at.child("jobIndex"), f"must be from 0 to {replicas - 1}, a Job of {name}; is {index}")
    pod = json_reader.integer(coordinator.get("podIndex"), at.child("podIndex")) or 0
    if pod < 0:
        yield Finding(at.child("podIndex"), f"must not be negative, is {pod}")


RULE = Rule(
    id="jobset-consistency",
    title="References in a JobSet's policies exist, and exclusive settings are not combined",
    why="Trainer's API accepts such a runtime, and JobSet refuses the JobSet of each TrainJob on it: the "
    "TrainJob is Blocked, and no pod of it ever runs. Two gang schedulers wait for each other's PodGroup.",
    remedy="Name a ReplicatedJob of the template, and keep only one of the exclusive settings.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY},
    check=check,
)
