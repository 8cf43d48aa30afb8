"""A request in a transaction: the caller, an earlier answer for the same key, the work, the answer.

All of it happens in a single thread on a single connection, so an answer is stored for a key if and
only if its effect is. Work that waits or calls git reserves its key first.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio
import msgspec
from fastapi import Request, Response

from weft.api.http import problem_details
from weft.api.http.auth import admit, bearer
from weft.api.http.event_stream import Stream
from weft.api.http.guard import TOKEN
from weft.api.http.problem_details import Rejected
from weft.api.http.request_counts import Counts
from weft.api.threads import Threads
from weft.errors import InputError, Refused, StoreBusy, WeftError
from weft.operations.identity import Identity
from weft.operations.long_poll import Room
from weft.project.project import Project
from weft.runs.log_pages import LogShelf
from weft.store import Store
from weft.store.database import Transaction
from weft.store.remote_calls import plainly
from weft.store.store import BoundStore
from weft.store.tokens import (
    RepeatableRequest,
    StoredReply,
    fill_reply,
    find_reply,
    keep_reply,
    reserve_reply,
)

T = TypeVar("T")
Work = Callable[[Store, Identity, float], object]
"""The work of a request, on a store for an identity at a time; its result becomes JSON."""

_KEY: Final = re.compile(r"[!-~]{1,200}", re.ASCII)
_JSON: Final = "application/json"


@dataclass(frozen=True, kw_only=True)
class ShownOnce:
    """An answer with a secret; the stored answer has none."""

    shown: object
    kept: object


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a server that requests use."""

    store: Store
    project: Project
    room: Room
    stream: Stream
    counts: Counts
    threads: Threads  # separate from the threads of an engine in the same process
    slow_threads: Threads  # for git and files, so that requests to the store need not wait
    health_threads: anyio.CapacityLimiter
    quick: Store | None  # for looks that take less time than handing them to a thread
    logs: LogShelf  # pages of agents' output
    leaving: anyio.Event  # the server is about to end: polls return at once


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def in_thread(request: Request, work: Callable[[], T]) -> T:
    return await parts_of(request).threads.run(_token(request), work)


async def in_slow_thread(request: Request, work: Callable[[], T]) -> T:
    """Do the same for work that starts git or reads files."""
    return await parts_of(request).slow_threads.run(_token(request), work)


def _token(request: Request) -> str:
    return str(request.scope["state"][TOKEN])


async def look(request: Request, scope: str, work: Work) -> Response:
    """Answer a question."""
    store, ask = parts_of(request).store, _asked(request, scope, work)
    return Response(await in_thread(request, lambda: store.read(ask)), media_type=_JSON)


async def glance(request: Request, scope: str, work: Work) -> Response:
    """Answer a question about a few rows without a thread: reading them from a file takes less time
    than waking a thread, and no writer holds up this connection."""
    quick = parts_of(request).quick
    if quick is None:
        return await look(request, scope, work)
    try:
        return Response(quick.read(_asked(request, scope, work)), media_type=_JSON)
    except StoreBusy:
        return await look(request, scope, work)


def _asked(request: Request, scope: str, work: Work) -> Callable[[Transaction], bytes]:
    store, text = parts_of(request).store, bearer(request)

    def ask(tx: Transaction) -> bytes:
        now = time.time()
        who = admit(tx, text, scope, now=now)
        return encode(work(BoundStore(store, tx), who, now))

    return ask


async def act(request: Request, scope: str, work: Work, *, status: int = 200) -> Response:
    """Do work that changes the store, once for each idempotency key."""
    store, text, keyed = parts_of(request).store, bearer(request), await _key(request)

    def do(tx: Transaction) -> StoredReply:
        now = time.time()
        who = admit(tx, text, scope, now=now)
        asked = (
            None
            if keyed is None
            else RepeatableRequest(token=who.token, key=keyed[0], request=keyed[1])
        )
        before = None if asked is None else find_reply(tx, asked, now=now)
        if before is not None:
            return before
        done = work(BoundStore(store, tx), who, now)
        if asked is not None:
            kept = done.kept if isinstance(done, ShownOnce) else done
            keep_reply(tx, asked, _reply(status, kept), now=now)
        return _reply(status, done.shown if isinstance(done, ShownOnce) else done)

    return _response(await in_thread(request, lambda: store.write(do)))


async def identify(request: Request, scope: str) -> Identity:
    """Return the caller's identity, for work outside a single transaction."""
    store, text = parts_of(request).store, bearer(request)
    return await in_thread(
        request, lambda: store.read(lambda tx: admit(tx, text, scope, now=time.time()))
    )


async def act_slowly(
    request: Request,
    scope: str,
    work: Callable[[Identity], Awaitable[object]],
    *,
    status: int = 200,
) -> Response:
    """Do work that waits or calls git; its key is reserved meanwhile."""
    who, keyed = await identify(request, scope), await _key(request)
    if keyed is None:
        return _response(StoredReply(status=status, body=encode(await work(who)).decode()))
    asked = RepeatableRequest(token=who.token, key=keyed[0], request=keyed[1])
    store = parts_of(request).store
    before = await in_thread(request, lambda: reserve_reply(store, asked, now=time.time()))
    if before is not None:
        return _response(before)
    reply: StoredReply | None = None
    try:
        reply = StoredReply(status=status, body=encode(await work(who)).decode())
    finally:
        with anyio.CancelScope(shield=True):
            await in_thread(request, lambda: fill_reply(store, asked, reply, now=time.time()))
    return _response(reply)


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Wait for a result while the client is connected; cancel when it goes away."""
    results: list[T] = []
    refused: list[WeftError] = []

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        try:
            results.append(await work)
        except WeftError as error:  # the group would wrap it
            refused.append(error)
        group.cancel_scope.cancel()
    if refused:
        raise refused[0]
    if not results:
        raise Rejected(400, "The client has gone.")
    return results[0]


async def _key(request: Request) -> tuple[str, str] | None:
    """Return the idempotency key and a digest of the request."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise InputError("An idempotency key is one word of 1 to 200 printable ASCII characters.")
    url = request.url
    member = request.headers.get("x-weft-agent", "")
    digest = hashlib.sha256(f"{request.method} {url.path}?{url.query}\n{member}\n".encode())
    digest.update(await request.body())
    return key, digest.hexdigest()


def _reply(status: int, done: object) -> StoredReply:
    """Return the answer to store. A refusal that was returned, not raised, keeps its effects."""
    if isinstance(done, Refused):
        refused, *parts = problem_details.describe(done)
        return StoredReply(status=refused, body=problem_details.encode(refused, *parts).decode())
    return StoredReply(status=status, body=encode(done).decode())


def _response(reply: StoredReply) -> Response:
    if reply.status == 204:
        return Response(status_code=204)
    kind = _JSON if reply.status < 400 else problem_details.MEDIA_TYPE
    return Response(reply.body, reply.status, media_type=kind)


def encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=plainly)
    except UnicodeEncodeError:  # half of a character, which an agent may have printed
        return msgspec.json.encode(_whole(msgspec.to_builtins(value, enc_hook=plainly)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value
