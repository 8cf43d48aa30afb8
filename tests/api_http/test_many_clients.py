"""Many callers at once, some of them hostile: a server with small bounds, and one with its own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import anyio
import httpx
import psutil
import pytest

from api_http.server_process import PATIENT, serving
from cli.plan_project import plan
from cli.shell import TRY
from repositories import make_repository
from wait_until import PATIENCE, wait_until
from weft.api.http.app import create_app
from weft.api.http.guard import Bounds
from weft.api.http.socket import bind, listen
from weft.project.project import get_local_project
from weft.runs.plan_check import PlanSource
from weft.runs.preparation import PlanUpload, RunOptions
from weft.store.remote_store import body_of
from weft.store.tokens import create_token

HASTY = Bounds(body=1000, call=4000, body_seconds=1.0)


class Small:
    """A server of this process with bounds that a test can reach."""

    def __init__(self, port: int, tokens: list[str]) -> None:
        self.port = port
        self.tokens = tokens

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def connections(self) -> int:
        """Those that the server has open, by what the system says."""
        found = psutil.Process().net_connections("tcp")
        return sum(
            one.laddr.port == self.port and one.status == psutil.CONN_ESTABLISHED for one in found
        )

    def health(self) -> bytes:
        with self.connect() as connection:
            connection.sendall(head("GET", "/healthz"))
            return connection.recv(1000)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    root = make_repository(tmp_path / "project")
    project = get_local_project(root, {"WEFT_STORE": f"sqlite:///{tmp_path / 'weft.db'}"})
    with project.open_store() as store, bind("127.0.0.1", 0) as listening:
        app = create_app(project, store, bounds=HASTY)
        tokens = [
            create_token(store, name=name, scopes=("admin",), now=time.time())[1]
            for name in ("one", "two", "three")
        ]
        over = threading.Event()

        async def serve() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(listen, app, listening)
                await anyio.to_thread.run_sync(over.wait)
                group.cancel_scope.cancel()

        thread = threading.Thread(target=partial(anyio.run, serve))
        thread.start()
        try:
            yield Small(listening.getsockname()[1], tokens)
        finally:
            over.set()
            thread.join()


def head(method: str, path: str, token: str = "", *more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *more]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode()


def status(connection: socket.socket) -> int:
    """The status of an answer, which is read whole unless it is a stream; 0 if there is none."""
    answer = b""
    try:
        while b"\r\n\r\n" not in answer:
            part = connection.recv(65536)
            if not part:
                return 0
            answer += part
        about, _, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", about)
        while length and len(body) < int(length[1]):
            body += connection.recv(65536)
    except ConnectionResetError:
        return 0
    return int(about.split(b" ")[1])


def test_a_body_is_not_read_before_the_token_was_looked_at(small: Small) -> None:
    wrong = f"weft_{'0' * 12}_{'x' * 43}"
    for token in (wrong, "nonsense", ""):
        for path in ("/v1/tasks", "/v1/verbs/tasks.get_task", "/v1/operations/x", "/mcp"):
            about = ("Content-Type: application/json", "Content-Length: 900")
            with small.connect() as connection:
                connection.sendall(head("POST", path, token, *about))
                assert status(connection) == 401, path  # and not 408 after the time for a body


def test_a_slow_body_has_a_time_limit(small: Small) -> None:
    about = ("Content-Type: application/json", "Content-Length: 900")
    for path in ("/v1/tasks", "/v1/verbs/tasks.get_task"):
        with small.connect() as connection:
            connection.sendall(head("POST", path, small.tokens[0], *about))
            over = threading.Event()

            def drip(connection: socket.socket = connection, over: threading.Event = over) -> None:
                for _ in range(100):
                    with suppress(OSError):
                        connection.sendall(b" ")
                    if over.wait(0.1):
                        return
                connection.shutdown(socket.SHUT_RDWR)

            thread = threading.Thread(target=drip)
            thread.start()
            try:
                assert status(connection) == 408
            finally:
                over.set()
                thread.join()


def test_thousands_of_bad_tokens_and_large_bodies_keep_nobody_out(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    with serving(tmp_path, url, settings=PATIENT) as server, ExitStack() as stack:
        assert server.process is not None
        before = psutil.Process(server.process.pid).memory_info().rss
        wrong = f"weft_{'0' * 12}_{'x' * 43}"
        about = ("Content-Type: application/json", f"Content-Length: {96 << 20}")
        post = head("POST", "/v1/verbs/tasks.get_task", wrong, *about)
        for number in range(3000):
            with suppress(OSError):
                connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
                stack.callback(connection.close)
                connection.sendall(post if number % 2 else b"GET /v1/me HTTP/1.1\r\nX: ")
        for _ in range(10):
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
            )
            with suppress(OSError):  # refused before it was sent
                connection.sendall(post + b" " * (20 << 20))
        assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200
        assert server.client().get("/v1/me")["token"]
        grown = psutil.Process(server.process.pid).memory_info().rss - before
        assert grown < 200 << 20


def test_slow_calls_of_one_token_leave_threads_for_others(tmp_path: Path) -> None:
    """Previews start git; this one waits as long as a file is there."""
    hold = tmp_path / "hold"
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    agents = {"implement": TRY}
    with serving(tmp_path, url, agents=agents, PATH=_slow_git(tmp_path)) as server:
        reader, other = server.make_token("read"), server.make_token("read")
        preview = partial(
            httpx.post,
            f"{server.url}/v1/operations/operations.submission.preview_upload",
            content=_preview(),
            headers={"Authorization": f"Bearer {reader}", "Content-Type": "application/json"},
            timeout=PATIENCE,
        )
        hold.touch()
        with ThreadPoolExecutor(10) as pool:
            try:
                asked = [pool.submit(preview) for _ in range(10)]
                wait_until((tmp_path / "began").exists)
                assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200
                assert server.client(other).get("/v1/limits")["limits"]
                assert server.client(reader).get("/v1/limits")["limits"]
                assert not any(one.done() for one in asked)
            finally:
                hold.unlink()
            for one in asked:
                assert one.result().status_code == 200, one.result().text


def _slow_git(directory: Path) -> str:
    """A PATH on which git waits while `hold` is there."""
    programs = directory / "programs"
    programs.mkdir()
    script = programs / "git"
    script.write_text(
        f"""#!/bin/sh
if [ -e {directory}/hold ]; then touch {directory}/began; fi
while [ -e {directory}/hold ]; do sleep 0.05; done
exec {shutil.which("git")} "$@"
"""
    )
    script.chmod(0o755)
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def _preview() -> bytes:
    text = plan("One: a.txt: write a.txt hello").encode()
    source = PlanSource(name="plan.md", data=text)
    upload = PlanUpload(source=source, stem="plan", place="x", spec="")
    return body_of((upload, RunOptions()), {})


def test_a_large_head_is_refused_also_if_it_comes_at_once(small: Small) -> None:
    filler = [f"X-{number}: {'y' * 1000}" for number in range(40)]
    for path, token in (("/v1/me", small.tokens[0]), ("/healthz", "")):
        with small.connect() as connection:
            connection.sendall(head("GET", path, token, *filler))
            assert status(connection) in (400, 431)
        with small.connect() as connection:
            connection.sendall(head("GET", path, token, *filler[:28]))
            assert status(connection) == 200


def test_two_lengths_for_one_body_are_refused_and_end_the_connection(small: Small) -> None:
    about = ("Content-Type: application/json", "Content-Length: 5", "Transfer-Encoding: chunked")
    for path in ("/v1/tasks", "/healthz"):
        with small.connect() as connection:
            hidden = head("GET", "/v1/me", small.tokens[0])
            sent = head("POST", path, small.tokens[0], *about) + b"0\r\n\r\n" + hidden
            connection.sendall(sent)
            answer = b""
            with suppress(ConnectionResetError):
                while part := connection.recv(65536):
                    answer += part
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert answer.count(b"HTTP/1.1") == 1
