"""An application on a socket, until it is told to stop."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import uvicorn
from fastapi import FastAPI

from weft.api.http.app import close, parts_of, stop_waiting, work_beside
from weft.api.http.guard import HEAD_BYTES
from weft.errors import InputError
from weft.project.warning_log import hide_in_logs

_BACKLOG: Final = 2048
_KEPT_ALIVE: Final = 30  # seconds between two requests on a connection
_GRACE: Final = 5  # seconds for answers that are under way when all ends
_DESCRIPTORS: Final = 65_536


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; no other program can then take the announced address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Declared as TCP, asyncio sends each write at once; else each answer would wait 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise InputError(f"Cannot listen at {host}:{port}: {error.strerror}.") from error
    return listening


async def listen(app: FastAPI, listening: socket.socket) -> None:
    """Answer requests until cancelled; then those under way, for a moment, and no more."""
    _allow_many_descriptors()
    hide_in_logs(parts_of(app).store.redactor)
    server = _Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,  # the command's own
            access_log=False,
            proxy_headers=False,  # no proxy headers are trusted
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEPT_ALIVE,
            timeout_graceful_shutdown=_GRACE,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
    )
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(work_beside, app)
            group.start_soon(_serve, server, listening)
            try:
                await anyio.sleep_forever()
            finally:
                stop_waiting(app)
                parts_of(app).stream.close()
                server.should_exit = True
    finally:
        close(app)


async def _serve(server: uvicorn.Server, listening: socket.socket) -> None:
    with anyio.CancelScope(shield=True):  # it ends by being told so
        await server.serve(sockets=[listening])


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program that runs the server."""
        yield


def _allow_many_descriptors() -> None:
    """Raise the limit of open sockets, since a thousand agents wait on a socket each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
