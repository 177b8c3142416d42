"""One reconciliation of one TrainJob: observe, let the core decide, carry out its plan.

Called by the queue's workers. Decides nothing about TrainJobs itself; what it
adds to the core is order, memory of refusals, and the pace of status writes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from trainyard_api import names
from trainyard_api.reasons import Reason
from trainyard_kube.client import ApiError, ConflictError, RetriableError
from trainyard_kube.resources import JOBSETS, RUNTIMES

from ..core import model
from ..core.build import framework, info, plugins
from ..core.decide import causes, queueing, reconcile, revisions, same_failure
from ..core.decide.views import RuntimeKey, runtime_key, runtime_of, trainjob_of
from ..core.status import attempts, conditions, display_state
from ..metrics import Metrics
from ..watch.cache import Cache, Key, version
from ..watch.informer import State
from ..watch.pod_ends import PodEnds
from .apply import Applier, RefusedError
from .companions import Companions
from .events import Events
from .jobs import Jobs
from .memory import Memories, Memory, Refusal
from .milestones import Milestones
from .pods import Pods
from .queue import Queue, RetryError
from .queues import Queues
from .refusal_events import Refusals
from .runtimes import Runtimes

logger = logging.getLogger(__name__)

RETRY_REFUSED = 60.0
"""Seconds after which a refused write is tried again at the latest."""
KINDS = {resource.plural: kind for kind, resource in RUNTIMES.items()}
"""Of runtimes, by the plural."""


class Controller:
    """Everything between an event and a write.

    `working` says whether this replica's workers run: while they do not,
    nothing is queued, and everything is when they start. `leading` is checked
    before each write: a process that stood still may no longer lead, though
    its workers run. `settings` are read at each look: the status server's
    authority in them may be renewed.
    """

    def __init__(
        self,
        *,
        cache: Cache,
        queue: Queue[Key],
        applier: Applier,
        runtimes: Runtimes,
        memories: Memories,
        companions: Companions,
        jobs: Jobs,
        refusals: Refusals,
        queues: Queues,
        events: Events,
        pods: Pods,
        pod_ends: PodEnds,
        metrics: Metrics,
        working: Callable[[], bool],
        leading: Callable[[], bool] = lambda: True,
        settings: Callable[[], info.Settings] = lambda: info.DEFAULT_SETTINGS,
        using: framework.Framework = plugins.ALL,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.jobsets = State.STARTING
        self.unreadable: dict[tuple[str, Key | RuntimeKey], int] = {}
        """Objects that could not be read, and their version."""
        self.relisted: Callable[[], None] = lambda: None
        """Called when a stream has restarted and deletions may have been missed."""
        self.since = 0
        """The version that TrainJobs were at when this replica began to lead (see `_is_current`)."""
        self._cache = cache
        cache.wake = self.touched
        self._queue = queue
        self._applier = applier
        self._runtimes = runtimes
        self._companions = companions
        self._jobs = jobs
        self._refusals = refusals
        self._queues = queues
        self._events = events
        self._pods = pods
        self._pod_ends = pod_ends
        self._metrics = metrics
        self._working = working
        self._leading = leading
        self._settings = settings
        self._using = using
        self._now = now
        self._clock = clock
        self._memories = memories
        self._milestones = Milestones(metrics)
        self._dropped: set[str] = set()
        """Parts of our own field that the CRD lacks, so that they are not written."""

    def touched(self, key: Key) -> None:
        """Something that the TrainJob depends on has changed."""
        if self._working() and key in self._cache.trainjobs:
            self._queue.add(key)

    def everything(self) -> None:
        """Look at all TrainJobs again."""
        self._memories.begin_to_lead()
        for key in self._cache.trainjobs:
            self.touched(key)

    def jobsets_changed(self, state: State) -> None:
        """The JobSet informer has synced, or found that there is no such resource."""
        self.jobsets = state
        self.everything()

    def seen(self, plural: str, kind: str | None, manifest: Mapping[str, Any]) -> None:
        """An event of a TrainJob or runtime; `kind` is None for objects of a list."""
        if kind is None:
            self.relisted()
        try:
            if plural == names.TRAINJOBS:
                self._seen_trainjob(kind, manifest)
            else:
                self._seen_runtime(plural, kind, manifest)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            metadata = manifest.get("metadata") or {}
            key: Key | RuntimeKey
            if plural == names.TRAINJOBS:
                key = Key(metadata.get("namespace", ""), metadata.get("name", ""))
            else:
                key = RuntimeKey(KINDS[plural], metadata.get("namespace"), metadata.get("name", ""))
            self.unreadable[plural, key] = version(str(metadata.get("resourceVersion")))
            logger.error("%s %s cannot be read: %r", plural, key, error)

    def _seen_trainjob(self, kind: str | None, manifest: Mapping[str, Any]) -> None:
        trainjob = trainjob_of(manifest)
        key = Key.of(trainjob)
        self.unreadable.pop((names.TRAINJOBS, key), None)
        if kind == "DELETED":
            self._cache.trainjobs.remove(key, uid=trainjob.uid, resource_version=trainjob.resource_version)
        else:
            self._cache.trainjobs.observe(key, trainjob)

    def _seen_runtime(self, plural: str, kind: str | None, manifest: Mapping[str, Any]) -> None:
        runtime = runtime_of(manifest, KINDS[plural])
        key = RuntimeKey(runtime.runtime.kind, runtime.runtime.namespace, runtime.runtime.name)
        self.unreadable.pop((plural, key), None)
        if kind == "DELETED":
            self._cache.runtimes.remove(key, uid=runtime.uid, resource_version=runtime.resource_version)
        else:
            self._cache.runtimes.observe(key, runtime)

    def vanished(self, key: Key, at: str) -> None:
        """A TrainJob is in no list of this version."""
        self.unreadable.pop((names.TRAINJOBS, key), None)
        if self._cache.trainjobs.gone(key, resource_version=at):
            logger.info("%s has vanished", key)

    def runtime_vanished(self, plural: str, key: RuntimeKey, at: str) -> None:
        """A runtime is in no list of this version."""
        self.unreadable.pop((plural, key), None)
        self._cache.runtimes.gone(key, resource_version=at)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one TrainJob; returns the seconds until the next look."""
        start = self._clock()
        try:
            return await self._reconcile(key)
        except RetryError as retry:
            self._metrics.reconcile_errors.labels("conflict").inc()
            logger.info("%s: %s, looking again", key, retry.reason)
            raise
        except ConflictError as conflict:
            self._metrics.reconcile_errors.labels("conflict").inc()
            logger.info("%s: %s", key, conflict)
            raise RetryError(str(conflict)) from conflict
        except ApiError as error:
            self._metrics.reconcile_errors.labels("api").inc()
            logger.warning("%s: %s", key, error)
            at_least = error.retry_after if isinstance(error, RetriableError) else None
            raise RetryError(str(error), at_least=at_least or 0.0) from error
        finally:
            self._metrics.reconcile_seconds.observe(self._clock() - start)

    async def _reconcile(self, key: Key) -> float | None:
        trainjob = self._cache.trainjobs.get(key)
        if trainjob is None:
            return None
        memory = self._memories.of(trainjob)
        observed, plan = await self._decided(memory, await self._observe(memory, trainjob))
        if plan.writes and not await self._is_current(memory, observed):
            self._queue.add(key)
            return None
        refused = checked = False
        written = []
        held = memory.undone.wait(plan.writes, self._clock())
        for write in () if held else plan.writes:
            self._must_lead()
            try:
                done = await self._applier.write(key, write)
            except RefusedError as refusal:
                refused = True
                plan = self._plan_after(memory, observed, write, refusal.rejection)
                break
            memory.wrote(write, done)
            if not done.changed:
                # What waits in a queue is reported of a JobSet that nobody has edited.
                checked = checked or (done.checked_jobset is not None and bool(memory.waiting_since))
                continue
            written.append(done)
            self._metrics.writes.labels(type(write).__name__).inc()
            self._milestones.wrote(memory, trainjob, write, self._now())
            if isinstance(write, model.Update) and (pause := memory.undone.wrote(write, self._clock())):
                self._metrics.writes_undone.inc()
                await self._events.post(trainjob, causes.undone(write.manifest, done.other, pause))
        if written and not refused:
            memory.refusal = None
        if checked and not written and not refused:
            self._queue.add(key)  # decided before it was known that nobody has edited the JobSet: look again
            return None
        look = await self._look_at_pods(memory, observed, plan)
        if memory.starts != observed.starts and not plan.writes:
            plan = self._plan(replace(observed, starts=memory.starts))
        if plan.needs is not None:
            self._queue.add(key)  # time has passed since what it needs was read: look again
            return None
        waiting = await self._write_status(memory, observed, plan)
        for note in (*plan.events, *self._failures(memory, observed, waiting), *memory.unschedulable()):
            await self._events.post(trainjob, note)
        if written and not refused:
            memory.companions = tuple(done.companion for done in written if done.companion is not None)
            self._queue.add(key)  # decided before these writes: look again
        retry = RETRY_REFUSED if memory.refusal is not None else None
        again = (plan.requeue_after, look, waiting, retry, held or None)
        return min((seconds for seconds in again if seconds is not None), default=None)

    async def _decided(self, memory: Memory, observed: model.Observed) -> tuple[model.Observed, model.Plan]:
        """What was observed, with more of it read as long as the plan needs more, and the plan for it."""
        written = {companion.identity: companion for companion in memory.companions}
        memory.companions = ()
        plan = self._plan(observed)
        while plan.needs is not None:
            observed = await self._with(memory, observed, plan.needs, written)
            plan = self._plan(observed)
        return observed, plan

    async def _with(
        self,
        memory: Memory,
        observed: model.Observed,
        needs: model.Needs,
        written: Mapping[model.Identity, model.Companion],
    ) -> model.Observed:
        """What was observed, and what the plan needs; the companions in `written` are not read again."""
        jobset = observed.jobset
        if needs.companions or jobset is None:
            look = await self._companions.find(observed.trainjob.namespace, needs.companions, written)
            companions = tuple(memory.complete(companion) for companion in look.companions)
            return replace(observed, companions=companions, rejection=look.rejection or observed.rejection)
        if needs.jobs:
            return await self._with_jobs(observed, jobset)
        if needs.refused:
            return await self._with_refused(observed, jobset)
        hopeless = await self._queues.hopeless(observed, jobset, self._settings(), self._using)
        return replace(observed, hopeless=hopeless, queues_unread=hopeless is None)

    async def _is_current(self, memory: Memory, observed: model.Observed) -> bool:
        """Whether what is known of the TrainJob is recent enough to write to its children.

        Only this replica can have finished a TrainJob written since it leads.
        For an older one, the cache may show a past in which another leader had
        not finished it yet. And a JobSet that is gone may have been deleted
        with its TrainJob, which another stream reports. In both cases the
        TrainJob is read once from the API server itself, and False says to
        decide again.
        """
        trainjob = observed.trainjob
        lost = observed.jobset is None and memory.had_jobset
        old = version(trainjob.resource_version) <= self.since and not memory.confirmed
        if not lost and not old:
            return True
        await self._applier.refresh_trainjob(Key.of(trainjob))
        memory.had_jobset = False
        memory.confirmed = True
        return False

    def _must_lead(self) -> None:
        if not self._leading():
            raise RetryError("another replica may hold the Lease by now")

    def _plan(self, observed: model.Observed) -> model.Plan:
        return reconcile.reconcile(observed, self._now(), self._settings(), self._using)

    async def _observe(self, memory: Memory, trainjob: model.TrainJob) -> model.Observed:
        key = Key.of(trainjob)
        seen = self._cache.jobsets.get(key)
        if not _builds(trainjob):
            jobset = None if seen is None else seen.jobset
            return model.Observed(trainjob, model.RuntimeProblem.NOT_FOUND, jobset)
        if seen is not None and seen.jobset.owner_uid != trainjob.uid and memory.foreign_jobset != seen.uid:
            # Most likely of an earlier TrainJob, and its deletion has not been reported yet.
            memory.foreign_jobset = seen.uid
            seen = await self._applier.refresh_jobset(key)
        jobset = self._cache.ended(trainjob) if seen is None else memory.complete(seen.jobset)
        if jobset is not None and jobset.owner_uid == trainjob.uid:
            memory.had_jobset = True
        counts_live = queueing.counts_live_runtime(trainjob, jobset, self._settings())
        chosen = await self._runtimes.choose(trainjob, jobset, counts_live=counts_live)
        return model.Observed(
            trainjob=trainjob,
            runtime=chosen.runtime,
            runtimes=self._names_like(trainjob, chosen.runtime),
            jobset=jobset,
            rejection=self._rejection(memory, trainjob, chosen.runtime),
            runtime_revision_lost=chosen.lost,
            runtime_renewed=chosen.renewed,
            idle=memory.idle(jobset, self._clock()),
            starts=memory.starts,
            waited=memory.waited(jobset, self._clock()),
            deactivated=memory.deactivated,
            attempts=self._attempts(trainjob, jobset),
            jobset_checked=jobset is None or not jobset.suspend or memory.is_checked(jobset),
        )

    def _names_like(
        self, trainjob: model.TrainJob, runtime: model.Runtime | model.RuntimeProblem
    ) -> Collection[str]:
        if runtime is not model.RuntimeProblem.NOT_FOUND:
            return ()
        return self._cache.named_like(runtime_key(trainjob))

    async def _with_jobs(self, observed: model.Observed, jobset: model.JobSet) -> model.Observed:
        try:
            return replace(observed, jobs=await self._jobs.of(jobset))
        except RefusedError as refused:
            return replace(observed, rejection=refused.rejection)

    async def _with_refused(self, observed: model.Observed, jobset: model.JobSet) -> model.Observed:
        try:
            refused = await self._refusals.of(jobset)
        except RefusedError as error:
            logger.warning("%s: could not read what blocks it: %s", Key.of(jobset), error)
            return replace(observed, refused=())
        live = self._cache.runtimes.get(runtime_key(observed.trainjob))
        return replace(observed, refused=refused, newest=None if live is None else live.runtime)

    def _rejection(
        self, memory: Memory, trainjob: model.TrainJob, runtime: model.Runtime | model.RuntimeProblem
    ) -> model.Rejection | None:
        if self.jobsets is State.MISSING:
            return model.Rejection(
                Reason.CRD_MISSING,
                f"the API server does not know {JOBSETS.full_name}",
                self._now(),
                JOBSETS.full_name,
            )
        if memory.refusal is None:
            return None
        rejection, inputs = memory.refusal
        served_again = rejection.resource == JOBSETS.full_name and self.jobsets is State.SYNCED
        if served_again or inputs != _digest(trainjob, runtime):
            memory.refusal = None
            return None
        return rejection

    def _plan_after(
        self, memory: Memory, observed: model.Observed, write: model.Write, rejection: model.Rejection
    ) -> model.Plan:
        """The plan after this write was refused: the plan before assumed that its writes succeed."""
        self._remember_refusal(memory, observed, rejection)
        plan = self._plan(replace(observed, rejection=rejection))
        if plan.writes and write not in plan.writes:
            self._queue.add(Key.of(observed.trainjob))  # something else is to be written in its place
        return plan

    def _remember_refusal(self, memory: Memory, observed: model.Observed, rejection: model.Rejection) -> None:
        self._metrics.reconcile_errors.labels("refused").inc()
        trainjob, before = observed.trainjob, memory.refusal
        if before is None or before.rejection.message != rejection.message:
            logger.warning("%s: %s: %s", Key.of(trainjob), rejection.reason, rejection.message)
        memory.refusal = Refusal(replace(rejection, at=self._now()), _digest(trainjob, observed.runtime))

    async def _look_at_pods(self, memory: Memory, observed: model.Observed, plan: model.Plan) -> float | None:
        """Look at its pods now and then while they start; returns the seconds to the next look."""
        trainjob, jobset = observed.trainjob, _own(observed)
        status = {**trainjob.status, **(plan.status or {})}
        if jobset is None or not _builds(trainjob) or not display_state.is_starting(trainjob, status, jobset):
            memory.start = None
            return None
        memory.start, due = await self._pods.follow(memory.start, jobset)
        return due

    def _attempts(self, trainjob: model.TrainJob, jobset: model.JobSet | None) -> tuple[model.Json, ...]:
        own = None if jobset is None or jobset.owner_uid != trainjob.uid else jobset
        ends = () if own is None else self._pod_ends.of(own)
        noted = attempts.of(trainjob, own)
        if not noted and not ends:  # of most jobs, no attempt fails
            return ()
        return same_failure.with_progress(trainjob, own, attempts.with_ends(noted, ends))

    def _failures(
        self, memory: Memory, observed: model.Observed, waiting: float | None
    ) -> tuple[model.EventNote, ...]:
        """Events about failed attempts, once each: until the status is written, another may be first."""
        jobset = _own(observed)
        if waiting is not None or not observed.attempts or jobset is None:
            return ()
        uid, before = memory.attempts
        recorded = frozenset(map(attempts.told, attempts.of(observed.trainjob, jobset)))
        memory.attempts = jobset.uid, frozenset(map(attempts.told, observed.attempts))
        return attempts.notes(recorded | before if uid == jobset.uid else recorded, observed.attempts)

    async def _write_status(self, memory: Memory, observed: model.Observed, plan: model.Plan) -> float | None:
        """Patch the status; returns the seconds to wait if it is not due yet."""
        trainjob = observed.trainjob
        status = self._with_ours(memory, observed, plan.status)
        if status is None:
            memory.pace.unchanged()
            return None
        if wait := memory.pace.wait(status, self._clock()):
            return wait
        self._must_lead()
        try:
            live = await self._applier.status(trainjob, status)
        except ApiError as error:
            if list(status) != [names.STATUS_FIELD] or _NOTHING_LEFT not in error.message:
                raise
            self._dropped |= set(status[names.STATUS_FIELD])
            return None
        if live is not None:
            kept = live.get(names.STATUS_FIELD) or {}
            ours = status.get(names.STATUS_FIELD) or {}
            self._dropped |= {name for name, value in ours.items() if value is not None and name not in kept}
        self._metrics.writes.labels("Status").inc()
        memory.pace.written(status, self._clock())
        if conditions.finished(conditions.of(status)):
            self._pod_ends.forget(Key.of(trainjob))
        self._milestones.wrote_status(memory, trainjob, status, self._now())
        return None

    def _with_ours(
        self, memory: Memory, observed: model.Observed, status: model.Json | None
    ) -> model.Json | None:
        """The patch with what changes in our own field: where the TrainJob stands, and the attempts."""
        trainjob = observed.trainjob
        if trainjob.deleting or not reconcile.is_managed(trainjob):
            return status
        ours = dict(display_state.changed(trainjob, status, _own(observed), memory.seen))
        if observed.attempts and observed.attempts != attempts.of(trainjob):
            ours["attempts"] = list(observed.attempts)
        ours = {name: value for name, value in ours.items() if name not in self._dropped}
        return {**(status or {}), names.STATUS_FIELD: ours} if ours else status


_NOTHING_LEFT = "should have at least 1 properties"
"""Of the refusal of a status of which a CRD that lacks our field has dropped everything."""


def _builds(trainjob: model.TrainJob) -> bool:
    """Whether the TrainJob may still need children, and so its runtime."""
    over = trainjob.deleting or conditions.finished(conditions.of(trainjob.status))
    return not over and reconcile.is_managed(trainjob)


def _own(observed: model.Observed) -> model.JobSet | None:
    """The JobSet, if it is the TrainJob's."""
    jobset = observed.jobset
    return jobset if jobset is not None and jobset.owner_uid == observed.trainjob.uid else None


def _digest(trainjob: model.TrainJob, runtime: model.Runtime | model.RuntimeProblem) -> str:
    """Of what children are built from: unchanged as long as a refused write would be the same."""
    content = revisions.name_of(runtime) if isinstance(runtime, model.Runtime) else str(runtime)
    return revisions.digest({"spec": dict(trainjob.spec), "runtime": content})


class SweptTrainJobs:
    """The TrainJobs of the cache, for the sweep."""

    def __init__(self, cache: Cache, controller: Controller, resource: Any) -> None:
        self.resource = resource
        self._cache = cache
        self._controller = controller

    def key(self, namespace: str | None, name: str) -> Key:
        """See `sweep.Swept`."""
        return Key(namespace or "", name)

    def versions(self) -> dict[Any, int]:
        """See `sweep.Swept`."""
        return _versions(self._cache.trainjobs, self._controller.unreadable, self.resource.plural)

    def version(self, key: Any) -> int:
        """See `sweep.Swept`."""
        return _version(
            self._cache.trainjobs.get(key), self._controller.unreadable, self.resource.plural, key
        )

    def vanished(self, key: Any, at: str) -> None:
        """See `sweep.Swept`."""
        self._controller.vanished(key, at)


class SweptRuntimes:
    """The runtimes of one kind in the cache, for the sweep."""

    def __init__(self, cache: Cache, controller: Controller, resource: Any) -> None:
        self.resource = resource
        self._cache = cache
        self._controller = controller

    def key(self, namespace: str | None, name: str) -> RuntimeKey:
        """See `sweep.Swept`."""
        return RuntimeKey(self.resource.kind, namespace, name)

    def versions(self) -> dict[Any, int]:
        """See `sweep.Swept`."""
        versions = _versions(self._cache.runtimes, self._controller.unreadable, self.resource.plural)
        return {key: number for key, number in versions.items() if key.kind == self.resource.kind}

    def version(self, key: Any) -> int:
        """See `sweep.Swept`."""
        return _version(self._cache.runtimes.get(key), self._controller.unreadable, self.resource.plural, key)

    def vanished(self, key: Any, at: str) -> None:
        """See `sweep.Swept`."""
        self._controller.runtime_vanished(self.resource.plural, key, at)


def _versions(store: Any, unreadable: Mapping[tuple[str, Any], int], plural: str) -> dict[Any, int]:
    versions = {key: version(store.get(key).resource_version) for key in store}
    versions |= {key: number for (of, key), number in unreadable.items() if of == plural}
    return versions


def _version(value: Any, unreadable: Mapping[tuple[str, Any], int], plural: str, key: Any) -> int:
    seen = -1 if value is None else version(value.resource_version)
    return max(seen, unreadable.get((plural, key), -1))
