"""The wait of all loops: a ring, an event or a time ends it."""

from __future__ import annotations

import anyio
import pytest

from weft.store import Store
from weft.store.event_log import last_event
from weft.store.limit_table import set_limit
from weft.store.wake import wait_rung

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'weft.db'}"


async def test_a_ring_ends_the_wait_and_is_heard_once(store: Store) -> None:
    with store.listen("events") as listener:
        set_limit(store, "llm", 3, now=0)
        set_limit(store, "llm", 4, now=0)
        assert await wait_rung(listener, event=anyio.Event())
        assert not await wait_rung(listener, seconds=0.01)
    assert last_event(store) > 0


async def test_an_event_ends_the_wait(store: Store) -> None:
    event = anyio.Event()
    with store.listen("events") as listener:
        async with anyio.create_task_group() as group:

            async def set_event() -> None:
                await anyio.wait_all_tasks_blocked()
                event.set()

            group.start_soon(set_event)
            assert await wait_rung(listener, event=event)


async def test_without_ring_and_event_the_seconds_pass(store: Store) -> None:
    with store.listen("work") as listener:
        assert not await wait_rung(listener, seconds=0.01, event=anyio.Event())
