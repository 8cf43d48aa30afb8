"""Checks before any route sees a request. Pure ASGI, around the application.

- A foreign `Host`: a page whose name points at this machine (DNS rebinding).
- A foreign `Origin` or `Sec-Fetch-Site`: a page of another site (cross-site requests).
- The token, before a single byte of the body is read.
- Bodies that are too large, chunked or not, come too slowly, or are no JSON.
- Heads that are too large, paths that are too long, two lengths for a body.

Bodies are read here, whole: they are small, and so no slow body can keep a route waiting (those of
`/git/` are large: `git_endpoint`). A proxy
in front bounds slow heads and the number of connections.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.api.http import problem_details
from weft.api.http.auth import TokenCheck
from weft.api.http.problem_details import Rejected
from weft.errors import StoreError, Unauthenticated, name_of

HEAD_BYTES: Final = 32 << 10
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
CALLS: Final = ("/v1/verbs/", "/v1/operations/")
"""The paths of verbs that an admin calls by name."""
TOKEN: Final = "token"  # noqa: S105  # a name
"""The key of the shown token's id in the state of an ASGI scope."""

GIT: Final = "/git/"
"""The path of repositories, for the git of worker hosts."""

_PAGE: Final = "/page/"
_NO_PAGE: Final = "The link of this page is used up or not valid; `weft open` prints a new link."
_CLOSED: Final = ("/v1/", "/metrics", "/mcp", _PAGE)
_SHELL: Final = "/"  # without data: a link in a message of another site may lead to it
_SITES: Final = (b"origin", b"sec-fetch-site")
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds of a request. Sizes in bytes, times in seconds."""

    head: int = HEAD_BYTES
    body: int = 4 << 20  # a plan with a hundred tasks is a hundredth of this
    call: int = 96 << 20  # of a verb called by name, which may carry the largest plan
    body_seconds: float = 20.0
    path: int = 2048  # with its query
    headers: int = 64


class Guard:
    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str], bounds: Bounds, tokens: TokenCheck
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._bounds = bounds
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None  # no other kinds reach this place
        try:
            received = await self._let_in(scope, receive)
        except Rejected as error:
            scheme = b'Basic realm="weft"' if scope["path"].startswith(GIT) else b"Bearer"
            return await _turn_away(send, error, scheme)
        return await self._app(scope, received, send)

    async def _let_in(self, scope: Scope, receive: Receive) -> Receive:
        headers = scope["headers"]
        self._refuse_head(scope, headers)
        self._refuse_strangers(headers, is_shell=scope["path"] == _SHELL)
        is_git = scope["path"].startswith(GIT)
        if not is_git and not scope["path"].startswith(_CLOSED):
            return receive  # no route there reads a body
        try:
            token = await self._identify(headers, _git_token if is_git else _bearer)
        except Unauthenticated as error:
            of_page = scope["path"].startswith(_PAGE)
            raise Rejected(401, _NO_PAGE if of_page else str(error)) from error
        scope.setdefault("state", {})[TOKEN] = token
        if is_git or scope["method"] not in _WITH_BODY:
            return receive  # `git_endpoint` reads a body in pieces, under bounds of its own
        return await self._read_body(headers, receive, self._length(scope["path"], headers))

    async def _identify(self, headers: Headers, shown: Callable[[Headers], str]) -> str:
        try:
            return await self._tokens.identify(shown(headers))
        except StoreError as error:
            raise Rejected(*problem_details.describe(error)[:2]) from error

    def _refuse_head(self, scope: Scope, headers: Headers) -> None:
        asked = len(scope["raw_path"]) + len(scope["query_string"])
        if len(headers) > self._bounds.headers:
            raise Rejected(431, f"A request has at most {self._bounds.headers} headers.")
        # uvicorn bounds only a head that comes in pieces.
        if asked + sum(len(name) + len(value) + 4 for name, value in headers) > self._bounds.head:
            raise Rejected(431, f"The head of a request has at most {self._bounds.head} bytes.")
        if asked > self._bounds.path:
            raise Rejected(414, f"A path has at most {self._bounds.path} bytes.")
        names = [name for name, _ in headers]
        if b"transfer-encoding" in names and b"content-length" in names:
            # A proxy that believes the other header would take the rest for a second request.
            raise Rejected(400, "A body has a Content-Length or a Transfer-Encoding, not both.")

    def _length(self, path: str, headers: Headers) -> int:
        """Return the largest size of the body: the announced length; without it, the bound."""
        named = dict(headers)
        if b"transfer-encoding" in named:
            return self._bounds.body
        length = named.get(b"content-length", b"0")
        most = self._bounds.call if path.startswith(CALLS) else self._bounds.body
        if not length.isdigit() or int(length) > most:
            raise _too_large(most)
        return int(length)

    def _refuse_strangers(self, headers: Headers, *, is_shell: bool) -> None:
        host = b""
        for name, value in headers:
            if name == b"host":
                host = value
            elif name in _SITES and not is_shell and not self._is_ours_or_none(name, value):
                raise Rejected(403, "Pages of other sites may not ask anything here.")
        if not self._is_ours(host.decode("latin-1")):
            raise Rejected(
                403, "This server does not go by that name; `weft serve --host-name` adds one."
            )

    def _is_ours_or_none(self, name: bytes, value: bytes) -> bool:
        """Tell whether the headers of a browser name no other site as the origin."""
        if name == b"sec-fetch-site":
            return value in (b"same-origin", b"none")
        scheme, _, netloc = value.decode("latin-1").partition("://")
        return scheme in ("http", "https") and self._is_ours(netloc)

    def _is_ours(self, netloc: str) -> bool:
        name, colon, port = netloc.rpartition(":")
        bare = name if colon and port.isdecimal() else netloc
        return bare.lower() in self._hosts

    async def _read_body(self, headers: Headers, receive: Receive, most: int) -> Receive:
        body = bytearray()
        with anyio.move_on_after(self._bounds.body_seconds) as reading:
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Rejected(400, "The body ended too early.")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > most:
                    raise _too_large(most)
        if reading.cancelled_caught:
            raise Rejected(408, f"A body must come within {self._bounds.body_seconds:.0f} s.")
        if body and not _is_json(dict(headers).get(b"content-type", b"")):
            raise Rejected(415, "A body is application/json.")
        return _replay(bytes(body), receive)


def _bearer(headers: Headers) -> str:
    scheme, text = _authorization(headers)
    if scheme != "bearer":
        raise Unauthenticated
    return text


def _git_token(headers: Headers) -> str:
    """Return the token that a git shows as its password."""
    scheme, text = _authorization(headers)
    if scheme != "basic":
        raise Unauthenticated
    try:
        return b64decode(text, validate=True).decode("latin-1").partition(":")[2]
    except ValueError as error:
        raise Unauthenticated from error


def _authorization(headers: Headers) -> tuple[str, str]:
    shown = [value for name, value in headers if name == b"authorization"]
    scheme, _, text = (shown[0] if len(shown) == 1 else b"").decode("latin-1").partition(" ")
    return scheme.lower(), text.strip()


def _too_large(most: int) -> Rejected:
    return Rejected(413, f"A body has at most {most} bytes.")


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` with the body that was read, then the messages of the connection."""
    waiting = [body]

    async def received() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return received


async def _turn_away(send: Send, error: Rejected, scheme: bytes) -> None:
    name = name_of(Unauthenticated) if error.status_code == 401 else None
    body = problem_details.encode(error.status_code, error.detail, name)
    headers = [
        (b"content-type", problem_details.MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # the rest of the request is not read
    ]
    if error.status_code in problem_details.AGAIN:
        headers.append((b"retry-after", str(problem_details.AGAIN[error.status_code]).encode()))
    if error.status_code == 401:
        headers.append((b"www-authenticate", scheme))
    await send({"type": "http.response.start", "status": error.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
