"""Reads the logs of a TrainJob's pods, all at once, and goes on over cut connections and new pods.

Called by `trainyard logs`; needs only read rights. `trainyard_assist.logs` says
which lines are new and which come first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter
from typing import Final

import msgspec

from trainyard_api import names
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_assist import jobs
from trainyard_assist.logs import Line, Log, Place, in_order, is_called, label
from trainyard_kube.client import ApiError, Client, NotFoundError, RetriableError, UnauthorizedError
from trainyard_kube.resources import JOBSETS, PODS, TRAINJOBS

from .job_names import not_found
from .lists import undecoded
from .observe import in_time

MOST: Final = 512
"""Logs that are read at a time."""
EVERY: Final = 2.0
"""Seconds between two looks at the pods, while their logs are followed."""
GATHER: Final = 0.1
"""Seconds for which lines are gathered, so that they can be put in order."""
_INACTIVITY: Final = 60.0
"""Seconds after which a log that is silent is asked for again: its connection may be dead."""
_TRIES: Final = 3
_WAITING: Final = 64
"""Pieces of logs that nobody has printed yet; what comes then has to wait."""
_READ: Final = "read logs (get pods/log)"
_ENDED: Final = ("Succeeded", "Failed")
_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the TrainJob, and the container in it whose log is read."""

    name: str
    uid: str
    place: Place
    container: str
    restarts: int = 0
    """Of its container."""
    started: bool = False
    """Whether there is a log."""
    ended: bool = False


@dataclass(slots=True, eq=False)
class Source:
    """A log that is read."""

    pod: Pod
    label: str
    log: Log = field(default_factory=Log)
    unread: str = ""
    """Why the log could not be read."""

    @property
    def place(self) -> Place:
        """Which rank it is."""
        return self.pod.place


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of the logs is wanted."""

    rank: str | None = None
    """A number or a place, as `is_called` has it; None: all."""
    since: float | None = None
    """Seconds; None: from their beginning."""
    tail: int | None = None
    """Lines of each; None: all."""
    previous: bool = False
    """Those of the containers that ran before the ones that run now."""


_Piece = tuple[Source, list[Line]] | Exception | None
"""Lines, what went wrong, or the end."""
Printed = list[tuple[str, Source, str]]
"""When, whose, and what."""


class _Labels(msgspec.Struct):
    job: str = msgspec.field(default="", name=names.REPLICATED_JOB_LABEL)
    index: str = msgspec.field(default="", name=names.JOB_COMPLETION_INDEX_LABEL)


class _Meta(msgspec.Struct):
    name: str
    uid: str = ""
    labels: _Labels | None = None
    annotations: _Labels | None = None


class _Named(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    containers: list[_Named]


class _State(msgspec.Struct):
    waiting: dict[str, str] | None = None


class _Container(msgspec.Struct, rename="camel"):
    name: str
    restart_count: int = 0
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_Container] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status


class _ReplicatedJob(msgspec.Struct):
    name: str


class _JobSetSpec(msgspec.Struct, rename="camel"):
    replicated_jobs: list[_ReplicatedJob] = msgspec.field(default_factory=list)


class _JobSet(msgspec.Struct):
    spec: _JobSetSpec


class Logs:
    """The logs of one TrainJob."""

    def __init__(self, client: Client, namespace: str, job: str, wanted: Wanted) -> None:
        self._client = client
        self._namespace = namespace
        self._job = job
        self._wanted = wanted
        self._jobs: set[str] = set()
        self._pods: dict[str, Pod] = {}
        self._looked = asyncio.Event()
        self.row: jobs.Row | None = None
        """What was seen of the TrainJob last, while its logs are followed."""

    async def trainjob(self) -> Json:
        """The TrainJob. Raises `UserError` if there is none, with the nearest name."""
        try:
            return await in_time(self._client.get(TRAINJOBS.path(self._namespace, self._job)))
        except NotFoundError as error:
            raise await not_found(self._client, self._namespace, self._job, error) from error

    async def sources(self) -> list[Source]:
        """The logs that there are now and are wanted, in the order of their places."""
        pods = await self._look()
        self._jobs = await self._replicated_jobs() | {pod.place.job for pod in pods}
        sources = [self._source(pod) for pod in pods if self._is_wanted(pod)]
        if pods and not sources:
            there = ", ".join(dict.fromkeys(label(pod.place, self._jobs) for pod in pods))
            raise UserError(f"TrainJob {self._job} has no rank {self._wanted.rank}: it has {there[:200]}")
        if len(sources) > MOST:
            raise UserError(f"TrainJob {self._job} has {len(sources)} pods: say which with --rank")
        return sources

    async def history(self, sources: Sequence[Source]) -> AsyncGenerator[Printed, None]:
        """What has been printed so far, in the order of time."""
        readers = {source: self._read(source, previous=self._wanted.previous) for source in sources}
        pending: dict[Source, list[Line]] = {source: [] for source in sources}
        still_read = dict.fromkeys(sources)
        try:
            while still_read:
                empty = [source for source in still_read if not pending[source]]
                for source, lines in zip(
                    empty, await asyncio.gather(*(_next(readers[source]) for source in empty)), strict=True
                ):
                    if lines is None:
                        del still_read[source]
                    else:
                        pending[source] = lines
                if lines_in_order := in_order(pending, still_read):
                    yield lines_in_order
        finally:
            await asyncio.gather(*(reader.aclose() for reader in readers.values()))

    async def follow(self, sources: Iterable[Source]) -> AsyncGenerator[Printed, None]:
        """What is printed from then on, until the TrainJob has ended and all is read.

        `sources`: whose history has been read.
        """
        pieces: asyncio.Queue[_Piece] = asyncio.Queue(_WAITING)
        reading = asyncio.create_task(self._read_all({source.pod.uid: source for source in sources}, pieces))
        try:
            while (piece := await pieces.get()) is not None:
                await asyncio.sleep(GATHER)
                gathered: list[_Piece] = [piece]
                while not pieces.empty() and gathered[-1] is not None:
                    gathered.append(pieces.get_nowait())
                lines = [
                    (at, each[0], line)
                    for each in gathered
                    if isinstance(each, tuple)
                    for at, line in each[1]
                ]
                yield sorted(lines, key=itemgetter(0))
                for each in gathered:
                    if isinstance(each, Exception):
                        raise each
                if gathered[-1] is None:
                    return
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    # --- pods -------------------------------------------------------------------

    async def _look(self) -> list[Pod]:
        params = {"labelSelector": f"{names.JOBSET_NAME_LABEL}={self._job}"}
        try:
            listed = [
                _pod(raw) async for raw in undecoded(self._client, PODS, self._namespace, params=params)
            ]
        except ApiError as error:
            if error.code == 403:
                raise self._not_allowed("list pods") from error
            raise
        pods = sorted(filter(None, listed), key=lambda pod: (pod.place.job, pod.place.index, pod.name))
        self._pods = {pod.uid: pod for pod in pods}
        return pods

    async def _replicated_jobs(self) -> set[str]:
        """Also those that have no pods yet, as far as they can be seen."""
        try:
            live = await in_time(self._client.get(JOBSETS.path(self._namespace, self._job)))
            return {job.name for job in msgspec.convert(live, _JobSet).spec.replicated_jobs}
        except (ApiError, msgspec.ValidationError):
            return set()

    def _is_wanted(self, pod: Pod) -> bool:
        return self._wanted.rank is None or is_called(pod.place, self._wanted.rank)

    def _source(self, pod: Pod, *, is_new: bool = False) -> Source:
        """A log to read; of a pod that is new while others are followed, all of it."""
        log = Log() if is_new else Log(self._start(), only_end=self._wanted.tail is not None)
        return Source(pod, label(pod.place, self._jobs), log)

    def _start(self) -> str:
        if self._wanted.since is None and self._wanted.tail != 0:
            return ""
        since = self._client.time.now() - timedelta(seconds=self._wanted.since or 0.0)
        return f"{since:%Y-%m-%dT%H:%M:%SZ}"

    def _not_allowed(self, action: str) -> UserError:
        return UserError(f"you are not allowed to {action} in namespace {self._namespace}")

    # --- logs -------------------------------------------------------------------

    async def _read(self, source: Source, *, previous: bool = False) -> AsyncGenerator[list[Line], None]:
        """What the log has so far, in pieces; `source.unread` says why if there is none."""
        for attempt in range(_TRIES):
            tail = self._wanted.tail if attempt == 0 else None
            try:
                async with aclosing(self._pieces(source, tail=tail, previous=previous)) as pieces:
                    async for lines in pieces:
                        yield lines
                return
            except UnauthorizedError:
                raise
            except RetriableError as error:
                source.unread = error.message
                source.log.cut()
            except ApiError as error:
                if error.code == 403:
                    raise self._not_allowed(_READ) from error
                source.unread = error.message
                return

    async def _pieces(
        self, source: Source, *, tail: int | None = None, previous: bool = False, follow: bool = False
    ) -> AsyncGenerator[list[Line], None]:
        params = {"container": source.pod.container, "timestamps": "true"}
        params |= {"follow": "true"} if follow else {}
        params |= {"previous": "true"} if previous else {}
        params |= {"sinceTime": source.log.since} if source.log.since else {}
        params |= {} if tail is None else {"tailLines": str(tail)}
        path = PODS.path(self._namespace, source.pod.name, "log")
        async with aclosing(self._client.stream(path, params=params, inactivity=_INACTIVITY)) as chunks:
            source.unread = ""
            async for chunk in chunks:
                if lines := source.log.feed(chunk):
                    yield lines
        if lines := source.log.end():
            yield lines

    async def _read_all(
        self,
        sources: dict[str, Source],
        pieces: asyncio.Queue[_Piece],
    ) -> None:
        """Read each log on, those of new pods too, until the TrainJob has ended; the end is None."""
        tasks: dict[str, asyncio.Task[None]] = {}

        async def read(source: Source) -> None:
            async with aclosing(self._on(source)) as on:
                async for lines in on:
                    await pieces.put((source, lines))

        try:
            while True:
                is_over = await self._is_over()
                for pod in await self._look_again():
                    if pod.uid not in tasks and self._is_wanted(pod):
                        source = sources.get(pod.uid) or self._source(pod, is_new=True)
                        tasks[pod.uid] = asyncio.create_task(read(source))
                self._looked.set()
                self._looked = asyncio.Event()
                for task in tasks.values():
                    if task.done():
                        task.result()
                if is_over and all(task.done() for task in tasks.values()):
                    await pieces.put(None)
                    return
                await asyncio.sleep(EVERY)
        except Exception as error:
            await pieces.put(error)  # whoever prints raises it
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _on(self, source: Source) -> AsyncGenerator[list[Line], None]:
        """The log of a pod until its end: over cut connections, and restarts of its container."""
        while (pod := self._pods.get(source.pod.uid)) is not None:
            looked = self._looked
            if pod.restarts > source.pod.restarts:
                source.log.cut()
                async with aclosing(self._read(source, previous=True)) as rest:
                    async for lines in rest:
                        yield lines
            source.pod = pod
            source.log.cut()
            is_whole = False
            if pod.started:
                try:
                    async with aclosing(self._pieces(source, follow=True)) as pieces:
                        async for lines in pieces:
                            yield lines
                    is_whole = True
                except UnauthorizedError:
                    raise
                except ApiError as error:
                    if error.code == 403:
                        raise self._not_allowed(_READ) from error
            if pod.ended and (is_whole or not pod.started):
                return
            await looked.wait()

    async def _is_over(self) -> bool:
        """Whether the TrainJob has ended, or is gone."""
        try:
            trainjob = await in_time(self._client.get(TRAINJOBS.path(self._namespace, self._job)))
            self.row = jobs.row(trainjob)
            return self.row.is_over
        except NotFoundError:
            return True
        except UnauthorizedError:
            raise
        except RetriableError:
            return False

    async def _look_again(self) -> Collection[Pod]:
        try:
            return await self._look()
        except UnauthorizedError:
            raise
        except RetriableError:
            return self._pods.values()


async def _next(reader: AsyncGenerator[list[Line], None]) -> list[Line] | None:
    return await anext(reader, None)


def _pod(raw: msgspec.Raw) -> Pod | None:
    """What is read of a pod; None for one that is none of a JobSet."""
    try:
        pod = msgspec.json.decode(raw, type=_Pod)
    except msgspec.ValidationError:
        return None
    labels, statuses = pod.metadata.labels or _Labels(), pod.status.container_statuses or []
    containers = [container.name for container in pod.spec.containers]
    if not labels.job or not containers:
        return None
    chosen = names.NODE if names.NODE in containers else containers[0]
    status = next((status for status in statuses if status.name == chosen), None)
    index = labels.index or (pod.metadata.annotations or labels).index
    return Pod(
        pod.metadata.name,
        pod.metadata.uid,
        Place(labels.job, int(index) if index.isdecimal() and len(index) <= _DIGITS else 0),
        chosen,
        0 if status is None else status.restart_count,
        started=status is not None and (status.restart_count > 0 or status.state.waiting is None),
        ended=pod.status.phase in _ENDED,
    )
