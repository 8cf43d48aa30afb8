"""The changeover between two agents, while a slot stands empty.

Cleaning up and the gate wait for it: filling the slot is more urgent, and the gate then finds all
attempts that ended together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio

_LOOK: Final = 0.01  # seconds


class Changeover:
    def __init__(self) -> None:
        self._under_way = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """An attempt is being settled or started."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def let_pass(self, seconds: float, *, after: float = _LOOK) -> None:
        """Wait until no slot changes hands, at most for this time.

        During the first `after` seconds another settlement may follow.
        """
        with anyio.move_on_after(seconds):
            await anyio.sleep(after)
            while self._under_way:
                await anyio.sleep(_LOOK)
