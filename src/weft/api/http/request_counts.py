"""Counts of this process: requests and their time, by route and status."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

VERSION: Final = "/v1"


class Counts:
    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)


class Counting:
    """Middleware that counts requests by the pattern of their route, not by their path."""

    def __init__(self, app: ASGIApp, *, counts: Counts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began = time.perf_counter()
        status = 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            route = _pattern(scope)
            self._counts.requests[scope["method"], route, status] += 1
            self._counts.seconds[scope["method"], route] += time.perf_counter() - began


def _pattern(scope: Scope) -> str:
    """Return the pattern of the route, with the version that its router does not know."""
    own = getattr(scope.get("route"), "path", None)
    if own is None:
        return "none"
    versioned = scope["path"].startswith(VERSION) and not own.startswith(VERSION)
    return f"{VERSION}{own}" if versioned else str(own)
