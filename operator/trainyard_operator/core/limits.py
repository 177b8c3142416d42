"""Sizes beyond which a TrainJob is refused, because it could never run or would harm others.

Called by `validation`. These limits and their wording are Trainyard's own:
Kubeflow Trainer accepts such TrainJobs, and they fail later, in the JobSet's
admission, in etcd, or by the memory of whoever reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard_api import fields, names
from trainyard_api.errors import ErrorType, FieldError, FieldPath

from . import revisions
from .model import Json, TrainJob

INDEXED_JOB_PODS: Final = 100_000
"""Kubernetes runs no Indexed Job with more."""
LONGEST_NAME: Final = 63
"""A pod's name is also its host name, hence a DNS label."""

_NODES: Final = FieldPath("spec.trainer.numNodes")
_RANDOM_SUFFIX: Final = "-abcde"
"""What the Job controller puts behind the index of a pod."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a platform allows; the defaults keep every object small enough for etcd."""

    max_nodes: int = 10_000
    """Pods of one ReplicatedJob; above 100,000 Kubernetes itself refuses."""
    max_trainjob_bytes: int = 256 * 1024
    """The TrainJob's spec as JSON."""
    max_jobset_bytes: int = 1024 * 1024
    """The JobSet as JSON; etcd takes 1.5 MiB, status and bookkeeping included."""

    @property
    def pods(self) -> int:
        """The number of pods that is both allowed and possible."""
        return min(self.max_nodes, INDEXED_JOB_PODS)


DEFAULT: Final = Limits()


def of_trainjob(job: TrainJob, limits: Limits) -> Iterator[FieldError]:
    """What is too much in the TrainJob itself."""
    size = _size(job.spec)
    if size > limits.max_trainjob_bytes:
        detail = f"may not be more than {limits.max_trainjob_bytes} bytes as JSON, but has {size}"
        yield FieldError(ErrorType.TOO_LONG, "spec", None, detail)
    trainer = fields.mapping(job.spec.get("trainer"), FieldPath("spec.trainer"))
    nodes = fields.integer(trainer.get("numNodes"), _NODES)
    if nodes is not None and nodes < 0:
        yield FieldError(ErrorType.INVALID, str(_NODES), nodes, "must be greater than or equal to 0")
    if nodes is not None and nodes > limits.pods:
        yield FieldError(
            ErrorType.INVALID, str(_NODES), nodes, f"must be less than or equal to {limits.pods}"
        )


def of_children(job: TrainJob, children: Sequence[Json], limits: Limits) -> Iterator[FieldError]:
    """What is too much in the JobSet that the TrainJob and its runtime make."""
    for jobset in (child for child in children if child["kind"] == names.JOBSET):
        size = _size(jobset)
        if size > limits.max_jobset_bytes:
            detail = (
                f"may not make a JobSet of more than {limits.max_jobset_bytes} bytes as JSON, "
                f"but makes one of {size}"
            )
            yield FieldError(ErrorType.TOO_LONG, "spec", None, detail)
        for replicated in jobset["spec"]["replicatedJobs"]:
            pods = replicated["template"]["spec"]["parallelism"]
            if pods > limits.pods:
                name = replicated["name"]
                detail = f"gives ReplicatedJob {name} {pods} pods, but at most {limits.pods} are allowed"
                reference = revisions.shown_reference(job)
                yield FieldError(ErrorType.INVALID, "spec.runtimeRef", reference, detail)
        yield from _name_errors(job, jobset["spec"]["replicatedJobs"])


def _name_errors(job: TrainJob, replicated_jobs: Sequence[Json]) -> Iterator[FieldError]:
    """One error for the ReplicatedJob that leaves the TrainJob's name the least room."""
    suffixes = [
        f"-{replicated['name']}-0-{max(0, replicated['template']['spec']['completions'] - 1)}{_RANDOM_SUFFIX}"
        for replicated in replicated_jobs
    ]
    longest = max(suffixes, key=len)
    room = LONGEST_NAME - len(longest)
    if len(job.name) > room:
        detail = (
            f"must be no more than {max(0, room)} characters with this runtime, whose pods are named "
            f"<name>{longest} in at most {LONGEST_NAME}"
        )
        yield FieldError(ErrorType.INVALID, "metadata.name", job.name, detail)


def _size(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode(errors="surrogatepass"))
