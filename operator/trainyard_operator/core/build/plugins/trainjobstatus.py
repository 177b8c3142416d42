"""TrainJobStatus: how a training process reports its progress (Trainer v2.3, feature gate of that name).

The trainer's containers learn where the status server is and whom to trust,
and get a token that is good only for this TrainJob's status.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard_api import names

from ...model import Json, TrainJob
from .. import templates
from ..info import Child, Info
from . import owned

GATE: Final = "TrainJobStatus"

_FOLDER: Final = "/var/run/secrets/kubeflow/trainer"
_CA_FILE: Final = "ca.crt"
_TOKEN_FILE: Final = "token"  # noqa: S105 (a file's name)
_VOLUME: Final = "kubeflow-trainer-token"
_CONFIG_MAP_SUFFIX: Final = "-tls-config"
_TOKEN_SECONDS: Final = 3600


class TrainJobStatusPlugin:
    """Connects the trainer with the status server."""

    name = "trainjobstatus"
    implements = frozenset({f"featureGates.{GATE}"})

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with variables, token and CA in every container of the trainer, whatever `spec.trainer`."""
        pods = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        if GATE not in info.settings.feature_gates or pods is None:
            return info
        job = next(job for job in info.jobs if job["name"] == pods.name)
        env, mount = _env(info), {"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}
        containers = {
            container["name"] for container in templates.pod_template(job)["spec"].get("containers", ())
        }

        def connected(container: Json) -> Json:
            return templates.upserted(
                templates.with_env(container, env), "volumeMounts", "mountPath", (mount,)
            )

        info = info.with_job(pods.name, lambda job: templates.with_containers(job, containers, connected))
        return info.with_volumes(pods.name, (_volume(info),))

    def build(self, info: Info) -> Sequence[Child]:
        """The ConfigMap with the status server's CA."""
        if GATE not in info.settings.feature_gates:
            return ()
        return (Child(config_map(info.trainjob, info.settings.status_server_ca)),)


def config_map(trainjob: TrainJob, authorities: str) -> Json:
    """The ConfigMap that tells the TrainJob's pods whom to trust. `authorities` are certificates as PEM."""
    metadata = owned.metadata(trainjob, _CONFIG_MAP_SUFFIX)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_CA_FILE: authorities}}


def _resource(info: Info) -> str:
    """Audience of the token, and the path of reports."""
    job = info.trainjob
    return f"{names.TRAINER_API_VERSION}/namespaces/{job.namespace}/trainjobs/{job.name}/status"


def _env(info: Info) -> tuple[Json, ...]:
    settings = info.settings
    server = f"{settings.service_name}.{settings.operator_namespace}.svc:{settings.status_server_port}"
    return (
        {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": f"https://{server}/apis/{_resource(info)}"},
        {"name": "KUBEFLOW_TRAINER_SERVER_CA_CERT", "value": f"{_FOLDER}/{_CA_FILE}"},
        {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": f"{_FOLDER}/{_TOKEN_FILE}"},
    )


def _volume(info: Info) -> Json:
    token = {"audience": _resource(info), "expirationSeconds": _TOKEN_SECONDS, "path": _TOKEN_FILE}
    ca = {"name": f"{info.trainjob.name}{_CONFIG_MAP_SUFFIX}", "items": [{"key": _CA_FILE, "path": _CA_FILE}]}
    return {
        "name": _VOLUME,
        "projected": {"sources": [{"serviceAccountToken": token}, {"configMap": ca}]},
    }
