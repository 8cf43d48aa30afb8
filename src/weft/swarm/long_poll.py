"""The waiting room of one process: where members wait for work, thousands of them on one listener.

Nobody who waits asks the store. When something has stirred, one look says for whom there may be
something, and only as many polls are tried as can succeed: of members that are alike, in the order
they came, until the first that gets nothing. What a poll gives, and to whom, is decided by
`operations.swarm.polling` alone, so that a look that is out of date costs a poll and no more.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.lowlevel
from anyio.to_thread import run_sync

from weft.errors import AtCapacity, NotFound, StoreError, WeftError
from weft.store import Store
from weft.store.members import give_signs, list_absent
from weft.store.ready import wake_due
from weft.store.ring import wait_rung
from weft.store.waiting_members import Standing, Stirrings, look_for_members
from weft.store.wake import Listener
from weft.swarm.access import get_acting, sender_name
from weft.swarm.dispatch import send
from weft.swarm.identity import Identity
from weft.swarm.poll import poll, take_back
from weft.swarm.swarm_records import Dispatched, NewWork, Trigger

log = logging.getLogger(__name__)

T = TypeVar("T")

_NET: Final = 5.0  # seconds after which to look although nobody rang
_SOON: Final = 0.02  # the shortest wait for what is due


class _Waiter:
    """Somebody who waits. Tried by one at a time, answered once."""

    def __init__(
        self, who: Identity, member: str, ack: str | None, holding: Collection[int] | None
    ) -> None:
        self.who = who
        self.member = member
        self.ack = ack
        self.holding = holding
        self.fresh = True  # nobody has looked whether there is something for it
        self.open = True  # it still waits
        self.trigger: Trigger | None = None
        self.error: WeftError | None = None
        self.settled = anyio.Event()  # it is answered
        self.tried: anyio.Event | None = None  # set when the poll under way for it has ended

    def answer(self, trigger: Trigger | None, error: WeftError | None = None) -> None:
        self.open = False
        self.trigger, self.error = trigger, error
        self.settled.set()

    async def leave(self) -> None:
        """Wait no longer; a poll that is under way for it is waited for."""
        self.open = False
        if self.tried is not None:
            await self.tried.wait()


class Room:
    """`run` must run for as long as anybody waits."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._waiters: dict[_Waiter, None] = {}  # in the order they came
        self._alive: set[str] = set()  # who has been here since the last signs of life
        self._looked: int | None = None  # the last event that was looked at
        self._stirred = anyio.Event()  # set, and replaced, when there is reason to look
        self._turning = False
        self._rung = anyio.Event()  # the same when the store has changed
        self._lines: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        self._tries = anyio.CapacityLimiter(1)
        self._asks = anyio.CapacityLimiter(4)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiters)

    @property
    def at_rest(self) -> bool:
        """Whether nothing has stirred that was not looked at."""
        return not self._turning and not self._stirred.is_set()

    async def run(self) -> None:
        """Serve those who wait, until cancelled; they are then answered with nothing."""
        try:
            with self._store.listen("work") as listener:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._hear, listener)
                    group.start_soon(self._give_signs)
                    await self._serve()
        finally:
            for waiter in list(self._waiters):
                waiter.answer(None)

    async def poll(
        self,
        who: Identity,
        member: str,
        *,
        wait: float,
        ack: str | None = None,
        holding: Collection[int] | None = None,
    ) -> Trigger | None:
        """A poll that waits for up to so many seconds until there is something.

        Whoever is cancelled meanwhile gets nothing: a task that was claimed for it is handed back.
        """
        waiter = _Waiter(who, member, ack, holding)
        if wait <= 0 or ack is not None or holding is not None:
            # It has something to say, or no time: it is not looked at together with others.
            found = await self._poll(waiter)
            if found is not None or wait <= 0:
                return found
            waiter.ack = waiter.holding = None
        else:
            await self._ask(partial(get_acting, who=who, member=member, now=self._clock()))
        self._alive.add(member)
        self._waiters[waiter] = None
        self._stir()
        try:
            with anyio.move_on_after(wait):
                await waiter.settled.wait()
            with anyio.CancelScope(shield=True):
                await waiter.leave()
            await anyio.lowlevel.checkpoint_if_cancelled()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await waiter.leave()
                if waiter.trigger is not None:
                    await self.take_back(waiter.trigger)
            raise
        finally:
            self._waiters.pop(waiter, None)
        if waiter.error is not None:
            raise waiter.error
        if waiter.fresh and waiter.trigger is None:  # its time was over before anybody looked
            return await self._poll(waiter)
        return waiter.trigger

    async def take_back(self, trigger: Trigger) -> None:
        """Nobody is there any more to be told: hand back what was claimed."""
        await self._ask(partial(take_back, trigger=trigger, now=self._clock()))

    async def send(self, who: Identity, work: NewWork, *, wait: float) -> Dispatched:
        """Send work; if its member is at capacity, wait until it has room, up to so many seconds.

        Those who wait for the same member do so in line, and only the first of them asks.
        """
        end = anyio.current_time() + wait
        rung = self._rung
        try:
            return await self._send(who, work)
        except AtCapacity:
            if wait <= 0:
                raise
        line = self._lines[work.to or ""]
        try:
            with anyio.CancelScope(deadline=end):
                async with line:
                    while True:
                        with anyio.move_on_after(_NET):
                            await rung.wait()
                        rung = self._rung
                        try:
                            return await self._send(who, work)
                        except AtCapacity:
                            continue
        finally:
            if not line.statistics().tasks_waiting and not line.locked():
                self._lines.pop(work.to or "", None)
        return await self._send(who, work)

    async def _send(self, who: Identity, work: NewWork) -> Dispatched:
        return await self._ask(partial(send, who=who, work=work, now=self._clock()))

    async def _ask(self, verb: Callable[[Store], T]) -> T:
        return await run_sync(verb, self._store, limiter=self._asks)

    async def _poll(self, waiter: _Waiter) -> Trigger | None:
        asked = partial(
            poll,
            who=waiter.who,
            member=waiter.member,
            ack=waiter.ack,
            holding=waiter.holding,
            now=self._clock(),
        )
        return await run_sync(asked, self._store, limiter=self._tries)

    def _stir(self) -> None:
        self._stirred.set()

    async def _hear(self, listener: Listener) -> None:
        while True:
            await wait_rung(listener)
            self._rung.set()
            self._rung = anyio.Event()
            self._stir()

    async def _give_signs(self) -> None:
        """Whoever waits, or has been here since the last time, is alive."""
        while True:
            await anyio.sleep(self._store.tuning.heartbeat)
            here = self._alive | {one.member for one in self._waiters}
            if not here:
                continue
            try:
                await self._ask(partial(give_signs, members=here, now=self._clock()))
                absent = set(await self._ask(partial(list_absent, members=here)))
            except StoreError as error:
                log.warning("no sign of life could be given for those who wait: %s", error)
                continue
            self._alive.clear()
            for waiter in [one for one in self._waiters if one.member in absent and one.open]:
                gone = f"{waiter.member} has left or was silent for too long; join again."
                waiter.answer(None, NotFound(gone))

    async def _serve(self) -> None:
        while True:
            self._stirred = stirred = anyio.Event()  # what stirs from here on is looked at again
            patience: float | None = None
            if self._waiters:
                patience = _NET
                self._turning = True
                try:
                    patience = await self._turn()
                except StoreError as error:
                    log.warning("nobody could be given work: %s", error)
                self._turning = False
            else:
                self._looked = None
            with anyio.CancelScope() as scope:
                scope.deadline = anyio.current_time() + patience if patience else math.inf
                await stirred.wait()

    async def _turn(self) -> float:
        """Look, and try those for whom there may be something; how long to wait afterwards."""
        waiting = list(self._waiters)
        found = await self._look(waiting)
        if found.due is not None and found.due <= self._clock():
            await self._ask(partial(wake_due, now=self._clock()))
            found = await self._look(waiting)
        served = set()
        for waiter in _with_own(waiting, found):
            if await self._try(waiter):
                served.add(waiter.member)
        for alike in _alike(waiting, found):
            for waiter in alike:
                if not waiter.open or waiter.member in served:
                    continue  # of who was served just now it is not known what else it could take
                if not await self._try(waiter):
                    break
                served.add(waiter.member)
        self._looked = found.last_event
        for waiter in waiting:
            waiter.fresh = False
        if any(one.open and one.member in served for one in self._waiters):
            self._stir()
        if found.due is None:
            return _NET
        return min(_NET, max(_SOON, found.due - self._clock()))

    async def _look(self, waiting: Iterable[_Waiter]) -> Stirrings:
        return await self._ask(
            partial(
                look_for_members,
                fresh={one.member: sender_name(one.member) for one in waiting if one.fresh},
                waiting={one.member for one in waiting},
                after=self._looked,
            )
        )

    async def _try(self, waiter: _Waiter) -> bool:
        """Whether it has its answer. Who leaves meanwhile sees to what was claimed for it."""
        if not waiter.open:
            return False
        waiter.tried = anyio.Event()
        try:
            trigger = await self._poll(waiter)
        except StoreError:
            raise
        except WeftError as error:
            waiter.answer(None, error)
            return True
        else:
            if trigger is not None:
                waiter.answer(trigger)
            return trigger is not None
        finally:
            waiter.tried.set()
            waiter.tried = None


def _with_own(waiting: Iterable[_Waiter], found: Stirrings) -> Iterator[_Waiter]:
    """Those for whom there may be something that is for nobody else."""
    for waiter in waiting:
        standing = found.standings.get(waiter.member)
        if standing is None:
            if waiter.fresh:  # it has left since it came: it shall be told
                yield waiter
        elif _has_own(waiter, standing, found):
            yield waiter


def _has_own(waiter: _Waiter, standing: Standing, found: Stirrings) -> bool:
    member, tenant = waiter.member, standing.tenant
    if member in found.addressed:
        return True
    if waiter.fresh and (standing.is_lead or member in found.senders):
        return True  # tasks may have ended before anybody looked
    if any(
        sender == sender_name(member) or (standing.is_lead and tenant in (None, whose))
        for sender, whose in found.ended
    ):
        return True
    own_work = member in found.offered or any(head.pinned == member for head in found.heads)
    return own_work and standing.available > 0


def _alike(waiting: Iterable[_Waiter], found: Stirrings) -> Iterator[list[_Waiter]]:
    """Those who could take something from the pool, together with those who are like them."""
    groups: defaultdict[tuple[frozenset[str], str | None, int], list[_Waiter]] = defaultdict(list)
    for waiter in waiting:
        standing = found.standings.get(waiter.member)
        if standing is not None and _could_take(standing, found):
            key = (standing.capabilities, standing.tenant, standing.available)
            groups[key].append(waiter)
    yield from groups.values()


def _could_take(standing: Standing, found: Stirrings) -> bool:
    return standing.available > 0 and any(
        head.pinned is None
        and standing.tenant in (None, head.tenant)
        and (head.agent is None or head.agent in standing.capabilities)
        for head in found.heads
    )
