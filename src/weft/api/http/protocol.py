"""HTTP/1.1 as uvicorn speaks it, with time limits for slow peers and counted connections.

uvicorn bounds the size of a head and the time between two requests. It waits for ever for the rest
of a head, and for a client that does not read its answer. Both have a time limit here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.api.http.connections import CONNECTION, Connections

HEAD_BYTES: Final = 32 << 10


class BoundedProtocol(H11Protocol):
    head_seconds = 10.0  # from the first byte of a head to its last
    read_seconds = 30.0  # for a client to read its answer
    open_connections: Connections | None = None  # of its server; None: connections are not counted

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.app_state = {**self.app_state, CONNECTION: self}
        self._head = _Timer(self.loop)
        self._unread = _Timer(self.loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if self.open_connections is not None:
            self.open_connections.add(self)
        self._head.start(self.head_seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        begun = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if begun and not self.transport.is_closing():
            self._head.start(self.head_seconds, self.transport.abort)
        else:
            self._head.stop()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.start(self.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread.stop()

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def drop(self) -> None:
        self.transport.abort()

    def assign(self, token: str) -> None:
        """Count this connection for a token; raise `Rejected` if the token has too many."""
        if self.open_connections is not None:
            self.open_connections.assign(self, token)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.open_connections is not None:
            self.open_connections.remove(self)
        self._head.stop()
        self._unread.stop()
        super().connection_lost(exc)


class _Timer:
    """Calls once, after a time that a second start does not make longer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    def start(self, seconds: float, call: Callable[[], None]) -> None:
        if self._handle is None:
            self._handle = self._loop.call_later(seconds, call)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
