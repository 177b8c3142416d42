"""XGBoost: what its collective reads to find the tracker (Trainer v2.3, plugin `XGBoost`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard_api import fields, names
from trainyard_api.errors import ErrorType, FieldError, FieldPath

from .. import resources
from ..info import Info
from ..model import JobSet, TrainJob
from . import reserved

_NODES: Final = FieldPath("spec.trainer.numNodes")


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

    def enforce_ml_policy(self, info: Info) -> Info:
        """`info` with the DMLC_* variables; without `spec.trainer` nothing is injected, as in Trainer v2.3.

        There is one worker for each GPU, or one a node without any.
        """
        pods = info.pod_set(ancestor=names.ANCESTOR_TRAINER)
        trainer = info.trainer
        if info.policy("xgboost") is None or pods is None or trainer is None:
            return info
        nodes = fields.integer(trainer.get("numNodes"), _NODES)
        count = pods.count if nodes is None else nodes
        info = info.with_count(pods.name, count)
        workers = count * max(1, resources.gpu_count(resources.per_node(info)))
        job = info.trainjob.name
        env = (
            {"name": "DMLC_TRACKER_URI", "value": f"{job}-{names.NODE}-0-0.{job}"},
            {"name": "DMLC_TRACKER_PORT", "value": str(names.TRAINER_PORT)},
            {
                "name": "DMLC_TASK_ID",
                "valueFrom": {"fieldRef": {"fieldPath": names.JOB_COMPLETION_INDEX_PATH}},
            },
            {"name": "DMLC_NUM_WORKER", "value": str(workers)},
        )
        return info.with_env(pods.name, names.NODE, env).with_port(pods.name, names.NODE, names.TRAINER_PORT)
