"""The HTTP server of metrics and probes, on every replica.

`/healthz`: this process still works and a restart would not help; `/readyz`:
it has what it needs to work or to take over; `/metrics`, unless they are
served only to those who may read them (`metrics_server`). A probe that fails
answers 503 and its reasons, one a line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from trainyard_api import names

from .connections import Bounds, Listener
from .metrics_server import Exposition

BOUNDS = Bounds(keepalive=75.0, most=64)
"""The kubelet and a handful of others call it."""

Reasons = Callable[[], Sequence[str]]
"""Called at each probe: the reasons why it fails, in words; none if all is well."""


class ProbeServer:
    """Serves on `host:port` between `start` and `stop`; port 0 picks a free one, see `port`."""

    def __init__(
        self,
        exposition: Exposition | None,
        *,
        alive: Reasons,
        ready: Reasons,
        host: str | None = None,
        port: int = names.METRICS_PORT,
    ) -> None:
        self.port = port
        self._exposition = exposition
        self._host = host
        self._listener: Listener | None = None
        self._checks = {"/healthz": alive, "/readyz": ready}

    async def start(self) -> None:
        """Listen. Raises OSError if the port is taken."""
        app = web.Application()
        for path, check in self._checks.items():
            app.router.add_get(path, _probe(check))
        if (exposition := self._exposition) is not None:
            app.router.add_get("/metrics", _always(exposition.response))
        listener = Listener(app, BOUNDS, host=self._host, port=self.port, shutdown_timeout=1.0)
        await listener.start()
        self._listener, self.port = listener, listener.port

    async def stop(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None


def _always(response: Callable[[], web.Response]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return response()

    return answer


def _probe(check: Reasons) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        reasons = check()
        if reasons:
            return web.Response(status=503, text="".join(f"{reason}\n" for reason in reasons))
        return web.Response(text="ok\n")

    return answer
