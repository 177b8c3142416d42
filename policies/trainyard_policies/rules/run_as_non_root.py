"""Training containers do not run as root."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import json_reader
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """runAsNonRoot or a user's number, in the container or else its pod; a patch undoes neither."""
    is_patch = workload.subject is Subject.TRAINJOBS
    for job in workload.jobs:
        path = job.pod_path.child("securityContext")
        pod = json_reader.mapping(job.pod.get("securityContext"), path)
        if is_patch:
            yield from _undone(pod, path)
        for container in job.containers():
            own, path = container.security
            undone = list(_undone(own, path))
            yield from undone
            if not is_patch and not undone and not _non_root({**pod, **own}, path):
                yield Finding(path, "should set runAsNonRoot: true, or runAsUser to a user other than 0")


def _undone(security: Json, path: FieldPath) -> Iterator[Finding]:
    if json_reader.integer(security.get("runAsUser"), path.child("runAsUser")) == 0:
        yield Finding(path.child("runAsUser"), "should not be 0, which is root")
    if security.get("runAsNonRoot") is False:
        yield Finding(path.child("runAsNonRoot"), "should not be false")


def _non_root(security: Json, path: FieldPath) -> bool:
    user = json_reader.integer(security.get("runAsUser"), path.child("runAsUser"))
    return json_reader.boolean(security.get("runAsNonRoot"), path.child("runAsNonRoot")) or bool(user)


RULE = Rule(
    id="run-as-non-root",
    title="Training containers do not run as root",
    why=(
        "A kernel bug can turn root in a container into root on the node. By default this is advice, because "
        "many frameworks' images start as root."
    ),
    remedy=(
        "Set runAsNonRoot: true, with runAsUser where the image names no user, or make an exception that "
        "explains why it must be root."
    ),
    severity=Severity.MEDIUM,
    levels={Subject.RUNTIMES: Level.ADVISORY, Subject.TRAINJOBS: Level.ADVISORY},
    check=check,
)
