"""The operator's objects: account, permissions, configuration, Deployment and Service; pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard_api import documents, names
from trainyard_api.configuration import Configuration
from trainyard_api.json_types import Manifest
from trainyard_policies.settings import Policies

from ...objects import pods, rights
from ...objects.annotations import FORCE
from ...stack.operator import Operator
from ...stack.pod_settings import Controllers
from . import cert_manager, rbac
from .endpoints import LABELS

CONFIGURATION: Final = "configuration.yaml"
POLICIES: Final = "policies.yaml"
CONFIGURATION_FOLDER: Final = "/etc/trainyard"
CERTIFICATE_FOLDER: Final = "/etc/trainyard-certificate"
FROM_STACK: Final = {
    "api_version",
    "kind",
    "webhook",
    "cert_management",
    "controller",
    "feature_gates",
    "last_lines",
    "limits",
    "metrics",
    "queue_holds",
    "retention",
    "suspended_condition",
}
"""What the configuration sets; the rest keeps the operator's defaults."""
DIGEST: Final = "trainyard.dev/configuration"
"""Annotation of the pods: a digest of the configuration, so that a new one means new pods. The operator reads
the policies again by itself."""
USER: Final = 65532
MPI: Final = f"{names.OPERATOR}-mpi"
"""What lets it keep the keys of MPI jobs in a namespace."""
LAST_LINES: Final = names.OPERATOR + names.LAST_LINES_SUFFIX
"""What lets it read the logs of failed jobs in a namespace."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """What the operator's processes are, and how they are configured."""

    stack: str
    """Name of the stack."""
    settings: Operator
    memory: str
    """What a replica requests; `memory_limit` is its limit."""
    memory_limit: str
    configuration: Configuration
    user: int | None = USER
    """The user and group that it runs as; None where the cluster assigns them."""
    policies: Policies | None = None
    """The rules' levels and parameters, if its webhook applies them."""
    controllers: Controllers

    @property
    def admission(self) -> bool:
        """Whether it answers webhooks."""
        return self.configuration.webhook.enabled

    @property
    def cert_manager(self) -> bool:
        """Whether cert-manager makes its certificate."""
        return self.configuration.cert_management.folder is not None

    @property
    def asks_readers(self) -> bool:
        """Whether metrics are only for those who may read them."""
        return self.configuration.metrics.authentication

    @property
    def reports(self) -> bool:
        """Whether training processes may report their progress to it."""
        return self.configuration.feature_gates.train_job_status


def account() -> Manifest:
    """Its ServiceAccount."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(),
        "automountServiceAccountToken": False,
    }


def cluster_rules(process: Process) -> rbac.Rules:
    """What it may do in every namespace, but for keys of MPI and upstream's Lease."""
    rules = list(rbac.CLUSTER)
    if process.admission and not process.cert_manager:
        rules += rbac.ADMISSION
    if process.policies is not None:
        rules += rbac.TRIALS
    if process.reports:
        rules += rbac.REPORTS
    if process.configuration.queue_holds == names.JOBSET:
        rules += rbac.QUEUES
    if process.asks_readers:
        rules += rbac.METRICS
    if process.configuration.retention is not None:
        rules += rbac.RETENTION
    return rules


def own_rules(process: Process) -> rbac.Rules:
    """What it may do in its own namespace."""
    serves = process.admission or process.reports or process.asks_readers
    return [*rbac.OWN_NAMESPACE, *(rbac.CERTIFICATE if serves and not process.cert_manager else ())]


def granted(
    rules: rbac.Rules, namespace: str | None = None, name: str = names.OPERATOR
) -> tuple[Manifest, Manifest]:
    """The role `name` with these rules, and its binding to the operator: in a namespace, or everywhere."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": LABELS}
    subject = rights.account(names.OPERATOR, names.SYSTEM_NAMESPACE)
    return rights.role(metadata, rules), rights.binding(metadata, name, [subject])


def mpi(namespace: str) -> tuple[Manifest, Manifest]:
    """What lets it keep the keys of MPI jobs in a namespace: the role, and its binding."""
    return granted(rbac.SECRETS, namespace, MPI)


def files(process: Process) -> dict[str, str]:
    """Its configuration files, by name."""
    configuration = process.configuration.model_dump(by_alias=True, exclude_none=True, include=FROM_STACK)
    contents = {CONFIGURATION: documents.dump([configuration])}
    if process.policies is not None:
        contents[POLICIES] = documents.dump(
            [process.policies.model_dump(mode="json", by_alias=True, exclude_none=True)]
        )
    return contents


def configuration(process: Process) -> Manifest:
    """The ConfigMap with its configuration files."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(), "data": files(process)}


def service(process: Process) -> Manifest | None:
    """Its Service; None if only Prometheus connects to it."""
    ports = [
        {"name": name, "port": port, "targetPort": target, "protocol": "TCP"}
        for name, port, target, serves in (
            ("webhook", 443, names.WEBHOOK_PORT, process.admission),
            ("status", names.STATUS_PORT, names.STATUS_PORT, process.reports),
        )
        if serves
    ]
    if not ports:
        return None
    spec = {"selector": LABELS, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(), "spec": spec}


def deployment(process: Process) -> Manifest:
    """Its Deployment: one replica more during an update, never one less."""
    digest = hashlib.sha256(files(process)[CONFIGURATION].encode()).hexdigest()[:16]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        # `trainyard adopt --back` scales it down, and the next `up` is to scale it up again.
        "metadata": _metadata({**FORCE, names.STACK_ANNOTATION: process.stack}),
        "spec": {
            "replicas": process.settings.replicas,
            "selector": {"matchLabels": LABELS},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": LABELS, "annotations": {DIGEST: digest}},
                "spec": _pod(process),
            },
        },
    }


def _metadata(annotations: Mapping[str, str] = {}) -> Manifest:
    metadata = {"name": names.OPERATOR, "namespace": names.SYSTEM_NAMESPACE, "labels": LABELS}
    return {**metadata, "annotations": dict(annotations)} if annotations else metadata


def _pod(process: Process) -> Manifest:
    own_priority = {"priorityClassName": names.OPERATOR} if process.settings.priority_class else {}
    return {
        "serviceAccountName": names.OPERATOR,
        **process.controllers.of_pods(),
        **own_priority,
        "automountServiceAccountToken": True,
        "securityContext": pods.restricted(process.user),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": names.HOSTNAME_LABEL,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": LABELS},
            }
        ],
        "containers": [_container(process)],
        "volumes": [volume for volume, _ in _files(process)],
    }


def _files(process: Process) -> list[tuple[Manifest, Manifest]]:
    """The volumes of a pod, each with its mount."""
    configured = {"name": "configuration", "configMap": {"name": names.OPERATOR}}
    volumes: list[tuple[Manifest, Manifest]] = [
        ({"name": "tmp", "emptyDir": {}}, {"name": "tmp", "mountPath": "/tmp"}),  # noqa: S108 (the container's own)
        (configured, {"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": True}),
    ]
    if process.cert_manager:
        secret = {"name": "certificate", "secret": {"secretName": cert_manager.secret(names.OPERATOR)}}
        volumes.append((secret, {"name": "certificate", "mountPath": CERTIFICATE_FOLDER, "readOnly": True}))
    return volumes


def _container(process: Process) -> Manifest:
    return {
        "name": "operator",
        "image": process.settings.image,
        "imagePullPolicy": str(process.settings.image_pull_policy),
        "args": [f"--config={CONFIGURATION_FOLDER}/{CONFIGURATION}", *process.settings.args],
        "env": [
            {
                "name": "POD_NAMESPACE",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            }
        ],
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port, serves in (
                ("http", names.METRICS_PORT, True),
                ("webhook", names.WEBHOOK_PORT, process.admission),
                ("status", names.STATUS_PORT, process.reports),
                ("metrics", names.SECURE_METRICS_PORT, process.asks_readers),
            )
            if serves
        ],
        "livenessProbe": _probe("/healthz", 20),
        "readinessProbe": _probe("/readyz", 5),
        "resources": {
            "requests": {"cpu": process.settings.resources.cpu, "memory": process.memory},
            "limits": {"memory": process.memory_limit},
        },
        "securityContext": {**pods.RESTRICTED_CONTAINER, "runAsNonRoot": True},
        "volumeMounts": [mount for _, mount in _files(process)],
    }


def _probe(path: str, seconds: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": names.METRICS_PORT},
        "periodSeconds": seconds,
        "timeoutSeconds": 5,
    }
