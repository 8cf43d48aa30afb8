"""`/git/<id>`: the repository of this server, for the git of worker hosts.

A host fetches HEAD, the trunks of the runs it works for and the commits that its open leases are
about; other references do not exist for it, and other objects are refused by id. A push creates one
candidate, for an open fence of the host that pushes: the start of its body is read before git gets
a byte. A host whose token is revoked is refused at once, also in the middle of a transfer. Bounds:
a push has at most 1 GB, a request for objects 4 MB, unpacked; the command of a push comes
within 20 seconds; each request takes at most 10 minutes; 8 run at once, 4 of a token.
"""

from __future__ import annotations

import contextlib
import logging
import time
import zlib
from collections.abc import AsyncIterator
from typing import Final

import anyio
from anyio.abc import Process
from anyio.to_thread import run_sync
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from weft import git
from weft.api.http.guard import GIT, TOKEN
from weft.api.http.problem_details import MEDIA_TYPE, Rejected, describe, encode
from weft.api.threads import Shares
from weft.errors import Forbidden, NotFound, StaleFence, StoreError, Unauthenticated, WeftError
from weft.git.http_backend import (
    CANDIDATES,
    MOST_ASKED,
    MOST_PUSHED,
    make_environment,
    may_fetch,
    read_push,
    read_wants,
)
from weft.git.refs import find_symbolic_target
from weft.model import LeaseState
from weft.operations.host_rights import FetchRights, is_own, read_fetch_rights
from weft.operations.identity import Identity, from_token
from weft.process.piped_program import open_program
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.store import Store
from weft.store.leases import get_lease
from weft.store.tokens import get_token
from weft.workspace.names import trunk_ref

log = logging.getLogger(__name__)

_FETCH: Final = "git-upload-pack"
_PUSH: Final = "git-receive-pack"
_SECONDS: Final = 600.0
_AT_ONCE: Final = 8
_LOOK: Final = 1.0  # seconds between two looks at the token during a transfer
_START: Final = 4096  # bytes in which the command of a push fits
_START_SECONDS: Final = 20.0
_PROBE: Final = b"0000"  # before a large push, git asks with an empty one whether it may push
_GZIP: Final = 31  # the format, to zlib
_HEAD: Final = 16_384  # bytes of the head that `git http-backend` prints


class GitRequest(Struct, frozen=True, kw_only=True):
    file: str  # of the repository: `info/refs`, `git-upload-pack`, `git-receive-pack`
    query: str
    method: str
    headers: dict[str, str]

    @property
    def is_push(self) -> bool:
        return self.file == _PUSH or self.query == f"service={_PUSH}"

    @property
    def is_packed(self) -> bool:
        return self.headers.get("content-encoding") == "gzip"


class GitEndpoint:
    """An ASGI application over the repository of a project."""

    def __init__(self, project: Project, store: Store, *, seconds: float = _SECONDS) -> None:
        self._project = project
        self._store = store
        self._seconds = seconds
        self._common = git.common_directory(project.root)
        self._running = anyio.CapacityLimiter(_AT_ONCE)
        self._shares = Shares(_AT_ONCE // 2)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = str(scope["state"][TOKEN])
        try:
            who = await run_sync(lambda: from_token(get_token(self._store, token)))
            request = await run_sync(self._admit, who, scope)
            rights = await run_sync(self._read_rights, who)
            body = _read_body(receive, MOST_PUSHED if request.is_push else MOST_ASKED)
            if request.is_packed:
                body = _unpack(body)
            start = b""
            if request.file == _FETCH:
                start = b"".join([piece async for piece in body])
                await run_sync(self._require_wants, rights, start)
            elif request.file == _PUSH:
                start = await _read_start(body, min(_START_SECONDS, self._seconds))
            if request.file == _PUSH and start != _PROBE:
                await run_sync(self._require_candidate, who, start)
                body = self._end_in_time(body, who, start)
        except Rejected as error:
            return await _refuse(send, error.status_code, error.detail)
        except WeftError as error:
            return await _refuse(send, *describe(error))
        async with self._shares.share(token), self._running:
            with anyio.move_on_after(self._seconds):
                await self._serve(request, who, rights, start, body, send)

    def _admit(self, who: Identity, scope: Scope) -> GitRequest:
        id, _, file = scope["path"].removeprefix(GIT).partition("/")
        if who.worker is None:
            raise Forbidden("Only a worker host fetches here; `weft worker` joins one.")
        if id != get_repository(self._project.root, self._store):
            raise NotFound("There is no such repository here.")
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        query = scope["query_string"].decode("latin-1")
        request = GitRequest(file=file, query=query, method=scope["method"], headers=headers)
        asked = (request.method, file, query)
        known = [("GET", "info/refs", f"service={service}") for service in (_FETCH, _PUSH)]
        if asked not in (*known, ("POST", _FETCH, ""), ("POST", _PUSH, "")):
            raise NotFound("Only git's own protocol is spoken here.")
        if "content-encoding" in headers and (request.file == _PUSH or not request.is_packed):
            raise Rejected(415, "A push is not compressed as a whole, a request at most by gzip.")
        return request

    def _read_rights(self, who: Identity) -> FetchRights:
        return read_fetch_rights(self._store, who, now=time.time())

    def _list_shown(self, rights: FetchRights) -> list[str]:
        """List the references that exist for a host."""
        head = find_symbolic_target(self._common, "HEAD")
        return [*map(trunk_ref, sorted(rights.runs)), *([] if head is None else [head])]

    def _require_wants(self, rights: FetchRights, body: bytes) -> None:
        """Raise unless a request wants commits of the host's own leases alone."""
        wants = read_wants(body)
        if wants is None or not may_fetch(
            self._common, wants, rights.commits, self._list_shown(rights)
        ):
            raise Forbidden("A worker host fetches the commits of its own tasks and checks alone.")

    def _require_candidate(self, who: Identity, start: bytes) -> None:
        """Raise unless a push creates the candidate of an open fence of this host."""
        pushed = read_push(start)
        if pushed is None:
            raise Forbidden(
                "A push creates refs/weft/candidates/<task>.<attempt>.<fence>, and nothing else."
            )
        name, _ = pushed
        lease = get_lease(self._store, name.fence)
        if not is_own(who, lease.worker):
            raise Forbidden("The token of a worker host may not push for another worker.")
        if lease.state is LeaseState.RELEASED or (lease.task, lease.attempt) != (
            name.task,
            name.attempt,
        ):
            raise StaleFence(f"Attempt {name.attempt} of task {name.task} has ended.")

    async def _end_in_time(
        self, body: AsyncIterator[bytes], who: Identity, start: bytes
    ) -> AsyncIterator[bytes]:
        """Yield the last piece of a push only if its fence is still open: it may have taken long.

        Without it git refuses the pack. A push that fits in its start was checked just now.
        """
        last = b""
        async for piece in body:
            if last:
                yield last
            last = piece
        if not last:
            return
        try:
            await run_sync(self._require_candidate, who, start)
        except WeftError as error:
            log.info("a push of %s was refused at its end: %s", who.worker, error)
            return
        yield last

    async def _serve(
        self,
        request: GitRequest,
        who: Identity,
        rights: FetchRights,
        start: bytes,
        body: AsyncIterator[bytes],
        send: Send,
    ) -> None:
        shown = await run_sync(self._list_shown, rights)
        environment = make_environment(
            self._common,
            request.file,
            method=request.method,
            query=request.query,
            headers=request.headers,
            user=who.worker or who.name,
            shown=[*shown, CANDIDATES] if request.is_push else shown,
        )
        arguments = ("git", "http-backend")
        async with (
            open_program(arguments, directory=self._common, environment=environment) as program,
            anyio.create_task_group() as group,
        ):
            group.start_soon(_feed, program, start, body)
            group.start_soon(self._end_revoked, who, group.cancel_scope)
            await _answer(program, send)
            group.cancel_scope.cancel()

    async def _end_revoked(self, who: Identity, transfer: anyio.CancelScope) -> None:
        """End a transfer soon after the token of its host is revoked."""
        while True:
            await anyio.sleep(_LOOK)
            try:
                await run_sync(self._read_rights, who)
            except Unauthenticated:
                transfer.cancel()
                return
            except StoreError as error:
                log.warning("could not look at the token of %s: %s", who.worker, error)


async def _read_body(receive: Receive, most: int) -> AsyncIterator[bytes]:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            return  # git refuses the incomplete pack
        more = message.get("more_body", False)
        if piece:
            yield piece


async def _unpack(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Unpack a request, up to the bound of its size: a small one may stand for terabytes."""
    unpacking = zlib.decompressobj(wbits=_GZIP)
    left = MOST_ASKED
    async for piece in body:
        try:
            plain = unpacking.decompress(piece, left + 1)
        except zlib.error:
            return
        left -= len(plain)
        if left < 0:
            return  # git refuses the incomplete request
        if plain:
            yield plain


async def _read_start(body: AsyncIterator[bytes], seconds: float) -> bytes:
    start = b""
    with anyio.move_on_after(seconds):
        async for piece in body:
            start += piece
            if len(start) >= _START:
                break
    return start


async def _feed(program: Process, start: bytes, body: AsyncIterator[bytes]) -> None:
    assert program.stdin is not None
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        if start:
            await program.stdin.send(start)
        async for piece in body:
            await program.stdin.send(piece)
        await program.stdin.aclose()


async def _answer(program: Process, send: Send) -> None:
    assert program.stdout is not None
    head = b""
    pieces = aiter(program.stdout)
    while b"\r\n\r\n" not in head and len(head) < _HEAD:
        piece = await anext(pieces, None)
        if piece is None:
            return await _refuse(send, 500, "git failed.")
        head += piece
    text, _, rest = head.partition(b"\r\n\r\n")
    fields = [line.partition(b":") for line in text.split(b"\r\n")]
    headers = [(name.strip().lower(), value.strip()) for name, _, value in fields]
    status = int(dict(headers).get(b"status", b"200")[:3])
    kept = [(name, value) for name, value in headers if name != b"status"]
    await send({"type": "http.response.start", "status": status, "headers": kept})
    await send({"type": "http.response.body", "body": rest, "more_body": True})
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return None


async def _refuse(send: Send, status: int, detail: str, name: str | None = None) -> None:
    body = encode(status, detail, name)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
