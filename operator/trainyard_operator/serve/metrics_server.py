"""The metrics over HTTPS, only for those whom the API server allows to read them.

As Kubernetes' own components do it: a TokenReview says whose the bearer token
is, and a SubjectAccessReview whether they may `get` the path /metrics.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from trainyard_api import names
from trainyard_kube.client import ApiError, Client
from trainyard_kube.resources import ACCESS_REVIEWS

from ..metrics import CONTENT_TYPE, Metrics
from .connections import Bounds
from .tls_server import TlsServer
from .tokens import RefusedTokenError, Tokens, bearer, reviewed

logger = logging.getLogger(__name__)

PATH: Final = "/metrics"
TIMEOUT: Final = 10.0
"""Seconds for a request and its answer."""
BOUNDS: Final = Bounds(keepalive=75.0, most=64)
"""Only a handful of callers read metrics."""
RENDERED_FOR: Final = 1.0
"""Seconds for which metrics are served unchanged, however often they are requested."""


class Exposition:
    """The metrics as text, rendered at most once a second. `clock` gives seconds that never go back."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._at = -math.inf
        self._text = b""

    def response(self) -> web.Response:
        """The answer to an authorized reader."""
        now = self._clock()
        if now - self._at >= RENDERED_FOR:
            self._at, self._text = now, self._metrics.render()
        return web.Response(body=self._text, headers={"Content-Type": CONTENT_TYPE})


class MetricsServer(TlsServer):
    """Serves them; see `TlsServer` for the other arguments."""

    title = "the metrics server"

    def __init__(
        self,
        client: Client,
        exposition: Exposition,
        *,
        host: str | None = None,
        port: int = names.SECURE_METRICS_PORT,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(host=host, port=port, bounds=BOUNDS, now=now)
        self._client = client
        self._exposition = exposition
        self._readers: Tokens[bool] = Tokens(clock)
        """By token: whether its user may read metrics."""

    def application(self) -> web.Application:
        """See `TlsServer`."""
        app = web.Application()
        app.router.add_get(PATH, self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._answer(request)
        except RefusedTokenError as error:
            answer = _refusal(error.code, str(error), error.retry_after)
        except (ApiError, TimeoutError) as error:
            why = str(error) or "timed out"
            logger.warning("metrics: could not check whether a reader may read them: %s", why)
            answer = _refusal(
                503, "could not query the API server whether you may read metrics, try again", 1.0
            )
        if self.closing:
            answer.force_close()
        return answer

    async def _answer(self, request: web.Request) -> web.Response:
        token = bearer(request.headers.get("Authorization"))
        if token is None:
            raise RefusedTokenError(401, "a bearer token is required")
        if not await self._readers.find(token, request.remote or "", lambda: self._may_read(token)):
            raise RefusedTokenError(403, f"a ClusterRole must allow the token's account to get {PATH}")
        return self._exposition.response()

    async def _may_read(self, token: str) -> bool:
        user = await reviewed(self._client, token)
        review = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "spec": {
                "user": user.get("username", ""),
                "uid": user.get("uid", ""),
                "groups": user.get("groups") or [],
                "extra": user.get("extra") or {},
                "nonResourceAttributes": {"path": PATH, "verb": "get"},
            },
        }
        status = (await self._client.create(ACCESS_REVIEWS.path(), review)).get("status") or {}
        return status.get("allowed") is True and status.get("denied") is not True


def _refusal(code: int, message: str, retry_after: float = 0.0) -> web.Response:
    response = web.Response(status=code, text=f"{message}\n")
    if retry_after > 0:
        response.headers["Retry-After"] = str(math.ceil(retry_after))
    return response
