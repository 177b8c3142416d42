"""PyTorchJob.

The training operator numbered the pods itself: the master was rank 0, and it
set MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK for scripts that start
without torchrun. Trainer v2.3 sets only what torchrun reads, so a job that
does not use torchrun gets the old variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath
from trainyard_api.json_types import Json

from . import elastic, masters, policy, processes, references
from .notes import Notes
from .ranks import UNBUFFERED, index, variable
from .source import Job, Kind, Role, read, unknown_fields
from .target import Blueprint, Catalog, build

KIND: Final = Kind(
    name="PyTorchJob",
    replicas="pytorchReplicaSpecs",
    types=("Master", "Worker"),
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    restart_policy="OnFailure",
    others=frozenset({"elasticPolicy", "nprocPerNode"}),
)
RESERVED: Final = frozenset(
    {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}
)
"""Variables that the platform sets for torchrun."""

_LAUNCHERS: Final = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_OLD_NAMES: Final = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
_ELASTIC: Final = FieldPath("spec.elasticPolicy")


def convert(value: Json, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob, and its runtime if it needs one; raises `InvalidFieldError`."""
    job = read(value, KIND, notes)
    steps = masters.steps(job)
    job = references.rewritten(job, steps, notes)
    number = _processes(job, notes)
    rendezvous = _elastic(job, steps, notes)
    run = policy.read(job, notes)
    alike = masters.merged(job)
    if alike is None:
        contract = [UNBUFFERED, *rendezvous]
        fixed = _fixed(job, number, job.host(masters.STEP), job.roles["Master"].port)
        group = masters.Group(job, contract, numbered=("RANK", "PET_NODE_RANK"), fixed=fixed)
        return build(masters.apart(group, notes), run, catalog, notes)
    masters.note_merged(job, alike, notes)
    numbers = [index("RANK"), index("PET_NODE_RANK")]
    blueprint = Blueprint(
        job=job,
        trainer=alike,
        nodes=job.total,
        framework="torch",
        runtime="torch-distributed",
        policy={"torch": {}},
        processes=number,
        contract=[UNBUFFERED, *_ranks(job, alike, number), *rendezvous],
        reserved=RESERVED,
        shared=[UNBUFFERED, *_fixed(job, number, job.host(names.NODE), alike.port), *numbers, *rendezvous],
    )
    return build(blueprint, run, catalog, notes)


def _ranks(job: Job, role: Role, number: int | None) -> list[Json]:
    """The old variables, unless the job uses torchrun and does not mention them."""
    text = "\n".join(role.words)
    if any(launcher in text for launcher in _LAUNCHERS) and not any(name in text for name in _OLD_NAMES):
        return []
    return [
        variable("MASTER_ADDR", job.host(names.NODE)),
        variable("MASTER_PORT", role.port),
        variable("WORLD_SIZE", job.total * (number or 1)),
        index("RANK"),
    ]


def _fixed(job: Job, number: int | None, host: str, port: int) -> list[Json]:
    """The variables that are the same in all pods. `host` and `port` are those of the first pod."""
    return [
        variable("MASTER_ADDR", host),
        variable("MASTER_PORT", port),
        variable("WORLD_SIZE", job.total * (number or 1)),
        variable("PET_MASTER_ADDR", host),
        variable("PET_MASTER_PORT", port),
        variable("PET_NNODES", job.total),
        variable("PET_NPROC_PER_NODE", number or "auto"),
    ]


def _processes(job: Job, notes: Notes) -> int | None:
    path = FieldPath("spec.nprocPerNode")
    value = job.spec.get("nprocPerNode")
    if value is None:
        elastic_policy = json_reader.mapping(job.spec.get("elasticPolicy"), _ELASTIC)
        path, value = _ELASTIC.child("nProcPerNode"), elastic_policy.get("nProcPerNode")
    role = next(iter(job.roles.values()))
    at = role.container_path.child("resources")
    return processes.read(value, path, json_reader.mapping(role.container.get("resources"), at), at, notes)


def _elastic(job: Job, steps: Mapping[str, str], notes: Notes) -> list[Json]:
    """Variables of torchrun for an elastic policy, except the limits of the number of nodes."""
    elastic_policy = json_reader.optional_mapping(job.spec.get("elasticPolicy"), _ELASTIC)
    if elastic_policy is None:
        return []
    keys = ["minReplicas", "maxReplicas", "rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf"]
    keys += ["standalone", "nProcPerNode", "maxRestarts", "metrics"]
    unknown_fields(elastic_policy, keys, _ELASTIC, "an elastic policy", notes)
    elastic.note_bounds(elastic_policy, keys[:2], _ELASTIC, job.total, notes, way_out=elastic.TORCH)
    if "Master" not in job.roles and job.total > 1:
        message = "no longer completes the job when one worker succeeds: all nodes of the TrainJob must"
        notes.changed(_ELASTIC, message)
    variables = _rendezvous(job, elastic_policy, _meeting_place(job, elastic_policy, steps, notes))
    path = _ELASTIC.child("standalone")
    if not json_reader.boolean(elastic_policy.get("standalone"), path):
        return variables
    if job.total > 1:
        message = (
            f"is left out: torchrun in each pod would wait by itself for the {job.total} nodes of the job"
        )
        notes.lost(path, message)
        return variables
    # The training operator set it to nothing, which torchrun cannot read as a number.
    return [*variables, variable("PET_STANDALONE", 1)]


def _meeting_place(job: Job, given: Json, steps: Mapping[str, str], notes: Notes) -> str:
    """The host at which the pods meet."""
    path = _ELASTIC.child("rdzvHost")
    host = json_reader.text(given.get("rdzvHost"), path)
    return references.address(job, steps, host, path, notes) if host else job.host(names.NODE)


def _rendezvous(job: Job, given: Json, host: str) -> list[Json]:
    def text(key: str) -> str | None:
        return json_reader.text(given.get(key), _ELASTIC.child(key))

    port = json_reader.integer(given.get("rdzvPort"), _ELASTIC.child("rdzvPort")) or names.TRAINER_PORT
    variables: dict[str, Any] = {
        "PET_RDZV_BACKEND": text("rdzvBackend") or "c10d",
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_ID": text("rdzvId") or job.name,
    }
    pairs = []
    for position, pair in enumerate(json_reader.objects(given.get("rdzvConf"), _ELASTIC.child("rdzvConf"))):
        at = _ELASTIC.child("rdzvConf").index(position)
        key = json_reader.required_text(pair.get("key"), at.child("key"))
        pairs.append(f"{key}={json_reader.text(pair.get('value'), at.child('value')) or ''}")
    if pairs:
        variables["PET_RDZV_CONF"] = ",".join(pairs)
    again = json_reader.integer(given.get("maxRestarts"), _ELASTIC.child("maxRestarts"))
    if again is not None:
        variables["PET_MAX_RESTARTS"] = again
    return [variable(name, value) for name, value in variables.items()]
