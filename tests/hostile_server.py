"""A server that answers a client of weft as it pleases."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = Callable[["HostileAnswer"], None]


class HostileAnswer(BaseHTTPRequestHandler):
    """A request, and the means to answer it."""

    protocol_version = "HTTP/1.1"
    server: _Listening

    def handle_request(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.kept.requests.append((self.path, dict(self.headers)))
        self.close_connection = True
        self.server.kept.answer(self)

    do_GET = do_POST = handle_request  # noqa: N815 - names of the library

    def log_message(self, format: str, *args: object) -> None:
        pass

    def send(self, status: int, body: bytes, kind: str = "application/json", **head: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in head.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in head:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):  # the client has seen enough
            self.wfile.write(body)

    def serve_repository(self, repository: Path) -> None:
        """Answer as `git http-backend` does for a repository."""
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            ["git", "http-backend"],
            input=self.body,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(repository),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": "/" + path.split("/", 3)[3],
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(self.body)),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
            },
            capture_output=True,
            check=True,
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send(int(fields.get("Status", "200")[:3]), body, fields["Content-Type"])


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    kept: HostileServer


@dataclass
class HostileServer:
    answer: Answer
    url: str = ""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def hostile_server(answer: Answer) -> Iterator[HostileServer]:
    with _Listening(("127.0.0.1", 0), HostileAnswer) as listening:
        listening.kept = HostileServer(answer, f"http://127.0.0.1:{listening.server_address[1]}")
        thread = threading.Thread(target=listening.serve_forever, args=[0.01], daemon=True)
        thread.start()
        yield listening.kept
        listening.shutdown()
        thread.join()
