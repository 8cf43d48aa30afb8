"""HTTP/1.1 as uvicorn speaks it, with an end to what nobody finishes.

uvicorn bounds the size of a request's head and the time between two requests; it waits for ever
for the rest of a head that has begun, and for a reader who does not read. Here both have a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_BYTES: Final = 32 << 10


class BoundedProtocol(H11Protocol):
    head_seconds = 10.0  # from the first byte of a head to its last
    read_seconds = 30.0  # for a reader to take what waits for it

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._head = _Timer(self.loop)
        self._unread = _Timer(self.loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
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

    def connection_lost(self, exc: Exception | None) -> None:
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
