"""PaddleJob: the variables that its launcher, `paddle.distributed.launch`, reads.

With a PADDLE_MASTER of the job's own, the platform sets no other variable.

Without a master, the workers are a collective, whose first pod recognizes
itself by its own address in PADDLE_MASTER. With one, the master is the
parameter server and a ReplicatedJob of its own; the job ends with the workers.
"""

from __future__ import annotations

from typing import Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath, required
from trainyard_api.json_types import Json

from . import elastic, pods, policy, references
from .notes import Notes
from .ranks import UNBUFFERED, after, variable
from .source import Job, Kind, read, unknown_fields
from .target import PLAIN, Beside, Blueprint, Catalog, build

KIND: Final = Kind(
    name="PaddleJob",
    replicas="paddleReplicaSpecs",
    types=("Master", "Worker"),
    container="paddle",
    port_name="master",
    port=36543,
    restart_policy="OnFailure",
    others=frozenset({"elasticPolicy"}),
)
_MASTER: Final = "master"
_ELASTIC: Final = FieldPath("spec.elasticPolicy")
_ADDRESS: Final[Json] = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def convert(value: Json, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob, and its runtime if it needs one; raises `InvalidFieldError`."""
    job = read(value, KIND, notes)
    _elastic(job, notes)
    run = policy.read(job, notes)
    if "Worker" not in job.roles:
        path = FieldPath("spec.paddleReplicaSpecs.Worker")
        raise required(path, "a PaddleJob without workers trains nothing")
    job = references.rewritten(job, {"Master": _MASTER, "Worker": names.NODE}, notes)
    blueprint = _with_server(job, notes) if "Master" in job.roles else _collective(job, notes)
    return build(blueprint, run, catalog, notes)


def _collective(job: Job, notes: Notes) -> Blueprint:
    worker = job.roles["Worker"]
    first = variable("PADDLE_MASTER", f"{job.host(names.NODE)}:{worker.port}")
    alone = f'[ "$JOB_COMPLETION_INDEX" != 0 ] || export PADDLE_MASTER="$POD_IP:{worker.port}"'
    return Blueprint(
        job=job,
        trainer=worker,
        nodes=worker.replicas,
        framework="paddle",
        runtime="paddle-distributed",
        policy={},
        contract=[*_common(job), _ADDRESS, first],
        command=after(alone, worker, ["PADDLE_MASTER"], notes),
    )


def _with_server(job: Job, notes: Notes) -> Blueprint:
    master, worker = job.roles["Master"], job.roles["Worker"]
    here = variable("PADDLE_MASTER", f"$(POD_IP):{master.port}")
    serving = [*_common(job), _ADDRESS, here, variable("PADDLE_SERVER_NUM", 1)]
    env = pods.env(master, serving, frozenset(), notes)
    server = Beside(master, _MASTER, own={**pods.commands(master), "env": env}, shared=serving)
    training = [
        variable("PADDLE_MASTER", f"{job.host(_MASTER)}:{master.port}"),
        variable("PADDLE_TRAINER_NUM", 1),
    ]
    return Blueprint(
        job=job,
        trainer=worker,
        nodes=worker.replicas,
        framework=PLAIN,
        runtime=PLAIN,
        policy={},
        contract=[*_common(job), *training],
        others=[server],
        jobset={"successPolicy": {"operator": "All", "targetReplicatedJobs": [names.NODE]}},
    )


def _common(job: Job) -> list[Json]:
    return [UNBUFFERED, variable("PADDLE_JOB_ID", job.name), variable("PADDLE_NNODES", job.total)]


def _elastic(job: Job, notes: Notes) -> None:
    elastic_policy = json_reader.mapping(job.spec.get("elasticPolicy"), _ELASTIC)
    keys = ("minReplicas", "maxReplicas", "maxRestarts", "metrics")
    unknown_fields(elastic_policy, keys, _ELASTIC, "an elastic policy", notes)
    elastic.note_bounds(elastic_policy, keys[:2], _ELASTIC, job.total, notes)
    if elastic_policy.get("maxRestarts") is not None:
        message = "counted restarts of single pods, as runPolicy.backoffLimit does"
        notes.lost(_ELASTIC.child("maxRestarts"), message)
