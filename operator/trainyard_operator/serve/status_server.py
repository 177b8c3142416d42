"""The status server: training processes report their progress, on every replica.

Trainer v2.3's endpoint (feature gate TrainJobStatus), at its path and with its
bodies. `reporters` says who may report, `progress` what a report is; here are
the network, its bounds, and the one write. No body is read before its sender
is known, and a TrainJob that reports too often is turned away before it costs
the API server anything.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec
from aiohttp import web

from trainyard_api import names
from trainyard_api.rate import Buckets
from trainyard_kube.client import ApiError, RetriableError

from ..core import model
from ..core.status import progress
from ..core.status.progress import InvalidReportError
from ..metrics import Metrics
from ..watch.cache import Cache, Key
from ..work.apply import Applier
from ..work.queue import RetryError
from .connections import Bounds
from .reporters import Reporters
from .tls_server import TlsServer
from .tokens import RefusedTokenError, bearer

logger = logging.getLogger(__name__)

PATH: Final = "/apis/" + progress.audience("{namespace}", "{name}")
MAX_BODY: Final = 64 * 1024
TIMEOUT: Final = 10.0
"""Seconds for a request: its body and its answer."""
KEEPALIVE: Final = 120.0
TRIES: Final = 4
"""Of a write that conflicts with others' writes of the same status."""
REASONS: Final = {401: "Unauthorized", 403: "Forbidden", 429: "TooManyRequests"}


class StatusServer(TlsServer):
    """Accepts reports; `reports` limits those of one TrainJob. See `TlsServer` for the rest."""

    title = "the status server"

    def __init__(
        self,
        reporters: Reporters,
        applier: Applier,
        cache: Cache,
        metrics: Metrics,
        *,
        synced: Callable[[], bool],
        reports: Buckets[str],
        host: str | None = None,
        port: int = names.STATUS_PORT,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(host=host, port=port, bounds=Bounds(KEEPALIVE), now=now)
        self._reporters = reporters
        self._applier = applier
        self._cache = cache
        self._metrics = metrics
        self._synced = synced
        self._reports = reports

    def application(self) -> web.Application:
        """See `TlsServer`."""
        app = web.Application()
        app.router.add_post(PATH, self._handle)
        app.router.add_route("*", "/{anything:.*}", self._nothing_here)
        return app

    async def _nothing_here(self, _: web.Request) -> web.Response:
        return _refusal(404, "NotFound", "Not found")

    async def _handle(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._answer(request)
        except TimeoutError:
            answer = _refusal(504, "Timeout", "not answered in time")
        except RefusedTokenError as error:
            answer = _refusal(error.code, REASONS[error.code], str(error), error.retry_after)
        except InvalidReportError as error:
            answer = _refusal(422, "Invalid", str(error))
        except RetriableError as error:
            logger.warning("a report on %s: %s", request.path, error)
            answer = _refusal(503, "ServiceUnavailable", "the API server cannot store it now, try again")
        except ApiError as error:
            if error.code == 422:
                answer = _refusal(422, "Invalid", error.message)
            else:
                logger.warning("a report on %s: %s", request.path, error)
                answer = _refusal(500, "InternalError", "Internal error")
        except Exception:
            logger.exception("a report on %s failed", request.path)
            answer = _refusal(500, "InternalError", "Internal error")
        self._metrics.reports.labels(str(answer.status)).inc()
        if self.closing:
            answer.force_close()
        return answer

    async def _answer(self, request: web.Request) -> web.Response:
        if not self._synced():
            return _refusal(503, "ServiceUnavailable", "this replica has not read all TrainJobs yet", 1.0)
        token = bearer(request.headers.get("Authorization"))
        if token is None:
            raise RefusedTokenError(401, "a bearer token is required")
        key = Key(request.match_info["namespace"], request.match_info["name"])
        trainjob = await self._reporters.identify(token, key, request.remote or "")
        if trainjob is None:
            return _refusal(404, "NotFound", "Train job not found")
        if wait := self._reports.take(trainjob.uid):
            raise RefusedTokenError(429, "the TrainJob reports too often", wait)
        body = await _body(request)
        if body is None:
            return _refusal(413, "RequestEntityTooLarge", "Payload too large")
        status = progress.read(body)
        if status is not None and not await self._write(key, trainjob.uid, status):
            return _refusal(404, "NotFound", "Train job not found")
        return web.Response(body=msgspec.json.encode(progress.echo(status)), content_type="application/json")

    async def _write(self, key: Key, uid: str, status: model.Json) -> bool:
        """Write it, on the TrainJob of this uid and no other; False if that is gone."""
        for _ in range(TRIES):
            trainjob = self._cache.trainjobs.get(key)
            if trainjob is None or trainjob.uid != uid:
                return False
            try:
                await self._applier.status(trainjob, {"trainerStatus": status})
            except RetryError:
                continue  # the cache has the newer one now
            return key in self._cache.trainjobs
        raise RetriableError("other clients keep writing the TrainJob's status")


async def _body(request: web.Request) -> bytes | None:
    """The body, None if it is too large."""
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            return None
    return bytes(body)


def _refusal(code: int, reason: str, message: str, retry_after: float = 0.0) -> web.Response:
    body = msgspec.json.encode(progress.answer(code, reason, message))
    response = web.Response(status=code, body=body, content_type="application/json")
    if retry_after > 0:
        response.headers["Retry-After"] = str(math.ceil(retry_after))
    response.force_close()  # do not wait for the rest of the body
    return response
