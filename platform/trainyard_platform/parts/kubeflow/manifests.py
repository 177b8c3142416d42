"""The Trainer version, where Kubeflow's SDK looks for it, and that everybody may read it; pure."""

from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects import rights
from ...objects.annotations import KEPT
from ..operator import rbac

_METADATA: Final = {
    "name": names.TRAINER_PUBLIC_CONFIG,
    "namespace": names.KUBEFLOW_NAMESPACE,
    "annotations": KEPT,
}


def namespace() -> Manifest:
    """The namespace of Kubeflow's components."""
    metadata = {"name": names.KUBEFLOW_NAMESPACE, "annotations": KEPT}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def version(trainer_version: str) -> list[Manifest]:
    """The ConfigMap, and the permission to read it for everyone who may use the cluster."""
    data = {names.TRAINER_PUBLIC_VERSION: trainer_version}
    everybody = {"apiGroup": rights.RBAC, "kind": "Group", "name": "system:authenticated"}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _METADATA, "data": data},
        rights.role(_METADATA, rbac.PUBLIC_VERSION),
        rights.binding(_METADATA, names.TRAINER_PUBLIC_CONFIG, [everybody]),
    ]
