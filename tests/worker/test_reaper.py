"""The reaper: proof frees, time alone does not, and other hosts are judged by their silence."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from store_helpers import DAY, DONE, go, hire, lease_state, put, snapshot, state, used
from store_helpers import url as url
from weft.errors import WeftError
from weft.model import Lease, NewRun, NewTask, Worker, WorkerKind
from weft.store import Store
from weft.store.attempt_end import finish
from weft.store.event_log import read_events
from weft.store.leases import adopt, renew
from weft.store.members import offer
from weft.store.runs import submit_run
from weft.store.workers import depart, get_worker, heartbeat, list_workers
from weft.worker.reaper import Here, Silence, Swept, sweep

HERE = Here(host="h", boot="b")
T2 = 135
FAR: dict[str, Any] = {"host": "far", "boot": "b"}


class Reaper:
    """One reaper process, with its memory and what it believes of processes on its host."""

    def __init__(self, store: Store, here: Here = HERE) -> None:
        self.store = store
        self.here = here
        self.silence = Silence()
        self.dead_workers: set[str] = set()
        self.prove: Callable[[Lease], str | None] = lambda _: None
        self.prove_worker: Callable[[Worker], str | None] = lambda one: (
            "killed" if one.id in self.dead_workers else None
        )

    def sweep(self, boottime: float, *, now: float = 1000) -> list[int]:
        swept = self.try_to_sweep(boottime, now=now)
        assert not swept.unjudged
        return list(swept.freed)

    def try_to_sweep(self, boottime: float, *, now: float = 1000) -> Swept:
        return sweep(
            self.store,
            here=self.here,
            silence=self.silence,
            prove_worker_dead=self.prove_worker,
            prove_dead=self.prove,
            now=now,
            boottime=boottime,
        )


def started(store: Store, **fields: Any) -> int:
    hire(store, **{"boot": "b", **fields})
    put(store, demand={"llm": 1})
    return go(store).fence


def names(store: Store) -> list[str]:
    return [worker.id for worker in list_workers(store, now=1)]


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({}, True),
        ({"boot": "other"}, False),  # rebooted since, or in another container
        (FAR, False),
        ({"kind": WorkerKind.API}, False),  # no process of ours
    ],
)
def test_who_can_be_looked_at(store: Store, fields: dict[str, Any], seen: bool) -> None:
    hire(store, **{"boot": "b", **fields})
    assert HERE.sees(get_worker(store, "w", now=0)) is seen


def test_on_this_host_only_proof_frees_however_long_it_takes(store: Store) -> None:
    fence = started(store)
    reaper = Reaper(store)
    for boottime in (0, T2, 1e6):
        assert reaper.sweep(boottime, now=1e6) == []
    assert (lease_state(store, fence), used(store, "llm")) == ("suspect", 1)
    assert names(store) == ["w"]
    reaper.prove = lambda lease: "lock free, no process" if lease.fence == fence else None
    assert reaper.sweep(1e6, now=1e6) == [fence]
    assert used(store, "llm") == 0


def test_a_dead_workers_leases_need_their_own_proof(store: Store) -> None:
    fence = started(store)
    reaper = Reaper(store)
    reaper.dead_workers.add("w")
    assert reaper.sweep(0, now=2) == []  # its agent may live on, to be adopted
    assert (names(store), lease_state(store, fence)) == ([], "suspect")
    hire(store, "w2", boot="b", now=3)
    fresh = adopt(store, fence, "w2", now=3)
    reaper.prove = lambda _: "no process"
    assert reaper.sweep(1, now=4) == []
    assert lease_state(store, fresh) == "held"


def test_a_held_lease_is_not_even_looked_at(store: Store) -> None:
    fence = started(store)
    reaper = Reaper(store)
    reaper.prove = lambda _: "never asked"
    assert reaper.sweep(0, now=60) == []
    assert lease_state(store, fence) == "held"


def test_another_host_is_gone_after_its_heartbeat_stood_still_for_t2(store: Store) -> None:
    fence = started(store, **FAR)
    task = put(store, "offered")
    offer(store, task, "w", now=2)
    reaper = Reaper(store)
    reaper.prove = lambda _: "nothing here"  # which says nothing about another host
    assert reaper.sweep(1000) == []
    assert reaper.sweep(1000 + T2 - 1) == []
    assert (names(store), lease_state(store, fence)) == (["w"], "suspect")
    assert reaper.sweep(1000 + T2) == [fence]
    assert (names(store), used(store, "llm")) == ([], 0)
    assert state(store, task) == "ready"
    [reaped] = [event for event in read_events(store) if event.kind == "lease_reaped"]
    assert reaped.data["proof"] == "no sign of life for 135 s"


def test_a_heartbeat_starts_the_wait_anew(store: Store) -> None:
    fence = started(store, **FAR)
    reaper = Reaper(store)
    for boottime in (0, 100, 200, 300):
        heartbeat(store, "w", now=0)  # whatever that host's clock says
        assert reaper.sweep(boottime) == []
    assert reaper.sweep(300 + T2 - 1) == []
    assert reaper.sweep(300 + T2) == [fence]


def test_a_restarted_reaper_waits_anew(store: Store) -> None:
    fence = started(store, **FAR)
    Reaper(store).sweep(0)
    again = Reaper(store)
    assert again.sweep(T2) == []
    assert again.sweep(2 * T2 - 1) == []
    assert again.sweep(2 * T2) == [fence]


def test_an_overdue_lease_of_a_living_host_is_kept(store: Store) -> None:
    fence = started(store, **FAR)
    reaper = Reaper(store)
    for boottime in range(0, 10 * T2, 100):
        heartbeat(store, "w", now=1)
        assert reaper.sweep(boottime, now=1e6) == []
    assert (lease_state(store, fence), names(store)) == ("suspect", ["w"])
    assert renew(store, [fence], now=1e6) == []


def test_a_silent_member_is_freed_at_the_deadline_of_its_lease(store: Store) -> None:
    fence = started(store, kind=WorkerKind.API)
    reaper = Reaper(store)
    reaper.prove = lambda _: "it has no process of ours"
    assert reaper.sweep(0) == []
    assert reaper.sweep(store.tuning.lease - 1) == []
    assert reaper.sweep(store.tuning.lease) == [fence]


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_wall_clocks_are_not_compared(store: Store, jump: float) -> None:
    fence = started(store, **FAR)
    reaper = Reaper(store)
    assert reaper.sweep(0, now=2 * DAY) == []
    assert reaper.sweep(1, now=2 * DAY + jump) == []
    assert reaper.sweep(T2 - 1, now=2 * DAY) == []
    assert used(store, "llm") == 1
    assert reaper.sweep(T2, now=2 * DAY) == [fence]


def test_a_runs_place_is_never_reaped(store: Store) -> None:
    submit_run(store, NewRun(id="R", repo="r"), [NewTask(name="a")], now=0)
    reaper = Reaper(store)
    reaper.prove = lambda _: "nobody there"
    assert [reaper.sweep(boottime, now=1e9) for boottime in (0, 1e6)] == [[], []]
    assert used(store, "runs") == 1


def test_whoever_gives_a_sign_of_life_meanwhile_is_spared(store: Store) -> None:
    fence = started(store)
    reaper = Reaper(store)

    def looks_dead(lease: Lease) -> str:
        renew(store, [lease.fence], now=1000)
        return "looked dead"

    reaper.prove = looks_dead
    assert reaper.sweep(0) == []
    assert lease_state(store, fence) == "held"


def test_recovery_twice_equals_recovery_once(store: Store) -> None:
    started(store)
    started(store, worker="w2")
    reaper = Reaper(store)
    reaper.dead_workers |= {"w", "w2"}
    reaper.prove = lambda _: "no process"
    assert len(reaper.sweep(0)) == 2
    before = snapshot(store.url)
    assert reaper.sweep(1) == []
    assert Reaper(store).sweep(2) == []
    assert snapshot(store.url) == before


def test_what_was_freed_starts_again_and_the_late_owner_is_refused(store: Store) -> None:
    fence = started(store, **FAR)
    reaper = Reaper(store)
    reaper.sweep(0)
    reaper.sweep(T2)
    hire(store, "w2", now=1000)
    again = go(store, "w2", now=1001)
    assert again.attempt == 2
    with suppress(WeftError):
        finish(store, fence, DONE, now=1002)
    assert renew(store, [fence], now=1002) == [fence]
    assert state(store, again.task) == "running"


def test_a_lease_is_judged_where_it_was_granted(store: Store) -> None:
    """A worker's name may turn up on another host while its old process still runs."""
    fence = started(store, **FAR)
    with suppress(WeftError):
        hire(store, boot="b", now=2)
    reaper = Reaper(store)
    reaper.prove = lambda _: "no such process here"
    assert reaper.sweep(0) == []
    assert lease_state(store, fence) != "released"


def test_a_proof_that_fails_keeps_nobody_else_from_being_freed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    fences = [started(store, worker="w"), started(store, worker="w2"), started(store, worker="w3")]
    reaper = Reaper(store)

    def prove(lease: Lease) -> str:
        if lease.fence == fences[0]:
            raise PermissionError("/proc/1/environ")
        return "no process"

    reaper.prove = prove
    swept = reaper.try_to_sweep(0)
    assert swept.freed == tuple(fences[1:])
    assert swept.unjudged == {f"lease {fences[0]}": "PermissionError: /proc/1/environ"}
    assert lease_state(store, fences[0]) == "suspect"  # what raised proves nothing
    assert f"lease {fences[0]}" in caplog.text


def test_a_worker_that_cannot_be_judged_hides_no_dead_one(store: Store) -> None:
    for name in ("w1", "w2", "w3"):
        hire(store, name, boot="b")
    reaper = Reaper(store)

    def prove(worker: Worker) -> str:
        if worker.id == "w1":
            raise ValueError("no such clock")
        return "killed"

    reaper.prove_worker = prove
    assert reaper.try_to_sweep(0).unjudged == {"worker w1": "ValueError: no such clock"}
    assert names(store) == ["w1"]


def test_silence_is_remembered_of_those_who_matter_only(store: Store) -> None:
    silence = Silence()
    hire(store, "w1", **FAR)
    hire(store, "w2", **FAR)
    workers: list[Worker] = list_workers(store, now=0)
    assert [silence.of(worker, 10) for worker in workers] == [0, 0]
    silence.forget_all_but(workers[:1])
    assert [silence.of(worker, 30) for worker in workers] == [20, 0]
    depart(store, "w1", now=1)
    assert silence.of(get_worker(store, "w1", now=1), 40) == 30
