"""Where pods run does not depend on pods of other namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from ..manifest import ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject

_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""By it, JobSet writes affinity terms with an empty namespaceSelector, which selects every namespace."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """No affinity term selects namespaces, and no JobSet has a topology for itself."""
    for template, path in workload.templates:
        yield from _exclusive(template, path)
    for job in workload.jobs:
        for template, path in job.templates():
            yield from _exclusive(template, path)
        for term, at in _terms(job):
            if term.get("namespaceSelector") is not None:
                yield Finding(at.child("namespaceSelector"), "must be left out")
            if json_reader.texts(term.get("namespaces"), at.child("namespaces")):
                yield Finding(at.child("namespaces"), "must be left out")


def _exclusive(template: Json, path: FieldPath) -> Iterator[Finding]:
    annotations, at = json_reader.below(template, path, "metadata", "annotations")
    if _EXCLUSIVE in annotations:
        at = at.key(_EXCLUSIVE)
        yield Finding(at, "must be left out", (Edit(at),))


def _terms(job: ReplicatedJob) -> Iterator[tuple[Json, FieldPath]]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity, path = json_reader.below(job.pod, job.pod_path, "affinity", kind)
        at = path.child(_REQUIRED)
        for position, term in enumerate(json_reader.objects(affinity.get(_REQUIRED), at)):
            yield term, at.index(position)
        at = path.child(_PREFERRED)
        for position, preference in enumerate(json_reader.objects(affinity.get(_PREFERRED), at)):
            yield json_reader.below(preference, at.index(position), "podAffinityTerm")


RULE = Rule(
    id="pod-affinity",
    title="Where pods run does not depend on pods of other namespaces",
    why="The scheduler also applies anti-affinity in the other direction: one small pod keeps the pods that "
    "it selects, of any tenant, off its node, its zone, or the whole cluster. The namespaces of tenants "
    "admit no such pod, so the job would hold its quota and never run.",
    remedy="Leave out namespaces and namespaceSelector: a term then selects pods of the job's own namespace. "
    "Instead of exclusive-topology, request whole nodes, or use topology-aware scheduling of Kueue. For "
    "namespaces that are no tenant's, make an exception in a runtime of the catalog.",
    severity=Severity.CRITICAL,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    fixes=True,
    check=check,
)
