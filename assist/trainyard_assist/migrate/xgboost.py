"""XGBoostJob, for XGBoost and LightGBM.

The training operator gave the pods their rank and the addresses of all, and
the script of rank 0 started the tracker. The old variables stay; Trainer v2.3
adds its own (DMLC_*).
"""

from __future__ import annotations

from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json

from . import masters, policy, references
from .notes import Notes
from .ranks import UNBUFFERED, index, variable
from .source import Job, Kind, read
from .target import Blueprint, Catalog, build

KIND: Final = Kind(
    name="XGBoostJob",
    replicas="xgbReplicaSpecs",
    types=("Master", "Worker"),
    container="xgboost",
    port_name="xgboostjob-port",
    port=9999,
    restart_policy="Never",
    former_container="xgboostjob",
)
_RESERVED: Final = frozenset({"DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"})


def convert(value: Json, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob, and its runtime if it needs one; raises `InvalidFieldError`."""
    job = read(value, KIND, notes)
    job = references.rewritten(job, masters.steps(job), notes)
    run = policy.read(job, notes)
    alike = masters.merged(job)
    if alike is None:
        host = job.host(masters.STEP)
        fixed = _fixed(job, host, job.hosts(names.NODE, job.roles["Worker"].replicas))
        group = masters.Group(job, [UNBUFFERED], numbered=("RANK",), fixed=fixed)
        return build(masters.apart(group, notes), run, catalog, notes)
    masters.note_merged(job, alike, notes)
    first, *rest = job.hosts(names.NODE, job.total)
    blueprint = Blueprint(
        job=job,
        trainer=alike,
        nodes=job.total,
        framework="xgboost",
        runtime="xgboost-distributed",
        policy={"xgboost": {}},
        contract=[UNBUFFERED, *_fixed(job, first, rest), index("RANK")],
        reserved=_RESERVED,
    )
    return build(blueprint, run, catalog, notes)


def _fixed(job: Job, master: str, workers: list[str]) -> list[Json]:
    first, last = next(iter(job.roles.values())), list(job.roles.values())[-1]
    variables = [
        variable("MASTER_ADDR", master),
        variable("MASTER_PORT", first.port),
        variable("WORLD_SIZE", job.total),
    ]
    if workers:
        variables += [variable("WORKER_ADDRS", ",".join(workers)), variable("WORKER_PORT", last.port)]
    return variables
