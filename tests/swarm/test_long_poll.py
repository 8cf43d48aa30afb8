"""The waiting room: many wait, each task is answered to one, and waiting costs next to nothing."""

from __future__ import annotations

import copy
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from chaos import CHAOS
from databases import look
from store_helpers import count_transactions, state
from store_helpers import url as url
from swarm_helpers import ACME, OWNER, end, join, post, take
from wait_until import PATIENCE
from weft.errors import AtCapacity, Forbidden, NotFound, Unauthenticated, WeftError
from weft.model import NewMember
from weft.operations import dispatch, inbox, long_poll, membership
from weft.operations.identity import from_token
from weft.operations.long_poll import Room
from weft.operations.member_records import NewWork, Trigger
from weft.store import Store
from weft.store.limit_table import set_limit
from weft.store.members import find_room
from weft.store.members import join as register
from weft.store.store import writes
from weft.store.tasks import cancel
from weft.store.tokens import create_token, revoke_token

LONG = 100.0  # seconds: as good as for ever


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        with anyio.fail_after(PATIENCE):
            await work()

    anyio.run(limited)


@asynccontextmanager
async def open_room(store: Store, **said: Any) -> AsyncIterator[Room]:
    room = Room(store, **said)
    async with anyio.create_task_group() as group:
        group.start_soon(room.run)
        yield room
        group.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await anyio.sleep(0.01)


def waiting(room: Room) -> int:
    """The number of polls that the room has included in a query; 0 while it makes one."""
    return room.waiting if room.at_rest else 0


def are_waiting(room: Room, count: int) -> bool:
    return waiting(room) == count


def begun(store: Store, task: int) -> bool:
    return state(store, task) in ("ready", "running")


@writes
def join_many(store: Store, count: int) -> list[str]:
    names = [f"m{number:04}" for number in range(count)]
    for name in names:
        register(store, NewMember(id=name, name=name, slots=1, token=OWNER.token), now=time.time())
    return names


CROWD = 1000 if CHAOS else 200


@pytest.mark.chaos
@pytest.mark.each_store
def test_of_all_who_wait_exactly_as_many_are_answered_as_there_are_tasks(store: Store) -> None:
    names = join_many(store, CROWD)
    sent: list[int] = []
    got: list[Trigger] = []

    async def wait(room: Room, name: str) -> None:
        found = await room.poll(OWNER, name, wait=LONG)
        if found is not None:
            got.append(found)

    async def work() -> None:
        counted, counts = count_transactions(store)
        async with open_room(counted) as room, anyio.create_task_group() as group:
            for name in names:
                group.start_soon(wait, room, name)
            await until(lambda: waiting(room) == CROWD)
            assert counts["write"] == 0  # nobody was tried, since there was nothing
            counts.clear()
            sent.extend(post(store).task for _ in range(15))
            await until(lambda: len(got) == 15)
            # At each ring at most one gets nothing; the rest of the tries each gave a task.
            await until(lambda: room.at_rest)
            assert counts["write"] <= 15 + counts["read"]
            assert counts["write"] <= 45
            group.cancel_scope.cancel()

    run(work)
    claimed = [one.task for one in got if one.task is not None]
    assert sorted(one.task for one in claimed) == sent
    assert len({one.fence for one in claimed}) == 15
    rows = look(store.url, "SELECT worker FROM leases WHERE state <> 'released'")
    assert len({row["worker"] for row in rows}) == 15


def test_who_waits_idle_costs_one_heartbeat_for_all_and_a_rare_look(store: Store) -> None:
    """Counted, not timed: as many transactions as there were beats and nets, however many wait."""
    names = join_many(store, 200)
    quick = Store(store.database, replace(store.tuning, heartbeat=0.2))
    counted, counts = count_transactions(quick)

    async def work() -> None:
        async with open_room(counted) as room, anyio.create_task_group() as group:
            for name in names:
                group.start_soon(partial(room.poll, OWNER, name, wait=LONG))
            await until(lambda: waiting(room) == 200)
            before = heartbeats(store)
            counts.clear()
            started = anyio.current_time()
            await until(lambda: counts["write"] >= 3)
            nets = (anyio.current_time() - started) / 5 + 2
            writes, reads = counts["write"], counts["read"]
            assert writes == 3
            assert reads <= writes + nets
            await until(lambda: min(heartbeats(store)) >= min(before) + 3)
            group.cancel_scope.cancel()

    run(work)


def heartbeats(store: Store) -> list[int]:
    return [row["heartbeat"] for row in look(store.url, "SELECT heartbeat FROM workers")]


def test_a_waiter_that_leaves_hands_its_task_back(store: Store) -> None:
    """It was claimed for it in the very moment it left: nobody would ever have known."""
    join(store, now=time.time())

    async def work() -> None:
        async with open_room(store) as room:
            for _ in range(20):
                sent = post(store, now=time.time()).task
                with anyio.move_on_after(0.003):  # before, during or after the claim
                    await room.poll(OWNER, "m", wait=LONG)
                await until(partial(begun, store, sent))
                held = membership.get_member(store, OWNER, "m", now=time.time()).tasks
                for one in held:
                    await room.take_back(_told(store, one.fence))
                assert state(store, sent) == "ready"
                found = await room.poll(OWNER, "m", wait=LONG)
                assert found is not None
                assert found.task is not None
                assert end(store, found.task, now=time.time()) == "done"

    run(work)


def _told(store: Store, fence: int) -> Trigger:
    """What a caller that was answered, and then found its client gone, has in hand."""
    found = long_poll.poll(store, OWNER, "m", holding=[], now=time.time())
    assert found is not None
    assert found.task is not None
    assert found.task.fence == fence
    return found


def test_who_is_cancelled_while_it_is_being_served_keeps_nothing(store: Store) -> None:
    """The claim is made to last until the waiter has left, so that this is the case each time.

    A room that did not take it back would leave the task running for nobody.
    """
    join(store, now=time.time())
    slow, under_way, go_on = blocking(store)

    async def work() -> None:
        async with open_room(slow) as room, anyio.create_task_group() as group:
            group.start_soon(partial(room.poll, OWNER, "m", wait=LONG))
            await until(lambda: waiting(room) == 1)
            task = post(store, now=time.time()).task
            await until(under_way.is_set)
            group.cancel_scope.cancel()
            go_on.set()
        assert state(store, task) == "ready"

    run(work)


def blocking(store: Store) -> tuple[Store, Any, Any]:
    """A store whose first write, once it has committed, waits before it returns."""
    import threading

    under_way, go_on = threading.Event(), threading.Event()
    inner = store.database.write

    def write(work: Callable[..., Any]) -> Any:
        done = inner(work)
        if not under_way.is_set():
            under_way.set()
            go_on.wait(PATIENCE)
        return done

    database = copy.copy(store.database)
    vars(database).update(write=write)
    return Store(database, store.tuning), under_way, go_on


def test_a_waiter_gets_what_is_for_it_alone(store: Store) -> None:
    for name in ("a", "b", "c", "lead"):
        join(store, name, is_lead=name == "lead", now=time.time())
    got: dict[str, Trigger | None] = {}

    async def wait(room: Room, name: str) -> None:
        got[name] = await room.poll(OWNER, name, wait=LONG)

    async def work() -> None:
        async with open_room(store) as room, anyio.create_task_group() as group:
            for name in ("a", "b", "c", "lead"):
                group.start_soon(wait, room, name)
            await until(lambda: waiting(room) == 4)
            inbox.send_message(store, OWNER, "hello", member="c", now=time.time())
            await until(lambda: "c" in got)
            post(store, to="b", how="assign", now=time.time())
            await until(lambda: "b" in got)
            post(store, to="a", how="offer", now=time.time())
            await until(lambda: "a" in got)
            b = got["b"]
            assert b is not None
            assert b.task is not None
            end(store, b.task, now=time.time())
            await until(lambda: "lead" in got)

    run(work)
    assert {name: one and one.kind for name, one in got.items()} == {
        "a": "offer",
        "b": "task",
        "c": "messages",
        "lead": "finished",
    }


def test_who_is_at_capacity_does_not_keep_others_of_its_kind_from_work(store: Store) -> None:
    """Both are alike but for what they hold; the busy one came first."""
    join(store, "busy", now=time.time())
    join(store, "free", now=time.time())
    post(store, now=time.time())
    take(store, "busy", now=time.time())
    got: list[str] = []

    async def wait(room: Room, name: str) -> None:
        if await room.poll(OWNER, name, wait=LONG):
            got.append(name)

    async def work() -> None:
        async with open_room(store) as room, anyio.create_task_group() as group:
            for number, name in enumerate(("busy", "free"), 1):
                group.start_soon(wait, room, name)
                await until(partial(are_waiting, room, number))
            post(store, now=time.time())
            await until(lambda: got == ["free"])
            group.cancel_scope.cancel()

    run(work)


def test_each_is_given_what_it_can_do(store: Store) -> None:
    for name in ("py", "sql"):
        join(store, name, who=ACME, capabilities=(name,), now=time.time())
    got: dict[str, str] = {}

    async def wait(room: Room, name: str) -> None:
        found = await room.poll(ACME, name, wait=LONG)
        assert found is not None
        assert found.task is not None
        got[found.task.name] = name

    async def work() -> None:
        async with open_room(store) as room, anyio.create_task_group() as group:
            group.start_soon(wait, room, "py")
            group.start_soon(wait, room, "sql")
            await until(lambda: waiting(room) == 2)
            post(store, "a query", agent="sql", now=time.time())
            post(store, "a script", agent="py", now=time.time())

    run(work)
    assert got == {"a query": "sql", "a script": "py"}


@pytest.mark.each_store
def test_what_becomes_due_reaches_who_waits_without_a_ring(store: Store) -> None:
    """Somebody preferred who stays busy: nothing is committed when its time is over."""
    quick = Store(store.database, replace(store.tuning, prefer=0.3))
    join(quick, "busy", now=time.time())
    join(quick, "idle", now=time.time())
    post(quick, to="busy", how="assign", now=time.time())
    take(quick, "busy", now=time.time())
    sent = post(quick, to="busy", how="prefer", now=time.time())

    async def work() -> None:
        async with open_room(quick) as room:
            found = await room.poll(OWNER, "idle", wait=LONG)
            assert found is not None
            assert found.task is not None
            assert found.task.task == sent.task

    run(work)


def test_a_poll_ends_with_nothing_when_its_time_is_over(store: Store) -> None:
    join(store, now=time.time())

    async def work() -> None:
        async with open_room(store) as room:
            assert await room.poll(OWNER, "m", wait=0.05) is None
            assert await room.poll(OWNER, "m", wait=0) is None
            post(store, now=time.time())
            found = await room.poll(OWNER, "m", wait=0)
            assert found is not None

    run(work)


def test_nobody_waits_as_somebody_else_or_after_it_has_left(store: Store) -> None:
    join(store, now=time.time())
    quick = Store(store.database, replace(store.tuning, heartbeat=0.05))

    async def work() -> None:
        async with open_room(quick) as room:
            with pytest.raises(Forbidden):
                await room.poll(ACME, "m", wait=LONG)
            with pytest.raises(NotFound):
                await room.poll(OWNER, "nobody", wait=LONG)
            async with anyio.create_task_group() as group:
                group.start_soon(leave_later, room)
                with pytest.raises(NotFound, match="join again"):
                    await room.poll(OWNER, "m", wait=LONG)

    async def leave_later(room: Room) -> None:
        await until(lambda: waiting(room) == 1)
        membership.close(store, OWNER, "m", now=time.time())

    run(work)


def test_whoever_still_waits_when_the_room_closes_gets_nothing(store: Store) -> None:
    join(store, now=time.time())
    got: list[Trigger | None] = []

    async def wait(room: Room) -> None:
        got.append(await room.poll(OWNER, "m", wait=LONG))

    async def work() -> None:
        async with anyio.create_task_group() as outside, open_room(store) as room:
            outside.start_soon(wait, room)
            await until(lambda: waiting(room) == 1)

    run(work)
    assert got == [None]


def test_who_polled_briefly_is_alive_though_it_waits_no_more(store: Store) -> None:
    """Its poll was over before the next sign of life for those who wait."""
    join(store, now=time.time())
    quick = Store(store.database, replace(store.tuning, heartbeat=0.3))
    [before] = heartbeats(store)

    async def work() -> None:
        async with open_room(quick) as room:
            await room.poll(OWNER, "m", wait=0.01)
            await until(lambda: heartbeats(store)[0] > before)

    run(work)


def test_an_assignment_waits_for_room_in_line(store: Store) -> None:
    join(store, now=time.time())
    running = [post(store, to="m", how="assign", now=time.time())]
    sent: list[int] = []

    async def send(room: Room, title: str) -> None:
        work = NewWork(text="x", title=title, to="m", how="assign")
        sent.append((await room.send(OWNER, work, wait=LONG)).task)

    async def work() -> None:
        async with open_room(store) as room:
            with pytest.raises(AtCapacity):
                await room.send(OWNER, NewWork(text="x", to="m", how="assign"), wait=0.05)
            async with anyio.create_task_group() as group:
                for title in "abc":
                    group.start_soon(send, room, title)
                while len(sent) < 3:
                    claimed = await anyio.to_thread.run_sync(take_next, store)
                    if claimed is not None:
                        end(store, claimed, now=time.time())
                    await anyio.sleep(0.01)
            while (last := take_next(store)) is not None:
                end(store, last, now=time.time())
            assert find_room(store, "m", now=time.time()).available

    run(work)
    assert len({*sent, running[0].task}) == 4


@pytest.mark.parametrize("waits", ["poll", "send"])
def test_a_token_that_is_revoked_while_it_waits_gets_and_sends_nothing(
    store: Store, waits: str
) -> None:
    token, _ = create_token(store, name="t", scopes=("work",), now=time.time())
    mine = from_token(token)
    join(store, "m", who=mine, now=time.time())
    busy = NewWork(text="first", to="m", how="assign")
    sent = dispatch.send(store, OWNER, busy, now=time.time()) if waits == "send" else None
    refused: list[WeftError] = []

    async def wait(room: Room) -> None:
        late = NewWork(text="late", to="m", how="assign")
        try:
            if waits == "poll":
                await room.poll(mine, "m", wait=LONG)
            else:
                await room.send(mine, late, wait=LONG)
        except WeftError as error:
            refused.append(error)

    async def work() -> None:
        async with open_room(store) as room, anyio.create_task_group() as group:
            group.start_soon(wait, room)
            if sent is None:
                await until(lambda: are_waiting(room, 1))
            else:
                await until(lambda: bool(vars(room)["_lines"]))
            revoke_token(store, token.id, now=time.time())
            if sent is None:
                post(store)
            else:
                cancel(store, sent.task, now=time.time())

    run(work)
    [error] = refused
    assert isinstance(error, Unauthenticated)
    rows = look(store.url, "SELECT text, state FROM tasks")
    assert [row["state"] for row in rows] == ["ready" if sent is None else "cancelled"]


def take_next(store: Store) -> Any:
    found = long_poll.poll(store, OWNER, "m", now=time.time())
    return None if found is None else found.task


def test_a_paused_limit_keeps_all_waiting_until_it_is_raised(store: Store) -> None:
    names = join_many(store, 20)
    set_limit(store, "requests", 0, now=time.time())
    got: list[Trigger | None] = []

    async def wait(room: Room, name: str) -> None:
        got.append(await room.poll(OWNER, name, wait=LONG))

    async def work() -> None:
        counted, counts = count_transactions(store)
        async with open_room(counted) as room, anyio.create_task_group() as group:
            for name in names:
                group.start_soon(wait, room, name)
            await until(lambda: waiting(room) == 20)
            counts.clear()
            for _ in range(3):
                post(store, now=time.time())
            await until(lambda: room.at_rest and counts["write"] >= 1)
            assert counts["write"] <= counts["read"]  # one try for each look, not twenty
            assert got == []
            set_limit(store, "requests", 2, now=time.time())
            await until(lambda: len(got) == 2)
            group.cancel_scope.cancel()

    run(work)
