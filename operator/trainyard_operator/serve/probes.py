"""The HTTP server of metrics and probes, on every replica.

`/healthz`: this process still works and a restart would not help; `/readyz`:
it has what it needs to work or to take over; `/metrics`, unless they are
served only to those who may read them (`metrics_server`). A probe that fails
answers 503 and its reasons, one a line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from .connections import Bounds, Listener
from .metrics_server import Exposition

BOUNDS = Bounds(keepalive=75.0, most=64)
"""The kubelet and a handful of others call it."""

Reasons = Callable[[], Sequence[str]]
"""Called at each probe: the reasons why it fails, in words; none if all is well."""


def server(
    exposition: Exposition | None, *, alive: Reasons, ready: Reasons, host: str | None, port: int
) -> Listener:
    """What serves probes on `host:port`, and the metrics too if there is an `exposition`."""
    app = web.Application()
    app.router.add_get("/healthz", _probe(alive))
    app.router.add_get("/readyz", _probe(ready))
    if exposition is not None:
        app.router.add_get("/metrics", _metrics(exposition))
    return Listener(app, BOUNDS, host=host, port=port, shutdown_timeout=1.0)


def _metrics(exposition: Exposition) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return exposition.response()

    return answer


def _probe(check: Reasons) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        reasons = check()
        if reasons:
            return web.Response(status=503, text="".join(f"{reason}\n" for reason in reasons))
        return web.Response(text="ok\n")

    return answer
