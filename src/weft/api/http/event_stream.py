"""The event stream: one reader of the store serves many followers.

Each event is encoded once, each batch once per filter. A follower that starts in the past catches
up by itself and then shares the batches. A follower that does not keep up is dropped and may come
back with the number of its last event; the server keeps no events for it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.to_thread import run_sync

from weft.errors import StoreError
from weft.store import Store
from weft.store.event_log import FollowedEvent, read_followed
from weft.store.wake import wait_rung

log = logging.getLogger(__name__)

_PAGE: Final = 500  # events read at once
_NET: Final = 1.0  # seconds after which to read although no ring came
_REST: Final = 0.005  # seconds between two looks, at least
_REST_EACH: Final = 0.00025  # and so much for each follower, since all of them are written to
_WAITING: Final = 1 << 20  # bytes that may wait for a follower
_SILENCE: Final = 15.0  # seconds between signs of life
_SIGN: Final = b": still here\n\n"


@dataclass(frozen=True)
class EventFilter:
    """The events that a follower wants."""

    run: str | None = None
    task: int | None = None

    def fits(self, event: FollowedEvent) -> bool:
        return (self.run is None or event.run == self.run) and (
            self.task is None or event.task == self.task
        )


class StreamFollower:
    """The blocks that wait for a follower."""

    def __init__(self, wanted: EventFilter, after: int) -> None:
        self.wanted = wanted
        self.after = after  # the last event that was looked at for it
        self.ended = False
        self._blocks: deque[bytes] = deque()
        self._size = 0
        self._rung = anyio.Event()

    def push(self, block: bytes) -> bool:
        """False if there is too much waiting already."""
        if self._size + len(block) > _WAITING:
            return False
        self._blocks.append(block)
        self._size += len(block)
        self._rung.set()
        return True

    @property
    def idle(self) -> bool:
        return not self._blocks

    def end(self) -> None:
        self.ended = True
        self._blocks.clear()
        self._size = 0
        self._rung.set()

    async def take(self) -> bytes:
        """Return the blocks that came meanwhile."""
        await self._rung.wait()
        self._rung = anyio.Event()
        block = b"".join(self._blocks)
        self._blocks.clear()
        self._size = 0
        return block


class Stream:
    """The followers of this process."""

    def __init__(self, store: Store, threads: anyio.CapacityLimiter) -> None:
        self._store = store
        self._threads = threads
        self._after = 0  # all that was delivered
        self._followers: set[StreamFollower] = set()
        self._joined = anyio.Event()
        self._closed = False
        self.dropped = 0
        self.revocations = 0  # of tokens, since followers can tell by it when to look at theirs

    @property
    def followers(self) -> int:
        return len(self._followers)

    async def run(self) -> None:
        """Serve all followers, until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._give_signs)
            await self._tell()

    async def _give_signs(self) -> None:
        """Send a sign of life to followers, and notice those that have gone."""
        while True:
            await anyio.sleep(_SILENCE)
            for follower in self._followers:
                if follower.idle:
                    follower.push(_SIGN)

    async def _tell(self) -> None:
        with self._store.listen("events") as listener:
            while True:
                while not self._followers:  # a new follower may have left again
                    await self._joined.wait()
                self._after = max(self._after, min(follower.after for follower in self._followers))
                events = await self._read(self._after)
                if events:
                    self._after = events[-1].id
                    self._deliver(events)
                await anyio.sleep(_REST + _REST_EACH * len(self._followers))
                if len(events) < _PAGE:
                    await wait_rung(listener, seconds=_NET)

    async def follow(self, wanted: EventFilter, after: int) -> AsyncGenerator[bytes, None]:
        """The events after a number, as text to be sent; ends when the reader was too slow."""
        follower = StreamFollower(wanted, after)
        async for block in self._catch_up(follower):
            yield block
        try:
            while not (follower.ended or self._closed):
                if block := await follower.take():
                    yield block
        finally:
            self._leave(follower)

    async def _catch_up(self, follower: StreamFollower) -> AsyncIterator[bytes]:
        """Yield past events; join the shared stream at the moment it has caught up."""
        yield _SIGN
        while True:
            events = await self._read(follower.after)
            if events:
                follower.after = events[-1].id
                if block := _block(follower.wanted, events):
                    yield block
            if len(events) < _PAGE and follower.after >= self._after:
                break  # no await from here on: no block can arrive in between
        self._followers.add(follower)
        self._joined.set()

    async def _read(self, after: int) -> list[FollowedEvent]:
        while True:
            try:
                return await run_sync(
                    lambda: read_followed(self._store, after=after, most=_PAGE),
                    limiter=self._threads,
                )
            except StoreError as error:
                log.warning("events could not be read just now: %s", error)
                await anyio.sleep(_NET)

    def _deliver(self, events: Sequence[FollowedEvent]) -> None:
        if any(event.kind == "token_revoked" for event in events):
            self.revocations += 1
            for follower in self._followers:
                if follower.idle:
                    follower.push(_SIGN)  # wakes followers that may not see that event, too
        whole: dict[EventFilter, bytes] = {}
        for follower in list(self._followers):
            if follower.after < events[0].id:
                if follower.wanted not in whole:
                    whole[follower.wanted] = _block(follower.wanted, events)
                block = whole[follower.wanted]
            else:
                rest = [event for event in events if event.id > follower.after]
                block = _block(follower.wanted, rest)
            follower.after = max(follower.after, events[-1].id)
            if block and not follower.push(block):
                self.dropped += 1
                follower.end()
                self._leave(follower)

    def _leave(self, follower: StreamFollower) -> None:
        self._followers.discard(follower)
        if not self._followers and self._joined.is_set():
            self._joined = anyio.Event()  # a follower may wait for an event that is not set

    def close(self) -> None:
        """End all followers; they may come back to another server."""
        self._closed = True
        for follower in self._followers:
            follower.end()


def _block(wanted: EventFilter, events: Sequence[FollowedEvent]) -> bytes:
    return b"".join(event.block for event in events if wanted.fits(event))
