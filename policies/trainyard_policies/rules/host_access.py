"""Training pods do not use the host's namespaces, paths and ports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import json_reader

from ..manifest import Container, ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject

NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
ASKED_BY_THE_KUBELET: Final = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)
"""Of a container: what the kubelet asks from the node's network."""
TO_A_HOST: Final = ("httpGet", "tcpSocket")
"""The kinds of these requests that can name another host."""


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """No host namespace, no hostPath, no hostPort, and no probe or hook that asks another host."""
    for job in workload.jobs:
        yield from _namespaces(job)
        yield from _paths(job)
        for container in job.containers():
            yield from _ports(container)
            yield from _hosts(container)


def _namespaces(job: ReplicatedJob) -> Iterator[Finding]:
    for name in NAMESPACES:
        path = job.pod_path.child(name)
        if json_reader.boolean(job.pod.get(name), path):
            yield Finding(path, "must not be true", (Edit(path),))


def _paths(job: ReplicatedJob) -> Iterator[Finding]:
    path = job.pod_path.child("volumes")
    for position, volume in enumerate(job.volumes):
        if volume.get("hostPath") is not None:
            yield Finding(
                path.index(position).child("hostPath"), "must not be a hostPath: use an emptyDir or a claim"
            )


def _ports(container: Container) -> Iterator[Finding]:
    path = container.path.child("ports")
    for position, port in enumerate(json_reader.objects(container.value.get("ports"), path)):
        at = path.index(position).child("hostPort")
        if json_reader.integer(port.get("hostPort"), at) not in (None, 0):
            yield Finding(at, "must be left out", (Edit(at),))


def _hosts(container: Container) -> Iterator[Finding]:
    """Of what the kubelet sends from the node's network, as Pod Security's baseline has it since 1.34."""
    for steps in ASKED_BY_THE_KUBELET:
        handler, at = json_reader.below(container.value, container.path, *steps)
        for kind in TO_A_HOST:
            action, path = json_reader.below(handler, at, kind)
            host = path.child("host")
            if json_reader.text(action.get("host"), host):
                yield Finding(host, "must be left out: it is the pod then", (Edit(host),))


RULE = Rule(
    id="host-access",
    title="Training pods do not use the host's namespaces, paths and ports",
    why="A pod in the host's namespaces or files reads other tenants' traffic and data, and the "
    "node's credentials. A probe of another host is sent from the node, past every network policy.",
    remedy="Leave out hostNetwork, hostPID, hostIPC, hostPort and the host of probes and hooks; use an "
    "emptyDir or a claim instead of a hostPath. If a fast network needs the host's network, make an "
    "exception in a runtime of the catalog.",
    severity=Severity.CRITICAL,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    fixes=True,
    check=check,
)
