"""XGBoost: what its collective reads to find the tracker (Trainer v2.3, plugin `XGBoost`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard_api import names
from trainyard_api.errors import ErrorType, FieldError, FieldPath

from ...model import JobSet, TrainJob
from .. import resources, templates
from ..info import Info
from . import reserved

_RESOURCES: Final = FieldPath("spec.trainer.resourcesPerNode")


class XGBoost:
    """Sets the trainer's pod count, variables and port for XGBoost."""

    name = "xgboost"
    implements = frozenset({"mlPolicy.xgboost"})

    def validate(self, info: Info, old: TrainJob | None, jobset: JobSet | None) -> Sequence[FieldError]:
        """One error for each DMLC_* variable that the TrainJob sets."""
        if info.policy("xgboost") is None:
            return ()
        return tuple(
            FieldError(
                ErrorType.FORBIDDEN,
                str(reserved.ENV_PATH.index(position)),
                None,
                f"{variable['name']} is reserved for the XGBoost runtime",
            )
            for position, variable in enumerate(reserved.variables(info))
            if variable["name"] in names.RESERVED_ENV["xgboost"]
        )

    def warnings(self, info: Info) -> Sequence[str]:
        """A warning about nodes with several GPUs: each needs as many processes, and a pod starts one."""
        gpus = 0 if info.policy("xgboost") is None else resources.gpu_count(resources.per_node(info))
        if gpus < 2:
            return ()
        return (
            f"{_RESOURCES}: each node has {gpus} workers in DMLC_NUM_WORKER, one for each GPU, and a pod "
            "starts only one: unless the command starts a process for each GPU, each with a DMLC_TASK_ID of "
            "its own, the job never starts to train; or ask for one GPU a node",
        )

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the DMLC_* variables.

        There is one worker for each GPU, or one a node without any.
        """
        pods = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        if info.policy("xgboost") is None or pods is None or info.injects_nothing:
            return info
        pods = info.counted(pods)
        info = info.with_count(pods.name, pods.count)
        workers = pods.count * max(1, resources.gpu_count(resources.per_node(info)))
        env = (
            {"name": "DMLC_TRACKER_URI", "value": info.rendezvous(pods)},
            {"name": "DMLC_TRACKER_PORT", "value": str(names.TRAINER_PORT)},
            templates.rank("DMLC_TASK_ID"),
            {"name": "DMLC_NUM_WORKER", "value": str(workers)},
        )
        return info.with_env(pods.name, env).with_port(pods.name)
