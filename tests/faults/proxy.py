"""A TLS proxy between the operator and its API server, which misbehaves exactly as it is told.

The operator verifies it, and it verifies the API server. It keeps a trace of
all that passes, and passes everything on unchanged but what a `Fault` is about.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
WRITES = frozenset(VERBS.values())
COURTESY = frozenset(
    {
        *("leases", "events", "tokenreviews", "subjectaccessreviews"),
        *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
    }
)
"""Resources of which a write is not counted: it is about no TrainJob, or changes none."""
END = {"k8s.io/initial-events-end": "true"}


class Act(Enum):
    """What becomes of a request, or of the events of a watch."""

    REFUSE = "answered with `code`, and not passed on"
    LOSE = "passed on, and its answer lost"
    KILL = "passed on, and the operator killed before it hears the answer"
    CUT = "the connection is closed, and nothing passed on"
    HOLD = "nothing is said until the fault is lifted; then it is passed on"
    FREEZE = "events are withheld until the fault is lifted; then they come, in their order"
    MUTE = "events of deletion are swallowed"
    STUTTER = "each event comes twice, between bookmarks and types that there are not"
    FAIL = "an ERROR event with `code` comes in place of the next event"
    PAST = "watches, and lists of any version, show the world as of `revision`, until the fault is lifted"


_OF_WATCHES = {Act.FREEZE, Act.MUTE, Act.STUTTER, Act.FAIL}


@dataclass(frozen=True)
class Request:
    """What the operator asks for."""

    verb: str
    resource: str
    """Plural and subresource: `jobsets`, `trainjobs/status`."""
    namespace: str
    name: str
    path: str
    body: Any
    newest: bool = False
    """Whether it is a list that names no version: the API server answers with what is newest, always."""

    @property
    def about(self) -> str:
        """The namespace whose TrainJob it is for: of a runtime's revision, that of the runtime."""
        if self.resource == "controllerrevisions" and isinstance(self.body, Mapping):
            return str((self.body.get("data") or {}).get("namespace") or "")
        return self.namespace

    @property
    def counts(self) -> bool:
        """Whether it is a write for a TrainJob."""
        return self.verb in WRITES and self.resource.partition("/")[0] not in COURTESY


@dataclass(frozen=True)
class Passed:
    """A request that the API server has answered."""

    request: Request
    code: int


@dataclass
class Fault:
    """What goes wrong, and for which requests: every one that fits, or with `nth` that one alone.

    Without `verbs` it is about the writes for TrainJobs, or about watches if
    it is something that only happens to them.
    """

    act: Act
    verbs: frozenset[str] = frozenset()
    resource: str = ""
    about: str = ""
    """A namespace; everything if empty."""
    nth: int | None = None
    code: int = 500
    retry_after: int | None = None
    message: str = "as a test wants it"
    revision: int = 0
    happened: int = 0
    """How often it has."""
    lifted: bool = False
    _matched: int = field(default=0, repr=False)

    def strikes(self, request: Request) -> bool:
        """Whether it happens to this request; counts it."""
        if self.lifted or not self._fits(request):
            return False
        self._matched += 1
        if self.nth not in (None, self._matched):
            return False
        self.happened += 1
        return True

    async def over(self) -> None:
        """Wait until it is lifted."""
        while not self.lifted:  # noqa: ASYNC110 - lifted in another thread
            await asyncio.sleep(0.05)

    def _fits(self, request: Request) -> bool:
        if self.verbs:
            wanted = request.verb in self.verbs
        elif self.act is Act.PAST:
            wanted = request.verb in {"list", "watch"} and not request.newest
        else:
            wanted = request.verb == "watch" if self.act in _OF_WATCHES else request.counts
        if self.resource not in ("", request.resource):
            wanted = False
        return wanted and self.about in ("", request.about)


class Proxy:
    """Listens on 127.0.0.1:`port` between `start` and `stop`, in a thread of its own.

    `upstream` is the API server and `trust` what it is verified with; `serve`
    has the proxy's own certificate.
    """

    def __init__(self, upstream: str, trust: ssl.SSLContext, serve: ssl.SSLContext) -> None:
        self.kill: Callable[[], None]
        """Ends the operator, and returns when that has happened."""
        self.trace: list[Passed] = []
        self.faults: list[Fault] = []
        self.port = 0
        self._upstream = upstream
        self._trust = trust
        self._serve = serve
        self._streams: dict[asyncio.Task[Any], Request] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)

    def stop(self) -> None:
        self.heal()
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def add(self, fault: Fault) -> Fault:
        """From now on this goes wrong."""
        self.faults.append(fault)
        return fault

    def heal(self, *faults: Fault) -> None:
        """Lift these faults, or all."""
        for fault in faults or tuple(self.faults):
            fault.lifted = True
            self.faults.remove(fault)

    def cut(self, resource: str = "") -> None:
        """Break the watches of a resource, or all."""

        def now() -> None:
            for task, request in list(self._streams.items()):
                if resource in ("", request.resource):
                    task.cancel()

        self._loop.call_soon_threadsafe(now)

    def writes(self, about: str) -> list[Passed]:
        """The writes for the TrainJob of a namespace, in their order."""
        return [p for p in list(self.trace) if p.request.counts and p.request.about == about]

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._trust), auto_decompress=False
        )
        self._runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._serve)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        for task in list(self._streams):
            task.cancel()
        await self._runner.cleanup()
        await self._session.close()

    async def _answer(self, incoming: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._misbehave(incoming)
        except aiohttp.ClientError:
            return _hang_up(incoming)  # the API server has, too

    async def _misbehave(self, incoming: web.BaseRequest) -> web.StreamResponse:
        raw = await incoming.read()
        request = _request(incoming, raw)
        struck = [f for f in list(self.faults) if f.act not in _OF_WATCHES and f.strikes(request)]
        for fault in struck:
            if fault.act is Act.CUT:
                return _hang_up(incoming)
            if fault.act is Act.REFUSE:
                return _status(fault)
            if fault.act is Act.HOLD:
                await fault.over()
        past = next((fault for fault in struck if fault.act is Act.PAST), None)
        url = URL(self._upstream + incoming.path_qs, encoded=True)
        if past is not None:
            if request.verb == "watch":
                return await self._watch_past(incoming, request, url, past)
            url = _at(url, past.revision)
        if request.verb == "watch":
            return await self._watch(incoming, request, url)
        async with self._session.request(
            incoming.method, url, data=raw or None, headers=_headers(incoming), allow_redirects=False
        ) as answer:
            body = await answer.read()
        self.trace.append(Passed(request, answer.status))
        for fault in struck:
            if fault.act is Act.KILL:
                await asyncio.to_thread(self.kill)
            if fault.act in (Act.KILL, Act.LOSE):
                return _hang_up(incoming)
        headers = {
            name: answer.headers[name]
            for name in ("Content-Type", "Content-Encoding", "Retry-After", "Warning", "Date")
            if name in answer.headers
        }
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _watch(self, incoming: web.BaseRequest, request: Request, url: URL) -> web.StreamResponse:
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(url, headers=_headers(incoming), timeout=timeout) as answer:
            self.trace.append(Passed(request, answer.status))
            if answer.status != 200:
                return web.Response(status=answer.status, body=await answer.read(), headers=_type(answer))
            response = web.StreamResponse(headers=_type(answer))
            await response.prepare(incoming)
            with _Streaming(self._streams, request):
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        for told in await self._told(request, line):
                            await response.write(told + b"\n")
            return response

    async def _told(self, request: Request, line: bytes) -> list[bytes]:
        """What comes of one event of a watch."""
        for fault in list(self.faults):
            if fault.act not in _OF_WATCHES or not fault.strikes(request):
                continue
            if fault.act is Act.FREEZE:
                await fault.over()
            if fault.act is Act.MUTE and json.loads(line)["type"] == "DELETED":
                return []
            if fault.act is Act.FAIL:
                return [_event("ERROR", {"kind": "Status", "code": fault.code, "message": fault.message})]
            if fault.act is Act.STUTTER:
                version = {"resourceVersion": json.loads(line)["object"]["metadata"]["resourceVersion"]}
                noise = [_event(kind, {"metadata": version}) for kind in ("BOOKMARK", "BOOKMARK", "WHATEVER")]
                return [line, *noise, line]
        return [line]

    async def _watch_past(
        self, incoming: web.BaseRequest, request: Request, url: URL, past: Fault
    ) -> web.StreamResponse:
        """What there was then, if all is asked for; nothing more until the fault is lifted; then the end."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(incoming)
        if "sendInitialEvents" in url.query:
            headers = {**_headers(incoming), "Accept-Encoding": "identity"}  # it is read here
            async with self._session.get(_at(url, past.revision), headers=headers) as answer:
                found = await answer.json(content_type=None)
            self.trace.append(Passed(request, answer.status))
            for item in found["items"]:
                await response.write(_event("ADDED", item) + b"\n")
            at = {"resourceVersion": str(past.revision), "annotations": END}
            await response.write(_event("BOOKMARK", {"metadata": at}) + b"\n")
        with _Streaming(self._streams, request):
            await past.over()
        return response


class _Streaming:
    """For as long as a watch runs, it can be cut."""

    def __init__(self, streams: dict[asyncio.Task[Any], Request], request: Request) -> None:
        self._streams = streams
        self._request = request

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._streams[task] = self._request

    def __exit__(self, *_: object) -> None:
        del self._streams[self._task]


def _request(incoming: web.BaseRequest, raw: bytes) -> Request:
    parts = incoming.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]  # less group and version
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    resource, name, sub = (*parts, "", "", "")[:3]
    verb = VERBS.get(incoming.method, "get" if name or not resource else "list")
    if incoming.query.get("watch") == "true":
        verb = "watch"
    body = json.loads(raw) if raw else None
    if verb == "create" and not name and isinstance(body, Mapping):
        name = str((body.get("metadata") or {}).get("name") or "")
    newest = verb == "list" and "resourceVersion" not in incoming.query
    full = f"{resource}/{sub}" if sub else resource
    return Request(verb, full, namespace, name, incoming.path, body, newest)


def _headers(incoming: web.BaseRequest) -> dict[str, str]:
    """What the API server is to know of the request: who asks, and in which form."""
    names = ("Authorization", "Accept", "Content-Type", "User-Agent")
    return {name: incoming.headers[name] for name in names if name in incoming.headers}


def _type(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {"Content-Type": answer.headers.get("Content-Type", "application/json")}


def _at(url: URL, revision: int) -> URL:
    """The list of exactly this revision."""
    return url.with_query({"resourceVersion": str(revision), "resourceVersionMatch": "Exact"})


def _event(kind: str, body: object) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode()


def _status(fault: Fault) -> web.Response:
    reasons = {403: "Forbidden", 409: "Conflict", 410: "Expired", 429: "TooManyRequests"}
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": fault.code,
        "reason": reasons.get(fault.code, "InternalError"),
        "message": fault.message,
    }
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return web.json_response(body, status=fault.code, headers=headers)


def _hang_up(incoming: web.BaseRequest) -> web.Response:
    if incoming.transport is not None:
        incoming.transport.abort()
    return web.Response()  # to a connection that is no more
