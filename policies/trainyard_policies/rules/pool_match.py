"""Node selectors and tolerations match a pool that exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.json_types import Json
from trainyard_api.pools import Taint, tolerated

from ..manifest import ReplicatedJob, Workload
from ..parameters import Parameters, Pool
from ..rule import Edit, Finding, Level, Rule, Severity, listed
from ..subject import Subject
from .accelerator_fit import requested_accelerators

_EVERYWHERE: Final = ("kubernetes.io/os", "kubernetes.io/arch", names.HOSTNAME_LABEL)
"""Labels that every node has, whatever its pool."""
_ADDED: Final = (
    "beta.kubernetes.io",
    "cloud.google.com",
    "eks.amazonaws.com",
    "failure-domain.beta.kubernetes.io",
    "k8s.amazonaws.com",
    "karpenter.azure.com",
    "karpenter.k8s.aws",
    "karpenter.sh",
    "kubernetes.azure.com",
    "node.kubernetes.io",
    "topology.k8s.aws",
    "topology.kubernetes.io",
)
"""Domains of labels and taints that Kubernetes and the clouds add to nodes: no pool has to declare them."""


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """The selector picks a pool, each toleration is for a taint, and an accelerator's pool is tolerated."""
    if not parameters.pools:
        return
    for job in workload.jobs:
        yield from _selector(job, parameters.pools)
        tolerations = json_reader.objects(job.pod.get("tolerations"), job.pod_path.child("tolerations"))
        yield from _tolerations(job, tolerations, parameters.pools)
        # A TrainJob's patch adds to tolerations of its runtime, which are not known here.
        if workload.subject is Subject.RUNTIMES:
            yield from _accelerators(job, tolerations, parameters.pools)


def _selector(job: ReplicatedJob, pools: Sequence[Pool]) -> Iterator[Finding]:
    path = job.pod_path.child("nodeSelector")
    selector = json_reader.text_map(job.pod.get("nodeSelector"), path)
    labels = {key: value for key, value in selector.items() if key not in _EVERYWHERE}
    if labels and not any(_may_have(pool, labels) for pool in pools):
        have = "; ".join(f"{pool.name} has {_labels(pool.labels)}" for pool in pools)
        message = f"must match the labels of a pool, asks for {_labels(labels)}; {have}"
        yield Finding(path, message, against="pools")


def _may_have(pool: Pool, labels: Mapping[str, str]) -> bool:
    """Whether nodes of the pool have these labels, as far as a stack file says."""
    return all(
        pool.labels[key] == value if key in pool.labels else _is_added(key) for key, value in labels.items()
    )


def _is_added(key: str) -> bool:
    return key.partition("/")[0] in _ADDED


def _tolerations(job: ReplicatedJob, tolerations: Sequence[Json], pools: Sequence[Pool]) -> Iterator[Finding]:
    taints = [taint for pool in pools for taint in pool.taints]
    for position, toleration in enumerate(tolerations):
        key = toleration.get("key")
        if not key or (_is_added(str(key)) and all(taint.key != key for taint in taints)):
            continue
        if not any(tolerated(taint, toleration) for taint in taints):
            at = job.pod_path.child("tolerations").index(position)
            message = f"must be for a taint that a pool has; no pool has {json_reader.shown(key)}"
            yield Finding(at, message, against="pools")


def _accelerators(
    job: ReplicatedJob, tolerations: Sequence[Json], pools: Sequence[Pool]
) -> Iterator[Finding]:
    requested = {
        name for container in job.containers("containers") for name in requested_accelerators(container)
    }
    for name in sorted(requested):
        able = [pool for pool in pools if name in pool.resources]
        if not able or any(_all_tolerated(pool, tolerations) for pool in able):
            continue
        first = able[0]
        missing = [taint for taint in _repelling(first) if not _any_tolerates(tolerations, taint)]
        path = job.pod_path.child("tolerations")
        added = [_toleration(taint) for taint in missing]
        edits = (Edit(path, [*map(dict, tolerations), *added]),)
        keys = ", ".join(taint.key for taint in missing)
        message = f"must tolerate {keys} of the pool {first.name}, which has {name}"
        yield Finding(path, message, edits, against=f"pools.{first.name}.taints")


def _all_tolerated(pool: Pool, tolerations: Sequence[Json]) -> bool:
    return all(_any_tolerates(tolerations, taint) for taint in _repelling(pool))


def _repelling(pool: Pool) -> list[Taint]:
    """The taints that keep pods off, except by preference or if Kueue or admission adds tolerations."""
    if pool.adds_tolerations:
        return []
    return [taint for taint in pool.taints if taint.effect != "PreferNoSchedule"]


def _any_tolerates(tolerations: Sequence[Json], taint: Taint) -> bool:
    return any(tolerated(taint, one) for one in tolerations)


def _toleration(taint: Taint) -> dict[str, Any]:
    if taint.value:
        return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": str(taint.effect)}
    return {"key": taint.key, "operator": "Exists", "effect": str(taint.effect)}


def _labels(labels: Json) -> str:
    return listed([f"{key}={value}" for key, value in sorted(labels.items())], none="no labels")


RULE = Rule(
    id="pool-match",
    title="Node selectors and tolerations match an existing pool",
    why="Pods that select labels no node has, or that do not tolerate the taints of the nodes they need, "
    "stay pending forever.",
    remedy="Use labels and taints of the stack's pools, or leave them out: Kueue adds what a flavor needs.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    parameters=("pools",),
    fixes=True,
    check=check,
)
