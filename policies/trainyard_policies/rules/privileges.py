"""Training containers get no privileges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from ..manifest import ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity, among, listed
from ..subject import Subject

_SYSTEM: Final = "system-"
"""How the names of Kubernetes' own PriorityClasses begin."""


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Not privileged, no escalation or capability asked for, default masks and filters, a user's priority."""
    for job in workload.jobs:
        path = job.pod_path.child("securityContext")
        yield from _unconfined(json_reader.mapping(job.pod.get("securityContext"), path), path)
        yield from _priority(job, parameters)
        for container in job.containers():
            security, path = container.security
            yield from _flags(security, path)
            yield from _capabilities(security, path)
            yield from _unconfined(security, path)


def _flags(security: Json, path: FieldPath) -> Iterator[Finding]:
    for name in ("privileged", "allowPrivilegeEscalation"):
        at = path.child(name)
        if json_reader.boolean(security.get(name), at):
            yield Finding(at, "must not be true", (Edit(at, False),))
    at = path.child("procMount")
    if json_reader.text(security.get("procMount"), at) not in (None, "Default"):
        yield Finding(at, "must be Default", (Edit(at),))


def _capabilities(security: Json, path: FieldPath) -> Iterator[Finding]:
    capabilities, at = json_reader.below(security, path, "capabilities")
    at = at.child("add")
    added = json_reader.texts(capabilities.get("add"), at)
    if added:
        yield Finding(at, f"must not add capabilities, adds {listed(added)}", (Edit(at),))


def _unconfined(security: Json, path: FieldPath) -> Iterator[Finding]:
    profile, at = json_reader.below(security, path, "seccompProfile")
    if profile.get("type") == "Unconfined":
        yield Finding(at.child("type"), "must not be Unconfined", (Edit(at.child("type"), "RuntimeDefault"),))


def _priority(job: ReplicatedJob, parameters: Parameters) -> Iterator[Finding]:
    at = job.pod_path.child("priorityClassName")
    name = json_reader.text(job.pod.get("priorityClassName"), at) or ""
    allowed = parameters.priority_classes
    if name.startswith(_SYSTEM):
        yield Finding(at, f"must not be {name}, which is for the cluster's own pods", (Edit(at),))
    elif name == names.OPERATOR:
        yield Finding(at, f"must not be {name}, which is for the platform's own pods", (Edit(at),))
    elif name and allowed is not None and name not in allowed:
        message = f"must be a PriorityClass for training{among(name, allowed)}"
        yield Finding(at, message, against="priorityClasses")


RULE = Rule(
    id="privileges",
    title="Training containers get no privileges",
    why="A privileged container is root on its node, with every job's data and the kubelet's credentials; "
    "one with a system priority, or the platform's own, evicts everybody's pods.",
    remedy="Remove the field. If a device needs a capability, such as IPC_LOCK for RDMA, make an "
    "exception in a runtime of the catalog.",
    severity=Severity.CRITICAL,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    parameters=("priority_classes",),
    fixes=True,
    check=check,
)
