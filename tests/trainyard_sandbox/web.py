"""A web server on loopback that has a folder, and the mishaps of real ones."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ASKED = "bytes=0-0"
"""The span with which a client asks whether there is a file, and how large it is."""


@dataclass
class Server:
    """A web server with a folder.

    Args:
        folder: What it has, under whatever the first part of the path is.
        cuts: For each coming answer, after how many bytes of it the connection breaks.
        stalls: For each coming answer, after how many bytes of it nothing more comes.
        ranges: Whether it knows them.
        silent: Whether it takes requests and does not answer.
        asked: Of each request, its path and range.
    """

    folder: Path
    cuts: list[int] = field(default_factory=list)
    stalls: list[int] = field(default_factory=list)
    ranges: bool = True
    silent: bool = False
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        span = handler.headers["Range"]
        self.asked.append((handler.path, span))
        handler.close_connection = True
        if self.silent:
            self.over.wait(5)
            return
        path = self.folder / urlsplit(handler.path).path.split("/", 2)[2]
        if not path.is_file():
            handler.send_error(404)
            return
        content = whole = path.read_bytes()
        if span and self.ranges:
            start, _, end = span.removeprefix("bytes=").partition("-")
            content = whole[int(start) : int(end) + 1 if end else None]
            handler.send_response(206)
            last = int(start) + len(content) - 1
            handler.send_header("Content-Range", f"bytes {start}-{last}/{len(whole)}")
        else:
            handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if span == ASKED or path.name == "index.json":
            handler.wfile.write(content)
        elif self.stalls:
            handler.wfile.write(content[: self.stalls.pop(0)])
            self.over.wait(5)
        else:
            handler.wfile.write(content[: self.cuts.pop(0)] if self.cuts else content)


@contextmanager
def serving(folder: Path, name: str = "trainyard") -> Iterator[Server]:
    server = Server(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        server.url = f"http://127.0.0.1:{listener.server_port}/{name}"
        try:
            yield server
        finally:
            server.over.set()
            listener.shutdown()
            thread.join()
