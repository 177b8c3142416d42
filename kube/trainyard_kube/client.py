"""A small typed client of the Kubernetes API.

Used by the operator and by the command. Each call is one request: no cache, no
retries, no decisions; those are left to its callers. Bodies are JSON
by msgspec: plain values, or the msgspec type the caller asks for.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

import aiohttp
import msgspec

from trainyard_api.errors import UserError
from trainyard_api.printable import clean

from .credentials import Credentials, CredentialsError, RenewalError
from .messages import without_values
from .server_clock import ServerClock

T = TypeVar("T")
Query = Mapping[str, str] | Sequence[tuple[str, str]]
"""The parameters of a request; pairs where one name has several values."""

REQUEST_TIMEOUT = 30.0
"""Seconds for one request with an answer of known length."""
CONNECT_TIMEOUT = 10.0
CLOSE_TIMEOUT = 1.0
"""Seconds to close a WebSocket: a server that no longer reads does not answer the close."""
MAX_RETRY_AFTER = 60.0
"""Seconds; a server that asks for more gets the next request after this."""
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The Accept header for an object with metadata only."""
METADATA_OF_ALL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The Accept header for a list of objects with metadata only."""
MAX_WATCH_LINE = 64 * 1024 * 1024
"""Bytes; a watch event cannot be longer: etcd holds objects of 1.5 MiB."""


class ApiError(UserError):
    """The API server refused a request, or did not answer.

    `code` is the HTTP status (0: no answer), `reason` the machine-readable
    word of the Status object (`AlreadyExists`, `Invalid`, ...), `details` its
    `details` as plain JSON.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}" if self.code else self.message

    @property
    def shown(self) -> str:
        """The message on one line, because an API server's text is not trusted."""
        return clean(str(self))


class RetriableError(ApiError):
    """The same request may work later: overload, a server error, or no connection at all.

    `retry_after` is in seconds, None if the server did not say.
    """


class UnauthorizedError(RetriableError):
    """401: our credentials are not (or no longer) accepted."""


class ForbiddenError(ApiError):
    """403: the right is missing, or admission or a quota refuses the request."""


class ConflictError(ApiError):
    """409: the object is not, or no longer, as the request assumed."""


class NotFoundError(ApiError):
    """404: the object, its namespace, or the whole resource."""

    @property
    def resource_missing(self) -> bool:
        """True if the server does not know the resource at all (no CRD), rather than one object of it."""
        return not self.details.get("name")


class GoneError(ApiError):
    """410: the resourceVersion to resume from is compacted."""


_ERRORS: Final[Mapping[int, type[ApiError]]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    408: RetriableError,
    409: ConflictError,
    410: GoneError,
    429: RetriableError,
}
"""By HTTP status; other statuses are an `ApiError`, and those from 500 on a `RetriableError`."""

_ESCAPED: Final = (
    (b"&", rb"\u0026"),
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)

_WARNING: Final = re.compile(r'\b299 [^ "]{1,100} "((?:[^"\\]|\\.)*+)"')
_QUOTED: Final = re.compile(r"\\(.)")
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._:-]{1,253}")


def is_name(text: str) -> bool:
    """Whether an object or a namespace could have this name; some that none has are not excluded."""
    return _SEGMENT.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as the API server's paths spell it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or only the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`plural.group`, which is the name of its CRD if it has one."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def base(self) -> str:
        """The path of the group and version, which answers 404 while no CRD serves it."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """The path of an object or, without `name`, of the collection (of all namespaces without one).

        Raises `NotFoundError` for a name that no object can have: the name of
        a runtime is whatever a user has written, and must not lead elsewhere.
        """
        for segment in (namespace, name):
            if segment and not is_name(segment):
                message = f"{self.plural} {segment[:100]!r}: no object has such a name"
                raise NotFoundError(message, code=404, reason="NotFound", details={"name": segment[:100]})
        parts = [self.base]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, sub) if part]
        return "/".join(parts)


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: dict[str, Any] | None = None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """One page of a LIST, its items still raw JSON."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None
    """None for an empty list of some kinds."""


def error_from(code: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Turn an HTTP status and the body that came with it into the error to raise."""
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Proxies, and the server itself before its filters run, answer in plain text.
        status = _Status(message=body[:500].decode(errors="replace").strip())
    message = without_values(status.message) or f"HTTP {code}"
    seconds: float | None = None
    if retry_after is not None and retry_after.isdigit():
        seconds = min(float(retry_after), MAX_RETRY_AFTER)
    kind = _ERRORS.get(code, RetriableError if code >= 500 else ApiError)
    # etcd's refusal of an object above its limit comes as a 500, but no retry will change it.
    if code == 500 and "request is too large" in message:
        kind = ApiError
    return kind(message, code=code, reason=status.reason, details=status.details, retry_after=seconds)


class Client:
    """An API server as one identity. Use as an async context manager, in one event loop.

    `limit` is the number of connections at a time; `observer` is called with
    method, path and status code of each request (see `Credentials.session`),
    `warned` with each warning of the API server, on one line.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        limit: int = 64,
        observer: Callable[[str, str, int], None] | None = None,
        warned: Callable[[str], None] | None = None,
    ) -> None:
        self.credentials = credentials
        self._limit = limit
        self._observer = observer
        self._warned = warned
        self._session: aiohttp.ClientSession | None = None
        self.time = ServerClock()

    async def __aenter__(self) -> Self:
        self._session = self.credentials.session(limit=self._limit, observer=self._observer)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session; a client that was not entered has none."""
        if self._session is None:
            raise RuntimeError("the client is not open")
        return self._session

    async def get(
        self, path: str, *, params: Mapping[str, str] | None = None, accept: str = "application/json"
    ) -> dict[str, Any]:
        """GET one object."""
        return _object(await self._request("GET", path, params=params, accept=accept))

    async def text(self, path: str, *, params: Mapping[str, str] | None = None) -> str:
        """GET something that is text, such as a log; bytes that are not UTF-8 are replaced."""
        return (await self._request("GET", path, params=params)).decode(errors="replace")

    async def list(
        self,
        path: str,
        *,
        limit: int = 500,
        params: Mapping[str, str] | None = None,
        accept: str = "application/json",
    ) -> AsyncIterator[Page]:
        """LIST in pages of `limit` objects, each page with the list's resourceVersion.

        Raises `GoneError` if a page outlives its snapshot: start again.
        """
        token = ""
        while True:
            query = {**(params or {}), "limit": str(limit)}
            if token:
                query["continue"] = token
                query.pop("resourceVersion", None)
                query.pop("resourceVersionMatch", None)
            page = _decode(await self._request("GET", path, params=query, accept=accept), Page)
            yield page
            token = page.metadata.continue_
            if not token:
                return

    async def create(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        manager: str | None = None,
        accept: str = "application/json",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """POST an object to its collection; 409 `ConflictError` if it exists.

        With `dry_run` the server answers what it would have stored, and stores nothing.
        """
        params = _of_a_write(manager, dry_run=dry_run)
        return _object(await self._request("POST", path, body=body, params=params, accept=accept))

    async def replace(
        self, path: str, body: Mapping[str, Any], *, manager: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """PUT an object; `metadata.resourceVersion` in the body makes it conditional.

        With `dry_run` the server answers what it would have stored, and stores nothing.
        """
        params = _of_a_write(manager, dry_run=dry_run)
        return _object(await self._request("PUT", path, body=body, params=params))

    async def patch(
        self,
        path: str,
        body: Mapping[str, Any] | tuple[Mapping[str, Any], ...],
        *,
        kind: Literal["merge", "json"] = "merge",
        manager: str | None = None,
    ) -> dict[str, Any]:
        """PATCH an object with a merge patch (an object) or a JSON patch (a tuple of operations)."""
        params = _of_a_write(manager)
        content = f"application/{kind}-patch+json"
        return _object(await self._request("PATCH", path, body=body, params=params, content_type=content))

    async def delete(
        self,
        path: str,
        *,
        uid: str,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> dict[str, Any]:
        """DELETE the object with this uid, never another of its name.

        Returns what the server answers: a Status, or the object if finalizers hold it.
        """
        preconditions = {"uid": uid}
        if resource_version is not None:
            preconditions["resourceVersion"] = resource_version
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": propagation,
        }
        return _object(await self._request("DELETE", path, body=body))

    async def watch(
        self,
        path: str,
        *,
        params: Mapping[str, str],
        inactivity: float = 70.0,
    ) -> AsyncGenerator[bytes, None]:
        """Stream the lines of a WATCH, each one event as JSON.

        Ends when the server ends the stream. `inactivity` is the number of
        seconds without a byte after which the connection counts as dead; that,
        and any other broken connection, raises `RetriableError`.
        """
        async with self._open(path, {**params, "watch": "true"}, inactivity) as response:
            buffer = bytearray()
            try:
                async for chunk in response.content.iter_any():
                    buffer += chunk
                    if b"\n" not in chunk:
                        if len(buffer) > MAX_WATCH_LINE:
                            raise RetriableError(f"{path}: a watch event of more than {MAX_WATCH_LINE} bytes")
                        continue
                    *lines, rest = bytes(buffer).split(b"\n")
                    buffer = bytearray(rest)
                    for line in lines:
                        if line.strip():
                            yield line
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _no_answer("WATCH", path, error) from error

    async def stream(
        self, path: str, *, params: Mapping[str, str], inactivity: float
    ) -> AsyncGenerator[bytes, None]:
        """GET something that has no known end, such as a log that is followed, in pieces as they come.

        Ends when the server ends it. `inactivity`: as for `watch`.
        """
        async with self._open(path, params, inactivity) as response:
            try:
                async for piece in response.content.iter_any():
                    yield piece
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _no_answer("GET", path, error) from error

    def _open(self, path: str, params: Query, inactivity: float) -> _Response:
        """A GET whose answer has no known end."""
        # `connect` also counts the answer of a proxy, which `sock_connect` and `sock_read` do not.
        timeout = aiohttp.ClientTimeout(
            total=None, connect=REQUEST_TIMEOUT, sock_connect=CONNECT_TIMEOUT, sock_read=inactivity
        )
        return self._send("GET", path, params=params, timeout=timeout)

    @asynccontextmanager
    async def websocket(
        self, path: str, *, params: Query, protocols: Sequence[str]
    ) -> AsyncGenerator[aiohttp.ClientWebSocketResponse[bool]]:
        """Open a WebSocket, as `pods/exec` and its like are; `protocols` are those to choose from.

        The reader must answer its pings. Raises an `ApiError` if it does not open.
        """
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                socket = await self.session.ws_connect(
                    self.credentials.server + path,
                    params=params,
                    protocols=protocols,
                    autoping=False,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT),
                )
        except CredentialsError as error:
            raise _no_token(error) from error
        except aiohttp.WSServerHandshakeError as error:
            raise await self._refusal(path, params, error.status) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer("GET", path, error) from error
        try:
            yield socket
        finally:
            await socket.close()

    async def _refusal(self, path: str, params: Query, code: int) -> ApiError:
        """Why a WebSocket was refused: the handshake has only the status, a plain request the message."""
        try:
            await self._request("GET", path, params=params)
        except ApiError as error:
            if error.code == code:
                return error
        return error_from(code, b"")

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: Query | None = None,
        body: object | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, sock_connect=CONNECT_TIMEOUT)
        async with self._send(
            method,
            path,
            params=params,
            body=None if body is None else encoded(body),
            content_type=content_type,
            timeout=timeout,
            accept=accept,
        ) as response:
            try:
                return await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _no_answer(method, path, error) from error

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Query | None,
        timeout: aiohttp.ClientTimeout,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> _Response:
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        return _Response(
            self.session.request(
                method,
                self.credentials.server + path,
                params=params,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ),
            method,
            path,
            self.time,
            self._warned,
        )


def encoded(body: Any) -> bytes:
    """JSON with the escapes of Kubernetes' own encoder.

    A ControllerRevision keeps the bytes of its `data` as they were sent. When its metadata is patched,
    the API server encodes them again, and refuses the patch if they differ.
    """
    text = msgspec.json.encode(body)
    for character, escape in _ESCAPED:
        text = text.replace(character, escape)
    return text


def warnings_in(headers: Iterable[str]) -> Iterator[str]:
    """The texts of `Warning` headers, such as `299 - "it is deprecated"`, each on one line."""
    for header in headers:
        for match in _WARNING.finditer(header):
            yield clean(_QUOTED.sub(r"\1", match[1]))


def _of_a_write(manager: str | None, *, dry_run: bool = False) -> dict[str, str]:
    """The query of a write. It asks for no warnings about unknown fields: nobody would read them."""
    query = {"fieldValidation": "Ignore"}
    if manager:
        query["fieldManager"] = manager
    if dry_run:
        query["dryRun"] = "All"
    return query


class _Response:
    """An answer with a 2xx status, or an `ApiError` on entering."""

    def __init__(
        self,
        request: Any,
        method: str,
        path: str,
        clock: ServerClock,
        warned: Callable[[str], None] | None,
    ) -> None:
        self._request = request
        self._method = method
        self._path = path
        self._clock = clock
        self._warned = warned

    async def __aenter__(self) -> aiohttp.ClientResponse:
        try:
            response: aiohttp.ClientResponse = await self._request.__aenter__()
        except CredentialsError as error:
            raise _no_token(error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(self._method, self._path, error) from error
        self._clock.heard(response.headers.get("Date", ""))
        if self._warned is not None:
            for warning in warnings_in(response.headers.getall("Warning", ())):
                self._warned(warning)
        if response.status < 300:
            if response.content_type == "text/html":
                response.close()
                raise RetriableError(
                    f"{self._method} {self._path}: the answer is a web page and not the API server's; "
                    "perhaps you have to log in to a gateway or a proxy again"
                )
            return response
        try:
            body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(self._method, self._path, error) from error
        finally:
            response.release()
        raise error_from(response.status, body, response.headers.get("Retry-After"))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._request.__aexit__(kind, error, traceback)


def _object(body: bytes) -> dict[str, Any]:
    return _decode(body, dict[str, Any])


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RetriableError(f"the API server's answer is not valid: {error}") from error


def _no_token(error: CredentialsError) -> RetriableError:
    kind = RetriableError if isinstance(error, RenewalError) else UnauthorizedError
    return kind(str(error))


def _no_answer(method: str, path: str, error: BaseException) -> RetriableError:
    problem = "timed out" if isinstance(error, TimeoutError) else str(error)
    if isinstance(error, aiohttp.ClientHttpProxyError):  # whose text has the proxy's URL, password included
        problem = f"the proxy answers {error.status} {error.message}"
    return RetriableError(f"{method} {path}: {problem or type(error).__name__}")
