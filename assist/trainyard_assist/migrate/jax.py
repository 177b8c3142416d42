"""JAXJob: only workers, of which the first is the coordinator."""

from __future__ import annotations

from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json

from . import policy, references
from .notes import Notes
from .ranks import UNBUFFERED, index, variable
from .source import Kind, read
from .target import Blueprint, Catalog, build

KIND: Final = Kind(
    name="JAXJob",
    replicas="jaxReplicaSpecs",
    types=("Worker",),
    container="jax",
    port_name="jaxjob-port",
    port=6666,
    restart_policy="Never",
)


def convert(value: Json, catalog: Catalog, notes: Notes) -> tuple[Json, ...]:
    """The TrainJob, and its runtime if it needs one; raises `InvalidFieldError`."""
    job = read(value, KIND, notes)
    job = references.rewritten(job, {"Worker": names.NODE}, notes)
    worker = job.roles["Worker"]
    blueprint = Blueprint(
        job=job,
        trainer=worker,
        nodes=worker.replicas,
        framework="jax",
        runtime="jax-distributed",
        policy={"jax": {}},
        contract=[
            UNBUFFERED,
            variable("COORDINATOR_ADDRESS", job.host(names.NODE)),
            variable("COORDINATOR_PORT", worker.port),
            variable("NUM_PROCESSES", worker.replicas),
            index("PROCESS_ID"),
        ],
    )
    return build(blueprint, policy.read(job, notes), catalog, notes)
