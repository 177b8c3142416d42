"""What Kueue would not count of a TrainJob that it holds.

Called by `validation`, and by `reconcile`, since a runtime may change while a TrainJob waits. Kueue (0.19)
computes the pods of a TrainJob itself, as Trainer v2.2 does: there, resourcesPerNode replaces the resources
of the runtime's container `node`. Trainer v2.3 and the operator merge the two, and leave resourcesPerNode out
where the runtime has no mlPolicy. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import json_reader, names, quantity
from trainyard_api.errors import ErrorType, FieldError, FieldPath

from ..model import Json, TrainJob
from . import resources, templates
from .info import Info

_PATH: Final = FieldPath("spec.trainer.resourcesPerNode")


def is_to_be_judged(job: TrainJob, old: TrainJob | None) -> bool:
    """Whether Kueue holds the TrainJob, and does so from now on, or counts other resources."""
    if not _queue_of(job):
        return False
    return (
        old is None or _queue_of(old) != _queue_of(job) or old.spec.get("trainer") != job.spec.get("trainer")
    )


def errors(info: Info, trainers: Sequence[Json]) -> Iterator[FieldError]:
    """The error about resources that its pods would have without quota.

    Args:
        info: The requested job, with its resources.
        trainers: Its ReplicatedJobs to which resourcesPerNode applies.
    """
    given = json_reader.optional_mapping((info.trainer or {}).get("resourcesPerNode"), _PATH) or {}
    if given.get("limits") is None and given.get("requests") is None:
        return  # Kueue counts what the runtime says.
    counted = resources.of_container({"resources": templates.resources(given, _PATH)})
    nodes = [container for job in trainers if (container := templates.container(job, names.NODE)) is not None]
    lacking = {
        name: str(amount)
        for node in nodes
        for name, amount in sorted(resources.of_container(node).items())
        if amount.nano > counted.get(name, quantity.ZERO).nano
    }
    if lacking:
        amounts = ", ".join(f"{name}: {amount}" for name, amount in lacking.items())
        detail = (
            f"add {amounts}: the pods get this from runtime {info.runtime.name}, but queue "
            f"{_queue_of(info.trainjob)} holds TrainJobs, and counts only what resourcesPerNode names"
        )
        yield FieldError(ErrorType.FORBIDDEN, str(_PATH), None, detail)


def _queue_of(job: TrainJob) -> str:
    return job.labels.get(names.QUEUE_LABEL, "") if job.held_by_kueue else ""
