"""The threads of a server: a few for all requests, and only some of them for any single token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync

T = TypeVar("T")


class Shares:
    """A bound for each token on the things it uses at once; further requests wait in line."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._limiters: dict[str, anyio.CapacityLimiter] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def share(self, token: str) -> AsyncIterator[None]:
        limiter = self._limiters.setdefault(token, anyio.CapacityLimiter(self._each))
        self._users[token] = self._users.get(token, 0) + 1
        try:
            async with limiter:
                yield
        finally:
            self._users[token] -= 1
            if not self._users[token]:
                del self._users[token], self._limiters[token]


class Threads:
    def __init__(self, number: int, *, each: int) -> None:
        """Let at most `each` of the threads work for a token at a time."""
        self._limiter = anyio.CapacityLimiter(number)
        self._shares = Shares(each)

    async def run(self, token: str, work: Callable[[], T]) -> T:
        async with self._shares.share(token):
            return await run_sync(work, limiter=self._limiter)
