"""Events as they happen, to many followers: one reader of the store for all of them.

Each event becomes text once, each batch once for all who want the same. A follower that joins in
the past catches up by itself and is then served with the others; one that does not keep up is
dropped, and may come back with the number of the last event it saw: nothing is kept for it.
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
from weft.store.events import Told, read_told
from weft.store.ring import wait_rung

log = logging.getLogger(__name__)

_PAGE: Final = 500  # events read at once
_NET: Final = 1.0  # seconds after which to look although nobody rang
_REST: Final = 0.005  # seconds between two looks, at least
_REST_EACH: Final = 0.00025  # and so much for each follower, since all of them are written to
_WAITING: Final = 1 << 20  # bytes that may wait for one follower
_SILENCE: Final = 15.0  # seconds after which followers hear that nothing happened
_SIGN: Final = b": still here\n\n"


@dataclass(frozen=True)
class EventFilter:
    """Which events somebody follows."""

    run: str | None = None
    task: int | None = None
    tenant: str | None = None  # None: those of all tenants, and of none

    def fits(self, told: Told) -> bool:
        return (
            (self.run is None or told.run == self.run)
            and (self.task is None or told.task == self.task)
            and (self.tenant is None or told.tenant == self.tenant)
        )


class StreamFollower:
    """What waits to be sent to one reader."""

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
        """What has come meanwhile."""
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
        """Let followers know that nothing happened, and notice those that have gone."""
        while True:
            await anyio.sleep(_SILENCE)
            for follower in self._followers:
                if follower.idle:
                    follower.push(_SIGN)

    async def _tell(self) -> None:
        with self._store.listen("events") as listener:
            while True:
                while not self._followers:  # who joined may have left again
                    await self._joined.wait()
                self._after = max(self._after, min(one.after for one in self._followers))
                told = await self._read(self._after)
                if told:
                    self._after = told[-1].id
                    self._deliver(told)
                await anyio.sleep(_REST + _REST_EACH * len(self._followers))
                if len(told) < _PAGE:
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
        """What the others were sent already. Joins them at the moment nothing is missing."""
        yield _SIGN
        while True:
            told = await self._read(follower.after)
            if told:
                follower.after = told[-1].id
                if block := _block(follower.wanted, told):
                    yield block
            if len(told) < _PAGE and follower.after >= self._after:
                break  # from here on without waiting: nothing can be delivered in between
        self._followers.add(follower)
        self._joined.set()

    async def _read(self, after: int) -> list[Told]:
        while True:
            try:
                return await run_sync(
                    lambda: read_told(self._store, after=after, most=_PAGE), limiter=self._threads
                )
            except StoreError as error:
                log.warning("events could not be read just now: %s", error)
                await anyio.sleep(_NET)

    def _deliver(self, told: Sequence[Told]) -> None:
        if any(one.kind == "token_revoked" for one in told):
            self.revocations += 1
            for follower in self._followers:
                if follower.idle:
                    follower.push(_SIGN)  # wakes followers that may not see that event, too
        whole: dict[EventFilter, bytes] = {}
        for follower in list(self._followers):
            if follower.after < told[0].id:
                if follower.wanted not in whole:
                    whole[follower.wanted] = _block(follower.wanted, told)
                block = whole[follower.wanted]
            else:
                rest = [one for one in told if one.id > follower.after]
                block = _block(follower.wanted, rest)
            follower.after = max(follower.after, told[-1].id)
            if block and not follower.push(block):
                self.dropped += 1
                follower.end()
                self._leave(follower)

    def _leave(self, follower: StreamFollower) -> None:
        self._followers.discard(follower)
        if not self._followers and self._joined.is_set():
            self._joined = anyio.Event()  # one that is not set yet may be waited for

    def close(self) -> None:
        """Send everybody away; they may come back to another server."""
        self._closed = True
        for follower in self._followers:
            follower.end()


def _block(wanted: EventFilter, told: Sequence[Told]) -> bytes:
    return b"".join(one.block for one in told if wanted.fits(one))
