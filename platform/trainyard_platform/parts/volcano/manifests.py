"""The Job that makes the certificate of Volcano's webhooks, and its rights; pure."""

from dataclasses import dataclass
from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects import pods, rights
from ...stack.pod_settings import Controllers
from ...stack.value_types import PullPolicy

NAMESPACE: Final = names.VOLCANO_NAMESPACE
SERVICE: Final = "volcano-admission-service"
CERTIFICATE: Final = "volcano-admission-secret"
CERTIFICATE_JOB: Final = "volcano-admission-init"
WEBHOOK_IMAGE: Final = "volcanosh/vc-webhook-manager"

_METADATA: Final = {"name": CERTIFICATE_JOB, "namespace": NAMESPACE}


@dataclass(frozen=True, kw_only=True)
class Image:
    """The image of the webhooks, which has the command that makes their certificate."""

    registry: str
    tag: str
    pull_policy: PullPolicy


def job_rights() -> list[Manifest]:
    """The Job's account, and its permission to store a certificate."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _METADATA},
        rights.role(_METADATA, [rights.rule("", ["secrets"], ["create", "get", "patch"])]),
        rights.binding(_METADATA, CERTIFICATE_JOB, [rights.account(**_METADATA)]),
    ]


def job(image: Image, controllers: Controllers, user: int | None) -> Manifest:
    """The Job.

    Args:
        image: Of the webhooks.
        controllers: What the stack sets for the platform's pods.
        user: Whom it runs as; None where the cluster assigns users.
    """
    command = ["./gen-admission-secret.sh", "--service", SERVICE]
    container = {
        "name": "main",
        "image": f"{image.registry}/{WEBHOOK_IMAGE}:{image.tag}",
        "imagePullPolicy": str(image.pull_policy),
        "command": [*command, "--namespace", NAMESPACE, "--secret", CERTIFICATE],
        "securityContext": pods.RESTRICTED_CONTAINER,
        # It writes keys before it stores them.
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 (the container's own)
    }
    pod = {
        "serviceAccountName": CERTIFICATE_JOB,
        "restartPolicy": "Never",
        **controllers.of_pods(),
        "securityContext": pods.restricted(user),
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _METADATA,
        "spec": {"backoffLimit": 3, "template": {"metadata": {}, "spec": pod}},
    }
