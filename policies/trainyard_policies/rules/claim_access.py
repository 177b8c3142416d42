"""A claim under a step of several nodes can be mounted by several nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import json_reader, names

from ..manifest import ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity, listed
from ..subject import Subject

_ON_MANY_NODES: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def check(workload: Workload, _: Parameters) -> Iterator[Finding]:
    """No claim that only one node can mount is mounted by a step with more nodes."""
    for claim, path in workload.claims():
        metadata, _path = json_reader.below(claim, path, "metadata")
        name = metadata.get("name")
        spec, spec_path = json_reader.below(claim, path, "spec")
        at = spec_path.child("accessModes")
        modes = json_reader.texts(spec.get("accessModes"), at)
        if _ON_MANY_NODES.intersection(modes):
            continue
        for job in workload.jobs:
            nodes = _nodes(workload, job)
            if nodes > 1 and _mounts(job, name):
                has = listed(modes, none="nothing")
                yield Finding(at, f"must be ReadWriteMany: {job.name!r} mounts it on {nodes} nodes; is {has}")


def _nodes(workload: Workload, job: ReplicatedJob) -> int:
    """The pods that a ReplicatedJob runs at once; those that train are counted by the ML policy."""
    if job.step == names.ANCESTOR_TRAINER or job.name == names.NODE:
        policy, path = workload.ml_policy
        nodes = json_reader.integer(policy.get("numNodes"), path.child("numNodes"))
        if nodes is not None:
            return nodes
    return job.pods


def _mounts(job: ReplicatedJob, claim: object) -> bool:
    return any(mount["name"] == claim for container in job.containers() for mount in container.mounts)


RULE = Rule(
    id="claim-access",
    title="A claim under a step of several nodes can be mounted by several nodes",
    why="A ReadWriteOnce claim is mounted by one node: pods on the others never start.",
    remedy="Request accessModes [ReadWriteMany] and the storage role `shared` (annotation "
    f"{names.STORAGE_ANNOTATION}), or for one node.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY},
    check=check,
)
