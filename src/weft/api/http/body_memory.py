"""Memory for the bodies of requests: so many bytes at once for all, and fewer for each token."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class BodyBudget:
    def __init__(self, *, total: int, each: int) -> None:
        self._total = total
        self._each = each
        self._taken: Counter[str] = Counter()
        self._freed = anyio.Event()

    @asynccontextmanager
    async def take(self, token: str, size: int) -> AsyncIterator[None]:
        """Reserve memory for a body; wait while other requests hold too much."""
        while self._taken[token] + size > self._each or self._taken.total() + size > self._total:
            await self._freed.wait()
        self._taken[token] += size
        try:
            yield
        finally:
            self._taken[token] -= size
            if not self._taken[token]:
                del self._taken[token]
            self._freed.set()
            self._freed = anyio.Event()
