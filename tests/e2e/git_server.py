"""git over HTTPS by its own `git http-backend`: git_server.py ADDRESS PORT CERTIFICATE KEY FOLDER."""

import http.server
import os
import ssl
import subprocess
import sys
from urllib.parse import urlsplit

ADDRESS, PORT, CERTIFICATE, KEY, FOLDER = sys.argv[1:]


class Backend(http.server.BaseHTTPRequestHandler):
    """One request is one run of git, spoken to by CGI (RFC 3875)."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = {
            "GIT_PROJECT_ROOT": FOLDER,
            "GIT_HTTP_EXPORT_ALL": "yes",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": url.path,
            "QUERY_STRING": url.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        answer = subprocess.run(
            ["git", "http-backend"], env={**os.environ, **asked}, input=body, capture_output=True, check=True
        ).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 (the library's name)


server = http.server.ThreadingHTTPServer((ADDRESS, int(PORT)), Backend)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
