"""Followers that come and go, and the one reader of the store that serves them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync

from wait_until import PATIENCE
from weft.api.http.event_stream import EventFilter, Stream
from weft.store import Store, open_store


def tell(store: Store, kind: str, size: int = 0) -> None:
    store.write(lambda tx: tx.event(kind, now=0.0, text="x" * size))


async def read_upto(follower: AsyncGenerator[bytes, None], words: bytes) -> None:
    while words not in await anext(follower):
        pass


@pytest.mark.anyio
async def test_one_that_is_late_to_go_takes_nobody_elses_events_along(tmp_path: Path) -> None:
    """Weakened, the reader waits for followers on an event that has been replaced, for ever."""
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store, anyio.fail_after(PATIENCE):
        stream = Stream(store, anyio.CapacityLimiter(4))
        async with anyio.create_task_group() as group:
            group.start_soon(stream.run)
            slow = stream.follow(EventFilter(), 0)
            await read_upto(slow, b": still here")
            group.start_soon(read_upto, slow, b"first")
            while stream.followers == 0:
                await anyio.sleep(0.01)
            await run_sync(tell, store, "first")
            while stream.dropped == 0:  # it has read the first, and nothing since
                await run_sync(tell, store, "much", 300_000)
            await run_sync(tell, store, "after")
            while vars(stream)["_joined"].statistics().tasks_waiting == 0:
                await anyio.sleep(0.01)
            await slow.aclose()
            next_one = stream.follow(EventFilter(), 0)
            await read_upto(next_one, b"after")
            async with anyio.create_task_group() as reading:
                reading.start_soon(read_upto, next_one, b"last")
                while stream.followers == 0:
                    await anyio.sleep(0.01)
                await run_sync(tell, store, "last")
            group.cancel_scope.cancel()
