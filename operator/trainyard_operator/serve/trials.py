"""Whether Kubernetes would accept the Jobs of a TrainJob or a runtime: the API server says so in dry runs.

Any answer but Kubernetes' own refusal of a field lets the request pass: a
trial that fails keeps nobody from working. What has passed once is not tried
again, and the number of trials per second is bounded, so that whoever sends
TrainJobs cannot keep the API server busy with them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from trainyard_api import fields
from trainyard_api.errors import FieldPath
from trainyard_api.rate import Buckets

from ..core import info, model, trial
from ..core.trial import Trial
from ..kube.client import ApiError, Client
from ..kube.resources import JOBS

logger = logging.getLogger(__name__)

TIMEOUT: Final = 1.0
"""Seconds for all Jobs of one request; the API server answers in a hundredth of that."""
QPS, BURST = 20.0, 200
"""Dry runs, for all callers."""
TELL_AGAIN: Final = 60.0
"""Seconds between two lines of the log that say that no dry runs are left."""
MOST_PASSED: Final = 2_000
"""How many passed trials are remembered."""
_UNSEEN: Final = frozenset({"suspend", "managedBy"})
"""Fields of a TrainJob's spec that do not reach its Jobs."""
_WORDS: Final = frozenset({"command", "args"})
"""Fields of a trainer in which Kubernetes accepts any text: a sweep is many TrainJobs that differ there."""


Run = Callable[..., Awaitable[Any]]
Tried = tuple[model.TrainJob, model.Runtime]


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
        self._passed: dict[bytes, None] = {}
        self._runs: Buckets[None] = Buckets(QPS, BURST, clock=clock)
        self._told = False
        self._clock = clock
        self._tell_again = 0.0

    async def refusals(
        self, tried: Tried, before: Tried | None, *, of_runtime: bool, run: Run
    ) -> tuple[str, ...]:
        """What Kubernetes would refuse in the Jobs of a TrainJob, and would not have refused before.

        See `trial.refusals` for the words. Nothing where nobody says what would have been refused before.

        Args:
            tried: The TrainJob and what it is built from; nothing in them is nested too deep.
            before: The same before an update; None for what is created.
            of_runtime: Whether the runtime is what was sent.
            run: Calls a function that takes long if what was sent is large.

        Raises:
            InvalidFieldError: The TrainJob cannot be read.
        """
        key = await run(_key, *tried)
        if before is not None and key == await run(_key, *before):
            return ()
        said, _ = await self._refusals(key, tried, of_runtime=of_runtime, run=run)
        if not said or before is None:
            return said
        known, all_known = await self._refusals(
            await run(_key, *before), before, of_runtime=of_runtime, run=run
        )
        return tuple(sentence for sentence in said if sentence not in known) if all_known else ()

    async def _refusals(
        self, key: bytes, tried: Tried, *, of_runtime: bool, run: Run
    ) -> tuple[tuple[str, ...], bool]:
        """What Kubernetes would refuse, and whether it has answered about all of it."""
        if key in self._passed:
            return (), True
        job, runtime = tried
        jobs = await run(trial.of, job, runtime, self._settings())
        if any(self._runs.take(None) > 0 for _ in jobs):
            self._tell_of_the_end()
            return (), False
        try:
            async with asyncio.timeout(TIMEOUT):
                answers = await asyncio.gather(*(self._run(one) for one in jobs))
        except TimeoutError:
            return (), False
        if all(answer is None for answer in answers):
            self._passed[key] = None
            if len(self._passed) > MOST_PASSED:
                del self._passed[next(iter(self._passed))]
        answered = all(answer is None or answer.code == 422 for answer in answers)
        return _sentences(jobs, answers, of_runtime=of_runtime), answered

    def _tell_of_the_end(self) -> None:
        """Whoever reaches the webhook can use up what all share: the log says so while it lasts."""
        now = self._clock()
        if now >= self._tell_again:
            self._tell_again = now + TELL_AGAIN
            logger.warning(
                "Jobs are not checked before they are created: more than %g dry runs a second are asked for; "
                "see who sends TrainJobs and runtimes, and who reaches the webhook's port",
                QPS,
            )

    async def _run(self, job: Trial) -> ApiError | None:
        """Why it would not be created; None if it would be."""
        path = JOBS.path(job.manifest["metadata"]["namespace"])
        try:
            await self._client.create(path, job.manifest, dry_run=True)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return None
            if error.code != 422 and not self._told:
                self._told = True
                logger.warning("Jobs are not checked before they are created: %s", error)
            return error
        return None


def _sentences(
    jobs: Sequence[Trial], answers: Sequence[ApiError | None], *, of_runtime: bool
) -> tuple[str, ...]:
    return tuple(
        sentence
        for job, answer in zip(jobs, answers, strict=True)
        if answer is not None and answer.code == 422
        for sentence in trial.refusals(job, answer.details, of_runtime=of_runtime)
    )


def _key(job: model.TrainJob, runtime: model.Runtime) -> bytes:
    """A digest of what the Jobs are built from."""
    spec = {name: value for name, value in job.spec.items() if name not in _UNSEEN}
    patches = fields.objects(spec.get("runtimePatches"), FieldPath("spec.runtimePatches"))
    spec["runtimePatches"] = [{**patch, "time": None} for patch in patches]
    if spec.get("trainer") is not None:
        spec["trainer"] = _as_judged(*fields.below(spec, FieldPath("spec"), "trainer"))
    seen = (job.namespace, spec, runtime.kind, dict(runtime.labels), dict(runtime.spec))
    return hashlib.blake2b(msgspec.json.encode(seen), digest_size=16).digest()


def _as_judged(trainer: model.Json, path: FieldPath) -> model.Json:
    """A trainer without the texts that Kubernetes accepts whatever they say; empty values stay empty."""
    env = [
        {**one, "value": bool(one["value"])} if "value" in one else one
        for one in fields.objects(trainer.get("env"), path.child("env"))
    ]
    return {**trainer, **dict.fromkeys(_WORDS & trainer.keys()), "env": env}
