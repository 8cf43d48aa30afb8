"""What is turned away before anybody looks at it. Pure ASGI, around everything else.

- A `Host` that is not ours: a page that had its own name point at this machine (DNS rebinding).
- An `Origin` or `Sec-Fetch-Site` that is not ours: a page of somebody else's (cross-site requests).
- Whoever shows no token where one is needed.
- Bodies that are too large, chunked ones too, come too slowly, or are no JSON.
- Too many headers, too long a path, too many requests at once.

Bodies are read here, whole: they are small, and nothing behind this can be kept waiting by one.
What happens before a request has its headers is in `protocol`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.errors import Unauthenticated, name_of
from weft.web import problems
from weft.web.problems import Rejected

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
CALLS: Final = ("/v1/verbs/", "/v1/operations/")
"""Where an admin calls verbs by name."""

_CLOSED: Final = ("/v1/", "/metrics", "/mcp")
_SITES: Final = (b"origin", b"sec-fetch-site")
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much one request may be. Sizes in bytes, times in seconds."""

    body: int = 4 << 20  # a plan with a hundred tasks is a hundredth of this
    call: int = 96 << 20  # one of an admin's calls of a verb, which may carry the largest plan
    body_seconds: float = 20.0
    path: int = 2048  # with its query
    headers: int = 64
    at_once: int = 5000  # requests under way, those that wait included


class Guard:
    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], bounds: Bounds) -> None:
        self._app = app
        self._hosts = frozenset(one.lower() for one in hosts)
        self._bounds = bounds
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None  # there are no others here
        self._under_way += 1
        try:
            received = await self._let_in(scope, receive)
        except Rejected as error:
            return await _turn_away(send, error)
        else:
            return await self._app(scope, received, send)
        finally:
            self._under_way -= 1

    async def _let_in(self, scope: Scope, receive: Receive) -> Receive:
        if self._under_way > self._bounds.at_once:
            raise Rejected(503, "Too many requests are under way; ask again in a moment.")
        headers = scope["headers"]
        if len(headers) > self._bounds.headers:
            raise Rejected(431, f"A request has at most {self._bounds.headers} headers.")
        if len(scope["raw_path"]) + len(scope["query_string"]) > self._bounds.path:
            raise Rejected(414, f"A path has at most {self._bounds.path} bytes.")
        self._refuse_strangers(headers)
        if scope["path"].startswith(_CLOSED) and not _shows_a_token(headers):
            raise Rejected(401, str(Unauthenticated()))
        if scope["method"] not in _WITH_BODY:
            return receive
        if scope["path"].startswith(CALLS):
            return self._read_later(headers, receive)
        return await self._read_body(headers, receive)

    def _read_later(self, headers: list[tuple[bytes, bytes]], receive: Receive) -> Receive:
        """For what may be large: read by whoever has looked at the token first, within bounds."""
        self._refuse_length(headers, self._bounds.call)
        end = anyio.current_time() + self._bounds.body_seconds
        seen = 0
        more = True

        async def received() -> Message:
            nonlocal seen, more
            if not more:
                return await receive()
            with anyio.move_on_after(end - anyio.current_time()) as waiting:
                message = await receive()
                seen += len(message.get("body", b""))
                more = message.get("more_body", False)
            if waiting.cancelled_caught:
                raise self._too_slow()
            if seen > self._bounds.call:
                raise _too_large(self._bounds.call)
            return message

        return received

    def _refuse_length(self, headers: list[tuple[bytes, bytes]], most: int) -> None:
        length = dict(headers).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most:
            raise _too_large(most)

    def _too_slow(self) -> Rejected:
        return Rejected(408, f"A body must come within {self._bounds.body_seconds:.0f} s.")

    def _refuse_strangers(self, headers: list[tuple[bytes, bytes]]) -> None:
        host = b""
        for name, value in headers:
            if name == b"host":
                host = value
            elif name in _SITES and not self._is_ours_or_none(name, value):
                raise Rejected(403, "Pages of other sites may not ask anything here.")
        if not self._is_ours(host.decode("latin-1")):
            raise Rejected(
                403, "This server does not go by that name; `weft serve --host-name` adds one."
            )

    def _is_ours_or_none(self, name: bytes, value: bytes) -> bool:
        """Whether a browser says that nobody, or a page of ours, asked for this."""
        if name == b"sec-fetch-site":
            return value in (b"same-origin", b"none")
        scheme, _, netloc = value.decode("latin-1").partition("://")
        return scheme in ("http", "https") and self._is_ours(netloc)

    def _is_ours(self, netloc: str) -> bool:
        name, colon, port = netloc.rpartition(":")
        bare = name if colon and port.isdecimal() else netloc
        return bare.lower() in self._hosts

    async def _read_body(self, headers: list[tuple[bytes, bytes]], receive: Receive) -> Receive:
        self._refuse_length(headers, self._bounds.body)
        body = bytearray()
        with anyio.move_on_after(self._bounds.body_seconds) as reading:
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Rejected(400, "The body ended too early.")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > self._bounds.body:
                    raise _too_large(self._bounds.body)
        if reading.cancelled_caught:
            raise self._too_slow()
        if body and not _is_json(dict(headers).get(b"content-type", b"")):
            raise Rejected(415, "A body is application/json.")
        return _replay(bytes(body), receive)


def _shows_a_token(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether it is any good is asked later; who shows none hears nothing else."""
    return dict(headers).get(b"authorization", b"").lower().startswith(b"bearer ")


def _too_large(most: int) -> Rejected:
    return Rejected(413, f"A body has at most {most} bytes.")


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


def _replay(body: bytes, receive: Receive) -> Receive:
    """What was read, once, and then whatever comes: that its sender has gone."""
    waiting = [body]

    async def received() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return received


async def _turn_away(send: Send, error: Rejected) -> None:
    name = name_of(Unauthenticated) if error.status_code == 401 else None
    body = problems.encode(error.status_code, error.detail, name)
    headers = [
        (b"content-type", problems.MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # what else it wanted to send is not read
    ]
    if error.status_code == 503:
        headers.append((b"retry-after", b"2"))
    if error.status_code == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": error.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
