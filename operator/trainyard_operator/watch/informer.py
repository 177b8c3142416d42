"""A WatchList informer: keeps a store equal to what the API server holds of one kind.

For JobSets, our own ControllerRevisions and failed pods. Unlike Kopf's
watching it decodes into slim types as it reads, and after a relist drops objects that no longer exist. Runs
on every replica; decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from trainyard_kube.client import ApiError, Client, GoneError, NotFoundError, Resource, RetriableError

from ..core.decide.views import SeenJobSet, jobset_of
from .cache import Key, Store, version

logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

INACTIVITY = 70.0
"""Seconds without a byte before a stream counts as dead: a bookmark comes every minute."""
SERVER_TIMEOUT = 280
"""Seconds, with some jitter, after which the server is to end a stream; we resume it."""
FIRST_RETRY, LAST_RETRY = 0.2, 30.0
SHORTEST_STREAM = 5.0
"""Seconds; a stream that the server ends earlier is resumed after a pause, which grows each time."""
MISSING_RETRY = 2.0
"""Seconds between looks at a resource that is not served yet."""
PAGE = 500
EVENT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class State(StrEnum):
    """How far an informer has come."""

    STARTING = "starting"
    SYNCED = "synced"
    MISSING = "missing"
    """The API server does not serve the resource; the store is empty because nothing can exist."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Headed(msgspec.Struct):
    metadata: _Meta


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


class Informed(Protocol[K, V]):
    """Where an informer puts what it finds: one kind's decoder and its store."""

    def decode(self, raw: msgspec.Raw | bytes) -> tuple[K, V]:
        """Read one object. Raises ValueError, KeyError or TypeError for what is not one."""
        ...

    def key(self, namespace: str, name: str) -> K:
        """The key of an object by its name."""
        ...

    def upsert(self, key: K, value: V) -> None:
        """An object is new or has changed."""
        ...

    def remove(self, key: K, uid: str, resource_version: str) -> None:
        """An object is gone."""
        ...

    def replace(self, objects: dict[K, V], at: int) -> None:
        """This is all there is, at this version."""
        ...

    def progress(self, at: int) -> None:
        """Everything up to this version has been delivered."""
        ...

    def changed(self, state: State) -> None:
        """The informer's state has changed."""
        ...


class Informer(Generic[K, V]):
    """Follows one resource forever. `run` is its task.

    `namespace`, `selector` (of labels) and `fields` (a field selector) narrow what is followed;
    `inactivity` is in seconds; `clock` gives seconds that never go back.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        sink: Informed[K, V],
        *,
        namespace: str | None = None,
        selector: str | None = None,
        fields: str | None = None,
        inactivity: float = INACTIVITY,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self.resource = resource
        self.state = State.STARTING
        self.problem = ""
        """What went wrong last; empty once something has come since."""
        self.restarts = 0
        self.unreadable: set[K] = set()
        """Objects that there are, as far as is known, and that could not be read."""
        self.beat = clock()
        """When the task last made progress: an event, a bookmark or a new try."""
        self.heard = self.beat
        """When the API server last said something about the resource."""
        self._client = client
        self._sink = sink
        self._path = resource.path(namespace)
        narrowed = {"labelSelector": selector, "fieldSelector": fields}
        self._params = {name: value for name, value in narrowed.items() if value}
        self._inactivity = inactivity
        self._clock = clock
        self._sleep = sleep
        self._resume: str | None = None
        self._watch_list = True
        self._failures = 0
        self._short = 0

    @property
    def name(self) -> str:
        """What is followed, for logs and metrics."""
        return self.resource.plural

    async def run(self) -> None:
        """Follow until cancelled; no failure ends it."""
        while True:
            self.beat = self._clock()
            try:
                if self._resume is None and not self._watch_list:
                    await self._list()
                since = self._clock()
                await self._follow()
                self._failures = 0
                # It is normal that the server ends streams: resume at once, unless they are all short.
                self._short = self._short + 1 if self._clock() - since < SHORTEST_STREAM else 0
                if self._short > 1:
                    await self._pause(self._short - 1)
                continue
            except GoneError:
                logger.info("%s: the version to resume from is gone, listing again", self.name)
                self._resume = None
            except NotFoundError as error:
                self._resume = None
                if await self._is_missing():
                    self.heard = self._clock()
                    self._set(State.MISSING)
                    await self._sleep(MISSING_RETRY)
                    continue
                self._complain(error)
            except RetriableError as error:
                self.problem = str(error)
                level = logging.INFO if self._failures == 0 else logging.DEBUG
                logger.log(level, "%s: stream broken: %s", self.name, error)
            except ApiError as error:
                if self._resume is None and self._watch_list and error.code in {400, 422}:
                    logger.info("%s: the server refuses a streamed list, falling back to pages", self.name)
                    self._watch_list = False
                    continue
                self._complain(error)
                self._resume = None
            except Exception as error:
                self.problem = repr(error)
                logger.exception("%s: unexpected error, listing again", self.name)
                self._resume = None
            self.restarts += 1
            self._failures += 1
            await self._pause(self._failures)

    async def _pause(self, times: int) -> None:
        delay = min(LAST_RETRY, FIRST_RETRY * 2 ** min(times - 1, 12))
        await self._sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spread, not secrecy

    async def _list(self) -> None:
        objects: dict[K, V] = {}
        unreadable: set[K] = set()
        at = 0
        async for page in self._client.list(self._path, limit=PAGE, params=self._params):
            self.beat = self.heard = self._clock()
            at = version(page.metadata.resource_version)
            for raw in page.items or ():
                meta = msgspec.json.decode(raw, type=_Headed).metadata
                with self._reading(meta, unreadable):
                    key, value = self._sink.decode(raw)
                    objects[key] = value
        self._finish(objects, unreadable, at)

    async def _follow(self) -> None:
        initial: dict[K, V] | None = None
        unreadable: set[K] = set()
        params = {
            **self._params,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(SERVER_TIMEOUT * random.uniform(0.9, 1.1))),  # noqa: S311 - spread
        }
        if self._resume is None:
            initial = {}
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            params["resourceVersion"] = self._resume
        async with contextlib.aclosing(
            self._client.watch(self._path, params=params, inactivity=self._inactivity)
        ) as lines:
            async for line in lines:
                self.beat = self.heard = self._clock()
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "ERROR":
                    raise _watch_error(event.object)
                if event.type not in EVENT_TYPES:
                    logger.warning("%s: unknown event type %r ignored", self.name, event.type)
                    continue
                meta = msgspec.json.decode(event.object, type=_Headed).metadata
                self._failures = 0
                self.problem = ""
                if initial is None:
                    self._apply(event, meta)
                    self._resume = meta.resource_version
                elif self._gather(event, meta, initial, unreadable):
                    self._finish(initial, unreadable, version(meta.resource_version))
                    initial = None

    def _gather(self, event: _Event, meta: _Meta, initial: dict[K, V], unreadable: set[K]) -> bool:
        """Take an event of a streamed list into `initial` or `unreadable`; True if it was the last."""
        if event.type == "BOOKMARK":
            return (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        if event.type == "DELETED":
            key = self._sink.key(meta.namespace, meta.name)
            initial.pop(key, None)
            unreadable.discard(key)
            return False
        with self._reading(meta, unreadable):
            key, value = self._sink.decode(event.object)
            initial[key] = value
        return False

    def _apply(self, event: _Event, meta: _Meta) -> None:
        """Pass on an event that came after the list."""
        if event.type == "BOOKMARK":
            self._sink.progress(version(meta.resource_version))
            return
        with self._reading(meta, self.unreadable):
            self._sink.upsert(*self._sink.decode(event.object))  # for a deleted object, its last state
        if event.type == "DELETED":
            key = self._sink.key(meta.namespace, meta.name)
            self._sink.remove(key, meta.uid, meta.resource_version)
            self.unreadable.discard(key)

    def _complain(self, error: ApiError) -> None:
        if str(error) != self.problem:
            logger.warning("%s: %s", self.name, error)
        self.problem = str(error)

    def _finish(self, objects: dict[K, V], unreadable: set[K], at: int) -> None:
        self._sink.replace(objects, at)
        self.unreadable = unreadable
        self._resume = str(at)
        self._set(State.SYNCED)

    def _set(self, state: State) -> None:
        if state is State.MISSING and self.state is not State.MISSING:
            logger.warning("%s.%s is not served: its CRD is missing", self.name, self.resource.group)
            self._sink.replace({}, 0)
            self.unreadable = set()
        if state is not self.state:
            self.state = state
            self._sink.changed(state)

    async def _is_missing(self) -> bool:
        """A 404 empties the store, so trust it only if the resource is not in discovery either."""
        try:
            group = await self._client.get(self.resource.base)
        except NotFoundError:
            return True
        except ApiError:
            return False
        return all(entry.get("name") != self.resource.plural for entry in group.get("resources", ()))

    @contextlib.contextmanager
    def _reading(self, meta: _Meta, unreadable: set[K]) -> Iterator[None]:
        """One object that cannot be read must not hide the others, whatever its owner has written into it."""
        key = self._sink.key(meta.namespace, meta.name)
        unreadable.discard(key)
        try:
            yield
        except Exception as error:
            unreadable.add(key)
            logger.error("%s %s/%s: not readable: %r", self.name, meta.namespace, meta.name, error)


def _watch_error(raw: msgspec.Raw) -> ApiError:
    status = msgspec.json.decode(raw, type=_Status)
    kind: type[ApiError] = GoneError if status.code == 410 else RetriableError
    return kind(status.message or "watch error", code=status.code, reason=status.reason)


class JobSetSink:
    """Puts JobSets into their store.

    A JobSet that no TrainJob controls is kept only while `has_trainjob` (is there a
    TrainJob of this name?) says so: a cluster may hold any number of them.
    """

    def __init__(
        self,
        store: Store[Key, SeenJobSet],
        *,
        has_trainjob: Callable[[Key], bool],
        changed: Callable[[State], None],
    ) -> None:
        self._store = store
        self._has_trainjob = has_trainjob
        self._changed = changed

    def decode(self, raw: msgspec.Raw | bytes) -> tuple[Key, SeenJobSet]:
        """See `Informed`."""
        seen = jobset_of(raw)
        return Key.of(seen.jobset), seen

    def key(self, namespace: str, name: str) -> Key:
        """See `Informed`."""
        return Key(namespace, name)

    def upsert(self, key: Key, value: SeenJobSet) -> None:
        """See `Informed`."""
        if not value.of_trainjob and not self._has_trainjob(key):
            self._store.remove(key, resource_version=value.resource_version)
            return
        self._store.observe(key, value)

    def remove(self, key: Key, uid: str, resource_version: str) -> None:
        """See `Informed`."""
        self._store.remove(key, uid=uid, resource_version=resource_version)

    def replace(self, objects: dict[Key, SeenJobSet], at: int) -> None:
        """See `Informed`; version 0 means that there can be none at all."""
        if at == 0 and not objects:
            self._store.clear()
        else:
            kept = {
                key: value for key, value in objects.items() if value.of_trainjob or self._has_trainjob(key)
            }
            self._store.replace(kept, at)

    def progress(self, at: int) -> None:
        """See `Informed`."""
        self._store.seen = max(self._store.seen, at)

    def changed(self, state: State) -> None:
        """See `Informed`."""
        self._changed(state)
