"""No more nodes, and processes on each, than the platform allows."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """numNodes and numProcPerNode are at least 1 and at most the stack's limits."""
    is_trainjob = workload.subject is Subject.TRAINJOBS
    places = (
        (("trainer",) if is_trainjob else ("mlPolicy",), "numNodes", parameters.max_nodes, "maxNodes"),
        (
            ("trainer",) if is_trainjob else ("mlPolicy", "mpi"),
            "numProcPerNode",
            parameters.max_processes_per_node,
            "maxProcessesPerNode",
        ),
    )
    for above, name, most, bound in places:
        holder, path = json_reader.below(workload.spec, FieldPath("spec"), *above)
        path = path.child(name)
        count = json_reader.integer(holder.get(name), path)
        if count is not None and count < 1:
            yield Finding(path, f"must be at least 1, is {count}")
        if count is not None and most is not None and count > most:
            yield Finding(path, f"must be at most {most} on this platform, is {count}", against=bound)
    if not is_trainjob:  # whose patches change no number of pods
        yield from _of_replicated_jobs(workload, parameters.max_nodes)


def _of_replicated_jobs(workload: Workload, most: int) -> Iterator[Finding]:
    """Pods that numNodes does not count: of jobs that do not train, and without an mlPolicy of all jobs."""
    has_nodes = workload.spec.get("mlPolicy") is not None
    several = 0
    for job in workload.jobs:
        if has_nodes and job.step == names.ANCESTOR_TRAINER:
            continue
        pods = job.pods
        if pods > most:
            size = json_reader.shown(pods)
            message = f"replicas times parallelism must be at most {most} on this platform, is {size}"
            yield Finding(job.path, message, against="maxNodes")
        elif pods > 1:  # a single pod, such as a launcher, uses little
            several += pods
    if several > most:
        path = FieldPath("spec").child("template", "spec", "replicatedJobs")
        message = f"must have together at most {most} pods on this platform, have {several}"
        yield Finding(path, message, against="maxNodes")


RULE = Rule(
    id="node-bounds",
    title="No more nodes, and processes on each, than the platform allows",
    why="A job that requests more nodes than can exist waits forever, and keeps its quota.",
    remedy=(
        "Request at least 1 and no more than the platform allows, also as parallelism of other "
        "ReplicatedJobs, or ask your platform team to allow more (policies.parameters.maxNodes and "
        "maxProcessesPerNode in the stack file)."
    ),
    severity=Severity.MEDIUM,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    parameters=("max_nodes", "max_processes_per_node"),
    check=check,
)
