"""Admission's answers about TrainJobs and runtimes.

Called by the webhooks and by `trainyard validate`. Texts and field paths are
those of Trainer v2.3's webhooks, because people and tools match on them; what
the CRD schema refuses is left to the API server, and not repeated here.

An update is never refused because of a runtime unless it needs one: an update
that changes no spec passes, and a TrainJob can be suspended, and its
runtimePatches withdrawn with that, whatever has happened to its runtime.
Trainyard's own `limits` hold for every spec that is created or changed. Sizes
come first, so that nothing takes long for what is refused anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trainyard_api import json_reader, names, runtime_ref, similar
from trainyard_api.capacity import Queues
from trainyard_api.errors import ErrorType, FieldError, FieldPath, InvalidFieldError

from ..build import counted_by_kueue, patches, plugins, retries, templates
from ..build.framework import Framework, UnsupportedPolicyError
from ..build.info import DEFAULT_SETTINGS, Settings
from ..decide import child_annotations, quota, retention, revisions
from ..model import JobSet, Json, Runtime, TrainJob
from . import limits
from .limits import Limits

_POLICY: Final = (
    "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"
)
_DEPRECATED: Final = (
    "is deprecated and will be removed in a future release of Kubeflow Trainer. "
    f"See runtime deprecation policy: {_POLICY}"
)
_SPEC: Final = FieldPath("spec")
_CLUSTER_REFERENCE: Final = "spec.RuntimeRef"
"""Upstream's spelling for a ClusterTrainingRuntime that is missing."""

_SUSPEND: Final = "suspend"
_PATCHES: Final = "runtimePatches"

_REQUIRED_CONTAINERS: Final = {
    names.ANCESTOR_TRAINER: names.NODE,
    names.DATASET_INITIALIZER: names.DATASET_INITIALIZER,
    names.MODEL_INITIALIZER: names.MODEL_INITIALIZER,
}
"""By ancestor label: the container that the ReplicatedJob must have."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Warnings and errors for the user; errors refuse the object."""

    warnings: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()


def validate(
    job: TrainJob,
    old: TrainJob | None,
    runtime: Runtime | None,
    jobset: JobSet | None = None,
    *,
    of_the_other_kind: bool = False,
    runtimes: Collection[str] = (),
    queues: Queues | None = None,
    allowed: Limits = limits.DEFAULT,
    settings: Settings = DEFAULT_SETTINGS,
    using: Framework = plugins.ALL,
    by_kueue: bool = False,
) -> Answer:
    """The answer for a TrainJob that is created, or updated from `old`.

    `runtime` is what the TrainJob is built from: the live one, or after its
    start the revision that it started with; None if there is none. `jobset`
    is the JobSet of the TrainJob, if it has one. `of_the_other_kind` says that
    a runtime of the other kind has the name; `runtimes` are the names that
    there are of its kind. `queues` are those that hold JobSets; None if that is
    not known. `by_kueue` says that Kueue asks, whose suspensions last.
    """
    undone = () if by_kueue else tuple(_undone_warnings(job, old, settings))
    try:
        too_much = too_large(job, old, allowed)
        if fixed := tuple(retries.changes(job, old, jobset)):
            return Answer(errors=fixed)
        if old is not None and old.spec == job.spec and not retries.is_new(job, old):
            return Answer(tuple(_retention_warnings(job, old)))
        if old is not None and _only_suspends(job, old):
            return Answer(undone, tuple(patches.validate(job, old, jobset)))
        if too_much:
            return Answer(errors=too_much)
        if old is not None and _suspends(job, old) and (errors := tuple(patches.validate(job, old, jobset))):
            return Answer(errors=errors)
        if not revisions.supported(job):
            return Answer(errors=(_unsupported(job),))
        if runtime is None:
            return Answer(errors=(_missing(job, of_the_other_kind, runtimes),))
        if not _only_resumes(job, old) and (errors := tuple(limits.sizes_of_runtime(runtime.spec, allowed))):
            return Answer(errors=(_unusable(job, errors),))
    except InvalidFieldError as error:
        return Answer(errors=error.errors)
    plugin_warnings, errors = _built(
        job, runtime, using, settings, old=old, jobset=jobset, allowed=allowed, queues=queues
    )
    warnings = (
        *_warnings("Referenced ", runtime),
        *_retention_warnings(job, old),
        *_suspend_warnings(job, old, settings),
        *undone,
        *_dropped_warnings(job, old, settings),
        *_elastic_warnings(job, old),
        *plugin_warnings,
    )
    return Answer(warnings, errors)


def validate_runtime(
    runtime: Runtime,
    old: Runtime | None = None,
    *,
    allowed: Limits = limits.DEFAULT,
    using: Framework = plugins.ALL,
) -> Answer:
    """The answer for a runtime that is created, or updated from `old`.

    Both kinds are treated alike, and updates too, where Trainer v2.3 looks at
    only ClusterTrainingRuntimes. As there, the warning comes once, on creation.
    """
    warnings = tuple(_warnings("", runtime)) if old is None else ()
    try:
        json_reader.require_shallow(runtime.spec, _SPEC)
        changed = old is None or old.spec != runtime.spec
        if changed and (too_much := tuple(limits.of_runtime(runtime, allowed))):
            return Answer(warnings, too_much)
        return Answer(warnings, tuple(_runtime_errors(runtime, using)))
    except InvalidFieldError as error:
        return Answer(warnings, error.errors)


def too_large(job: TrainJob, old: TrainJob | None, allowed: Limits) -> tuple[FieldError, ...]:
    """Exceeded sizes of a TrainJob that is created, or changed other than to suspend or resume it.

    Raises:
        InvalidFieldError: It is nested too deep, or has not the form of a TrainJob where it is measured.
    """
    json_reader.require_shallow(job.spec, _SPEC)  # before it is compared
    if old is not None and (_only_resumes(job, old) or _only_suspends(job, old)):
        return ()
    return tuple(limits.sizes_of_trainjob(job.spec, allowed))


def runtime_too_large(runtime: Runtime, old: Runtime | None, allowed: Limits) -> tuple[FieldError, ...]:
    """Exceeded sizes of a runtime that is created or changed; raises what `too_large` raises."""
    json_reader.require_shallow(runtime.spec, _SPEC)  # before it is compared
    if old is not None and old.spec == runtime.spec:
        return ()
    return tuple(limits.sizes_of_runtime(runtime.spec, allowed))


def _suspends(job: TrainJob, old: TrainJob) -> bool:
    return job.suspended and not old.suspended


def _only_resumes(job: TrainJob, old: TrainJob | None) -> bool:
    return old is not None and _without(old, _SUSPEND) == _without(job, _SUSPEND)


def _only_suspends(job: TrainJob, old: TrainJob) -> bool:
    """Whether it only suspends, perhaps withdrawing patches, as Kueue does when it evicts a job."""
    if not _suspends(job, old):
        return False
    rest = (_SUSPEND, _PATCHES)
    return _without(old, *rest) == _without(job, *rest) and patches.only_withdrawn(job, old)


def _without(job: TrainJob, *left_out: str) -> Json:
    return {name: value for name, value in job.spec.items() if name not in left_out}


def _unsupported(job: TrainJob) -> FieldError:
    group, kind, _ = runtime_ref.of(job.spec)
    return runtime_ref.refused(job.spec, f"unsupported runtime: {kind}.{group}")


def _missing(job: TrainJob, of_the_other_kind: bool, runtimes: Collection[str]) -> FieldError:
    group, kind, name = runtime_ref.of(job.spec)
    detail = (
        f'{kind.lower()}s.{group} "{name}" not found: specified {kind[0].lower()}{kind[1:]} '
        "must be created before the TrainJob is created"
    )
    if of_the_other_kind:
        detail += f". {revisions.say_the_other_kind(kind)}"
    elif (near := similar.nearest(name, sorted(runtimes))) is not None:
        detail += f". Did you mean {near}?"
    refused = runtime_ref.refused(job.spec, detail)
    return replace(refused, path=_CLUSTER_REFERENCE) if kind == names.CLUSTER_TRAINING_RUNTIME else refused


def _unusable(job: TrainJob, errors: Sequence[FieldError]) -> FieldError:
    """A runtime that was stored while nobody asked the webhook is too large to build from."""
    detail = f"the runtime is too large: {'; '.join(f'{error.path} {error.detail}' for error in errors)}"
    return runtime_ref.refused(job.spec, detail)


def _warnings(prefix: str, runtime: Runtime) -> Iterator[str]:
    if runtime.labels.get(names.SUPPORT_LABEL) == names.SUPPORT_DEPRECATED:
        yield f'{prefix}{runtime.kind} "{runtime.name}" {_DEPRECATED}'


def _retention_warnings(job: TrainJob, old: TrainJob | None) -> Iterator[str]:
    """An annotation that cannot be read is no reason to refuse a TrainJob: to keep it is safer."""
    name = names.RETENTION_ANNOTATION
    text = job.annotations.get(name)
    if text is None or (old is not None and old.annotations.get(name) == text):
        return
    if not retention.readable(text):
        yield (
            f'metadata.annotations[{name}]: {text[:64]!r} is neither "{retention.KEEP}" nor a duration '
            "such as 24h or 7d: the TrainJob is kept"
        )


def _suspend_warnings(job: TrainJob, old: TrainJob | None, settings: Settings) -> Iterator[str]:
    """Guides of Trainer and Kueue send `suspend: true` with a queue; here such a job waits for its user.

    Where the queue holds TrainJobs, Kueue's webhook has suspended each of them before: one that its user
    sent suspended has our gate (see `suspended_on_create`).
    """
    queue = job.labels.get(names.QUEUE_LABEL)
    if old is not None or not queue or not job.suspended:
        return
    gates = job.annotations.get(names.QUEUE_GATES_ANNOTATION, "").split(",")
    if settings.queue_holds_jobset or names.SENT_SUSPENDED in gates:
        yield (
            f"spec.suspend: is true, so this job waits, even if queue {queue[:63]} has room, until "
            f"kubectl patch trainjob {job.name} {names.RESUMES}; a queue needs no suspend: true"
        )


def _dropped_warnings(job: TrainJob, old: TrainJob | None, settings: Settings) -> Iterator[str]:
    """Where the queue holds TrainJobs, Kueue (0.19) writes them with the types of Trainer v2.2."""
    if (
        old is None
        and job.held_by_kueue
        and job.labels.get(names.QUEUE_LABEL)
        and not settings.queue_holds_jobset
    ):
        for path in patches.grace_periods(job):
            yield f"{path}: Kueue removes this field when it starts the job: set it in the runtime instead"


def _undone_warnings(job: TrainJob, old: TrainJob | None, settings: Settings) -> Iterator[str]:
    """Where the queue holds TrainJobs, `spec.suspend` is Kueue's once a job is admitted."""
    queue = (
        job.labels.get(names.QUEUE_LABEL) if job.held_by_kueue and not settings.queue_holds_jobset else None
    )
    if old is not None and queue and _suspends(job, old):
        yield (
            f"spec.suspend: queue {queue[:63]} holds TrainJobs, and Kueue resumes this job at once: if it "
            "runs, its pods are deleted and start again; to stop it: kubectl delete trainjob "
            f"{job.name} -n {job.namespace}"
        )


def _elastic_warnings(job: TrainJob, old: TrainJob | None) -> Iterator[str]:
    """Where the queue holds TrainJobs, Kueue's webhook refuses it; a JobSet does not get the annotation."""
    if old is None and job.annotations.get(names.ELASTIC_JOB_ANNOTATION) == "true":
        yield (
            f"metadata.annotations[{names.ELASTIC_JOB_ANNOTATION}]: Kueue does not support elastic "
            "TrainJobs: the job starts when there is quota for all of its nodes, and keeps this quota until "
            "it ends"
        )


def _queue_warnings(job: TrainJob, children: Sequence[Json], queues: Queues | None) -> Iterator[str]:
    """A queue may yet get what it lacks: what can never run as things are is let in, and told so."""
    queue = "" if queues is None else quota.queue_of(job, queues)
    if not queue or queues is None:
        return
    for jobset in (child for child in children if child["kind"] == names.JOBSET):
        never = quota.never(jobset, queue, queues)
        if never is not None:
            yield f"this job will wait forever: {never.message}"


def _built(
    job: TrainJob,
    runtime: Runtime,
    using: Framework,
    settings: Settings,
    *,
    old: TrainJob | None,
    jobset: JobSet | None,
    allowed: Limits,
    queues: Queues | None,
) -> tuple[tuple[str, ...], tuple[FieldError, ...]]:
    """The plugins' warnings at its creation, and errors: the plugins' and those of the TrainJob's limits;
    without any, what building the children shows."""
    limited = not _only_resumes(job, old)
    settings = child_annotations.as_begun(settings, jobset)
    try:
        using.require_implemented(runtime)
        info = using.info(retries.as_begun(job, jobset), runtime, settings)
        errors = tuple(using.errors(info, old=old, jobset=jobset))
        if limited:
            errors += tuple(limits.of_trainjob(job, allowed))
        if not settings.queue_holds_jobset and counted_by_kueue.is_to_be_judged(job, old):
            errors += tuple(counted_by_kueue.errors(info, using.trainers(info)))
        if errors:
            return (), errors
        children = [child.manifest for child in using.children_of(info)]
        warnings = (*using.warnings(info), *_queue_warnings(job, children, queues)) if old is None else ()
        return warnings, tuple(limits.of_children(job, children, allowed)) if limited else ()
    except UnsupportedPolicyError as error:
        return (), (runtime_ref.refused(job.spec, str(error)),)
    except InvalidFieldError as error:
        return (), error.errors


def _runtime_errors(runtime: Runtime, using: Framework) -> Iterator[FieldError]:
    yield from _policy_errors(runtime, "mlPolicy", using)
    yield from _policy_errors(runtime, "podGroupPolicy", using)
    template = json_reader.mapping(runtime.spec.get("template"), FieldPath("spec.template"))
    spec = json_reader.mapping(template.get("spec"), templates.SPEC_PATH)
    checked = templates.checked(spec, templates.SPEC_PATH)
    path = templates.SPEC_PATH.child("replicatedJobs")
    for position, job in enumerate(checked["replicatedJobs"]):
        yield from _replicated_job_errors(job, path.index(position))


def _policy_errors(runtime: Runtime, policy: str, using: Framework) -> Iterator[FieldError]:
    """Policies that no plugin implements, such as Flux: a TrainJob with one would be refused."""
    supported = ", ".join(f'"{name}"' for name in sorted(using.implemented(policy)))
    for source in using.unimplemented(runtime, policy):
        yield FieldError(ErrorType.NOT_SUPPORTED, f"spec.{policy}", source, f"supported values: {supported}")


def _replicated_job_errors(job: Json, path: FieldPath) -> Iterator[FieldError]:
    container = _REQUIRED_CONTAINERS.get(templates.ancestor(job) or "")
    if container is None:
        return
    replicas = json_reader.integer(job.get("replicas"), path.child("replicas"))
    if replicas not in (None, 1):
        yield FieldError(ErrorType.INVALID, str(path.child("replicas")), replicas, "always must be 1")
    if templates.container(job, container) is None:
        at = path.child("template", "spec", "template", "spec", "containers")
        shown: Any = templates.pod_template(job)["spec"].get("containers")
        detail = f"must contain the required container for the ancestor: {templates.ancestor(job)}"
        yield FieldError(ErrorType.INVALID, str(at), shown, detail)
