"""An API server in memory, at the HTTP boundary: objects, versions, preconditions and watches.

What it answers is what a real one was seen to answer; what it does not know
(schemas, admission, permissions) tests put in its mouth with `refuse_next`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.test_utils import TestServer

from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials

T = TypeVar("T")
END = "k8s.io/initial-events-end"
SERVED = {
    "v1": {"namespaces": "Namespace", "events": "Event", "secrets": "Secret", "configmaps": "ConfigMap"},
    "apiextensions.k8s.io/v1": {"customresourcedefinitions": "CustomResourceDefinition"},
    "jobset.x-k8s.io/v1alpha2": {"jobsets": "JobSet"},
    "trainer.kubeflow.org/v1alpha1": {
        "trainjobs": "TrainJob",
        "trainingruntimes": "TrainingRuntime",
        "clustertrainingruntimes": "ClusterTrainingRuntime",
    },
    "scheduling.x-k8s.io/v1alpha1": {"podgroups": "PodGroup"},
    "scheduling.volcano.sh/v1beta1": {"podgroups": "PodGroup"},
}


OWN_AUDIENCE = "https://kubernetes.default.svc"
"""Whom tokens are meant for that are the API server's own."""


def run(test: Callable[[], Coroutine[Any, Any, T]], timeout: float = 300.0) -> T:
    """Run an asynchronous test body, and no longer than `timeout` seconds."""

    async def limited() -> T:
        async with asyncio.timeout(timeout):
            return await test()

    return asyncio.run(limited())


async def eventually(condition: Callable[[], bool], within: float = 300.0) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - what is waited for is in another task's hands
            await asyncio.sleep(0.005)


def status(code: int, reason: str, message: str = "", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or reason,
        "details": details,
    }


class FakeApi:
    """Objects by path. `requests` are all (method, path) in order; `whole` those answered with all of it."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.whole: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.stripped: set[str] = set()
        """Plurals of what loses its annotations on each write, as to a mutating admission policy."""
        self.missing: set[str] = set()
        self.logs: dict[str, str] = {}
        """By the path of a pod's log."""
        self.tokens: dict[str, tuple[str, dict[str, Any]]] = {}
        """By token: whom it is meant for, and whose it is; a TokenReview of any other fails."""
        self.readers: set[str] = set()
        """Names of users that a SubjectAccessReview allows to get /metrics."""
        self.accepts: Callable[[web.Request], bool] = lambda _: True
        """Whether a request has the credentials that it needs."""
        self.watch_list = True
        self.page_size = 500
        self._versions = itertools.count(100)
        self._refusals: list[tuple[str, str, int, dict[str, Any], dict[str, str]]] = []
        self._streams: dict[asyncio.Queue[dict[str, Any] | None], str] = {}

    # What tests do to it.

    def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object as if somebody else had written it."""
        old = self.objects.get(path)
        metadata = {
            "uid": old["metadata"]["uid"] if old else str(uuid.uuid4()),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "name": path.rsplit("/", 1)[1],
            **body.get("metadata", {}),
            "resourceVersion": str(next(self._versions)),
        }
        parts = path.split("/")
        if parts[-2] in self.stripped:
            metadata.pop("annotations", None)
        if "namespaces" in parts[:-2]:
            metadata["namespace"] = parts[parts.index("namespaces") + 1]
        stored = {**body, "metadata": metadata}
        self.objects[path] = stored
        self._tell(path, "MODIFIED" if old else "ADDED", stored)
        return stored

    def remove(self, path: str, *, silently: bool = False) -> None:
        """Delete an object; `silently`: no watch will ever tell."""
        old = self.objects.pop(path)
        old = {**old, "metadata": {**old["metadata"], "resourceVersion": str(next(self._versions))}}
        if not silently:
            self._tell(path, "DELETED", old)

    def restore(self, *, version: int) -> None:
        """As after etcd was restored from a backup: versions go on from an earlier one."""
        self._versions = itertools.count(version)

    def say(self, path: str, event: dict[str, Any]) -> None:
        """Send any event at all to the watches of a collection."""
        for stream, collection in self._streams.items():
            if collection == path:
                stream.put_nowait(event)

    def hang_up(self) -> None:
        """End all watches."""
        for stream in self._streams:
            stream.put_nowait(None)

    def refuse_next(
        self, method: str, ending: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        """Answer the next such request with this Status."""
        self._refusals.append((method, ending, body["code"], body, headers or {}))

    def watched(self, path: str) -> bool:
        """Whether somebody watches the collection, and so would hear what is said."""
        return path in self._streams.values()

    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.requests if method != "GET"]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Serve, and open a client to it."""
        async with self.serving() as url, Client(Credentials(server=url, tls=None)) as client:
            yield client

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """Serve, and give the URL."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._serve)
        server = TestServer(app, scheme="http" if tls is None else "https")
        await server.start_server(access_log=None, ssl=tls)
        try:
            yield str(server.make_url("")).rstrip("/")
        finally:
            self.hang_up()
            await server.close()

    # How it answers.

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.requests.append((request.method, path))
        if not self.accepts(request):
            return _answer(status(401, "Unauthorized"))
        body = await request.json() if request.can_read_body else None
        self.bodies.append(body)
        for refusal in self._refusals:
            method, ending, code, answer, headers = refusal
            if request.method == method and path.endswith(ending):
                self._refusals.remove(refusal)
                return web.json_response(answer, status=code, headers=headers)
        if any(path.startswith(prefix) for prefix in self.missing):
            return web.Response(status=404, text="404 page not found\n")
        if request.method == "GET" and request.query.get("watch") == "true":
            return await self._watch(request)
        answers: dict[str, Callable[[web.Request, Any], Awaitable[web.Response]]] = {
            "GET": self._get,
            "POST": self._post,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        return await answers[request.method](request, body)

    def _tell(self, path: str, kind: str, body: dict[str, Any]) -> None:
        collections = {path.rsplit("/", 1)[0], _everywhere(path)}
        for stream, collection in self._streams.items():
            if collection in collections:
                stream.put_nowait({"type": kind, "object": body})

    def _within(self, collection: str) -> list[dict[str, Any]]:
        return [
            body
            for path, body in self.objects.items()
            if collection in (path.rsplit("/", 1)[0], _everywhere(path))
        ]

    def _object(self, request: web.Request, body: dict[str, Any], status: int = 200) -> web.Response:
        """The object, or its metadata alone if that is what is asked for."""
        if "as=PartialObjectMetadata;" in request.headers["Accept"]:
            headed = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
            return web.json_response({**headed, "metadata": body["metadata"]}, status=status)
        self.whole.append((request.method, request.path))
        return web.json_response(body, status=status)

    async def _get(self, request: web.Request, _: Any) -> web.Response:
        if request.path in self.logs:
            return web.Response(text=_end_of(self.logs[request.path], request.query))
        if request.path in self.objects:
            return self._object(request, self.objects[request.path])
        if request.path == "/version":
            return web.json_response({"gitVersion": "v0"})
        if (discovered := _discovery(request.path)) is not None:
            return web.json_response(discovered)
        if "limit" not in request.query:
            return _answer(status(404, "NotFound", name=request.path.rsplit("/", 1)[1]))
        if "as=PartialObjectMetadata;" in request.headers["Accept"]:
            return _answer(status(406, "NotAcceptable", name=request.path))
        items = self._within(request.path)
        start = int(request.query.get("continue", "0"))
        end = start + min(int(request.query["limit"]), self.page_size)
        metadata = {"resourceVersion": str(next(self._versions))}
        if end < len(items):
            metadata["continue"] = str(end)
        return web.json_response({"metadata": metadata, "items": items[start:end] or None})

    async def _post(self, request: web.Request, body: Any) -> web.Response:
        if request.path.endswith("/tokenreviews"):
            return web.json_response({**body, "status": self._reviewed(body["spec"])}, status=201)
        if request.path.endswith("/subjectaccessreviews"):
            asked = body["spec"]["nonResourceAttributes"]
            allowed = asked == {"path": "/metrics", "verb": "get"} and body["spec"]["user"] in self.readers
            return web.json_response({**body, "status": {"allowed": allowed}}, status=201)
        path = f"{request.path}/{body['metadata']['name']}"
        if path in self.objects:
            return _answer(status(409, "AlreadyExists", name=body["metadata"]["name"]))
        if request.query.get("dryRun") == "All":
            return web.json_response(body, status=201)
        return self._object(request, self.put(path, body), status=201)

    def _reviewed(self, spec: dict[str, Any]) -> dict[str, Any]:
        audience, user = self.tokens.get(spec["token"], ("", {}))
        if audience not in spec.get("audiences", [OWN_AUDIENCE]):
            return {"authenticated": False, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user, "audiences": [audience]}

    async def _put(self, request: web.Request, body: Any) -> web.Response:
        live = self.objects.get(request.path)
        if live is None:
            return _answer(status(404, "NotFound", name=body["metadata"]["name"]))
        if body["metadata"].get("resourceVersion") not in {None, live["metadata"]["resourceVersion"]}:
            return _answer(status(409, "Conflict", "the object has been modified"))
        if request.query.get("dryRun") == "All":
            return web.json_response(body)
        return web.json_response(self.put(request.path, body))

    async def _patch(self, request: web.Request, body: Any) -> web.Response:
        path = request.path.removesuffix("/status")
        live = self.objects.get(path)
        if live is None:
            return _answer(status(404, "NotFound", name=path.rsplit("/", 1)[1]))
        if isinstance(body, list):
            return self._json_patch(path, live, body)
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted not in {None, live["metadata"]["resourceVersion"]}:
            return _answer(status(409, "Conflict", "the object has been modified"))
        return web.json_response(self.put(path, _merged(live, body)))

    def _json_patch(self, path: str, live: dict[str, Any], operations: list[Any]) -> web.Response:
        """The operations `test`, `add` and `replace`, as far as they lead through what there is."""
        changed = json.loads(json.dumps(live))
        for operation in operations:
            *way, last = operation["path"].strip("/").split("/")
            at = changed
            for step in way:
                at = at[int(step)] if isinstance(at, list) else at[step]
            if operation["op"] in ("add", "replace"):
                at[last] = operation["value"]
            elif at.get(last) != operation["value"]:
                return _answer(status(422, "Invalid", "testing value failed"))
        return web.json_response(self.put(path, changed))

    async def _delete(self, request: web.Request, body: Any) -> web.Response:
        live = self.objects.get(request.path)
        if live is None:
            return _answer(status(404, "NotFound", name=request.path.rsplit("/", 1)[1]))
        if body["preconditions"]["uid"] != live["metadata"]["uid"]:
            return _answer(status(409, "Conflict", "the UID in the precondition does not match"))
        if body["preconditions"].get("resourceVersion") not in {None, live["metadata"]["resourceVersion"]}:
            return _answer(status(409, "Conflict", "the ResourceVersion does not match"))
        if live["metadata"].get("finalizers"):
            deleting = {**live["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            return web.json_response(self.put(request.path, {**live, "metadata": deleting}))
        self.remove(request.path)
        return web.json_response({"kind": "Status", "status": "Success"})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        initial = request.query.get("sendInitialEvents") == "true"
        if initial and not self.watch_list:
            return _answer(status(422, "Invalid", "sendInitialEvents is forbidden"))
        response = web.StreamResponse()
        await response.prepare(request)
        stream: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._streams[stream] = request.path
        if initial:
            for body in self._within(request.path):
                stream.put_nowait({"type": "ADDED", "object": body})
            metadata = {"resourceVersion": str(next(self._versions)), "annotations": {END: "true"}}
            stream.put_nowait({"type": "BOOKMARK", "object": {"metadata": metadata}})
        try:
            while (event := await stream.get()) is not None:
                await response.write(json.dumps(event).encode() + b"\n")
        except ConnectionError:
            return response
        finally:
            del self._streams[stream]
        return response


def _discovery(path: str) -> dict[str, Any] | None:
    """What the server says it serves; everything here that is not `missing`."""
    if path == "/api":
        return {"versions": ["v1"]}
    if path == "/apis":
        return {
            "groups": [
                {"name": group, "versions": [{"version": version}], "preferredVersion": {"version": version}}
                for group, version in (name.split("/") for name in SERVED if "/" in name)
            ]
        }
    served = SERVED.get(path.removeprefix("/apis/").removeprefix("/api/"))
    if served is None or not path.startswith("/api"):
        return None
    resources = [
        {
            "name": plural,
            "singularName": kind.lower(),
            "kind": kind,
            "namespaced": not kind.startswith(("Cluster", "Namespace", "Custom")),
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }
        for plural, kind in served.items()
    ]
    return {"kind": "APIResourceList", "resources": resources}


def _everywhere(path: str) -> str:
    """The collection of all namespaces that an object's path is in."""
    parts = path.split("/")
    if "namespaces" in parts and len(parts) > parts.index("namespaces") + 3:
        at = parts.index("namespaces")
        return "/".join([*parts[:at], parts[at + 2]])
    return path.rsplit("/", 1)[0]


def _merged(live: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A JSON merge patch applied (RFC 7386); it leaves no null."""
    merged = dict(live)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            there = merged.get(name)
            merged[name] = _merged(there if isinstance(there, dict) else {}, value)
        else:
            merged[name] = value
    return merged


def _end_of(log: str, query: Mapping[str, str]) -> str:
    """As kubelet does: the last lines, and of these the first bytes."""
    lines = log.splitlines(keepends=True)[-int(query["tailLines"]) :]
    return "".join(lines).encode()[: int(query["limitBytes"])].decode(errors="ignore")


def _answer(body: dict[str, Any]) -> web.Response:
    return web.json_response(body, status=body["code"])
