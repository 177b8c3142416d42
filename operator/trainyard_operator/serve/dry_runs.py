"""Whether Kubernetes would accept what a TrainJob or a runtime becomes: the API server says so in dry runs.

Any answer but a refusal of what is in it (see `dry_run_objects`) lets the request pass:
a trial that fails keeps nobody from working. What has passed once is not tried
again, and the number of trials per second is bounded, so that a sender of TrainJobs cannot keep the API
server busy with them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from trainyard_api import json_reader, names
from trainyard_api.errors import FieldPath
from trainyard_api.rate import Buckets
from trainyard_kube.client import ApiError, Client
from trainyard_kube.messages import without_values
from trainyard_kube.resources import JOBS, JOBSETS

from ..core import model
from ..core.admit import dry_run_objects
from ..core.admit.dry_run_objects import Trial
from ..core.build import info
from ..core.decide import queueing

logger = logging.getLogger(__name__)

TIMEOUT: Final = 1.0
"""Seconds for all dry runs of one request; the API server answers in a hundredth of that."""
QPS, BURST = 20.0, 200
"""Dry runs, for all callers."""
TELL_AGAIN: Final = 60.0
"""Seconds between two lines of the log that say that no dry runs are left."""
MOST_PASSED: Final = 4_000
"""How many digests of what has passed are remembered: two for a TrainJob, and those of JobSets."""
_RESOURCES: Final = {resource.kind: resource for resource in (JOBS, JOBSETS)}
_UNSEEN: Final = frozenset({"suspend", "managedBy"})
"""Fields of a TrainJob's spec that do not reach its Jobs."""
_WORDS: Final = frozenset({"command", "args"})
"""Fields of a trainer in which Kubernetes accepts any text: a sweep is many TrainJobs that differ there."""


Run = Callable[..., Awaitable[Any]]
Tried = tuple[model.TrainJob, model.Runtime]


class _Keys(NamedTuple):
    """Digests of what a TrainJob's children are built from."""

    jobs: str
    everything: str
    """Of these and the JobSet, with what Kueue reads of the TrainJob where its queues hold JobSets."""

    def of(self, tried: Trial) -> str:
        """What is remembered when this has passed."""
        return tried.digest or self.jobs


class Trials:
    """Asks the API server. Use in one event loop."""

    def __init__(
        self,
        client: Client,
        settings: Callable[[], info.Settings],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._settings = settings
        self._passed: dict[str, None] = {}
        self._runs: Buckets[None] = Buckets(QPS, BURST, clock=clock)
        self._told: set[str] = set()
        self._clock = clock
        self._tell_again = 0.0

    async def refusals(
        self, tried: Tried, before: Tried | None, *, of_runtime: bool, run: Run
    ) -> tuple[str, ...]:
        """What Kubernetes would refuse of what a TrainJob becomes, and would not have refused before.

        `dry_run_objects.refusals` words it. Nothing where nobody says what would have been refused before.

        Args:
            tried: The TrainJob and what it is built from; nothing in them is nested too deep.
            before: The same before an update; None for what is created.
            of_runtime: Whether the runtime is what was sent.
            run: Calls a function that takes long if what was sent is large.

        Raises:
            InvalidFieldError: The TrainJob cannot be read.
        """
        keys = await run(self._keys, *tried)
        if before is not None and keys == await run(self._keys, *before):
            return ()
        sentences, _ = await self._refusals(keys, tried, of_runtime=of_runtime, run=run)
        if not sentences or before is None:
            return sentences
        old_sentences, all_known = await self._refusals(
            await run(self._keys, *before), before, of_runtime=of_runtime, run=run
        )
        return tuple(sentence for sentence in sentences if sentence not in old_sentences) if all_known else ()

    def _keys(self, job: model.TrainJob, runtime: model.Runtime) -> _Keys:
        jobs = _digest_of_jobs(job, runtime)
        held = self._settings().queue_holds_jobset
        read = (queueing.labels_of(job.labels), queueing.annotations_of(job.annotations)) if held else ()
        return _Keys(jobs, _digest((jobs, read)))

    async def _refusals(
        self, keys: _Keys, tried: Tried, *, of_runtime: bool, run: Run
    ) -> tuple[tuple[str, ...], bool]:
        """What Kubernetes would refuse, and whether it has answered about all of it."""
        if keys.everything in self._passed:
            return (), True
        job, runtime = tried
        trials = await run(dry_run_objects.of, job, runtime, self._settings())
        due = [one for one in trials if keys.of(one) not in self._passed]
        if any(self._runs.take(None) > 0 for _ in due):
            self._tell_of_the_end()
            return (), False
        answers = await asyncio.gather(*(self._run(one) for one in due))
        failed = {keys.of(one) for one, error in zip(due, answers, strict=True) if error is not None}
        passed = {keys.of(one) for one in due} - failed
        self._remember(*passed, *(() if failed else (keys.everything,)))
        judged = all(
            error is None or dry_run_objects.is_judged(error.code, error.message) for error in answers
        )
        return _sentences(due, answers, of_runtime=of_runtime), judged

    def _remember(self, *passed: str) -> None:
        self._passed |= dict.fromkeys(passed)
        while len(self._passed) > MOST_PASSED:
            del self._passed[next(iter(self._passed))]

    def _tell_of_the_end(self) -> None:
        """Any client of the webhook can use up the shared limit: the log reports it while it lasts."""
        now = self._clock()
        if now >= self._tell_again:
            self._tell_again = now + TELL_AGAIN
            logger.warning(
                "Jobs are not checked before they are created: more than %g dry runs per second are "
                "requested; check who sends TrainJobs and runtimes, and who connects to the webhook's port",
                QPS,
            )

    async def _run(self, tried: Trial) -> ApiError | None:
        """Why it would not be created; None if it would be."""
        path = _RESOURCES[tried.kind].path(tried.manifest["metadata"]["namespace"])
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._client.create(path, tried.manifest, dry_run=True)
        except TimeoutError:
            return ApiError(f"no answer within {TIMEOUT:g} s")
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return None
            if not dry_run_objects.is_judged(error.code, error.message) and tried.kind not in self._told:
                self._told.add(tried.kind)
                logger.warning("%ss are not checked before they are created: %s", tried.kind, error)
            return error
        return None


def _sentences(
    trials: Sequence[Trial], answers: Sequence[ApiError | None], *, of_runtime: bool
) -> tuple[str, ...]:
    return tuple(
        # JobSet's webhook repeats whole pods.
        without_values(sentence) if tried.kind == names.JOBSET else sentence
        for tried, error in zip(trials, answers, strict=True)
        if error is not None
        for sentence in dry_run_objects.refusals(
            tried, error.code, error.message, error.details, of_runtime=of_runtime
        )
    )


def _digest_of_jobs(job: model.TrainJob, runtime: model.Runtime) -> str:
    """A digest of what the Jobs are built from."""
    spec = {name: value for name, value in job.spec.items() if name not in _UNSEEN}
    patches = json_reader.objects(spec.get("runtimePatches"), FieldPath("spec.runtimePatches"))
    spec["runtimePatches"] = [{**patch, "time": None} for patch in patches]
    if spec.get("trainer") is not None:
        spec["trainer"] = _as_judged(*json_reader.below(spec, FieldPath("spec"), "trainer"))
    return _digest((job.namespace, spec, runtime.kind, dict(runtime.labels), dict(runtime.spec)))


def _digest(value: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()


def _as_judged(trainer: model.Json, path: FieldPath) -> model.Json:
    """A trainer without the texts that Kubernetes accepts whatever they say; empty values stay empty."""
    env = [
        {**variable, "value": bool(variable["value"])} if "value" in variable else variable
        for variable in json_reader.objects(trainer.get("env"), path.child("env"))
    ]
    return {**trainer, **dict.fromkeys(_WORDS & trainer.keys()), "env": env}
