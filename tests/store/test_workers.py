"""Workers: they come, give signs of life and leave; status and capacity are derived."""

from __future__ import annotations

import pytest

from store_helpers import DONE, drain, go, hire, lease_state, put, snapshot, tuned, used
from store_helpers import url as url
from weft.errors import InputError, LimitsDiffer, NotFound
from weft.model import AgentFile, Capacity, WorkerKind
from weft.store import Store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.event_log import read_events
from weft.store.leases import free_proved_dead, list_open, release
from weft.store.limit_table import list_limits
from weft.store.probe import probe
from weft.store.workers import (
    ask_to_leave,
    depart,
    find_workers,
    get_worker,
    heartbeat,
    list_workers,
)

pytestmark = pytest.mark.each_store

SLOT = {"worker:@": 1}


def test_a_worker_is_found_as_it_registered(store: Store) -> None:
    hire(
        store,
        slots=3,
        name="Ada",
        kind=WorkerKind.API,
        boot="b1/ns1",
        pid=4711,
        pid_start=12.5,
        now=7,
    )
    worker = get_worker(store, "w", now=7)
    assert (worker.name, worker.kind, worker.host) == ("Ada", WorkerKind.API, "h")
    assert (worker.boot, worker.pid, worker.pid_start) == ("b1/ns1", 4711, 12.5)
    assert (worker.heartbeat, worker.seen, worker.left) == (1, 7, None)
    assert list_workers(store, now=7) == [worker]
    assert find_workers(store, ["w", "nobody"], now=7) == {"w": worker}
    with pytest.raises(NotFound):
        get_worker(store, "nobody", now=7)


@pytest.mark.parametrize("slots", [0, -1])
def test_a_worker_has_at_least_one_slot(store: Store, slots: int) -> None:
    before = snapshot(store.url)
    with pytest.raises(InputError, match="needs at least 1 slot"):
        hire(store, slots=slots)
    assert snapshot(store.url) == before


def test_capacity_and_status_follow_from_leases(store: Store) -> None:
    hire(store, slots=2)
    for name in "abc":
        put(store, name, demand=SLOT)
    seen = []
    grants = []
    for _ in range(3):
        worker = get_worker(store, "w", now=1)
        capacity = worker.capacity
        seen.append((worker.status, capacity.current, capacity.max, capacity.available))
        grants += admit(store, "w", now=1)
    assert seen == [("idle", 0, 2, 2), ("busy", 1, 2, 1), ("busy", 2, 2, 0)]
    for grant in grants:
        finish(store, grant.fence, DONE, now=2)
    assert get_worker(store, "w", now=2).status == "idle"


def test_fewer_slots_than_it_uses_leave_none_available(store: Store) -> None:
    hire(store, slots=2)
    for name in "ab":
        put(store, name, demand=SLOT)
        go(store)
    hire(store, slots=1, now=2)
    capacity = get_worker(store, "w", now=2).capacity
    assert (capacity, capacity.available) == (Capacity(current=2, max=1), 0)


def test_a_silent_worker_is_offline_until_it_speaks_again(store: Store) -> None:
    hire(store)
    assert get_worker(store, "w", now=120).status == "idle"
    assert get_worker(store, "w", now=121).status == "offline"
    assert heartbeat(store, "w", now=121)
    worker = get_worker(store, "w", now=122)
    assert (worker.status, worker.heartbeat, worker.seen) == ("idle", 2, 121)


def test_signs_of_life_are_numbered(store: Store) -> None:
    hire(store)
    numbers = []
    for now in (5, 4, 3):  # whatever the clock says
        heartbeat(store, "w", now=now)
        numbers.append(get_worker(store, "w", now=5).heartbeat)
    assert numbers == [2, 3, 4]


def test_a_worker_that_left_is_refused_until_it_registers_anew(store: Store) -> None:
    hire(store)
    put(store)
    depart(store, "w", now=1)
    assert not heartbeat(store, "w", now=2)
    with pytest.raises(NotFound, match="no worker w; register it first"):
        admit(store, "w", now=2)
    assert get_worker(store, "w", now=2).status == "offline"
    assert list_workers(store, now=2) == []
    hire(store, now=3)
    assert get_worker(store, "w", now=3).heartbeat == 2
    assert drain(store, now=3) == ["t"]


def test_leaving_makes_leases_suspect_at_once_and_happens_once(store: Store) -> None:
    hire(store, "w")
    hire(store, "other")
    put(store, "mine", demand={**SLOT, "llm": 1})
    put(store, "theirs")
    mine, theirs = go(store, "w"), go(store, "other")
    depart(store, "w", now=2)
    states = [lease_state(store, grant.fence) for grant in (mine, theirs)]
    assert (states, used(store, "llm")) == (["suspect", "held"], 1)
    before = snapshot(store.url)
    depart(store, "w", now=3)
    depart(store, "nobody", now=3)
    assert snapshot(store.url) == before
    assert [event.data for event in read_events(store) if event.kind == "worker_departed"] == [
        {"worker": "w"}
    ]


def test_a_worker_is_given_only_what_its_agents_can_do(store: Store) -> None:
    hire(store, "any")
    hire(store, "none", agents=())
    hire(store, "coder", agents=(AgentFile(name="coder", source="h:coder.md"),))
    task = put(store, "review", agent="reviewer")
    put(store, "code", agent="coder")
    put(store, "whatever")
    assert drain(store, "none") == ["whatever"]
    assert drain(store, "coder") == ["code"]
    depart(store, "any", now=2)
    waits = [wait.text for wait in probe(store, task, now=2)]
    assert waits == ["waiting for a worker that runs reviewer: none is present"]
    hire(store, "any", now=3)
    assert drain(store, "any", now=3) == ["review"]


def test_everybody_at_work_goes_by_the_same_times(store: Store) -> None:
    hire(store, "one")
    hasty = tuned(store, gone_after=1)
    with pytest.raises(LimitsDiffer, match="gone_after = 120, not 1"):
        hire(hasty, "two")
    put(store)
    go(store, "one")
    depart(store, "one", now=2)
    with pytest.raises(LimitsDiffer, match="Worker one is at work"):
        hire(hasty, "two")  # what it left behind is still watched over by its times
    [lease] = list_open(store)
    release(store, lease.fence, now=3)
    hire(hasty, "two")
    with pytest.raises(LimitsDiffer, match="gone_after = 1, not 120"):
        hire(store, "one")


def test_the_limits_of_a_host_go_with_its_last_worker(store: Store) -> None:
    for worker in ("one", "two"):
        hire(store, worker, host_limits={"port": 3})
    depart(store, "one", now=1)
    assert used(store, "host:h/port") == 0
    put(store)
    go(store, "two")
    depart(store, "two", now=2)
    assert used(store, "host:h/port") == 0, "its lease still counts"
    [lease] = list_open(store)
    assert free_proved_dead(store, lease.fence, now=3, proof="silent")
    assert not [limit for limit in list_limits(store, now=3) if limit.resource.startswith("host:")]


def test_a_worker_takes_only_what_it_can_work_on(store: Store) -> None:
    hire(store, repos=("elsewhere",))
    task = put(store)
    assert not admit(store, "w", now=1)
    [wait] = probe(store, task, now=1)
    assert wait.text == "waiting for a worker in r: none is present"
    hire(store, "v", repos=("r", "elsewhere"))
    assert go(store, "v").task == task


def test_workers_of_a_host_and_boot_that_do_nothing_else_are_told_to_leave(store: Store) -> None:
    hire(store, "a", alone=True, boot="b")
    hire(store, "serve", boot="b")
    hire(store, "rebooted", alone=True, boot="before")
    hire(store, "elsewhere", alone=True, boot="b", host="other")
    hire(store, "there", alone=True, boot="b", repos=("another",))
    hire(store, "gone", alone=True, boot="b")
    depart(store, "gone", now=1)
    assert ask_to_leave(store, "h", "b", "r", now=2) == ["a"]
    told = [event for event in read_events(store, after=0) if event.kind == "worker_told_to_leave"]
    assert [event.data["worker"] for event in told] == ["a"]


def test_a_worker_leaves_agents_without_their_programs_to_a_worker_that_has_them(
    store: Store,
) -> None:
    repos = ("r",)
    lacking = AgentFile(name="x", source="home:x.md", max_concurrency=5, able=False)
    hire(store, "home", agents=(lacking,), repos=repos)
    hire(store, "far", agents=(AgentFile(name="x", source=""),), repos=repos, gates=False)
    for name in ("a", "b"):
        put(store, name, agent="x", demand={"worker:@": 1, "agent:x": 1})
    assert admit(store, "home", now=1) == []
    [grant] = admit(store, "far", now=1)
    assert grant.name == "a"
    depart(store, "far", now=2)
    assert admit(store, "home", now=3) == [], "the host may come back"
    heartbeat(store, "home", now=90_000)
    [grant] = admit(store, "home", now=90_000)
    assert grant.name == "b", "it fails there, with a reason that names the program"
