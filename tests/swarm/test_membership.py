"""Members join, give signs of life and leave; capacity and status are derived (seed 000)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chaos import CHAOS
from store_helpers import CountedStore, hire, snapshot
from store_helpers import url as url
from swarm_helpers import ACME, OWNER, end, join, post, take, take_all
from weft.errors import Forbidden, InputError, NotFound
from weft.model import Capacity, Lease, Worker
from weft.operations import long_poll, member_work, membership
from weft.operations.identity import LOCAL, Identity, find_own_members
from weft.store import Store
from weft.store.limit_table import list_limits
from weft.store.sqlite import Sqlite
from weft.store.tasks import get_task
from weft.worker.reaper import Here, Silence, sweep


def unproved(_: Worker | Lease) -> str | None:
    return None


def reap_silent(store: Store, *, now: float) -> None:
    """A reaper watches for longer than T2 in which nobody gives a sign."""
    silence, here = Silence(), Here(host="elsewhere", boot="b")
    for boottime in (0.0, store.tuning.silence):
        sweep(
            store,
            here=here,
            silence=silence,
            prove_worker_dead=unproved,
            prove_dead=unproved,
            now=now,
            boottime=boottime,
        )


def test_a_member_is_found_as_it_joined(store: Store) -> None:
    said: dict[str, Any] = {
        "name": "Ada",
        "is_lead": True,
        "role": "writes tests",
        "capabilities": ("py", "sql"),
    }
    member = join(store, "a1", now=7, **said)
    assert (member.id, member.name, member.is_lead, member.role) == (
        "a1",
        "Ada",
        True,
        "writes tests",
    )
    assert (set(member.capabilities), member.seen) == ({"py", "sql"}, 7)
    assert membership.get_member(store, OWNER, "a1", now=7) == member
    assert membership.list_members(store, OWNER, now=7) == [member]
    assert membership.find_own(store, OWNER, now=7) == [member]


def test_a_member_has_one_slot_unless_it_says_otherwise(store: Store) -> None:
    assert join(store, "one").capacity == Capacity(current=0, max=1)
    assert join(store, "many", max_tasks=20).capacity == Capacity(current=0, max=20)
    for slots in (0, 21, -1):
        before = snapshot(store.url)
        with pytest.raises(InputError, match="from 1 to 20 slots"):
            join(store, "odd", max_tasks=slots)
        assert snapshot(store.url) == before


def test_with_one_slot_tasks_go_one_after_the_other(store: Store) -> None:
    join(store)
    for _ in range(2):
        post(store)
    [first] = take_all(store)
    end(store, first)
    [second] = take_all(store)
    assert second.task != first.task


def test_three_run_at_once_and_the_fourth_waits_for_a_slot(store: Store) -> None:
    join(store, max_tasks=3)
    sent = [post(store).task for _ in range(5)]
    running = take_all(store)
    assert [one.task for one in running] == sent[:3]
    assert [get_task(store, one).state for one in sent[3:]] == ["ready", "ready"]
    end(store, running[1])
    assert [one.task for one in take_all(store)] == [sent[3]]


def test_status_and_capacity_follow_from_what_it_holds(store: Store) -> None:
    join(store, max_tasks=3)
    for _ in range(2):
        post(store)

    def seen() -> tuple[str, int, int, int]:
        one = membership.get_member(store, OWNER, "m", now=3)
        return one.status, one.capacity.current, one.capacity.max, one.capacity.available

    assert seen() == ("idle", 0, 3, 3)
    first, second = take_all(store)
    assert seen() == ("busy", 2, 3, 1)
    end(store, first)
    assert seen() == ("busy", 1, 3, 2)
    end(store, second)
    assert seen() == ("idle", 0, 3, 3)
    post(store)
    take(store)
    assert seen() == ("busy", 1, 3, 2)


def test_a_silent_member_is_offline_until_it_speaks_again(store: Store) -> None:
    join(store)
    assert membership.get_member(store, OWNER, "m", now=121).status == "offline"
    assert membership.ping(store, OWNER, "m", now=121).status == "idle"


def test_joining_again_brings_slots_role_and_capabilities_up_to_date(store: Store) -> None:
    join(store, max_tasks=1, role="old", capabilities=("py",))
    again = join(store, max_tasks=5, role="new", capabilities=("sql",), is_lead=True)
    assert (again.capacity.max, again.role, again.capabilities) == (5, "new", ("sql",))
    assert again.is_lead
    [limit] = [one for one in list_limits(store, now=1) if one.resource == "worker:m"]
    assert limit.capacity == 5


def test_joining_again_by_name_with_the_same_token_gives_the_same_member(store: Store) -> None:
    first = membership.join(store, OWNER, name="Ada Lovelace", now=0)
    again = membership.join(store, OWNER, name="Ada Lovelace", max_tasks=2, now=1)
    other = membership.join(
        store, Identity("t2", "x", frozenset({"work"})), name="Ada Lovelace", now=2
    )
    assert first.id == again.id != other.id
    assert first.id.startswith("ada-lovelace-")


def test_what_a_member_holds_stays_its_own_when_it_joins_again(store: Store) -> None:
    join(store)
    post(store)
    claimed = take(store)
    [held] = join(store, now=5).tasks
    assert (held.task, held.fence, held.current) == (claimed.task, claimed.fence, True)
    assert end(store, claimed, now=6) == "done"


def test_an_admin_brings_a_member_back_without_taking_it_over(store: Store) -> None:
    join(store, who=ACME)
    join(store, who=LOCAL, now=3)
    assert membership.ping(store, ACME, "m", now=4).id == "m"


@pytest.mark.parametrize(
    "said",
    [
        {"name": " "},
        {"name": "x" * 101},
        {"name": "a\nb"},
        {"id": "a/b"},
        {"id": "-"},
        {"role": "r" * 101},
        {"capabilities": ("",)},
        {"capabilities": tuple(map(str, range(51)))},
    ],
)
def test_odd_names_are_refused(store: Store, said: dict[str, object]) -> None:
    before = snapshot(store.url)
    with pytest.raises(InputError):
        join(store, **said)  # type: ignore[arg-type]  # whatever the case says
    assert snapshot(store.url) == before


def test_nobody_joins_as_a_process_of_weft(store: Store) -> None:
    hire(store, "w")
    for who in (OWNER, LOCAL):
        with pytest.raises(Forbidden):
            join(store, "w", who=who)
    with pytest.raises(NotFound):
        membership.get_member(store, OWNER, "w", now=1)
    assert membership.list_members(store, OWNER, now=1) == []


def test_who_leaves_hands_back_at_once_and_leaves_once(store: Store) -> None:
    join(store)
    join(store, "other")
    sent = post(store)
    claimed = take(store)
    membership.close(store, OWNER, "m", now=3)
    before = snapshot(store.url)
    membership.close(store, OWNER, "m", now=4)
    assert snapshot(store.url) == before
    assert [one.id for one in membership.list_members(store, OWNER, now=4)] == ["other"]
    assert take(store, "other", now=4).task == sent.task
    with pytest.raises(NotFound, match="join again"):
        long_poll.poll(store, OWNER, "m", now=5)
    assert claimed.task == sent.task


def test_a_silent_member_is_freed_after_t2_and_its_effects_are_refused(store: Store) -> None:
    join(store)
    join(store, "other")
    sent = post(store)
    claimed = take(store)
    reap_silent(store, now=1000)
    join(store, "other", now=1000)
    assert take(store, "other", now=1001).task == sent.task
    for effect in (
        lambda: member_work.progress(store, OWNER, claimed.fence, text="still here", now=1002),
        lambda: end(store, claimed, now=1002),
    ):
        with pytest.raises(Exception, match="no longer current"):
            effect()
    with pytest.raises(NotFound, match="join again"):
        membership.ping(store, OWNER, "m", now=1002)
    assert join(store, now=1003).tasks == ()


def test_signs_of_life_renew_what_is_held(store: Store) -> None:
    join(store)
    post(store)
    take(store, now=2)
    for sign, now in (
        (lambda at: membership.ping(store, OWNER, "m", now=at), 50.0),
        (lambda at: long_poll.poll(store, OWNER, "m", now=at), 100.0),
    ):
        sign(now)
        [held] = membership.get_member(store, OWNER, "m", now=now).tasks
        assert held.deadline == now + store.tuning.lease


@pytest.mark.chaos
def test_an_empty_poll_costs_the_same_for_one_member_and_for_hundreds(store: Store) -> None:
    """Statements and rows on both databases; on SQLite also the steps behind them."""
    join(store, "m0")

    def poll_once() -> tuple[dict[str, int], dict[str, int], int]:
        counted = CountedStore(store)
        with counted_steps(store) as steps:
            assert find_own_members(counted, OWNER, "m0") == ["m0"]
            assert sum(counted.statements.values()) == 1
            assert long_poll.poll(counted, OWNER, "m0", now=1) is None
            assert membership.get_member(counted, OWNER, "m0", now=1).id == "m0"
        return counted.statements, counted.rows, steps[0]

    poll_once()  # what was never told before is passed over once
    statements, rows, steps = poll_once()
    for number in range(1, 1000 if CHAOS else 200):
        join(store, f"m{number}")
    poll_once()
    many_statements, many_rows, many_steps = poll_once()
    assert many_statements == statements
    assert many_rows == rows
    assert many_steps <= 2 * steps


@contextmanager
def counted_steps(store: Store) -> Iterator[list[int]]:
    """The steps that SQLite takes; none on PostgreSQL."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    if not isinstance(store.database, Sqlite):
        yield steps
        return
    connection = store.database.connection
    connection.set_progress_handler(step, 1)
    try:
        yield steps
    finally:
        connection.set_progress_handler(None, 0)


def test_a_token_means_its_member_by_id_before_name_and_no_others(store: Store) -> None:
    join(store, "b", name="a")
    join(store, "a", name="x")
    join(store, "c", name="same")
    join(store, "d", name="same")
    join(store, "e", who=ACME)
    for named, meant in (("a", ["a"]), ("b", ["b"]), ("x", ["a"]), ("same", ["c", "d"])):
        assert find_own_members(store, OWNER, named) == meant
    assert find_own_members(store, OWNER, "e") == []
    assert len(find_own_members(store, OWNER)) == 2
    assert find_own_members(store, ACME) == ["e"]
    membership.close(store, ACME, "e", now=1)
    assert find_own_members(store, ACME) == []
    assert find_own_members(store, ACME, "e") == []
