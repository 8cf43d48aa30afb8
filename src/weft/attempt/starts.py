"""Agents about to start in this process: what nobody waits for lets them go first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio

_LOOK: Final = 0.01  # seconds; in the first of them whoever ended may be followed by another


class Starts:
    def __init__(self) -> None:
        self._under_way = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def let_pass(self, seconds: float) -> None:
        """Wait until no agent is about to start, but no longer than this."""
        with anyio.move_on_after(seconds):
            await anyio.sleep(_LOOK)
            while self._under_way:
                await anyio.sleep(_LOOK)
