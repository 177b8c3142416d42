"""Decides what to do about a TrainJob, only from observed objects.

Called by the shell with an `Observed` and the time; returns a `Plan`. Which
event led here does not matter, and neither does how far an earlier plan got:
every step leaves a state from which the next observation leads on.

Three orders matter against crashes. A deadline is written into the status
before the JobSet is deleted, in two rounds, because a TrainJob that is not
finished and has no JobSet would get a new one. A suspension is written into
the status before a Workload is deactivated, because nothing else says that a
TrainJob that is resumed has to get its Workload activated. A runtime revision
is recorded before the JobSet that refers to it is created. (`job_recreation`
and `refusals` have two more.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from trainyard_api import durations, names
from trainyard_api.errors import InvalidFieldError
from trainyard_api.reasons import Reason

from ..build import counted_by_kueue, plugins, retries
from ..build.framework import Framework, UnsupportedPolicyError
from ..build.info import DEFAULT_SETTINGS, Child, Info, Settings
from ..build.plugins.jobset import counts_of, has_ended, terminal_of
from ..model import (
    NOTHING,
    Cause,
    Condition,
    Create,
    Delete,
    EventNote,
    Identity,
    JobSet,
    Json,
    Needs,
    Observed,
    Plan,
    RecordRevision,
    Rejection,
    Runtime,
    RuntimeProblem,
    TrainJob,
    Update,
    Write,
)
from ..status import attempts, conditions, display_state, pod_readiness
from . import causes, child_annotations, job_recreation, queueing, quota, refusals, revisions, same_failure

_QUEUE_SECONDS: Final = 600.0
"""Nobody tells when the quota of a queue is lowered."""
RETRY_SECONDS: Final = 30.0
"""How long until a blocked TrainJob is tried again."""
COLLECT_SECONDS: Final = 3.0
"""How long until a pending change is looked at again: companions and Jobs are not watched."""

_REPORTED_SECONDS: Final = 1.0
"""How long until the status that is to precede a write is written, and the write is due."""

_COLLECT_PATIENCE: Final = timedelta(seconds=60)
"""For how long what is being deleted, or belongs to a TrainJob that was, may well still be there."""

_LONGEST_WAIT: Final = 86400.0


@dataclass(frozen=True, slots=True)
class _Step:
    """The next write for the JobSet."""

    writes: tuple[Write, ...] = ()
    events: tuple[EventNote, ...] = ()
    blocked: Cause | None = None
    wait: float | None = None
    """Seconds until another look is due, even without an event; None if none is due."""
    needs: Needs | None = None
    """It cannot be decided without this."""
    stays_suspended: bool = False
    """It is resumed, but its Workload could not be activated: the status goes on saying that it is to be."""


def reconcile(
    observed: Observed,
    now: datetime,
    settings: Settings = DEFAULT_SETTINGS,
    using: Framework = plugins.ALL,
) -> Plan:
    """The next writes, status and events for a TrainJob, and when to look again.

    The companions are created before the JobSet, each once. They are
    updated while the JobSet is missing or suspended, and left alone while it runs.

    Never raises for anything that a TrainJob or a runtime can contain: that
    becomes the condition `Blocked`.
    """
    job = observed.trainjob
    if not is_managed(job):
        return NOTHING
    jobset = _own_jobset(observed)
    if job.deleting:
        return _while_deleted(job, jobset, settings)
    before = conditions.of(job.status)
    if conditions.finished(before):
        return _after_the_end(job, jobset, before, now, settings)

    after = _mirrored(
        conditions.without(_suspension(job, jobset, before, now, settings), names.BLOCKED), jobset, observed
    )
    if conditions.finished(after):
        return _ending(observed, settings, using, Plan(status=_status(job, after, jobset)))
    if observed.runtime is RuntimeProblem.NOT_SUPPORTED:
        return Plan(status=_status(job, _failed(after, causes.unsupported(job), now), jobset))
    remaining = _remaining(job, jobset, after, now, settings)
    if remaining is not None and remaining <= 0:
        plan = Plan(
            status=_status(job, _failed(after, causes.OVERDUE, now), jobset),
            requeue_after=None if jobset is None else 0.0,
        )
        return _ending(observed, settings, using, plan)
    if (twice := same_failure.seen(job, jobset, observed.attempts, now)) is not None:
        plan = Plan(
            status=_status(job, _failed(after, twice, now), jobset),
            events=(EventNote("Warning", twice.reason, twice.message),),
            requeue_after=0.0,
        )
        return _ending(observed, settings, using, plan)

    step = _next_step(observed, now, settings, using)
    if step.needs is not None:
        return Plan(needs=step.needs)
    if step.stays_suspended:
        after = conditions.without(_with_suspended(before, now), names.BLOCKED)
    events = step.events
    if step.blocked is not None:
        after = _with_blocked(before, after, step.blocked, now)
        events += _announced(before, step.blocked)
    return Plan(
        writes=step.writes,
        status=_status(job, after, jobset),
        events=events,
        requeue_after=_soonest(remaining, RETRY_SECONDS if step.blocked else step.wait),
    )


def _ending(observed: Observed, settings: Settings, using: Framework, plan: Plan) -> Plan:
    """The plan for a TrainJob that ends now, once it is known which PodGroup of its is to be removed."""
    if observed.companions is None and (groups := _pod_groups(observed, settings, using)):
        return Plan(needs=Needs(companions=groups))
    return replace(plan, writes=_leftovers(observed))


def _pod_groups(observed: Observed, settings: Settings, using: Framework) -> tuple[Identity, ...]:
    """The PodGroup that the TrainJob has, if it has one; for most runtimes nothing is built to know it."""
    runtime = observed.runtime
    if isinstance(runtime, RuntimeProblem) or not runtime.spec.get("podGroupPolicy"):
        return ()
    settings = child_annotations.as_begun(settings, observed.jobset)
    try:
        children = using.build(retries.as_begun(observed.trainjob, observed.jobset), runtime, settings)
    except (UnsupportedPolicyError, InvalidFieldError):
        return ()
    return tuple(_identity(child) for child in children if child["kind"] == names.POD_GROUP)


def _leftovers(observed: Observed) -> tuple[Write, ...]:
    """The deletion of the PodGroup of a TrainJob that ends: schedulers count it until it is gone.

    It comes before the status that says so, since nobody looks for it after that.
    """
    return tuple(
        Delete(companion.api_version, companion.kind, companion.namespace, companion.name, companion.uid)
        for companion in observed.companions or ()
        if companion.kind == names.POD_GROUP
        and companion.owner_uid == observed.trainjob.uid
        and companion.deleted is None
    )


def is_managed(job: TrainJob) -> bool:
    """Whether the TrainJob is this operator's, and not for example MultiKueue's."""
    return (job.spec.get("managedBy") or names.MANAGED_BY_TRAINER) == names.MANAGED_BY_TRAINER


def _own_jobset(observed: Observed) -> JobSet | None:
    jobset = observed.jobset
    return jobset if jobset is not None and jobset.owner_uid == observed.trainjob.uid else None


def _while_deleted(job: TrainJob, jobset: JobSet | None, settings: Settings) -> Plan:
    """A TrainJob that a finalizer keeps runs on, unless Kueue held it: its quota is then already another's.

    If the garbage collector deletes its JobSet, or sets it free, that is left to it.
    """
    has_no_quota = _is_held_by_kueue(job) and not settings.queue_holds_jobset
    if jobset is None or job.collected or not has_no_quota:
        return NOTHING
    if jobset.deleting or jobset.suspend or has_ended(jobset):
        return NOTHING
    return Plan(writes=(_deletion(jobset),), requeue_after=RETRY_SECONDS)


# --- status -----------------------------------------------------------------


def _after_the_end(
    job: TrainJob, jobset: JobSet | None, before: conditions.Conditions, now: datetime, settings: Settings
) -> Plan:
    """A finished TrainJob starts nothing; past its deadline, what still runs is removed, and after the same
    failure twice it is stopped.

    Its suspension is still reported, as Trainer does: a client that suspends a job that is just ending waits
    for it.
    """
    after = conditions.without(_suspension(job, jobset, before, now, settings), names.BLOCKED)
    failed = conditions.find(before, names.FAILED) or {}
    writes: tuple[Write, ...] = ()
    again = None
    over = jobset is not None and has_ended(jobset)
    if jobset is not None and not jobset.deleting and failed.get("reason") == Reason.DEADLINE_EXCEEDED:
        writes = (_deletion(jobset),)
    elif jobset is not None and not over and failed.get("reason") == Reason.SAME_FAILURE:
        writes = same_failure.stop(job, jobset, settings)
        over = not writes
        again = RETRY_SECONDS if writes else None
    # A JobSet that is not over is about to go or to stop, or is seen as it was before: its counts are old.
    return Plan(writes=writes, status=_status(job, after, jobset if over else None), requeue_after=again)


def _is_held_by_kueue(job: TrainJob) -> bool:
    """Whether Kueue suspends and resumes it, so that it says it is suspended only while it is (ADR 30)."""
    return job.held_by_kueue or bool(job.labels.get(names.QUEUE_LABEL))


def _suspension(
    job: TrainJob,
    jobset: JobSet | None,
    before: conditions.Conditions,
    now: datetime,
    settings: Settings,
) -> conditions.Conditions:
    if job.suspended:
        return _with_suspended(before, now)
    held = _is_held_by_kueue(job) or queueing.holds(job, jobset, settings)
    if held and not settings.keeps_resumed and not conditions.finished(before):
        return conditions.without(before, names.SUSPENDED)
    if conditions.is_true(before, names.SUSPENDED):
        at = conditions.timestamp(now)
        condition = Condition(names.SUSPENDED, "False", "Resumed", "TrainJob is resumed", at)
        return conditions.with_condition(before, condition)
    return before


def _with_suspended(before: conditions.Conditions, now: datetime) -> conditions.Conditions:
    at = conditions.timestamp(now)
    condition = Condition(names.SUSPENDED, "True", "Suspended", "TrainJob is suspended", at)
    return conditions.with_condition(before, condition)


def _mirrored(
    current: conditions.Conditions, jobset: JobSet | None, observed: Observed
) -> conditions.Conditions:
    terminal = None if jobset is None else terminal_of(jobset)
    if jobset is None or terminal is None:
        return current
    condition = _timed(terminal, queueing.started_at(jobset))
    return conditions.with_condition(current, attempts.with_last_failure(condition, observed.attempts))


def _timed(terminal: Condition, started: datetime | None) -> Condition:
    """`Complete` with how long it ran, since it was last resumed if it was, after the words of JobSet's
    controller; without, if the times are not to be read: that must not keep a job from its end."""
    if terminal.type != names.COMPLETE or started is None:
        return terminal
    try:
        seconds = (conditions.moment(terminal.last_transition_time) - started).total_seconds()
    except (TypeError, ValueError):
        return terminal
    if seconds <= 0:
        return terminal
    return replace(terminal, message=f"{terminal.message} in {durations.words(seconds)}")


def _failed(current: conditions.Conditions, why: Cause, now: datetime) -> conditions.Conditions:
    condition = Condition(names.FAILED, "True", why.reason, why.message, conditions.timestamp(now))
    return conditions.with_condition(current, condition)


def _with_blocked(
    before: conditions.Conditions, after: conditions.Conditions, blocked: Cause, now: datetime
) -> conditions.Conditions:
    """`after` behind the condition, dated as it was in `before` if it was there.

    kubectl's column REASON shows the first condition that is true: it is to be the cause.
    """
    old = conditions.find(before, names.BLOCKED)
    at = conditions.timestamp(now) if old is None else old["lastTransitionTime"]
    condition = Condition(names.BLOCKED, "True", blocked.reason, blocked.message, at)
    return (*conditions.with_condition((), condition), *after)


def _announced(before: conditions.Conditions, blocked: Cause) -> tuple[EventNote, ...]:
    """The Event for a block that is new or differs from the one before."""
    old = conditions.find(before, names.BLOCKED) or {}
    if (old.get("reason"), old.get("message")) == (blocked.reason, blocked.message):
        return ()
    return (EventNote("Warning", blocked.reason, blocked.message),)


def _status(job: TrainJob, after: conditions.Conditions, jobset: JobSet | None) -> Json | None:
    """The fields of the status that differ from the current status.

    An empty list stands for no conditions, and for no jobsStatus when the
    JobSet is a new one: a status without any field is refused.
    """
    patch: dict[str, Any] = {}
    if after != conditions.of(job.status):
        patch["conditions"] = list(after)
    if jobset is not None:
        counts = counts_of(jobset)
        if counts != tuple(job.status.get("jobsStatus") or ()):
            patch["jobsStatus"] = list(counts)
    return patch or None


# --- time -------------------------------------------------------------------


def _remaining(
    job: TrainJob, jobset: JobSet | None, current: conditions.Conditions, now: datetime, settings: Settings
) -> float | None:
    """Seconds until the deadline; None without one, while suspended, and while it waits in a queue."""
    seconds = job.spec.get("activeDeadlineSeconds")
    if not isinstance(seconds, int) or seconds <= 0 or job.suspended:
        return None
    start: datetime | None
    if settings.queue_holds_jobset and jobset is None:
        start = None  # its JobSet may get into a queue that it does not name
    elif jobset is not None and queueing.holds(job, jobset, settings):
        start = queueing.resumed_at(jobset)
    else:
        resumed = conditions.find(current, names.SUSPENDED)
        start = job.created
        if resumed is not None:
            start = conditions.moment(resumed["lastTransitionTime"])
        elif _is_held_by_kueue(job):
            # While it has no JobSet, nothing tells when Kueue last let it run: it was not at its creation.
            start = None if jobset is None else queueing.started_at(jobset)
    return None if start is None else float(min(seconds, 2**53)) - (now - start).total_seconds()


def _soonest(deadline: float | None, retry: float | None) -> float | None:
    waits = [min(max(1.0, wait), _LONGEST_WAIT) for wait in (deadline, retry) if wait is not None]
    return min(waits, default=None)


# --- children ---------------------------------------------------------------


def _next_step(observed: Observed, now: datetime, settings: Settings, using: Framework) -> _Step:
    job, jobset = observed.trainjob, observed.jobset
    if jobset is not None and jobset.deleting:
        return _Step(blocked=causes.standing(job), wait=RETRY_SECONDS)
    if jobset is not None and jobset.owner_uid != job.uid:
        return _foreign_step(job, jobset, now)
    queued = queueing.holds(job, jobset, settings)
    if queued and jobset is not None:
        # Also of one that still runs: Kueue may not have suspended it before it is resumed.
        step = _activation_step(observed, jobset, now)
        if step is not None:
            return step
    if jobset is not None and not jobset.suspend and not job.suspended:
        return _running_step(observed, jobset, now, settings)
    if queued and jobset is not None and not jobset.suspend:
        return _Step()  # Kueue is about to suspend it.
    if isinstance(observed.runtime, RuntimeProblem):
        # A JobSet that is suspended or resumed as wanted needs no runtime now, nor does its suspension.
        if jobset is not None and _suspended_as_wanted(job, jobset, queued=queued):
            return _Step()
        if jobset is not None and not jobset.suspend:
            return _unless_rejected(_Step(writes=(job_recreation.suspension(jobset),)), observed, now)
        return _Step(blocked=causes.runtime_missing(job, observed.runtimes))
    step = _children_step(observed, observed.runtime, now, settings, using, queued=queued)
    step = _unless_rejected(step, observed, now)
    if queued and jobset is not None and step == _Step() and queueing.waits(job, jobset):
        return _waiting_step(observed)
    if step.writes:
        return replace(step, events=causes.other_content(observed))
    if jobset is not None and not jobset.suspend and step.needs is None:
        # It is to be suspended. What keeps it from its desired content must not let its pods run on.
        return replace(step, writes=(job_recreation.suspension(jobset),))
    return step


def _foreign_step(job: TrainJob, jobset: JobSet, now: datetime) -> _Step:
    """The JobSet of an earlier TrainJob of this name is most often about to be removed with it."""
    if jobset.of_namesake and abs(now - job.created) < _COLLECT_PATIENCE:
        return _Step(wait=COLLECT_SECONDS)
    return _Step(blocked=causes.foreign(names.JOBSET, jobset.name))


def _activation_step(observed: Observed, jobset: JobSet, now: datetime) -> _Step | None:
    """The write to its Workload, if one is due.

    The status says that it is suspended before its Workload is deactivated, and until that is activated:
    nothing else tells an operator that has just started to activate it.
    """
    job = observed.trainjob
    reported = conditions.is_true(conditions.of(job.status), names.SUSPENDED)
    activation = queueing.activation(
        job, jobset, reported=reported, deactivated=observed.deactivated, waited=observed.waited
    )
    if activation is None:
        return None
    # If the Workload is as it should be, nothing is written, and nothing else leads here again.
    step = _unless_rejected(_Step(writes=(activation,), wait=RETRY_SECONDS), observed, now)
    if step.blocked is not None:
        return replace(step, stays_suspended=activation.active)
    return step if reported or activation.active else _Step(wait=_REPORTED_SECONDS)


def _waiting_step(observed: Observed) -> _Step:
    """It waits for its queue, most often for jobs that end; the message tells if it can never run."""
    standing = causes.standing(observed.trainjob, quota.REASONS)
    if standing is None and observed.waited < queueing.PATIENCE:
        return _Step(wait=queueing.PATIENCE - observed.waited)
    if observed.queues_unread:
        return _Step(blocked=standing, wait=RETRY_SECONDS)
    if observed.hopeless is None:
        return _Step(needs=Needs(hopeless=True))
    return _Step(blocked=next(iter(observed.hopeless), None), wait=_QUEUE_SECONDS)


def _children_step(
    observed: Observed, runtime: Runtime, now: datetime, settings: Settings, using: Framework, *, queued: bool
) -> _Step:
    """Writes that bring the children of a TrainJob that does not run to their desired state."""
    jobset = observed.jobset
    if jobset is not None and _is_counted_otherwise(observed, jobset, runtime, settings):
        if any(counts.active for counts in jobset.replicated_jobs_status):
            return _Step()  # Its pods are about to end.
        outdated = replace(_deletion(jobset), resource_version=jobset.resource_version, foreground=True)
        return _Step(writes=(outdated,))
    settings, job = child_annotations.as_begun(settings, jobset), retries.as_begun(observed.trainjob, jobset)
    try:
        using.require_implemented(runtime)
        info = using.info(job, runtime, settings)
        children = using.children_of(info)
        if queueing.counts_live_runtime(job, jobset, settings):
            _require_counted(info, using)
    except UnsupportedPolicyError as error:
        return _Step(blocked=causes.policy_unsupported(runtime, str(error), using))
    except InvalidFieldError as error:
        return _Step(blocked=causes.runtime_invalid(runtime, str(error)))

    (manifest,) = (child.manifest for child in children if child.manifest["kind"] == names.JOBSET)
    beside = [child for child in children if child.manifest["kind"] != names.JOBSET]
    if beside and observed.companions is None:
        return _Step(needs=Needs(companions=tuple(_identity(child.manifest) for child in beside)))
    first = _companions_step(observed, beside, now)
    if first.blocked is not None or first.wait is not None:
        return first
    if settings.queue_holds_jobset:
        manifest = queueing.queued(manifest, job, jobset)
    bring = _queued_step if queued else _jobset_step
    return bring(observed, runtime, manifest, first.writes, settings)


def _unless_rejected(step: _Step, observed: Observed, now: datetime) -> _Step:
    asks = bool(step.writes) or step.needs == Needs(jobs=True)
    if asks and observed.rejection is not None and _is_recent(observed.rejection, now):
        return _Step(blocked=causes.rejected(observed.rejection))
    return step


def _suspended_as_wanted(job: TrainJob, jobset: JobSet, *, queued: bool) -> bool:
    if queued:
        return job.suspended or not queueing.is_gated(jobset)
    return jobset.suspend == job.suspended


def _running_step(observed: Observed, jobset: JobSet, now: datetime, settings: Settings) -> _Step:
    """Nothing but labels while something runs; else it reports what is refused, and renews the JobSet."""
    relabelling = queueing.relabelling(observed.trainjob, jobset, settings)
    if relabelling is not None:
        return _unless_rejected(_Step(writes=(relabelling,)), observed, now)
    if not refusals.is_idle(jobset):
        return _Step(blocked=_starts(observed, jobset))
    standing = causes.standing(observed.trainjob)
    if standing is None and observed.idle < refusals.PATIENCE:
        return _Step(wait=refusals.PATIENCE - observed.idle)
    if observed.refused is None:
        return _Step(needs=Needs(refused=True))
    if not observed.refused:
        return _Step(wait=RETRY_SECONDS)
    has_run = refusals.has_run(jobset, observed.refused, _blocked_since(observed.trainjob, standing))
    blocked = causes.refused(observed.refused, standing, has_run=has_run)
    if standing is None or has_run or not _is_outdated(jobset, observed.newest):
        return _Step(blocked=blocked)
    outdated = replace(_deletion(jobset), resource_version=jobset.resource_version, foreground=True)
    return _Step(writes=(outdated,), blocked=blocked)


def _starts(observed: Observed, jobset: JobSet) -> Cause | None:
    """What the pods of a JobSet that starts wait for; the last message until the pods are listed again."""
    if not display_state.has_unready(counts_of(jobset)):
        return None
    standing = causes.standing(observed.trainjob, pod_readiness.REASONS)
    cause = standing if observed.starts is None else next(iter(observed.starts), None)
    # The kubelet words the same differently as it tries again.
    same = cause is not None and standing is not None and cause.reason == standing.reason
    return standing if same else cause


def _blocked_since(job: TrainJob, standing: Cause | None) -> datetime | None:
    blocked = conditions.find(conditions.of(job.status), names.BLOCKED)
    return None if standing is None or blocked is None else conditions.moment(blocked["lastTransitionTime"])


def _is_counted_otherwise(observed: Observed, jobset: JobSet, runtime: Runtime, settings: Settings) -> bool:
    """Whether Kueue counts the pods of the JobSet by other content of the runtime than it was built from."""
    counts_live = queueing.counts_live_runtime(observed.trainjob, jobset, settings)
    return counts_live and runtime.revision is None and _is_outdated(jobset, runtime)


def _require_counted(info: Info, using: Framework) -> None:
    """Raises `InvalidFieldError` if its pods would have what Kueue does not count: admission may not have
    seen the runtime as it is now."""
    if errors := tuple(counted_by_kueue.errors(info, using.trainers(info))):
        raise InvalidFieldError(*errors)


def _is_outdated(jobset: JobSet, newest: Runtime | None) -> bool:
    """Whether the runtime's content now differs from what the JobSet was built from."""
    built_from = jobset.annotations.get(names.RUNTIME_REVISION_ANNOTATION)
    return newest is not None and built_from is not None and built_from != revisions.name_of(newest)


def _deletion(jobset: JobSet) -> Delete:
    return Delete(names.JOBSET_API_VERSION, names.JOBSET, jobset.namespace, jobset.name, jobset.uid)


def _identity(manifest: Json) -> Identity:
    return Identity(manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"])


def _companions_step(observed: Observed, children: Sequence[Child], now: datetime) -> _Step:
    """Writes that bring the companions to their desired state."""
    job = observed.trainjob
    seen = {companion.identity: companion for companion in observed.companions or ()}
    writes: list[Write] = []
    for child in children:
        manifest = child_annotations.labelled(child.manifest, job)
        companion = seen.get(_identity(manifest))
        if companion is None:
            writes.append(Create(manifest, child.generated))
        elif companion.deleted is not None and now - companion.deleted > _COLLECT_PATIENCE:
            return _Step(blocked=causes.kept(companion, companion.deleted))
        elif companion.deleted or (companion.owner_uid != job.uid and companion.of_trainjob == job.name):
            # It is removed with the earlier TrainJob of this name.
            return _Step(wait=COLLECT_SECONDS)
        elif companion.owner_uid != job.uid:
            return _Step(blocked=causes.foreign(companion.kind, companion.name))
        elif child.generated is None and child_annotations.digest(
            companion.annotations
        ) != child_annotations.digest(manifest["metadata"]["annotations"]):
            writes.append(Update(manifest, companion.uid, companion.resource_version))
    return _Step(writes=tuple(writes))


def _queued_step(
    observed: Observed, runtime: Runtime, manifest: Json, first: tuple[Write, ...], settings: Settings
) -> _Step:
    """Writes that bring a queued JobSet to its desired state, except `suspend`."""
    revision, record = _revision(runtime)
    marked = _marked(manifest, observed, revision, settings)
    jobset = observed.jobset
    if jobset is None:
        return _Step(writes=(*record, *first, Create(queueing.with_suspend(marked, True))))
    if jobset.generation > 1 and not observed.jobset_checked:
        # It may have run, and its Jobs have what Kueue had put into its templates.
        if observed.jobs is None:
            return _Step(needs=Needs(jobs=True))
        deletions = job_recreation.of_the_queue(marked, observed.jobs)
        if deletions is None or deletions:
            return _Step(writes=deletions or (), wait=COLLECT_SECONDS)
    if _is_as(observed, marked) and jobset.queue == queueing.queue_of(marked, jobset):
        return _Step(writes=(*record, *first) if first else ())
    update = Update(queueing.with_suspend(marked, True), jobset.uid, jobset.resource_version)
    return _Step(writes=(*record, *first, update))


def _jobset_step(
    observed: Observed, runtime: Runtime, manifest: Json, first: tuple[Write, ...], settings: Settings
) -> _Step:
    """Writes that bring the JobSet to its desired state, after its companions."""
    revision, record = _revision(runtime)
    marked = _marked(manifest, observed, revision, settings)
    jobset = observed.jobset
    if jobset is None or not job_recreation.is_due(jobset, marked):
        return _Step(writes=_writes(observed, record, first, marked))
    held = _marked(queueing.with_suspend(manifest, True), observed, revision, settings)
    if writes := _writes(observed, record, first, held):
        return _Step(writes=writes, wait=COLLECT_SECONDS)
    if observed.jobs is None:
        return _Step(needs=Needs(jobs=True))
    deletions = job_recreation.deletions(jobset, marked, observed.jobs)
    if deletions is None:
        return _Step(wait=COLLECT_SECONDS)
    return _Step(writes=deletions or _writes(observed, record, first, marked))


def _revision(runtime: Runtime) -> tuple[str | None, tuple[Write, ...]]:
    """The name of the runtime's revision, and what records it if it is not recorded yet."""
    if runtime.revision is not None or not runtime.uid:
        return runtime.revision, ()
    name = revisions.name_of(runtime)
    return name, (RecordRevision(runtime, name),)


def _marked(manifest: Json, observed: Observed, revision: str | None, settings: Settings) -> Json:
    """The JobSet with its marks. Where Kueue may suspend it, the digest leaves `spec.suspend` out."""
    jobset = observed.jobset
    restarts = retries.max_restarts(observed.trainjob) if jobset is None else retries.noted(jobset)
    if not settings.queue_holds_jobset:
        return child_annotations.built(manifest, revision, settings, restarts)
    marked = child_annotations.built(queueing.with_suspend(manifest, False), revision, settings, restarts)
    return queueing.with_suspend(marked, manifest["spec"]["suspend"])


def _writes(
    observed: Observed, record: tuple[Write, ...], first: tuple[Write, ...], marked: Json
) -> tuple[Write, ...]:
    """Writes that turn the JobSet into this manifest, in order; empty if nothing has to change."""
    jobset = observed.jobset
    if jobset is None:
        return (*record, *first, Create(marked))
    if _is_as(observed, marked) and jobset.suspend == marked["spec"]["suspend"]:
        return (*record, *first) if first else ()
    return (*record, *first, Update(job_recreation.over(jobset, marked), jobset.uid, jobset.resource_version))


def _is_as(observed: Observed, marked: Json) -> bool:
    """Whether the JobSet is known to be what the manifest says, but for `spec.suspend`."""
    jobset = observed.jobset
    return (
        jobset is not None
        and observed.jobset_checked
        and child_annotations.digest(jobset.annotations)
        == child_annotations.digest(marked["metadata"]["annotations"])
    )


def _is_recent(rejection: Rejection, now: datetime) -> bool:
    # A clock that was set back puts the refusal into the future.
    return rejection.at is None or abs(now - rejection.at) < timedelta(seconds=RETRY_SECONDS)
