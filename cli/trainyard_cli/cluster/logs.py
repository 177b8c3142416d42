"""Reads the logs of all of a TrainJob's pods, across cut connections, restarts and new pods.

Called by `trainyard logs` and `trainyard attach`; needs only read rights. `trainyard_assist.logs` says
which lines are new and which come first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import msgspec

from trainyard_api import names
from trainyard_api.errors import UserError
from trainyard_api.json_types import Json
from trainyard_assist import jobs
from trainyard_assist.logs import Line, Log, Place, in_order, is_called, label
from trainyard_assist.read import name, text, uid
from trainyard_kube.client import (
    ApiError,
    Client,
    ForbiddenError,
    NotFoundError,
    RetriableError,
    UnauthorizedError,
)
from trainyard_kube.resources import JOBSETS, PODS, TRAINJOBS

from .job_names import not_found
from .lists import undecoded
from .patience import in_time
from .watched import FIRST, watched

MOST: Final = 512
"""Logs that are read at a time."""
OTHERS: Final = 8
"""Further connections, in addition to those of the logs."""
EVERY: Final = 2.0
"""Seconds between two looks at a log that has ended before its pod, and at most at one that is cut, unless
the API server asks for more."""
GATHER: Final = 0.1
"""Seconds for which lines are gathered, so that they can be put in order."""
_INACTIVITY: Final = 60.0
"""Seconds after which a silent log is requested again: its connection may be dead."""
_TRIES: Final = 3
"""How often a log is requested that cannot be read, or that may be incomplete and brings nothing new."""
_WAITING: Final = 64
"""Pieces of logs that nobody has printed yet; what comes then has to wait."""
_READ: Final = "read logs (get pods/log)"
_ENDED: Final = ("Succeeded", "Failed")
_DIGITS: Final = 9
_MOST_LABELS: Final = 100
"""Ranks that are named to who names none of them, at most."""


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
    created: str = ""
    """When, as the API server writes it."""
    jobset: str = ""
    """The uid of its JobSet."""


@dataclass(slots=True, eq=False)
class Source:
    """A log that is read."""

    pod: Pod
    label: str
    log: Log = field(default_factory=Log)
    error: ApiError | None = None
    """Why the log could not be read, the last time."""

    @property
    def unread(self) -> str:
        """The reason as text; empty if it could be read."""
        return "" if self.error is None else self.error.message

    @property
    def place(self) -> Place:
        """Which rank it is."""
        return self.pod.place


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requested part of the logs."""

    rank: str | None = None
    """A number or a place, as `is_called` has it; None: all."""
    first: bool = False
    """Whether only those of the first pods of each ReplicatedJob are read."""
    since: float | None = None
    """Seconds; None: from their beginning."""
    tail: int | None = None
    """Lines of each; None: all."""
    previous: bool = False
    """Whether to read the logs of the previous containers."""
    earlier: bool = False
    """Whether to read the logs of the previous containers before the logs of those that run."""


class ManyPodsError(UserError):
    """A TrainJob has more pods than logs can be read at a time."""

    def __init__(self, job: str) -> None:
        super().__init__(f"TrainJob {job} has more than {MOST} pods, too many to read: say which with --rank")


class HiddenLogsError(UserError):
    """The user may not see the pods of a TrainJob, or not read their logs."""


_Piece = tuple[Source, list[Line]] | Exception | None
"""Lines, what went wrong, or the end."""
Printed = list[tuple[str, Source, str]]
"""When, whose, and what."""


class _Labels(msgspec.Struct):
    job: str = msgspec.field(default="", name=names.REPLICATED_JOB_LABEL)
    index: str = msgspec.field(default="", name=names.JOB_COMPLETION_INDEX_LABEL)
    jobset: str = msgspec.field(default="", name=names.JOBSET_UID_LABEL)


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    creation_timestamp: str = ""
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


class _JobSpec(msgspec.Struct):
    parallelism: int = 1


class _Template(msgspec.Struct):
    spec: _JobSpec = msgspec.field(default_factory=_JobSpec)


class _ReplicatedJob(msgspec.Struct):
    name: str
    replicas: int = 1
    template: _Template = msgspec.field(default_factory=_Template)

    @property
    def size(self) -> int:
        """How many places it has: its replicas share them."""
        return self.template.spec.parallelism if self.replicas else 0


class _JobSetSpec(msgspec.Struct, rename="camel"):
    replicated_jobs: list[_ReplicatedJob] = msgspec.field(default_factory=list)


class _JobSet(msgspec.Struct):
    spec: _JobSetSpec


class Logs:
    """The logs of one TrainJob.

    Args:
        client: The cluster.
        namespace: The TrainJob's.
        job: Its name.
        wanted: The requested part of the logs.
        changed: While it is followed, called with what is seen of the TrainJob each time that it changes.
        unanswered: While it is followed, called when the API server does not answer; the request is repeated.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        job: str,
        wanted: Wanted,
        *,
        changed: Callable[[jobs.Row], None] = lambda _: None,
        unanswered: Callable[[ApiError], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._job = job
        self._wanted = wanted
        self._changed = changed
        self._unanswered = unanswered
        self._uid = ""
        self._created = ""
        self._earlier: set[str] = set()
        """The JobSets of TrainJobs that had its name before."""
        self._jobs: set[str] = set()
        self._pods: Mapping[str, Pod] = {}
        self._all_seen = False
        self._followed: dict[str, Source] = {}
        self._bell = asyncio.Event()
        self.row: jobs.Row | None = None
        """The TrainJob as last seen; None once it is gone."""

    async def trainjob(self) -> Json:
        """The TrainJob. Raises `UserError` if there is none, with the nearest name."""
        try:
            trainjob = await in_time(self._client.get(TRAINJOBS.path(self._namespace, self._job)))
        except NotFoundError as error:
            raise await not_found(self._client, self._namespace, self._job, error) from error
        self._uid, self.row = uid(trainjob), jobs.row(trainjob)
        self._created = text(trainjob, "metadata", "creationTimestamp")
        return trainjob

    async def sources(self) -> list[Source]:
        """The logs that there are now and are wanted, in the order of their places."""
        pods = await self._look()
        sizes = await self._sizes()
        self._jobs = {*(sizes or ()), *(pod.place.job for pod in pods)}
        sources = [self._source(pod) for pod in pods if self._is_wanted(pod)]
        if not sources:
            self._check_rank(pods, sizes)
        if len(sources) > MOST:
            raise ManyPodsError(self._job)
        return sources

    def _check_rank(self, pods: Iterable[Pod], sizes: Mapping[str, int] | None) -> None:
        """Raise `UserError` if no pod can be the wanted rank: one that has none now may have had one.

        `sizes`: as `_sizes` returns them.
        """
        rank, places = self._wanted.rank, dict.fromkeys(pod.place for pod in pods)
        if rank is None or not places or sizes is None:
            return
        places |= dict.fromkeys(Place(job, index) for job, size in sizes.items() for index in range(size))
        if not any(is_called(place, rank) for place in places):
            there = ", ".join(label(place, self._jobs) for place in islice(places, _MOST_LABELS))
            raise UserError(f"TrainJob {self._job} has no rank {rank}: it has {there[:200]}")

    async def history(
        self, sources: Sequence[Source], *, goes_on: bool = False
    ) -> AsyncGenerator[Printed, None]:
        """The lines so far, in order of time.

        Args:
            sources: Whose.
            goes_on: Whether the logs are followed then: a line that is not complete yet is left for that.
        """
        readers = {source: self._read(source, goes_on=goes_on) for source in sources}
        pending: dict[Source, list[Line]] = {source: [] for source in sources}
        still_read = dict.fromkeys(sources)
        try:
            while still_read:
                empty = [source for source in still_read if not pending[source]]
                pieces = await _next_of_each([readers[source] for source in empty])
                for source, lines in zip(empty, pieces, strict=True):
                    if lines is None:
                        del still_read[source]
                    else:
                        pending[source] = lines
                if lines_in_order := in_order(pending, still_read):
                    yield lines_in_order
        finally:
            await asyncio.gather(*(reader.aclose() for reader in readers.values()))

    async def follow(self, sources: Iterable[Source]) -> AsyncGenerator[Printed, None]:
        """The lines from then on, until the TrainJob has ended and everything is read.

        `sources`: whose history has been read.
        """
        pieces: asyncio.Queue[_Piece] = asyncio.Queue(_WAITING)
        self._followed = {source.pod.uid: source for source in sources}
        reading = asyncio.create_task(self._read_all(pieces))
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

    @property
    def unread(self) -> list[Source]:
        """Followed sources that could not be read to their end."""
        return [source for source in self._followed.values() if source.unread]

    # --- the TrainJob and its pods ----------------------------------------------

    async def _look(self) -> list[Pod]:
        try:
            raw = [raw async for raw in undecoded(self._client, PODS, self._namespace, params=self._own)]
        except ForbiddenError as error:
            raise self._not_allowed("list pods") from error
        pods = self._its(filter(None, map(_pod, raw)))
        return sorted(pods, key=lambda pod: (pod.place.job, pod.place.index, pod.name))

    def _its(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those of this TrainJob: of a deleted one that had its name, pods may be there for a while.

        They are older. Times are whole seconds, so one older pod tells of all the pods of its JobSet.
        """
        pods = list(pods)
        self._earlier |= {pod.jobset for pod in pods if pod.created < self._created}
        return [pod for pod in pods if pod.jobset not in self._earlier]

    @property
    def _own(self) -> Mapping[str, str]:
        return {"labelSelector": f"{names.JOBSET_NAME_LABEL}={self._job}"}

    async def _sizes(self) -> dict[str, int] | None:
        """How many places each ReplicatedJob has, with or without a pod; empty if nothing says so.

        None if the user may not see it.
        """
        try:
            live = await in_time(self._client.get(JOBSETS.path(self._namespace, self._job)))
            return {job.name: job.size for job in msgspec.convert(live, _JobSet).spec.replicated_jobs}
        except ForbiddenError:
            return None
        except (ApiError, msgspec.ValidationError):
            return {}

    async def _watch_pods(self) -> None:
        try:
            async with aclosing(
                watched(
                    self._client,
                    PODS,
                    self._namespace,
                    _by_uid,
                    params=self._own,
                    unanswered=self._unanswered,
                )
            ) as states:
                async for pods in states:
                    self._pods = {pod.uid: pod for pod in self._its(pods.values())}
                    self._all_seen = True
                    self._ring()
        except ForbiddenError as error:
            raise self._not_allowed("list pods") from error

    async def ended(self) -> None:
        """Watch the TrainJob, without its logs, until it has ended or is gone."""
        await self._watch_trainjob()

    async def _watch_trainjob(self) -> None:
        """Until it has ended, or is gone."""
        named = {"fieldSelector": f"metadata.name={self._job}"}

        def of_this_name(raw: msgspec.Raw) -> tuple[str, Json] | None:
            trainjob = msgspec.json.decode(raw, type=dict[str, Any])
            return (uid(trainjob), trainjob) if name(trainjob) == self._job else None

        async with aclosing(
            watched(
                self._client,
                TRAINJOBS,
                self._namespace,
                of_this_name,
                params=named,
                unanswered=self._unanswered,
            )
        ) as states:
            async for trainjobs in states:
                trainjob = trainjobs.get(self._uid)
                self.row = None if trainjob is None else jobs.row(trainjob)
                if self.row is not None:
                    self._changed(self.row)
                if self.row is None or self.row.is_over:
                    return

    def _ring(self, _: object = None) -> None:
        """Wake who waits for a change."""
        self._bell.set()
        self._bell = asyncio.Event()

    async def _until_changed(self, pod: Pod, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._pods.get(pod.uid) == pod:
                    await self._bell.wait()

    def _is_wanted(self, pod: Pod) -> bool:
        if self._wanted.first and pod.place.index:
            return False
        return self._wanted.rank is None or is_called(pod.place, self._wanted.rank)

    def _check_number(self) -> None:
        """Raise `ManyPodsError` if more logs are to be followed than there are connections.

        A pod that takes the place of another one, which may not have ended yet, is not counted twice.
        """
        pods = (pod for pod in self._pods.values() if self._is_wanted(pod) and not pod.ended)
        if len({pod.name.rpartition("-")[0] for pod in pods}) > MOST:
            raise ManyPodsError(self._job)

    def _source(self, pod: Pod, *, is_new: bool = False) -> Source:
        """A log to read; of a pod that is new while others are followed, all of it."""
        log = Log() if is_new else Log(self._start(), only_end=self._wanted.tail is not None)
        return Source(pod, label(pod.place, self._jobs), log)

    def _start(self) -> str:
        if self._wanted.since is None and self._wanted.tail != 0:
            return ""
        since = self._client.time.now() - timedelta(seconds=self._wanted.since or 0.0)
        return f"{since:%Y-%m-%dT%H:%M:%SZ}"

    def _not_allowed(self, action: str) -> HiddenLogsError:
        return HiddenLogsError(f"you are not allowed to {action} in namespace {self._namespace}")

    # --- logs -------------------------------------------------------------------

    async def _read(self, source: Source, *, goes_on: bool) -> AsyncGenerator[list[Line], None]:
        """The log so far, in pieces; if there is none, `source.unread` has the reason."""
        if self._wanted.earlier and source.pod.restarts:
            async with aclosing(self._read_once(source, previous=True, goes_on=False)) as pieces:
                async for lines in pieces:
                    yield lines
            source.error = None  # of a log that is no longer kept
            if goes_on and await self._has_restarted(source):
                return  # `follow` continues after the run that was read
            source.log = self._source(source.pod).log
        async with aclosing(
            self._read_once(source, previous=self._wanted.previous, goes_on=goes_on)
        ) as pieces:
            async for lines in pieces:
                yield lines

    async def _read_once(
        self, source: Source, *, previous: bool, goes_on: bool
    ) -> AsyncGenerator[list[Line], None]:
        pause = 0.0
        for _ in range(_TRIES):
            await asyncio.sleep(pause)
            tail = self._wanted.tail if source.log.is_empty else None
            try:
                async with aclosing(self._pieces(source, tail=tail, previous=previous)) as pieces:
                    async for lines in pieces:
                        yield lines
                if not goes_on and (lines := source.log.end()):
                    yield lines
                return
            except UnauthorizedError:
                raise
            except RetriableError as error:
                source.error = error
                source.log.cut()
                pause = error.retry_after or (EVERY if pause else FIRST)
            except ApiError as error:
                self._note(source, error)
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
            source.error = None
            async for chunk in chunks:
                # Nothing tells whose lines these are, and the run that ended before has some too, perhaps.
                if follow and source.log.is_empty and await self._has_restarted(source):
                    return
                if lines := source.log.feed(chunk):
                    yield lines
                if source.log.other:
                    return

    async def _has_restarted(self, source: Source) -> bool:
        """Whether its container has, since its pod was seen."""
        try:
            live = await in_time(self._client.get(PODS.path(self._namespace, source.pod.name)))
            pod = _of(msgspec.convert(live, _Pod))
        except (ApiError, msgspec.ValidationError):
            return False
        return pod is not None and pod.restarts > source.pod.restarts

    async def _read_all(self, pieces: asyncio.Queue[_Piece]) -> None:
        """Read each log on, those of new pods too, until the TrainJob has ended; the end is None."""
        trainjob = asyncio.create_task(self._watch_trainjob())
        pods = asyncio.create_task(self._watch_pods())
        reading: dict[str, asyncio.Task[None]] = {}
        is_over = False

        async def read(source: Source) -> None:
            async with aclosing(self._on(source)) as on:
                async for lines in on:
                    await pieces.put((source, lines))

        try:
            trainjob.add_done_callback(self._ring)
            pods.add_done_callback(self._ring)
            while True:
                bell = self._bell
                is_gone = trainjob.done() and self.row is None  # new pods are those of another of its name
                if not is_gone:
                    self._check_number()
                for pod in self._pods.values():
                    if pod.uid not in reading and self._is_wanted(pod) and not is_gone:
                        # It may have restarted before it was seen: what its first run printed comes first.
                        unseen = replace(pod, restarts=0)
                        source = self._followed.setdefault(pod.uid, self._source(unseen, is_new=True))
                        reading[pod.uid] = asyncio.create_task(read(source))
                        reading[pod.uid].add_done_callback(self._ring)
                for task in (trainjob, pods, *reading.values()):
                    if task.done():
                        task.result()
                if trainjob.done() and not is_over:
                    # What was seen of the pods may be older than the end.
                    is_over, self._all_seen = True, False
                    pods.remove_done_callback(self._ring)
                    pods.cancel()
                    pods = asyncio.create_task(self._watch_pods())
                    pods.add_done_callback(self._ring)
                if is_over and self._all_seen and all(task.done() for task in reading.values()):
                    if not self._followed:
                        self._check_rank(self._pods.values(), await self._sizes())
                    await pieces.put(None)
                    return
                await bell.wait()
        except Exception as error:
            await pieces.put(error)  # whoever prints raises it
        finally:
            for task in (trainjob, pods, *reading.values()):
                task.cancel()
            await asyncio.gather(trainjob, pods, *reading.values(), return_exceptions=True)

    async def _on(self, source: Source) -> AsyncGenerator[list[Line], None]:
        """The log of a pod until its end: over cut connections, and restarts of its container."""
        tries, pause = 0, FIRST
        while (pod := self._pods.get(source.pod.uid)) is not None:
            is_new = False
            async with aclosing(self._on_once(source, pod)) as on:
                async for lines in on:
                    is_new = True
                    yield lines
            if is_new:
                tries, pause = 0, FIRST
                continue
            tries += _is_answer(source.error)
            if pod.ended and (_is_whole(source) or not pod.started or tries >= _TRIES):
                if lines := source.log.end():
                    yield lines
                return
            seconds = EVERY if source.error is None else source.error.retry_after or pause
            await self._until_changed(pod, seconds)
            pause = min(EVERY, 2 * pause)
        if isinstance(source.error, NotFoundError):  # it went once its log had ended
            source.error = None

    async def _on_once(self, source: Source, pod: Pod) -> AsyncGenerator[list[Line], None]:
        """The pieces until the log ends, the connection is cut, or lines of the container's next run come."""
        if pod.restarts > source.pod.restarts:
            async with aclosing(self._before(source)) as rest:
                async for lines in rest:
                    yield lines
        source.pod = pod
        source.log.cut()
        if not pod.started:
            return
        try:
            async with aclosing(self._pieces(source, follow=True)) as pieces:
                async for lines in pieces:
                    yield lines
        except ApiError as error:
            self._note(source, error)
        if source.log.other:
            async with aclosing(self._before(source, source.log.other)) as rest:
                async for lines in rest:
                    yield lines

    async def _before(self, source: Source, beginning: bytes = b"") -> AsyncGenerator[list[Line], None]:
        """The rest of the run of a container that was read, from the log before its last restart.

        `beginning`: how the log of the next run begins, if lines of it have come: they come then. So a log
        that is not of the last run that was read is of an unread run.
        """
        tries = 0
        while tries < _TRIES:
            is_new = False
            source.log.cut()
            try:
                async with aclosing(self._pieces(source, previous=True)) as pieces:
                    async for lines in pieces:
                        is_new = True
                        yield lines
            except ApiError as error:
                self._note(source, error)
                if not isinstance(error, RetriableError):
                    break
                await asyncio.sleep(error.retry_after or (EVERY if tries else FIRST))
            if (other := source.log.other) and beginning:
                if _first_line(other) == _first_line(beginning):  # it has restarted once more meanwhile
                    beginning = b""
                source.log, is_new = Log(), True
                yield source.log.feed(other)
            elif other or (not is_new and _is_whole(source)):
                break
            tries = 0 if is_new else tries + _is_answer(source.error)
        if lines := source.log.end():
            yield lines
        if beginning:
            source.log = Log()
            yield source.log.feed(beginning)

    def _note(self, source: Source, error: ApiError) -> None:
        """Note why a log could not be read; raises what no other try can mend."""
        if isinstance(error, UnauthorizedError):
            raise error
        if isinstance(error, ForbiddenError):
            raise self._not_allowed(_READ) from error
        source.error = error


def _first_line(log: bytes) -> bytes:
    return log.partition(b"\n")[0]


def _is_answer(error: ApiError | None) -> bool:
    """Whether the API server has answered: it is waited for without an end, the kubelet behind it is not."""
    return error is None or error.code != 0


def _is_whole(source: Source) -> bool:
    """Whether a log that has ended, and of which nothing new came, is read.

    The API server ends an answer that its kubelet has cut as if it were whole.
    """
    return source.error is None and source.log.is_caught_up


def _by_uid(raw: msgspec.Raw) -> tuple[str, Pod] | None:
    pod = _pod(raw)
    return None if pod is None else (pod.uid, pod)


async def _next_of_each(readers: Sequence[AsyncGenerator[list[Line], None]]) -> list[list[Line] | None]:
    """The next piece of each, None of one that has ended; where one raises, none is still running then."""

    async def read(reader: AsyncGenerator[list[Line], None]) -> list[Line] | None:
        return await anext(reader, None)

    reading = [asyncio.create_task(read(reader)) for reader in readers]
    try:
        return await asyncio.gather(*reading)
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


def _pod(raw: msgspec.Raw) -> Pod | None:
    """The source for a pod; None for a pod without a JobSet."""
    try:
        return _of(msgspec.json.decode(raw, type=_Pod))
    except msgspec.ValidationError:
        return None


def _of(pod: _Pod) -> Pod | None:
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
        created=pod.metadata.creation_timestamp,
        jobset=labels.jobset or pod.metadata.uid,
    )
