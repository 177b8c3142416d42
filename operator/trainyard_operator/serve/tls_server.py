"""An HTTPS server whose certificate comes later, and is replaced while it runs.

The base of the webhooks and of the status server, which share a certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime

from aiohttp import web

from trainyard_kube.credentials import as_file

from . import certificates
from .connections import Bounds, Listener


class TlsServer:
    """Serves `application()` on `host:port` between `start` and `stop`; port 0 picks a free one, see `port`.

    It listens at once, but completes no handshake before `load` has loaded a
    certificate. `load` may be called again at any time: connections made after
    it see the new one. `bounds` says what connections may cost.
    """

    title = "the server"
    """In messages."""

    def __init__(
        self,
        *,
        host: str | None,
        port: int,
        bounds: Bounds,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.port = port
        self.good_until: datetime | None = None
        self.closing = False
        """Set before the end: connections are then closed after their next answer."""
        self._host = host
        self._bounds = bounds
        self._now = now
        self._context = _context()
        self._listener: Listener | None = None

    def application(self) -> web.Application:
        """What is served."""
        raise NotImplementedError

    async def start(self) -> None:
        """Listen. Raises OSError if the port is taken."""
        listener = Listener(
            self.application(), self._bounds, host=self._host, port=self.port, tls=self._context
        )
        await listener.start()
        self._listener, self.port = listener, listener.port

    async def stop(self) -> None:
        """Stop listening, and end what is being answered within two seconds."""
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None

    def load(self, certificate: bytes, key: bytes) -> None:
        """Serve this certificate from now on.

        Raises ValueError or OSError, and changes nothing, if it cannot be served.
        """
        until = certificates.good_until(certificate)
        _load(_context(), certificate, key)  # a failure half-way must not affect the context in use
        _load(self._context, certificate, key)
        self.good_until = until

    def unready(self, problem: str) -> list[str]:
        """Why this replica cannot answer; `problem` is why there is no certificate."""
        if self._listener is None:
            return [f"{self.title} does not listen"]
        if self.good_until is None:
            return [f"{self.title} has no certificate yet {problem}".rstrip()]
        if self.good_until <= self._now():
            return [f"{self.title}'s certificate has expired {problem}".rstrip()]
        return []


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with as_file(certificate) as certificate_file, as_file(key) as key_file:
        context.load_cert_chain(certificate_file, key_file)
