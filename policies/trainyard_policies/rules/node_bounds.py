"""Nobody asks for more nodes than the stack allows."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import fields
from trainyard_api.errors import FieldPath

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity, Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """numNodes is at least 1 and at most what the stack says."""
    section = "trainer" if workload.subject is Subject.TRAINJOBS else "mlPolicy"
    holder, path = fields.below(workload.spec, FieldPath("spec"), section)
    path = path.child("numNodes")
    nodes = fields.integer(holder.get("numNodes"), path)
    if nodes is not None and nodes < 1:
        yield Finding(path, f"must be at least 1, is {nodes}")
    if nodes is not None and parameters.max_nodes is not None and nodes > parameters.max_nodes:
        yield Finding(path, f"must be at most {parameters.max_nodes} on this platform, is {nodes}")


RULE = Rule(
    id="node-bounds",
    title="No more nodes than the platform allows",
    why="A job that asks for more nodes than there can be waits for ever, with what it holds meanwhile.",
    remedy="Lower numNodes, or raise policies.parameters.maxNodes in the stack file.",
    severity=Severity.MEDIUM,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    parameters=("max_nodes",),
    check=check,
)
