"""Connections that nobody finishes: heads that never end, answers that nobody reads.

The same protocol with shorter times, in a server of this process: the real ones are too long for
a test.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from wait_until import PATIENCE
from weft.api.http.protocol import BoundedProtocol


class Hasty(BoundedProtocol):
    head_seconds = 0.3
    read_seconds = 0.3


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with much, or after a while."""
    if scope["type"] == "lifespan":
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(0.6)  # twice as long as the head of a request may take
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(500 if scope["path"] == "/much" else 1):
        await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, http=Hasty, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield int(listening.getsockname()[1])
    server.should_exit = True
    thread.join()
    listening.close()


def ended(connection: socket.socket) -> bool:
    """Whether the other side closes without an answer, in time."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_who_says_nothing_is_sent_away(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        assert ended(connection)


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        sent = 0
        try:
            while sent < 1000:
                connection.sendall(
                    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "[sent % 35 : sent % 35 + 1]
                )
                sent += 1
                time.sleep(0.01)
        except OSError:
            pass
        assert sent < 1000
        assert ended(connection)


def test_the_head_of_a_second_request_has_its_time_too(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /some HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read = b""
        while not read.endswith(b"\r\n0\r\n\r\n"):
            read += connection.recv(1 << 20)
        connection.sendall(b"GET /some HTTP/1.1\r\nHost: loc")
        assert ended(connection)


def test_a_request_that_takes_its_time_is_let_alone(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_an_answer_that_nobody_reads_is_not_kept(port: int) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1)  # longer than it is given: what is tested is that it was not read
        read = 0
        try:
            while part := connection.recv(1 << 20):
                read += len(part)
        except ConnectionResetError:
            pass
        assert read < 50_000_000
