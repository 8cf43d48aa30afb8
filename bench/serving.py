"""Servers to measure, and clients that cost little: what is measured is the server."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Served:
    port: int
    token: str
    pid: int
    url: str  # of its store


@contextlib.contextmanager
def served(store: str | None = None) -> Iterator[Served]:
    """`weft serve` without work, on a store of its own or a given one."""
    directory = Path(tempfile.mkdtemp(prefix="weft-bench-"))
    try:
        subprocess.run(["git", "init", "--quiet"], cwd=directory, check=True)
        url = store or f"sqlite:///{directory / 'weft.db'}"
        command = [sys.executable, "-m", "weft", "serve", "--no-work", "--bind", "127.0.0.1:0"]
        environment = {**os.environ, "WEFT_STORE": url, "XDG_STATE_HOME": str(directory / "state")}
        with subprocess.Popen(
            [*command, "--json"],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                assert process.stdout is not None
                told = json.loads(process.stdout.readline())
                port = int(told["url"].rpartition(":")[2])
                token = Path(told["token_file"]).read_text().strip()
                _wait_for(port)
                yield Served(port=port, token=token, pid=process.pid, url=url)
            finally:
                process.kill()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def bare(answer: bytes) -> Iterator[int]:
    """A FastAPI application that answers everything with the same bytes."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(answer)
        file.flush()
        command = [sys.executable, "-m", "bench.bare_app", file.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline())
                _wait_for(port)
                yield port
            finally:
                process.kill()


def _wait_for(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as one:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if one.recv(100):
                return
        time.sleep(0.05)
    raise TimeoutError("the server did not answer")


def request(method: str, path: str, token: str, body: object = None, *, agent: str = "") -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    head = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        *([f"X-Weft-Agent: {agent}"] if agent else []),
        *(["Content-Type: application/json", f"Content-Length: {len(data)}"] if data else []),
    ]
    return "\r\n".join([*head, "", ""]).encode() + data


def receive(connection: socket.socket) -> bytes:
    """The body of one answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    assert b" 20" in head[:16], head
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += connection.recv(1 << 16)
    return body


def ask(port: int, *arguments: object, token: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        method, path, *body = arguments
        connection.sendall(request(str(method), str(path), token, *body))
        return receive(connection)


def answers_per_second(port: int, asked: bytes, *, count: int, connections: int = 8) -> float:
    """How many requests are answered per second, some at a time."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(connections):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            selector.register(one, selectors.EVENT_READ)
            one.sendall(asked)
        left, done, began = count - connections, 0, time.perf_counter()
        while done < count:
            for key, _ in selector.select():
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                receive(ready)
                done += 1
                if left > 0:
                    left -= 1
                    ready.sendall(asked)
        return count / (time.perf_counter() - began)
