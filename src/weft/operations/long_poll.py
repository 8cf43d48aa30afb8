"""The waiting room of a process: thousands of members wait for work on a single listener.

A waiting member does not query the store. After a ring, one query finds the members that may have
work or news, and the room polls only for those: among members with equal capabilities in the order
of arrival, until a poll returns nothing. `swarm.poll` alone decides which member gets a task, so an
outdated query costs a poll and no more.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.lowlevel
from anyio.to_thread import run_sync

from weft.errors import AtCapacity, NotFound, StoreError, WeftError
from weft.model import Held, Worker
from weft.operations.dispatch import send
from weft.operations.identity import Identity, describe_claimed, get_acting, sender_name
from weft.operations.inbox import ack_messages, ack_notices, confirmed_messages, confirmed_notices
from weft.operations.member_records import Dispatched, NewWork, Offer, Trigger
from weft.store import Store
from weft.store.admission import admit
from weft.store.leases import release
from weft.store.members import (
    MemberNews,
    MemberState,
    confirm_notices,
    give_signs,
    list_absent,
    list_held,
    list_offers,
    look_for_members,
    may_have_work,
    take_notices,
)
from weft.store.messages import confirm_to_member, list_to_member
from weft.store.ready import wake_due
from weft.store.store import writes
from weft.store.tasks import get_task
from weft.store.tokens import refuse_revoked
from weft.store.wake import Listener, wait_rung

log = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_WAIT: Final = 5.0  # seconds after which to query although no ring came
_SOON: Final = 0.02  # seconds, the shortest wait for a due task


class _Waiter:
    """A waiting member; at most one poll at a time runs for it, and it gets one answer."""

    def __init__(
        self, who: Identity, member: str, ack: str | None, holding: Collection[int] | None
    ) -> None:
        self.who = who
        self.member = member
        self.ack = ack
        self.holding = holding
        self.fresh = True  # no query has included it yet
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
        """Stop waiting, after the end of a poll that is under way."""
        self.open = False
        if self.tried is not None:
            await self.tried.wait()


class Room:
    """The waiting members of a process. `run` must run while members wait."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._waiters: dict[_Waiter, None] = {}  # in the order they came
        self._alive: set[str] = set()  # members that polled since the last signs of life
        self._last_event: int | None = None  # the last event that a query included
        self._stirred = anyio.Event()  # set, and replaced, when a query is due
        self._turning = False
        self._rung = anyio.Event()  # the same when the store has changed
        self._lines: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        self._tries = anyio.CapacityLimiter(1)
        self._asks = anyio.CapacityLimiter(4)

    @property
    def waiting(self) -> int:
        """The number of waiting polls."""
        return len(self._waiters)

    @property
    def at_rest(self) -> bool:
        """True if every ring so far has been served."""
        return not self._turning and not self._stirred.is_set()

    async def run(self) -> None:
        """Serve the waiting members until cancelled; then answer them with no work."""
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
        """Poll, and wait up to `wait` seconds for work or news.

        If the caller is cancelled meanwhile, a task that was claimed for it goes back to the pool.
        """
        waiter = _Waiter(who, member, ack, holding)
        if wait <= 0 or ack is not None or holding is not None:
            # It confirms an answer, or has no time: it polls by itself.
            trigger = await self._poll(waiter)
            if trigger is not None or wait <= 0:
                return trigger
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
        if waiter.fresh and waiter.trigger is None:  # its time was over before the first query
            return await self._poll(waiter)
        return waiter.trigger

    async def take_back(self, trigger: Trigger) -> None:
        """Hand back a claimed task whose member is gone."""
        await self._ask(partial(take_back, trigger=trigger, now=self._clock()))

    async def send(self, who: Identity, work: NewWork, *, wait: float) -> Dispatched:
        """Send work; if its member is at capacity, wait up to `wait` seconds for room.

        Callers that wait for the same member form a line, and only the first of them asks the
        store.
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
                        with anyio.move_on_after(_LONGEST_WAIT):
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
        """Give signs of life for the members that wait or polled since the last time."""
        while True:
            await anyio.sleep(self._store.tuning.heartbeat)
            here = self._alive | {waiter.member for waiter in self._waiters}
            if not here:
                continue
            try:
                await self._ask(partial(give_signs, members=here, now=self._clock()))
                absent = set(await self._ask(partial(list_absent, members=here)))
            except StoreError as error:
                log.warning("could not give signs of life for waiting members: %s", error)
                continue
            self._alive.clear()
            for waiter in [
                waiter for waiter in self._waiters if waiter.member in absent and waiter.open
            ]:
                gone = f"{waiter.member} has left or was silent for too long; join again."
                waiter.answer(None, NotFound(gone))

    async def _serve(self) -> None:
        while True:
            self._stirred = stirred = anyio.Event()  # a ring from here on causes another round
            patience: float | None = None
            if self._waiters:
                patience = _LONGEST_WAIT
                self._turning = True
                try:
                    patience = await self._turn()
                except StoreError as error:
                    log.warning("could not give work to waiting members: %s", error)
                self._turning = False
            else:
                self._last_event = None
            with anyio.CancelScope() as scope:
                scope.deadline = anyio.current_time() + patience if patience else math.inf
                await stirred.wait()

    async def _turn(self) -> float:
        """Find the members with work or news and poll for them; return the seconds to wait
        afterwards."""
        waiting = list(self._waiters)
        news = await self._look(waiting)
        if news.due is not None and news.due <= self._clock():
            await self._ask(partial(wake_due, now=self._clock()))
            news = await self._look(waiting)
        served = set()
        for waiter in _list_addressed(waiting, news):
            if await self._try(waiter):
                served.add(waiter.member)
        for alike in _alike(waiting, news):
            for waiter in alike:
                if not waiter.open or waiter.member in served:
                    continue  # its capacity has changed since the query
                if not await self._try(waiter):
                    break
                served.add(waiter.member)
        self._last_event = news.last_event
        for waiter in waiting:
            waiter.fresh = False
        if any(waiter.open and waiter.member in served for waiter in self._waiters):
            self._stir()
        if news.due is None:
            return _LONGEST_WAIT
        return min(_LONGEST_WAIT, max(_SOON, news.due - self._clock()))

    async def _look(self, waiting: Iterable[_Waiter]) -> MemberNews:
        return await self._ask(
            partial(
                look_for_members,
                fresh={
                    waiter.member: sender_name(waiter.member) for waiter in waiting if waiter.fresh
                },
                waiting={waiter.member for waiter in waiting},
                after=self._last_event,
            )
        )

    async def _try(self, waiter: _Waiter) -> bool:
        """Poll for a waiter; return whether it has its answer. A waiter that leaves meanwhile hands
        back its task itself."""
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


def _list_addressed(waiting: Iterable[_Waiter], news: MemberNews) -> Iterator[_Waiter]:
    """Yield the waiters that may have work or news of their own."""
    for waiter in waiting:
        standing = news.standings.get(waiter.member)
        if standing is None:
            if waiter.fresh:  # it has left since it came: its poll says so
                yield waiter
        elif _is_addressed(waiter, standing, news):
            yield waiter


def _is_addressed(waiter: _Waiter, standing: MemberState, news: MemberNews) -> bool:
    member = waiter.member
    if member in news.addressed:
        return True
    if waiter.fresh and (standing.is_lead or member in news.senders):
        return True  # tasks may have ended before the first query
    if sender_name(member) in news.ended or (standing.is_lead and news.ended):
        return True
    own_work = member in news.offered or any(head.pinned == member for head in news.heads)
    return own_work and standing.available > 0


def _alike(waiting: Iterable[_Waiter], news: MemberNews) -> Iterator[list[_Waiter]]:
    """Group the waiters that could take a task from the pool with those that are like them."""
    groups: defaultdict[tuple[frozenset[str], int], list[_Waiter]] = defaultdict(list)
    for waiter in waiting:
        standing = news.standings.get(waiter.member)
        if standing is not None and _could_take(standing, news):
            groups[standing.capabilities, standing.available].append(waiter)
    yield from groups.values()


def _could_take(standing: MemberState, news: MemberNews) -> bool:
    return standing.available > 0 and any(
        head.pinned is None and (head.agent is None or head.agent in standing.capabilities)
        for head in news.heads
    )


@writes
def poll(
    store: Store,
    who: Identity,
    member: str,
    *,
    ack: str | None = None,
    holding: Collection[int] | None = None,
    now: float,
) -> Trigger | None:
    """Return a member's next messages or ended tasks, else an offer, else a task claimed for it.

    `ack` confirms the last answer; until then its messages come again. `holding` are the fences
    that the member knows. A task it holds besides was claimed by a poll whose answer got lost, and
    comes again first.
    """
    refuse_revoked(store, who.token, now=now)
    worker = get_acting(store, who, member, now=now)
    messages, ends = confirmed_messages(ack), confirmed_notices(ack)
    give_signs(store, [member], now=now)
    held = list_held(store, member).get(member, [])
    tasks = [lease.task for lease in held if lease.current]
    if messages is not None:
        confirm_to_member(store, member, messages, holding=tasks, now=now)
    if ends is not None:
        confirm_notices(store, member, ends)
    return (
        _lost(store, held, holding)
        or _messages(store, member, tasks)
        or _notices(store, worker)
        or (_work(store, worker, now=now) if worker.capacity.available else None)
    )


def _lost(store: Store, held: Sequence[Held], known: Collection[int] | None) -> Trigger | None:
    if known is None:
        return None
    lost = [lease for lease in held if lease.current and lease.fence not in known]
    return Trigger(kind="task", task=describe_claimed(store, lost[0])) if lost else None


def _messages(store: Store, member: str, holding: Collection[int]) -> Trigger | None:
    messages = tuple(list_to_member(store, member, holding=holding))
    if not messages:
        return None
    return Trigger(kind="messages", messages=messages, ack=ack_messages(messages))


def _notices(store: Store, worker: Worker) -> Trigger | None:
    ends = tuple(
        take_notices(
            store,
            worker.id,
            sender=sender_name(worker.id),
            is_lead=worker.is_lead,
        )
    )
    return Trigger(kind="finished", finished=ends, ack=ack_notices(ends)) if ends else None


def _work(store: Store, worker: Worker, *, now: float) -> Trigger | None:
    """Return an offer, while there is room to accept it, or the best task the member can take."""
    for task in list_offers(store, worker.id).get(worker.id, []):
        about = get_task(store, task)
        if about.until is None or about.until > now:
            offer = Offer(task=task, name=about.name, text=about.text, until=about.until)
            return Trigger(kind="offer", offer=offer)
    grants = admit(store, worker.id, now=now) if _may_have_work(store, worker, now) else []
    if not grants:
        return None
    held = list_held(store, worker.id)[worker.id]
    [mine] = [lease for lease in held if lease.fence == grants[0].fence]
    return Trigger(kind="task", task=describe_claimed(store, mine))


def _may_have_work(store: Store, worker: Worker, now: float) -> bool:
    return may_have_work(store, worker.id, capabilities=worker.capabilities, now=now)


def take_back(store: Store, trigger: Trigger, *, now: float) -> None:
    """Release a task that was claimed for a member which is gone."""
    if trigger.task is not None:
        release(store, trigger.task.fence, now=now, reason="its member was gone")
