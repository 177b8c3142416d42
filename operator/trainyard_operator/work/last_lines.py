"""Keeps what the pods of an attempt printed last, before they are deleted: docs/adr/0037.

`PodEnds` says which pod has failed, and workers of their own call `work`: no
reconciliation waits for a log. A job whose pods do not fail causes no request.
The ConfigMap holds the lines so far, so that a replica can continue where another has ended.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from trainyard_api import names
from trainyard_api.reasons import Reason
from trainyard_kube.client import ApiError, Client, ConflictError, GoneError, NotFoundError, RetriableError
from trainyard_kube.resources import CONFIGMAPS, PODS

from ..core import model
from ..core.decide import last_lines, reconcile
from ..core.status import attempts
from ..watch.cache import Cache, Key
from ..watch.pod_ends import number
from .apply import MANAGER
from .events import Events
from .queue import Queue, RetryError

logger = logging.getLogger(__name__)

AGAIN: Final = 3.0
"""Seconds after which pods that still ran are read again: they often end as a consequence."""
SETTLE: Final = 1.0
"""Seconds from a further pod that fails to the next look, which then sees others too."""
LOOKS: Final = 2
"""Looks of an attempt that read pods which still run."""
OFTEN: Final = attempts.KEPT
"""Attempts after which a job is looked at only every `PAUSE` seconds."""
PAUSE: Final = 10.0
MOST_ENDS: Final = 256
"""Pods of an attempt whose failure causes a look."""
MOST_LISTED: Final = 2000
PAGE: Final = 100
TRIES: Final = 5
"""In a row, if the API server is overloaded or the ConfigMap changes."""
PATIENCE: Final = 5.0
"""Seconds for one log."""
TAKEN_OVER: Final = 60.0
"""Seconds for which a standby keeps what it knows of a TrainJob that has ended: its leader may end too."""
AT_ONCE: Final = 6
"""Logs of one attempt that are being read."""
LOG_BYTES: Final = 128 * 1024
"""Of one answer. A longer one lacks its end, which is what counts: then fewer lines are requested."""
FEWER: Final = (6, 1)
"""Lines to ask for then. What a container prints without a line feed comes in pieces of 16 KiB."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    labels: dict[str, str]
    creation_timestamp: datetime


class _Named(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    containers: list[_Named]


class _Terminated(msgspec.Struct, rename="camel"):
    exit_code: int = 0


class _State(msgspec.Struct):
    terminated: _Terminated | None = None


class _Container(msgspec.Struct):
    name: str
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status


_decoder = msgspec.json.Decoder(_Pod)


@dataclass(slots=True)
class _Due:
    """An attempt of a JobSet whose lines are to be kept."""

    jobset: str
    """Its uid."""
    attempt: int
    """Counted from 0, as JobSet does."""
    first: model.PodEnd
    seen: set[str] = field(default_factory=set)
    """Pods that have failed."""
    looks: int = 0
    tries: int = 0
    idle: bool = False
    """Whether all that is known has been done."""


class NoLogsError(Exception):
    """Logs may not be read in this namespace."""


class LastLines:
    """Reads logs and writes ConfigMaps. `lines` of each pod are read; 0 turns it off.

    `leading` is checked before each write, and when a TrainJob is over: then its leader keeps its lines.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        events: Events,
        *,
        lines: int,
        leading: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.queue: Queue[Key] = Queue()
        self._client = client
        self._cache = cache
        self._events = events
        self._lines = lines
        self._leading = leading
        self._clock = clock
        self._due: dict[Key, _Due] = {}
        self._over: dict[Key, float] = {}  # when a TrainJob ended that another replica leads, in that order

    def __len__(self) -> int:
        return len(self._due)

    def failed(self, key: Key, jobset: str, end: model.PodEnd) -> None:
        """A pod of the TrainJob's JobSet has failed."""
        if not self._lines:
            return
        due = self._due.get(key)
        if due is None or due.jobset != jobset or due.attempt < end.attempt:
            if end.reason not in attempts.NO_FAILURE:
                self._over.pop(key, None)
                self._due[key] = _Due(jobset, end.attempt, end, {end.pod})
                self.queue.add_after(key, PAUSE if end.attempt >= OFTEN else 0.0)
        elif due.attempt == end.attempt and end.pod not in due.seen and len(due.seen) < MOST_ENDS:
            due.seen.add(end.pod)
            due.idle = False
            if attempts.is_before(end, due.first):
                due.first = end
            self.queue.add_after(key, SETTLE)

    def over(self, key: Key) -> None:
        """The TrainJob has ended or is gone: no further pods of it are reported."""
        due = self._due.get(key)
        if due is not None and (due.idle or key not in self._cache.trainjobs):
            self._drop(key)
        elif due is not None and not self._leading():
            # Nobody here works while another replica leads, but this one may be next.
            self._over.setdefault(key, self._clock())
        self._drop_old()

    def _drop(self, key: Key) -> None:
        self._over.pop(key, None)
        self._due.pop(key, None)
        self.queue.discard(key)

    def _drop_old(self) -> None:
        while self._over and self._clock() - self._over[key := next(iter(self._over))] >= TAKEN_OVER:
            self._drop(key)

    async def work(self, key: Key) -> float | None:
        """Look at an attempt once; returns the seconds until the next look.

        Raises `RetryError`.
        """
        self._drop_old()
        self._over.pop(key, None)
        due, trainjob = self._due.get(key), self._cache.trainjobs.get(key)
        if due is None or trainjob is None or not self._is_its_own(trainjob, due):
            self._due.pop(key, None)
            return None
        if due.attempt > self._restarts(key):
            # JobSet counts before it makes pods: it will be seen in a moment, or somebody has made up a pod.
            due.tries += 1
            if due.tries < TRIES:
                return SETTLE
            del self._due[key]
            return None
        again = None
        try:
            again = await self._look(trainjob, due)
        except (ConflictError, GoneError, RetriableError) as error:
            due.tries += 1
            if due.tries < TRIES:
                raise RetryError(str(error), at_least=error.retry_after or 0.0) from error
            await self._refused(trainjob, due, str(error))
        except NoLogsError as error:
            logger.info("%s: the last lines of its pods are not kept: %s", key, error)
        except ApiError as error:
            await self._refused(trainjob, due, str(error))
        due.idle = again is None
        if due.idle and not self._cache.is_unfinished(key) and self._due.get(key) is due:
            del self._due[key]
        return again

    def _is_its_own(self, trainjob: model.TrainJob, due: _Due) -> bool:
        seen = self._cache.jobsets.get(Key.of(trainjob))
        if seen is None or not reconcile.is_managed(trainjob):
            return False
        return (seen.jobset.uid, seen.jobset.owner_uid) == (due.jobset, trainjob.uid)

    def _restarts(self, key: Key) -> int:
        seen = self._cache.jobsets.get(key)
        return 0 if seen is None else seen.jobset.restarts

    async def _look(self, trainjob: model.TrainJob, due: _Due) -> float | None:
        name = last_lines.name_of(trainjob.name)
        path = CONFIGMAPS.path(trainjob.namespace, name)
        live = await self._live(path)
        if live is not None and last_lines.is_of_earlier(live, trainjob.uid, trainjob.name):
            due.tries += 1
            if due.tries < TRIES:
                return reconcile.COLLECT_SECONDS
        if live is not None and not last_lines.is_of(live, trainjob.uid):
            await self._refused(trainjob, due, f"ConfigMap {name} exists and is not this TrainJob's")
            return None
        before = None if live is None else last_lines.read(live)
        kept = _kept(before, due)
        due.looks += 1
        places = last_lines.chosen(await self._pods(trainjob.namespace, due), due.first.pod)
        pods = places[: last_lines.MOST_PODS]
        unread = last_lines.unread(pods, kept, again=due.looks <= LOOKS)
        fresh = await self._read(trainjob.namespace, unread)
        new = last_lines.merged(kept, fresh, len(places), f"{due.first.job}-{due.first.index}")
        if new != kept and not last_lines.says_less(new, before) and self._leading():
            await self._write(trainjob, live, new)
        due.tries = 0
        return AGAIN if due.looks < LOOKS and last_lines.is_open(new) else None

    async def _live(self, path: str) -> model.Json | None:
        try:
            return await self._client.get(path)
        except NotFoundError:
            return None

    async def _pods(self, namespace: str, due: _Due) -> list[last_lines.Pod]:
        """The pods of the attempt, with the one that failed first even if it is gone."""
        params = {"labelSelector": f"{names.JOBSET_UID_LABEL}={due.jobset}"}
        by_name: dict[str, last_lines.Pod] = {}
        listed = 0
        async for page in self._client.list(PODS.path(namespace), limit=PAGE, params=params):
            pods = [_view(raw) for raw in page.items or ()]
            by_name |= {pod.name: pod for attempt, pod in filter(None, pods) if attempt == due.attempt}
            listed += len(pods)
            if listed >= MOST_LISTED:
                break
        first = due.first
        gone = last_lines.Pod(
            first.pod,
            first.job,
            first.index,
            first.container,
            first.born or first.at,
            ended=True,
            failed=True,
        )
        return list({first.pod: gone, **by_name}.values())

    async def _read(self, namespace: str, pods: Iterable[last_lines.Pod]) -> dict[str, last_lines.Lines]:
        limit = asyncio.Semaphore(AT_ONCE)
        logs = {pod.place: asyncio.create_task(self._lines_of(namespace, pod, limit)) for pod in pods}
        # Not a TaskGroup: one that fails leaves its task with a cancellation that is counted, and with
        # Python 3.11.0 to 3.11.2 the worker's next `asyncio.timeout` would then end the worker.
        try:
            await asyncio.gather(*logs.values())
        except BaseException:
            for log in logs.values():
                log.cancel()
            await asyncio.gather(*logs.values(), return_exceptions=True)
            raise
        return {place: log.result() for place, log in logs.items()}

    async def _lines_of(
        self, namespace: str, pod: last_lines.Pod, limit: asyncio.Semaphore
    ) -> last_lines.Lines:
        try:
            async with limit, asyncio.timeout(PATIENCE):
                return last_lines.of(pod, await self._log(namespace, pod))
        except TimeoutError:
            return last_lines.without(pod, f"its log was not there within {PATIENCE:.0f} s")
        except NotFoundError:
            return last_lines.without(pod, "the pod was gone before its log was read", gone=True)
        except ApiError as error:
            if error.code == 403:
                raise NoLogsError(str(error)) from error
            return last_lines.without(pod, f"its log could not be read: {error.message}")

    async def _log(self, namespace: str, pod: last_lines.Pod) -> str:
        """The end of the log. `limitBytes` cuts off the end of what `tailLines` names."""
        path = PODS.path(namespace, pod.name, "log")
        container = {"container": pod.container} if pod.container else {}
        log = ""
        for lines in (self._lines, *FEWER):
            params = {**container, "tailLines": str(lines), "limitBytes": str(LOG_BYTES)}
            log = await self._client.text(path, params=params)
            if len(log.encode()) < LOG_BYTES:
                break
        return log

    async def _write(self, trainjob: model.TrainJob, live: model.Json | None, kept: last_lines.Kept) -> None:
        manifest = last_lines.manifest(trainjob, kept)
        if live is None:
            path = CONFIGMAPS.path(trainjob.namespace)
            await self._client.create(path, manifest, manager=MANAGER)
        else:
            path = CONFIGMAPS.path(trainjob.namespace, live["metadata"]["name"])
            body = {**manifest, "metadata": live["metadata"]}
            await self._client.replace(path, body, manager=MANAGER)

    async def _refused(self, trainjob: model.TrainJob, due: _Due, why: str) -> None:
        message = f"The last lines of attempt {due.attempt + 1} are not kept: {why}"
        logger.warning("%s: %s", Key.of(trainjob), message)
        await self._events.post(trainjob, model.EventNote("Warning", Reason.LAST_LINES_NOT_KEPT, message))


def _kept(kept: last_lines.Kept | None, due: _Due) -> last_lines.Kept:
    """What the ConfigMap has of this attempt; what it has of an earlier one goes."""
    if kept is None or (kept.jobset, kept.attempt) != (due.jobset, due.attempt + 1):
        return last_lines.Kept(due.jobset, due.attempt + 1)
    return kept


def _view(raw: msgspec.Raw) -> tuple[int, last_lines.Pod] | None:
    """The attempt that a pod is of, counted from 0, and the read lines; None if the attempt is unknown."""
    try:
        pod = _decoder.decode(raw)
    except msgspec.DecodeError:
        return None
    labels, status = pod.metadata.labels, pod.status
    return number(labels.get(names.RESTART_ATTEMPT_LABEL)), last_lines.Pod(
        pod.metadata.name,
        labels.get(names.REPLICATED_JOB_LABEL, ""),
        number(labels.get(names.JOB_COMPLETION_INDEX_LABEL)),
        _container(pod),
        pod.metadata.creation_timestamp,
        ended=status.phase in ("Failed", "Succeeded"),
        failed=status.phase == "Failed",
    )


def _container(pod: _Pod) -> str:
    """The container that failed; else the first, which is the one that trains."""
    containers = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    failed = (c.name for c in containers if c.state.terminated is not None and c.state.terminated.exit_code)
    return next(failed, pod.spec.containers[0].name if pod.spec.containers else "")
