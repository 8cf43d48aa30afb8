"""The tools over streamable HTTP, as an application to mount at /mcp.

It keeps no sessions, so any of several servers answers any request. The bearer token of a request
names its caller. The server that mounts it checks Host and Origin.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.to_thread import run_sync
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from weft.api.mcp.sdk_server import CALLER, make_server
from weft.api.mcp.tools import Call
from weft.api.threads import Threads
from weft.errors import StoreError, Unauthenticated
from weft.operations.identity import from_token
from weft.operations.long_poll import Room
from weft.project.project import Project
from weft.store import Store
from weft.store.tokens import identify

MCP: Final = "/mcp"
"""The path of the application."""

_THREADS: Final = 8  # calls that use the store at the same time
_LARGEST: Final = 1024 * 1024 + 64 * 1024  # a plan and its envelope


class McpApp:
    """An ASGI application over a store. Answers only inside `running`."""

    def __init__(self, project: Project, store: Store) -> None:
        self._project = project
        self._store = store
        self._room = Room(store)
        self._leaving = anyio.Event()
        self._threads = Threads(_THREADS, each=_THREADS // 2)
        self._checks = anyio.CapacityLimiter(_THREADS)
        self._manager = StreamableHTTPSessionManager(
            make_server(None), json_response=True, stateless=True, max_request_body_size=_LARGEST
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._manager.run(), anyio.create_task_group() as group:
            group.start_soon(self._let_wait)
            yield
            group.cancel_scope.cancel()

    async def answer_at_the_end(self) -> None:
        """Serve until cancelled; then waiting polls return at once."""
        try:
            await anyio.sleep_forever()
        finally:
            self._leaving.set()

    async def _let_wait(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._room.run)
            await self._leaving.wait()
            group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} connections are not for MCP")
        if scope["method"] != "POST":  # without sessions there is no stream to open or end
            await _answer(send, 405, "Method Not Allowed", allow=b"POST")
            return
        try:
            call = await run_sync(self._identify, _bearer(scope), limiter=self._checks)
        except Unauthenticated as error:
            await _answer(send, 401, str(error))
            return
        except StoreError as error:
            await _answer(send, 503, str(error))
            return
        await self._serve({**scope, CALLER: call}, receive, send)

    def _identify(self, token: str) -> Call:
        who = from_token(identify(self._store, token, now=time.time()))
        return Call(
            store=self._store,
            room=self._room,
            project=self._project,
            who=who,
            leaving=self._leaving,
            threads=self._threads,
        )

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request unless the client goes away before; then no task is claimed for it."""
        body_read = anyio.Event()
        gone = anyio.Event()

        async def listen() -> Message:
            if body_read.is_set():
                await gone.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                body_read.set()
            return message

        async def watch() -> None:
            await body_read.wait()
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await self._manager.handle_request(scope, listen, send)
            group.cancel_scope.cancel()


def _bearer(scope: Scope) -> str:
    sent = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    kind, _, text = (sent[0] if len(sent) == 1 else b"").decode("latin-1").partition(" ")
    return text.strip() if kind.lower() == "bearer" else ""


async def _answer(send: Send, status: int, title: str, *, allow: bytes = b"") -> None:
    body = json.dumps({"title": title, "status": status}).encode()
    headers = [(b"content-type", b"application/problem+json")]
    headers += [(b"content-length", str(len(body)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    headers += [(b"allow", allow)] if allow else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
