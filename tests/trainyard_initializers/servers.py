"""A Hub and an S3 that answer over real HTTP, and misbehave when told to.

The standard library alone, so that end-to-end tests run this file in a pod:

    python3 servers.py hub|s3 CONTENT.json PORT

with the token in TOKEN and another name of the host in ELSEWHERE, or the keys
in ACCESS_KEY_ID and SECRET_ACCESS_KEY.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

Content = Mapping[str, Mapping[str, bytes]]
"""By repository (`datasets/owner/name`, `models/owner/name`) or bucket, then by path."""

LARGE = 1000
"""Bytes from which the Hub keeps a file in LFS, that is: redirects to elsewhere."""


@dataclass
class Fault:
    """What happens to the next request for a path instead of an answer.

    Arguments:
        status: Answer so, with an empty body.
        after: Or cut the connection after so many bytes of the body.
        flip: Or change the last byte.
        headers: More headers for the answer.
    """

    status: int = 0
    after: int = -1
    flip: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


class Server(ThreadingHTTPServer):
    """What both have: content, faults, and a memory of what was asked.

    Arguments:
        handler: Which protocol.
        content: What it holds.
        secret: The token, or `key:secret`; None to let everybody in.
    """

    daemon_threads = True

    def __init__(
        self,
        handler: type[Handler],
        content: Content,
        secret: str | None,
        address: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        super().__init__(address, handler)
        self.content, self.secret = content, secret
        self.faults: dict[str, list[Fault]] = {}
        self.ranges = True
        self.elsewhere = f"localhost:{self.server_address[1]}"
        """Another origin, which must not see the token; the Hub redirects to it."""
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def ranges_asked(self, path: str) -> list[str | None]:
        """The Range header of each request whose path ends so."""
        found = (one for one in self.asked if one[0] == "GET" and one[1].endswith(path))
        return [headers.get("Range") for _, _, headers in found]

    @contextmanager
    def running(self) -> Iterator[Server]:
        """Answer until the block ends."""
        thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()
            thread.join()


class Handler(BaseHTTPRequestHandler):
    """One request: remember it, fail if told to, else answer."""

    server: Server
    protocol_version = "HTTP/1.1"
    fault = Fault()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        headers = {name.title(): value for name, value in self.headers.items()}
        self.server.asked.append((self.command, path, headers))
        for end, faults in self.server.faults.items():
            if path.endswith(end) and faults:
                self.fault = faults.pop(0)
                break
        else:
            self.fault = Fault()
        if self.fault.status:
            self.reply(self.fault.status, b"", dict(self.fault.headers))
        else:
            self.answer(path, dict(parse_qsl(url.query, keep_blank_values=True)))

    do_HEAD = do_GET  # noqa: N815

    def answer(self, path: str, query: Mapping[str, str]) -> None:
        raise NotImplementedError

    def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.fault.flip:
            body = body[:-1] + bytes([body[-1] ^ 1])
        if self.fault.after >= 0:
            self.wfile.write(body[: self.fault.after])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def content(self, body: bytes, headers: Mapping[str, str]) -> None:
        """A file, or the range of it that is asked for."""
        wanted = self.headers.get("Range")
        if not wanted or not self.server.ranges:
            self.reply(200, body, headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(body)), len(body) - 1)
        if start >= len(body):
            self.reply(416, b"")
        else:
            place = f"bytes {start}-{end}/{len(body)}"
            self.reply(206, body[start : end + 1], {**headers, "Content-Range": place})


class HubHandler(Handler):
    """Information on repositories, their files, and LFS under another host's name."""

    def answer(self, path: str, query: Mapping[str, str]) -> None:
        if path.startswith("/lfs/"):
            self._lfs(path, query)
            return
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.server.secret is not None and token != self.server.secret:
            code = "RepoNotFound" if not token else "Unauthorized"
            self.reply(401, b"", {"X-Error-Code": code, "X-Error-Message": "Invalid username or password."})
        elif path.startswith("/api/"):
            self._information(path.removeprefix("/api/"))
        else:
            self._resolve(path.removeprefix("/"))

    def _information(self, path: str) -> None:
        name, _, revision = path.partition("/revision/")
        files = self.server.content.get(name)
        if files is None:
            self.reply(404, b"", {"X-Error-Code": "RepoNotFound"})
        elif revision not in ("", "main", "v1", _commit(files)):
            self.reply(404, b"", {"X-Error-Code": "RevisionNotFound"})
        else:
            siblings = [_sibling(name, body) for name, body in files.items()]
            answer = {"id": name.partition("/")[2], "sha": _commit(files), "siblings": siblings}
            self.reply(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _resolve(self, path: str) -> None:
        repository, _, rest = path.partition("/resolve/")
        commit, _, name = rest.partition("/")
        kind = "" if repository.startswith("datasets/") else "models/"
        files = self.server.content.get(kind + repository, {})
        if name not in files or commit != _commit(files):
            self.reply(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif len(files[name]) >= LARGE:
            target = f"/lfs/{quote(kind + repository, safe='')}/{quote(name)}?signature=secret"
            self.reply(302, b"", {"Location": f"http://{self.server.elsewhere}{target}"})
        else:
            self.content(files[name], {"ETag": f'"{_git(files[name])}"'})

    def _lfs(self, path: str, query: Mapping[str, str]) -> None:
        if query.get("signature") != "secret" or "Authorization" in self.headers:
            self.reply(400, b"")
            return
        found = [
            body
            for repository, files in self.server.content.items()
            for name, body in files.items()
            if path == f"/lfs/{repository}/{name}"
        ]
        self.content(found[0], {"ETag": f'"{hashlib.sha256(found[0]).hexdigest()}"'})


def _commit(files: Mapping[str, bytes]) -> str:
    return hashlib.sha1(repr(sorted(files.items())).encode(), usedforsecurity=False).hexdigest()


def _git(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def _sibling(name: str, body: bytes) -> dict[str, object]:
    found: dict[str, object] = {"rfilename": name, "size": len(body), "blobId": _git(body)}
    if len(body) >= LARGE:
        digest = hashlib.sha256(body).hexdigest()
        found["lfs"] = {"size": len(body), "sha256": digest, "pointerSize": 130}
    return found


class S3Handler(Handler):
    """ListObjectsV2, HeadObject and GetObject with path-style addresses and signatures of version 4."""

    def answer(self, path: str, query: Mapping[str, str]) -> None:
        bucket, _, key = path.removeprefix("/").partition("/")
        refusal = self._refusal()
        if refusal:
            self._error(403, refusal)
        elif bucket not in self.server.content:
            self._error(404, "NoSuchBucket")
        elif not key:
            self._list(bucket, self.server.content[bucket], query)
        elif key not in self.server.content[bucket]:
            self._error(404, "NoSuchKey")
        else:
            body = self.server.content[bucket][key]
            tag = _etag(body)
            if self.headers.get("If-Match", tag) != tag:
                self._error(412, "PreconditionFailed")
            else:
                self.content(body, {"ETag": tag})

    def _list(self, bucket: str, objects: Mapping[str, bytes], query: Mapping[str, str]) -> None:
        after = query.get("continuation-token", "")
        keys = sorted(key for key in objects if key.startswith(query.get("prefix", "")) and key > after)
        page = keys[: min(int(query.get("max-keys", "1000")), 1000)]
        more = len(page) < len(keys)
        entries = "".join(
            f"<Contents><Key>{escape(quote(key))}</Key><Size>{len(objects[key])}</Size>"
            f"<ETag>{escape(_etag(objects[key]))}</ETag></Contents>"
            for key in page
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        body = (
            f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"<KeyCount>{len(page)}</KeyCount>"
            f"<EncodingType>url</EncodingType>{token}{entries}</ListBucketResult>"
        )
        self.reply(200, body.encode(), {"Content-Type": "application/xml"})

    def _error(self, status: int, code: str) -> None:
        body = "" if self.command == "HEAD" else f"<Error><Code>{code}</Code></Error>"
        self.reply(status, body.encode(), {"Content-Type": "application/xml"})

    def _refusal(self) -> str:
        if self.server.secret is None:
            return ""
        key, _, secret = self.server.secret.partition(":")
        given = self.headers.get("Authorization", "")
        fields = dict(part.split("=", 1) for part in given.partition(" ")[2].split(", ") if "=" in part)
        scope = fields.get("Credential", "").split("/")
        if scope[0] != key:
            return "InvalidAccessKeyId" if given else "AccessDenied"
        names = fields["SignedHeaders"].split(";")
        raw_path, _, raw_query = self.path.partition("?")
        request = [
            self.command,
            raw_path,
            "&".join(sorted(part if "=" in part else f"{part}=" for part in raw_query.split("&") if part)),
            *(f"{name}:{' '.join(self.headers.get(name, '').split())}" for name in names),
            "",
            fields["SignedHeaders"],
            self.headers.get("x-amz-content-sha256", ""),
        ]
        digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["X-Amz-Date"], "/".join(scope[1:]), digest])
        signing = f"AWS4{secret}".encode()
        for part in [*scope[1:], text]:
            signing = hmac.digest(signing, part.encode(), "sha256")
        return "" if hmac.compare_digest(signing.hex(), fields["Signature"]) else "SignatureDoesNotMatch"


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def hub(content: Content, token: str | None = None) -> Server:
    """A Hub; `running()` makes it answer."""
    return Server(HubHandler, content, token)


def s3(content: Content, keys: str | None = None) -> Server:
    """An S3 for one pair of keys, `key:secret`."""
    return Server(S3Handler, content, keys)


BASE64 = "base64:"
"""Begins the text of a file of bytes in CONTENT.json."""


def _decoded(text: str) -> bytes:
    return b64decode(text.removeprefix(BASE64)) if text.startswith(BASE64) else text.encode()


def main(kind: str, content: str, port: str) -> None:
    """Serve until the process ends."""
    handlers: dict[str, tuple[type[Handler], Callable[[], str]]] = {
        "hub": (HubHandler, lambda: os.environ["TOKEN"]),
        "s3": (S3Handler, lambda: f"{os.environ['ACCESS_KEY_ID']}:{os.environ['SECRET_ACCESS_KEY']}"),
    }
    handler, secret = handlers[kind]
    texts = json.loads(Path(content).read_text())
    files = {name: {path: _decoded(text) for path, text in texts[name].items()} for name in texts}
    server = Server(handler, files, secret(), ("0.0.0.0", int(port)))  # noqa: S104 - in a pod
    server.elsewhere = os.environ.get("ELSEWHERE", "")
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
