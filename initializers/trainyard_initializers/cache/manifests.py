"""The objects of a cache: pure.

A LeaderWorkerSet with one group: a head, which says who holds which rows, and
workers, which hold them. All objects are the TrainJob's, and go with it. The pods
run under the restricted Pod Security Standard, without a token of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .settings import Resources, Settings

PORT: Final = 50051
_HEALTH_PORT: Final = 8080
_USER: Final = 65532
TRAINER: Final = "trainer.kubeflow.org/v1alpha1"
LWS: Final = "leaderworkerset.x-k8s.io/v1"
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
"""The label of its pods that LeaderWorkerSet sets."""
_ROLE_ARN: Final = "eks.amazonaws.com/role-arn"
_ENDPOINTS: Final = "eks.amazonaws.com/sts-regional-endpoints"

Manifest = dict[str, Any]


def owner(train_job: Mapping[str, Any]) -> Manifest:
    """The owner reference to a TrainJob."""
    return {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "name": train_job["metadata"]["name"],
        "uid": train_job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def of(settings: Settings, train_job: Mapping[str, Any]) -> list[Manifest]:
    """The objects, in the order in which they are made: if one is refused, no pod has started yet.

    Args:
        settings: Of the cache.
        train_job: Who it is for, as the API server has it. Where its dataset has a Secret, the cache's pods
            get that Secret's variables too.
    """
    own: Manifest = {"ownerReferences": [owner(train_job)]}
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": settings.service, **own},
            "spec": {
                "selector": _head(settings),
                "ports": [{"name": "grpc", "protocol": "TCP", "port": PORT, "targetPort": PORT}],
            },
        },
        {
            "apiVersion": LWS,
            "kind": "LeaderWorkerSet",
            "metadata": {"name": settings.name, **own},
            "spec": {
                "replicas": 1,
                "leaderWorkerTemplate": {
                    # By default, LeaderWorkerSet recreates all pods if a container of one restarts.
                    "restartPolicy": "None",
                    "size": settings.size,
                    "leaderTemplate": {
                        "metadata": {"labels": _head(settings)},
                        "spec": _pod(settings, train_job, "head", settings.head),
                    },
                    "workerTemplate": {"spec": _pod(settings, train_job, "worker", settings.worker)},
                },
            },
        },
    ]
    if settings.iam_role:
        role = {_ENDPOINTS: "true", _ROLE_ARN: settings.iam_role}
        metadata = {"name": settings.name, "annotations": role, **own}
        objects.insert(0, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    return objects


def _head(settings: Settings) -> dict[str, str]:
    return {"app": f"{settings.name}-head"}


def _pod(settings: Settings, train_job: Mapping[str, Any], process: str, resources: Resources) -> Manifest:
    variables = {
        "METADATA_LOC": settings.location,
        "SCHEMA_NAME": settings.schema,
        "TABLE_NAME": settings.table,
        **settings.store,
    }
    amounts = {"cpu": resources.cpu, "memory": resources.memory}
    container: Manifest = {
        "name": process,
        "image": settings.image,
        "command": [process],
        "args": ["0.0.0.0", str(PORT)],  # noqa: S104 - others of the namespace read from it
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "ports": [
            {"name": "grpc", "containerPort": PORT},
            {"name": "health", "containerPort": _HEALTH_PORT},
        ],
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": _HEALTH_PORT},
            "initialDelaySeconds": settings.probe.initial_delay,
            "periodSeconds": settings.probe.period,
            "timeoutSeconds": settings.probe.timeout,
            "failureThreshold": settings.probe.failures,
        },
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if secret := _secret(train_job):
        container["envFrom"] = [{"secretRef": {"name": secret}}]
    pod: Manifest = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if settings.iam_role:
        pod["serviceAccountName"] = settings.name
    return pod


def _secret(train_job: Mapping[str, Any]) -> str:
    """The Secret of the TrainJob's dataset; empty: it has none."""
    dataset = (train_job["spec"].get("initializer") or {}).get("dataset") or {}
    return str((dataset.get("secretRef") or {}).get("name") or "")
