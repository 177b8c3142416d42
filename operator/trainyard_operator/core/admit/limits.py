"""Sizes beyond which a TrainJob or a runtime is refused, because it could never run or would harm others.

Called by `validation`. These limits and their wording are Trainyard's own:
Kubeflow Trainer accepts such objects, and they fail later, in the JobSet's
admission, in etcd, or because they exceed the memory of their readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard_api import json_reader, names, runtime_ref
from trainyard_api.errors import ErrorType, FieldError, FieldPath

from ..build import patches
from ..model import Json, Runtime, TrainJob

INDEXED_JOB_PODS: Final = 100_000
"""Kubernetes runs no Indexed Job with more."""
LONGEST_NAME: Final = 63
"""A pod's name is also its host name, hence a DNS label."""

VALUES: Final = 15_000
"""In the spec of a runtime or TrainJob, entries of objects and items of lists: what each of 25 rules, and
what builds the JobSet, may have to look at."""

REPLICATED_JOBS: Final = 32
"""In a runtime, or in one of the runtimePatches: more have no use, but each costs the operator time."""

JOBS: Final = 1_000
"""In a JobSet, hence `replicas` of its ReplicatedJobs together: the controller builds them all at once, and
creates them even while the JobSet is suspended, before any quota counts them."""

BYTES_OF_JOBS: Final = 16 * 1024 * 1024
"""As JSON, of the Jobs of a JobSet together: each replica has a copy of its ReplicatedJob's template, and
etcd has a few GB for the whole cluster."""

PATCHES: Final = 32
"""In a TrainJob: twice as many as its CRD allows, which not every caller has asked."""

CONTAINERS: Final = 500
"""In a runtime or TrainJob, init containers included: each costs as much as dozens of other values."""

AMOUNTS: Final = 2_000
"""Limits and requests of resources in a runtime or TrainJob: they are parsed several times a look."""

REVISIONS: Final = 100
"""Revisions of a namespace's own runtimes in its JobSets: every replica keeps their contents."""

_SPEC: Final = FieldPath("spec")
_NODES: Final = FieldPath("spec.trainer.numNodes")
_RANDOM_SUFFIX: Final = "-abcde"
"""Suffix that the Job controller appends to the index of a pod."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a platform; the defaults keep every object small enough for etcd."""

    max_nodes: int = 10_000
    """Pods of one ReplicatedJob, hence its replicas times parallelism; Kubernetes runs no Job of more than
    100,000."""
    max_trainjob_bytes: int = 256 * 1024
    """The TrainJob's spec as JSON."""
    max_runtime_bytes: int = 256 * 1024
    """The runtime's spec as JSON."""
    max_jobset_bytes: int = 1024 * 1024
    """The JobSet as JSON; etcd takes 1.5 MiB, status and bookkeeping included."""

    @property
    def pods(self) -> int:
        """The number of pods that is both allowed and possible."""
        return min(self.max_nodes, INDEXED_JOB_PODS)


DEFAULT: Final = Limits()


def of_runtime(runtime: Runtime, limits: Limits) -> Iterator[FieldError]:
    """Exceeded limits of a runtime; if it is too large, nothing else is checked."""
    large = tuple(sizes_of_runtime(runtime.spec, limits))
    yield from large
    if large:
        return
    where, path = json_reader.below(runtime.spec, _SPEC, "template", "spec")
    policy, at = json_reader.below(runtime.spec, _SPEC, "mlPolicy")
    yield from _pod_errors(policy.get("numNodes"), at.child("numNodes"), limits)
    yield from _parallelism_errors(where, path, limits)
    yield from _replica_errors(where, path, limits)


def sizes_of_runtime(spec: Json, limits: Limits) -> Iterator[FieldError]:
    """Exceeded sizes of a runtime; checked before anything that takes long."""
    yield from _size_errors(spec, limits.max_runtime_bytes)
    where, path = json_reader.below(spec, _SPEC, "template", "spec")
    yield from _number_errors(where, path.child("replicatedJobs"), "replicatedJobs", REPLICATED_JOBS)


def sizes_of_trainjob(spec: Json, limits: Limits) -> Iterator[FieldError]:
    """Exceeded sizes of a TrainJob; checked before anything that takes long."""
    yield from _size_errors(spec, limits.max_trainjob_bytes)
    many = tuple(_number_errors(spec, patches.PATH, "runtimePatches", PATCHES))
    yield from many
    if many:
        return
    for where, path in patches.parts(spec, "spec"):
        yield from _number_errors(where, path.child("replicatedJobs"), "replicatedJobs", REPLICATED_JOBS)


def of_trainjob(job: TrainJob, limits: Limits) -> Iterator[FieldError]:
    """Exceeded limits of the TrainJob itself, and fields that only the operator may set."""
    trainer = json_reader.mapping(job.spec.get("trainer"), FieldPath("spec.trainer"))
    nodes = json_reader.integer(trainer.get("numNodes"), _NODES)
    if nodes is not None and nodes < 0:
        yield FieldError(ErrorType.INVALID, str(_NODES), nodes, "must be greater than or equal to 0")
    yield from _pod_errors(nodes, _NODES, limits)
    for spec, path in patches.parts(job.spec, "spec"):
        yield from _parallelism_errors(spec, path, limits)
    for metadata, path in patches.parts(job.spec, "metadata"):
        at = path.child("annotations")
        for name in json_reader.text_map(metadata.get("annotations"), at):
            if name.startswith(names.OWN_PREFIX):
                detail = f"annotations that begin with {names.OWN_PREFIX} are the operator's own"
                yield FieldError(ErrorType.FORBIDDEN, str(at.key(name)), None, detail)


def of_revisions(named: int) -> Iterator[FieldError]:
    """Why a namespace's runtime may not get one more content, if its JobSets name so many revisions."""
    if named >= REVISIONS:
        detail = (
            f"JobSets of this namespace are built from {named} revisions of its runtimes, and may be from "
            f"{REVISIONS}: delete finished TrainJobs first"
        )
        yield FieldError(ErrorType.FORBIDDEN, str(_SPEC), None, detail)


def of_children(job: TrainJob, children: Sequence[Json], limits: Limits) -> Iterator[FieldError]:
    """Exceeded limits of the JobSet of a TrainJob and its runtime."""
    for jobset in (child for child in children if child["kind"] == names.JOBSET):
        length = size(jobset)
        if length > limits.max_jobset_bytes:
            detail = (
                f"may not make a JobSet of more than {limits.max_jobset_bytes} bytes as JSON, "
                f"but makes one of {length}"
            )
            yield FieldError(ErrorType.TOO_LONG, "spec", None, detail)
        jobs = 0
        for replicated in jobset["spec"]["replicatedJobs"]:
            replicas = _number(replicated, "replicas", FieldPath())
            jobs += replicas
            pods = replicas * replicated["template"]["spec"]["parallelism"]
            if pods > limits.pods:
                name = replicated["name"]
                detail = f"gives ReplicatedJob {name} {pods} pods, but at most {limits.pods} are allowed"
                yield runtime_ref.refused(job.spec, detail)
        if jobs > JOBS:
            detail = f"makes {jobs} Jobs, but at most {JOBS} are allowed: lower the replicas in the runtime"
            yield runtime_ref.refused(job.spec, detail)
        # No template is larger than the JobSet: of most JobSets, no template is measured.
        elif jobs * length > BYTES_OF_JOBS and (large := _large_jobs(jobset["spec"], FieldPath())):
            detail = f"makes Jobs of {large}"
            yield runtime_ref.refused(job.spec, detail)
        yield from _name_errors(job, jobset["spec"]["replicatedJobs"])


def _name_errors(job: TrainJob, replicated_jobs: Sequence[Json]) -> Iterator[FieldError]:
    """One error for the ReplicatedJob that leaves the TrainJob's name the least room."""
    longest = max(map(_last_suffix, replicated_jobs), key=len)
    room = LONGEST_NAME - len(longest)
    if len(job.name) > room:
        detail = (
            f"must be no more than {max(0, room)} characters with this runtime, whose pods are named "
            f"<name>{longest} in at most {LONGEST_NAME}"
        )
        yield FieldError(ErrorType.INVALID, "metadata.name", job.name, detail)


def _last_suffix(replicated: Json) -> str:
    """What the name of the last pod of the last replica has behind the TrainJob's."""
    job = max(0, _number(replicated, "replicas", FieldPath()) - 1)
    pod = max(0, replicated["template"]["spec"]["completions"] - 1)
    return f"-{replicated['name']}-{job}-{pod}{_RANDOM_SUFFIX}"


def _size_errors(spec: Json, most: int) -> Iterator[FieldError]:
    json_reader.require_shallow(spec, _SPEC)
    length = size(spec)
    if length > most:
        detail = f"may not be more than {most} bytes as JSON, but has {length}"
        yield FieldError(ErrorType.TOO_LONG, str(_SPEC), None, detail)
        return
    objects = tuple(json_reader.objects_in(spec))
    for of, number, allowed in (
        ("values", json_reader.number_of_values(spec), VALUES),
        ("containers", sum(map(_containers, objects)), CONTAINERS),
        ("limits and requests of resources", sum(map(_amounts, objects)), AMOUNTS),
    ):
        if number > allowed:
            detail = f"may not have more than {allowed} {of}, but has {number}"
            yield FieldError(ErrorType.TOO_LONG, str(_SPEC), None, detail)


def _amounts(mapping: Json) -> int:
    lists = (mapping.get(name) for name in ("limits", "requests", "overhead"))
    return sum(len(amounts) for amounts in lists if isinstance(amounts, dict))


def _containers(mapping: Json) -> int:
    lists = (mapping.get(name) for name in ("containers", "initContainers"))
    return sum(len(containers) for containers in lists if isinstance(containers, list | tuple))


def _number_errors(spec: Json, path: FieldPath, items: str, most: int) -> Iterator[FieldError]:
    number = len(json_reader.objects(spec.get(items), path))
    if number > most:
        detail = f"may not have more than {most} items, but has {number}"
        yield FieldError(ErrorType.TOO_LONG, str(path), None, detail)


def _parallelism_errors(spec: Json, path: FieldPath, limits: Limits) -> Iterator[FieldError]:
    """Pod counts beyond the limit, even where a later patch overrides them: that patch may be withdrawn."""
    path = path.child("replicatedJobs")
    for position, job in enumerate(json_reader.objects(spec.get("replicatedJobs"), path)):
        inner, at = json_reader.below(job, path.index(position), "template", "spec")
        yield from _pod_errors(inner.get("parallelism"), at.child("parallelism"), limits)


def _replica_errors(spec: Json, path: FieldPath, limits: Limits) -> Iterator[FieldError]:
    """More Jobs than a JobSet may have, and more pods than a ReplicatedJob may have in all its Jobs."""
    path = path.child("replicatedJobs")
    jobs = 0
    for position, job in enumerate(json_reader.objects(spec.get("replicatedJobs"), path)):
        at = path.index(position)
        replicas = _number(job, "replicas", at)
        inner, below = json_reader.below(job, at, "template", "spec")
        pods = _number(inner, "parallelism", below)
        jobs += replicas
        if pods <= limits.pods < replicas * pods:
            detail = (
                f"times parallelism must be less than or equal to {limits.pods}, but is {replicas * pods}"
            )
            yield FieldError(ErrorType.INVALID, str(at.child("replicas")), replicas, detail)
    if jobs > JOBS:
        detail = f"may not have more than {JOBS} replicas together, but has {jobs}"
        yield FieldError(ErrorType.TOO_LONG, str(path), None, detail)
    elif large := _large_jobs(spec, path):
        yield FieldError(ErrorType.TOO_LONG, str(path), None, f"may not make Jobs of {large}")


def _large_jobs(spec: Json, path: FieldPath) -> str:
    """How large the Jobs are together, and the way out; empty if they are not too large."""
    total, largest, share = 0, 0, ""
    for position, job in enumerate(json_reader.objects(spec.get("replicatedJobs"), path)):
        at = path.index(position)
        replicas = _number(job, "replicas", at)
        length = size(json_reader.below(job, at, "template")[0])
        total += replicas * length
        if replicas * length > largest:
            largest = replicas * length
            share = f"ReplicatedJob {job.get('name')} has {replicas} replicas of {length} bytes"
    if total <= BYTES_OF_JOBS:
        return ""
    return (
        f"{total} bytes as JSON, but at most {BYTES_OF_JOBS} are allowed ({share}): lower the replicas in "
        "the runtime, or make their template smaller"
    )


def _number(holder: Json, name: str, path: FieldPath) -> int:
    """Of Jobs or pods: 1 unless it says another, and none if that is negative."""
    number = json_reader.integer(holder.get(name), path.child(name))
    return 1 if number is None else max(0, number)


def _pod_errors(value: Any, path: FieldPath, limits: Limits) -> Iterator[FieldError]:
    pods = json_reader.integer(value, path)
    if pods is not None and pods > limits.pods:
        yield FieldError(ErrorType.INVALID, str(path), pods, f"must be less than or equal to {limits.pods}")


def size(value: Json) -> int:
    """Bytes of an object as JSON."""
    text = json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"))
    return len(text.encode(errors="surrogatepass"))
