"""A wait for all loops: until the store rings, an event is set, or some seconds have passed."""

from __future__ import annotations

import math

import anyio

from weft.store.wake import Listener


async def wait_rung(
    listener: Listener, *, seconds: float = math.inf, event: anyio.Event | None = None
) -> bool:
    """Wait for a ring or the event; return False if the seconds passed first.

    All rings so far count as a single ring. Give seconds even to a loop that is rung for each
    change: a writer that dies between its commit and the ring wakes no process, nor does a passed
    deadline.
    """
    with anyio.move_on_after(seconds) as limit:
        if event is None:
            await anyio.wait_readable(listener)
        else:
            async with anyio.create_task_group() as waits:
                waits.start_soon(_cancel_at, event, waits.cancel_scope)
                await anyio.wait_readable(listener)
                waits.cancel_scope.cancel()
    listener.drain()
    return not limit.cancelled_caught


async def _cancel_at(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
