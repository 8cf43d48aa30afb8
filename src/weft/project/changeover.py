"""Between two agents: slots stand empty while one is settled and the next one started.

What nobody waits for, cleaning up and the gate, lets that go first; and a gate that waits until all
who ended together are settled finds them all at once.
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
        """Wait until no slot changes hands, but no longer than this.

        In the first seconds, `after`, whoever was settled may be followed by another.
        """
        with anyio.move_on_after(seconds):
            await anyio.sleep(after)
            while self._under_way:
                await anyio.sleep(_LOOK)
