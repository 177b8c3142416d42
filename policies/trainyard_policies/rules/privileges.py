"""Training containers get no privileges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard_api import json_reader, names, similar
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from ..manifest import ReplicatedJob, Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity, among, listed
from ..subject import Subject

_SYSTEM: Final = "system-"
"""How the names of Kubernetes' own PriorityClasses begin."""

# As the baseline Pod Security Standard has them, here for the namespaces whose level is `privileged`.
SELINUX_TYPES: Final = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
SYSCTLS: Final = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
"""Those that change nothing outside of the pod."""
APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
"""How annotations of a pod begin that the API server still copies to `appArmorProfile`."""


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Not privileged, no escalation or capability asked for, default masks and filters, a user's priority."""
    for job in workload.jobs:
        security, path = json_reader.below(job.pod, job.pod_path, "securityContext")
        yield from _unconfined(security, path)
        yield from _host_process(security, path)
        yield from _sysctls(security, path)
        yield from _annotations(job)
        yield from _priority(job, parameters)
        for container in job.containers():
            security, path = container.security
            yield from _flags(security, path)
            yield from _capabilities(security, path)
            yield from _unconfined(security, path)
            yield from _host_process(security, path)


def _flags(security: Json, path: FieldPath) -> Iterator[Finding]:
    for name in ("privileged", "allowPrivilegeEscalation"):
        at = path.child(name)
        if json_reader.boolean(security.get(name), at):
            yield Finding(at, "must not be true", (Edit(at, False),))
    at = path.child("procMount")
    if json_reader.text(security.get("procMount"), at) not in (None, "Default"):
        yield Finding(at, "must be Default", (Edit(at),))


def _host_process(security: Json, path: FieldPath) -> Iterator[Finding]:
    """Of a pod or a container on Windows, the same as `privileged`."""
    options, path = json_reader.below(security, path, "windowsOptions")
    at = path.child("hostProcess")
    if json_reader.boolean(options.get("hostProcess"), at):
        yield Finding(at, "must not be true", (Edit(at, False),))


def _capabilities(security: Json, path: FieldPath) -> Iterator[Finding]:
    capabilities, at = json_reader.below(security, path, "capabilities")
    at = at.child("add")
    added = json_reader.texts(capabilities.get("add"), at)
    if added:
        yield Finding(at, f"must not add capabilities, adds {listed(added)}", (Edit(at),))


def _unconfined(security: Json, path: FieldPath) -> Iterator[Finding]:
    for name in ("seccompProfile", "appArmorProfile"):
        profile, at = json_reader.below(security, path, name)
        if profile.get("type") == "Unconfined":
            at = at.child("type")
            yield Finding(at, "must not be Unconfined", (Edit(at, "RuntimeDefault"),))
    options, path = json_reader.below(security, path, "seLinuxOptions")
    at = path.child("type")
    kind = json_reader.text(options.get("type"), at)
    if kind and kind not in SELINUX_TYPES:
        yield Finding(at, f"must be a type for containers{among(kind, SELINUX_TYPES)}", (Edit(at),))
    for name in ("user", "role"):
        at = path.child(name)
        if json_reader.text(options.get(name), at):
            yield Finding(at, "must be left out", (Edit(at),))


def _sysctls(security: Json, path: FieldPath) -> Iterator[Finding]:
    at = path.child("sysctls")
    for position, sysctl in enumerate(json_reader.named_objects(security.get("sysctls"), at)):
        if sysctl["name"] not in SYSCTLS:
            name, hint = json_reader.shown(sysctl["name"]), similar.hint(sysctl["name"], SYSCTLS)
            message = f"must be a sysctl of the baseline Pod Security Standard, is {name}{hint}"
            yield Finding(at.index(position), message)  # with its value, which may not change either


def _annotations(job: ReplicatedJob) -> Iterator[Finding]:
    annotations, path = json_reader.below(
        job.value, job.path, "template", "spec", "template", "metadata", "annotations"
    )
    for name, value in json_reader.text_map(annotations, path).items():
        if name.startswith(APP_ARMOR) and value == "unconfined":
            at = path.key(name)
            yield Finding(at, "must not be unconfined", (Edit(at),))


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
    "one with a system priority, or the platform's own, evicts everybody's pods. Without seccomp, AppArmor "
    "and SELinux, a flaw in the kernel is enough to leave the container.",
    remedy="Remove the field. If a device needs a capability, such as IPC_LOCK for RDMA, make an "
    "exception in a runtime of the catalog.",
    severity=Severity.CRITICAL,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.MANDATORY},
    parameters=("priority_classes",),
    fixes=True,
    check=check,
)
