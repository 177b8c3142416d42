"""`/ready`: what the kubelet asks."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_NO_IPV6 = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def serve(port: int, lacks: Callable[[], str]) -> ThreadingHTTPServer:
    """Answer `/ready` with 200, or with 503 and what is missing, on a thread of its own.

    Args:
        port: Where; 0: on any that is free.
        lacks: What is missing, for people; empty: nothing.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer a probe."""
            missing = lacks()
            code = 404 if self.path != "/ready" else 503 if missing else 200
            body = f"{missing or 'ready'}\n".encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Probes are no news."""

    server = _listening(port, Handler)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server


class _OnBoth(ThreadingHTTPServer):
    """Listens for IPv6 and IPv4."""

    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def _listening(port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    if socket.has_dualstack_ipv6():
        try:
            return _OnBoth(("", port), handler)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return ThreadingHTTPServer(("", port), handler)
