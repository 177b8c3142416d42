"""The webhooks: upstream's paths over HTTPS, on every replica.

`Decider` answers a request, from the caches and with `validation`; the
`WebhookServer` accepts requests from the network and lets none do harm:
connections, bodies and times have bounds, and what cannot be answered gets a
code and one line.

Every path has the same door: it checks an object's depth, size and number of values first, unless they stay
as they were.

Most reviews are small and are answered in the event loop. A large one, or a
TrainJob on a large runtime, is read and judged in a thread, one at a time: the
loop continues and answers "not answered in time" when the time is up, and
small reviews do not wait for large ones. A thread cannot be stopped, so only
the door makes its work end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import ParamSpec, TypeVar

import msgspec
from aiohttp import web

from trainyard_api import capacity, json_reader, names, runtime_ref
from trainyard_api.errors import FieldError, FieldPath, InvalidFieldError
from trainyard_api.rate import Buckets
from trainyard_api.webhook_paths import HOLD_TRAINJOB, MUTATE_TRAINJOB, POLICIES, VALIDATE
from trainyard_kube.client import ApiError, Client, NotFoundError, RetriableError, is_name
from trainyard_kube.resources import JOBSETS
from trainyard_policies import cluster
from trainyard_policies.engine import RuleError
from trainyard_policies.parameters import KUEUE
from trainyard_policies.settings import Policies

from ..core import model
from ..core.admit import admission_review, dry_run_objects, limits, suspended_on_create, validation
from ..core.admit.admission_review import MalformedError, Request
from ..core.admit.limits import DEFAULT, Limits
from ..core.admit.validation import Answer
from ..core.build import info
from ..core.decide import reconcile, revisions
from ..core.decide.views import RuntimeKey, jobset_of, runtime_key
from ..core.packed import Packed
from ..metrics import Metrics
from ..watch.cache import Cache, Key
from ..work.queues import Queues
from ..work.runtimes import Runtimes
from .bodies import Bodies, RefusedBodyError
from .budget import Budget
from .connections import Bounds
from .dry_runs import Trials, Tried
from .tls_server import TlsServer

logger = logging.getLogger(__name__)

ANSWER_TIMEOUT = 4.0
"""Seconds; together with those for the body, less than the 10 s after which the API server gives up."""
QUEUES_TIMEOUT = 1.0
"""Seconds that an answer waits for what it only warns about."""
MAX_READ = 48 * 1024 * 1024
"""Bytes of memory of all reviews, once they are read."""
SMALL = 32 * 1024
"""Bytes of a review that is answered in the event loop."""
LOOKS_QPS, LOOKS_BURST = 20.0, 200
"""Reads of the API server for all callers, who need not be authenticated. A runtime that
exists but is not in the cache was created within the last second, so honest callers need
few."""
LOOKS_FOR_ONE_QPS, LOOKS_FOR_ONE_BURST = 0.2, 20
"""Of these, reads of one runtime."""
KEEPALIVE = 300.0
"""Seconds; longer than the API server keeps an idle connection, so that it is the one to close it."""

_SPEC = FieldPath("spec")
_OF_THE_CLUSTER = "default"
"""The namespace in which runtimes without one are tried; every cluster has it."""
_UNEXPECTED = "unexpected error, see the operator's log"

Decide = Callable[[Request], Awaitable[model.Json]]
P = ParamSpec("P")
T = TypeVar("T")


class Aside:
    """Runs work for the event loop in one thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="admission")

    async def run(self, size: int, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call it, in the thread if `size` is more than `SMALL` bytes."""
        if size <= SMALL:
            return call(*args, **options)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(call, *args, **options))


class Decider:
    """Answers requests about TrainJobs and runtimes; by the rules too, if there are `policies`.

    With `trials` it has Kubernetes judge their Jobs and JobSets if the rules refuse nothing, and with
    `queues` it tells a TrainJob that its queue can never admit.

    `synced` says whether the caches hold everything: until then JobSets are
    read from the API server.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        runtimes: Runtimes,
        *,
        synced: Callable[[], bool],
        allowed: Limits = DEFAULT,
        settings: Callable[[], info.Settings] = lambda: info.DEFAULT_SETTINGS,
        policies: Policies | None = None,
        trials: Trials | None = None,
        queues: Queues | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._cache = cache
        self._runtimes = runtimes
        self._synced = synced
        self._allowed = allowed
        self._settings = settings
        self._policies = policies
        self._now = now
        self._aside = Aside()
        self._trials = trials
        self._queues = queues
        self._looks: Buckets[None] = Buckets(LOOKS_QPS, LOOKS_BURST, clock=clock)
        self._looks_for_one: Buckets[RuntimeKey] = Buckets(
            LOOKS_FOR_ONE_QPS, LOOKS_FOR_ONE_BURST, clock=clock
        )

    def hold_to(self, policies: Policies) -> None:
        """From now on go by other policies; only where there were some at the start."""
        self._policies = policies

    def routes(self) -> dict[str, tuple[str, Decide]]:
        """By path: the kind that it is for, and who decides about what passes the door."""
        kinds = (names.TRAINJOB, names.TRAINING_RUNTIME, names.CLUSTER_TRAINING_RUNTIME)
        held = {f"{POLICIES}{kind.lower()}": (kind, self.hold_to_policies) for kind in kinds}
        paths: dict[str, tuple[str, Decide]] = {
            MUTATE_TRAINJOB: (names.TRAINJOB, self.default_trainjob),
            HOLD_TRAINJOB: (names.TRAINJOB, self.hold_trainjob),
            f"{VALIDATE}trainjob": (names.TRAINJOB, self.validate_trainjob),
            f"{VALIDATE}trainingruntime": (names.TRAINING_RUNTIME, self.validate_runtime),
            f"{VALIDATE}clustertrainingruntime": (names.CLUSTER_TRAINING_RUNTIME, self.validate_runtime),
            **(held if self._policies is not None else {}),
        }
        return {path: (kind, self._behind_the_door(decide)) for path, (kind, decide) in paths.items()}

    def _behind_the_door(self, decide: Decide) -> Decide:
        async def decided(request: Request) -> model.Json:
            await self._aside.run(request.size, self._require_small, request)
            return await decide(request)

        return decided

    def _require_small(self, request: Request) -> None:
        """Raises `InvalidFieldError` for what is too large in what a request creates or changes."""
        errors: tuple[FieldError, ...]
        if request.kind == names.TRAINJOB:
            job, old = self._trainjobs(request)
            errors = validation.too_large(job, old, self._allowed)
        else:
            runtime, before = _runtimes(request)
            errors = validation.runtime_too_large(runtime, before, self._allowed)
        if errors:
            raise InvalidFieldError(*errors)

    def _small(self, kind: str, manifest: model.Json) -> model.Json | None:
        """An object that keeps the limits; None for one that was stored before they held."""
        spec = json_reader.mapping(manifest.get("spec"), _SPEC)
        sizes = limits.sizes_of_trainjob if kind == names.TRAINJOB else limits.sizes_of_runtime
        try:
            return None if any(sizes(spec, self._allowed)) else manifest
        except InvalidFieldError:
            return None

    def _trainjobs(self, request: Request) -> tuple[model.TrainJob, model.TrainJob | None]:
        now = self._now()
        old = None if request.old is None else admission_review.trainjob(request, request.old, now)
        return admission_review.trainjob(request, request.manifest, now), old

    async def default_trainjob(self, request: Request) -> model.Json:
        """What Trainer's defaulter does; see `admission_review.defaults`."""
        patch = await self._aside.run(
            request.size, admission_review.defaults, request.manifest, request.old, self._now()
        )
        return admission_review.allowed(request, patch)

    async def hold_trainjob(self, request: Request) -> model.Json:
        """Hold a job that is created suspended in a queue, until it is resumed; see `suspended_on_create`."""
        patch = await self._aside.run(request.size, suspended_on_create.patch, request.manifest, request.old)
        return admission_review.allowed(request, patch)

    async def validate_trainjob(self, request: Request) -> model.Json:
        """The answer of `validation.validate`, for the runtime that the job is built from."""
        job, old = self._trainjobs(request)
        jobset = None if old is None else await self._jobset(job)
        runtime, is_known = await self._runtime(job, jobset)
        answer = await self._aside.run(
            request.size + _size(runtime),
            validation.validate,
            job,
            old,
            runtime,
            jobset,
            of_the_other_kind=runtime is None and self._is_of_the_other_kind(job),
            runtimes=self._cache.named_like(runtime_key(job)) if runtime is None else (),
            queues=await self._queues_of(job) if old is None else None,
            allowed=self._allowed,
            settings=self._settings(),
            by_kueue=request.user in self._controllers(),
        )
        if answer.errors and not is_known:
            raise _TooManyLooksError
        return _answered(request, answer)

    async def validate_runtime(self, request: Request) -> model.Json:
        """The answer of `validation.validate_runtime`; no if its namespace has too many revisions."""
        runtime, old = _runtimes(request)
        answer = await self._aside.run(
            request.size, validation.validate_runtime, runtime, old, allowed=self._allowed
        )
        changed = old is None or old.spec != runtime.spec
        if runtime.namespace is not None and changed and not answer.errors:
            errors = tuple(limits.of_revisions(self._runtimes.named_in(runtime.namespace)))
            answer = replace(answer, errors=errors)
        return _answered(request, answer)

    async def hold_to_policies(self, request: Request) -> model.Json:
        """What the rules say; see `trainyard_policies.cluster`."""
        policies = self._policies
        if policies is None:
            return admission_review.allowed(request)
        value, old = request.manifest, request.old
        if old is not None:
            if await self._aside.run(request.size, self._small, request.kind, value) is None:
                return admission_review.allowed(request)  # the door has let it pass: it is as it was
            old = await self._aside.run(request.size, self._small, request.kind, old)
        today = self._now().date()
        answer = await self._aside.run(
            request.size, cluster.answer, value, old, request.user, today, policies
        )
        refusals = answer.refusals
        may_anything = request.user in policies.parameters.controllers
        if self._trials is not None and not refusals and not may_anything:
            refusals = await self._refused_by_kubernetes(request, value, old, self._trials)
        if refusals:
            return admission_review.refused(request, 403, "Forbidden", "; ".join(refusals), answer.warnings)
        return admission_review.allowed(request, advice=answer.warnings)

    async def _refused_by_kubernetes(
        self, request: Request, value: model.Json, old: model.Json | None, trials: Trials
    ) -> tuple[str, ...]:
        """What Kubernetes would refuse of what is built from it, and would not have refused before."""
        if request.old is not None and (old is None or value.get("spec") == old.get("spec")):
            return ()
        tried = await self._tried(request, value)
        if tried is None:
            return ()
        before = None if old is None else await self._tried(request, old)
        run = partial(self._aside.run, request.size + _size(tried[1]))
        return await trials.refusals(tried, before, of_runtime=request.kind != names.TRAINJOB, run=run)

    async def _tried(self, request: Request, manifest: model.Json) -> Tried | None:
        """The TrainJob whose JobSet is tried, with its runtime; None if nothing of ours is built from it."""
        if request.kind != names.TRAINJOB:
            runtime = admission_review.runtime(request, manifest, request.kind)
            return dry_run_objects.trainjob_on(runtime, runtime.namespace or _OF_THE_CLUSTER), runtime
        job = admission_review.trainjob(request, manifest, self._now())
        if not reconcile.is_managed(job):
            return None
        try:
            jobset = None if request.old is None else await self._jobset(job)
            chosen, _ = await self._runtime(job, jobset)
        except ApiError:
            return None  # the validation of the job reports it
        if chosen is None:
            return None
        manifest = {"spec": chosen.spec}
        small = await self._aside.run(request.size + _size(chosen), self._small, chosen.kind, manifest)
        return None if small is None else (job, chosen)

    def _controllers(self) -> Collection[str]:
        return (KUEUE,) if self._policies is None else self._policies.parameters.controllers

    async def _jobset(self, job: model.TrainJob) -> model.JobSet | None:
        key = Key.of(job)
        seen = self._cache.jobsets.get(key)
        if seen is None and not self._synced():
            self._take_a_look()
            try:
                manifest = await self._client.get(JOBSETS.path(key.namespace, key.name))
                seen = jobset_of(msgspec.json.encode(manifest))
            except NotFoundError:
                return None
        if seen is None or seen.jobset.owner_uid != job.uid:
            return None
        return seen.jobset

    async def _runtime(
        self, job: model.TrainJob, jobset: model.JobSet | None
    ) -> tuple[model.Runtime | None, bool]:
        """What the job is built from, as `revisions.choose` says; its labels are the live one's.

        And whether that is known: not if the cache lacks it and too many requests look for runtimes now.
        """
        is_known = True

        def may_look(reference: RuntimeKey) -> bool:
            nonlocal is_known
            if not is_name(reference.name):
                return False
            is_known = self._looks_for_one.take(reference) == 0 and self._looks.take(None) == 0
            return is_known

        chosen = await self._runtimes.choose(job, jobset, may_look=may_look)
        return chosen.runtime if isinstance(chosen.runtime, model.Runtime) else None, is_known

    async def _queues_of(self, job: model.TrainJob) -> capacity.Queues | None:
        """All queues, for a TrainJob that one may hold; None if none can, or they are not known in time."""
        if self._queues is None or not self._settings().queue_holds_jobset:
            return None
        named = job.labels.get(names.QUEUE_LABEL, "")
        try:
            return await asyncio.wait_for(self._queues.all(job.namespace, named), QUEUES_TIMEOUT)
        except TimeoutError:
            return None

    def _is_of_the_other_kind(self, job: model.TrainJob) -> bool:
        _, kind, name = runtime_ref.of(job.spec)
        other = revisions.other_kind(kind)
        namespace = job.namespace if other == names.TRAINING_RUNTIME else None
        return RuntimeKey(other, namespace, name) in self._cache.runtimes

    def _take_a_look(self) -> None:
        if self._looks.take(None) > 0:
            raise _TooManyLooksError


class _TooManyLooksError(RetriableError):
    """Callers ask for more objects that are not in the cache than the operator looks for: their own doing."""

    def __init__(self) -> None:
        super().__init__("too many requests for objects that are not in the cache yet", code=429)


class WebhookServer(TlsServer):
    """Serves `routes`; see `TlsServer`."""

    title = "the webhook"

    def __init__(
        self,
        routes: dict[str, tuple[str, Decide]],
        metrics: Metrics,
        *,
        host: str | None = None,
        port: int = names.WEBHOOK_PORT,
        bodies: Bodies | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(host=host, port=port, bounds=Bounds(KEEPALIVE), now=now)
        self._routes = routes
        self._metrics = metrics
        self._bodies = Bodies() if bodies is None else bodies
        self._memory = Budget(MAX_READ)
        self._aside = Aside()

    def application(self) -> web.Application:
        """See `TlsServer`."""
        app = web.Application()
        for path, (kind, decide) in self._routes.items():
            app.router.add_post(path, self._handler(path, kind, decide))
        return app

    def _handler(
        self, path: str, kind: str, decide: Decide
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        webhook = path.lstrip("/").split("-", 1)[0] + "-" + kind.lower()

        async def handle(request: web.Request) -> web.Response:
            start = time.monotonic()
            answer, outcome = await self._answer(request, kind, decide)
            self._metrics.admissions.labels(webhook, outcome).inc()
            self._metrics.admission_seconds.observe(time.monotonic() - start)
            if self.closing:
                answer.force_close()
            return answer

        return handle

    async def _answer(self, request: web.Request, kind: str, decide: Decide) -> tuple[web.Response, str]:
        try:
            async with self._bodies.read(request) as body, asyncio.timeout(ANSWER_TIMEOUT):
                memory = admission_review.memory(body)
                if memory > self._memory.largest:
                    raise MalformedError(f"the body takes {memory} bytes to read: too many")
                async with self._memory.take(request.remote or "", memory):
                    return await self._decided(body, kind, decide)
        except RefusedBodyError as error:
            return _said(error.code, str(error), close=True), error.outcome
        except TimeoutError:
            return _said(504, "not answered in time", close=True), "timeout"
        except MalformedError as error:
            return _said(400, str(error)), "malformed"
        except RuleError as error:
            # The sentence has the line of a site's rule; a traceback may repeat all that a tenant wrote.
            logger.error("admission of a %s failed: %s", kind, error, exc_info=not error.rule.page)
            return _said(500, _UNEXPECTED), "failed"
        except Exception:
            logger.exception("admission of a %s failed", kind)
            return _said(500, _UNEXPECTED), "failed"

    async def _decided(self, body: bytearray, kind: str, decide: Decide) -> tuple[web.Response, str]:
        request = await self._aside.run(len(body), admission_review.read, body)
        if request.kind != kind:
            raise MalformedError(f"this path is for {kind}, not for the kind of the request")
        try:
            answer = (
                await decide(request)
                if admission_review.concerns(request)
                else admission_review.allowed(request)
            )
        except InvalidFieldError as error:
            answer = admission_review.denied(request, error.errors)
        except ApiError as error:
            logger.warning("admission of %s %s/%s: %s", kind, request.namespace, request.name, error)
            message = f"the objects that the {kind} references cannot be read now, try again: {error}"
            answer = admission_review.refused(request, 503, "ServiceUnavailable", message)
            return _reviewed(answer), "denied" if isinstance(error, _TooManyLooksError) else "unavailable"
        return _reviewed(answer), "allowed" if answer["response"]["allowed"] else "denied"


def _runtimes(request: Request) -> tuple[model.Runtime, model.Runtime | None]:
    old = None if request.old is None else admission_review.runtime(request, request.old, request.kind)
    return admission_review.runtime(request, request.manifest, request.kind), old


def _size(runtime: model.Runtime | None) -> int:
    """What a runtime adds to the work that a review makes, in bytes; without reading it, if it is packed."""
    if runtime is None:
        return 0
    return runtime.spec.length if isinstance(runtime.spec, Packed) else limits.size(runtime.spec)


def _answered(request: Request, answer: Answer) -> model.Json:
    if answer.errors:
        errors: tuple[FieldError, ...] = answer.errors
        return admission_review.denied(request, errors, answer.warnings)
    return admission_review.allowed(request, warnings=answer.warnings)


def _reviewed(answer: model.Json) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


def _said(code: int, message: str, *, close: bool = False) -> web.Response:
    response = web.Response(status=code, text=f"{message}\n")
    if close:
        response.force_close()
    return response
