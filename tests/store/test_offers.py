"""Offers hold nothing and never strand a task; assignments respect a worker's slots."""

from __future__ import annotations

from typing import Any

import pytest

from store_helpers import DAY, DONE, drain, first_fence, go, hire, put, snapshot, state, used
from store_helpers import url as url
from weft.errors import AtCapacity, NotFound, Refused
from weft.model import NewRun, NewTask, Outcome, State
from weft.store import Store
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.event_log import history
from weft.store.members import accept, assign, offer, reject
from weft.store.probe import probe
from weft.store.runs import submit_run
from weft.store.tasks import cancel, get_task, retry
from weft.store.workers import depart

SLOT = {"worker:@": 1}


def offered(store: Store, worker: str = "w", **fields: Any) -> int:
    task = put(store, **{"demand": SLOT, **fields})
    offer(store, task, worker, now=1)
    return task


def test_an_offer_holds_nothing_but_keeps_others_off(store: Store) -> None:
    hire(store, "w", slots=1)
    hire(store, "other")
    task = offered(store, files=("a.py",))
    read = get_task(store, task)
    assert (read.state, read.offered_to, read.until) == (State.OFFERED, "w", 61)
    assert used(store, "worker:w") == 0
    assert not admit(store, "other", now=2)
    assert not admit_task(store, "other", task, now=2)
    waits = [wait.text for wait in probe(store, task, now=2)]
    assert waits == ["waiting for w to answer the offer"]
    put(store, "same file", files=("a.py",))
    assert drain(store, "other", now=2) == ["same file"]


def test_an_accepted_offer_starts_the_task(store: Store) -> None:
    hire(store)
    task = offered(store)
    [grant] = accept(store, task, "w", now=2)
    assert (grant.task, grant.worker, grant.attempt) == (task, "w", 1)
    assert get_task(store, task).offered_to is None
    with pytest.raises(Refused):
        accept(store, task, "w", now=3)


def test_an_offer_accepted_without_room_is_for_everyone_again(store: Store) -> None:
    hire(store, "w", slots=1)
    hire(store, "other")
    task = offered(store)
    put(store, "first", demand=SLOT)
    assert go(store, "w").name == "first"
    assert accept(store, task, "w", now=2) == []
    assert state(store, task) == "ready"
    assert go(store, "other").task == task


def test_a_rejected_offer_is_for_everyone_again(store: Store) -> None:
    hire(store, "w")
    hire(store, "other")
    task = offered(store)
    reject(store, task, "w", now=2, reason="not my language")
    rejected = [event.data for event in history(store, task) if event.kind == "offer_rejected"]
    assert rejected == [{"worker": "w", "reason": "not my language"}]
    assert go(store, "other").task == task


def test_only_who_was_offered_a_task_may_answer(store: Store) -> None:
    hire(store, "w")
    hire(store, "other")
    task = offered(store)
    before = snapshot(store.url)
    for answer in (accept, reject):
        with pytest.raises(Refused, match="is not offered to other"):
            answer(store, task, "other", now=2)
        with pytest.raises(NotFound):
            answer(store, 99, "w", now=2)
    assert snapshot(store.url) == before


def test_only_a_ready_task_is_offered_and_only_to_somebody_present(store: Store) -> None:
    hire(store)
    task = put(store)
    with pytest.raises(NotFound, match="no worker nobody"):
        offer(store, task, "nobody", now=1)
    offer(store, task, "w", now=1)
    with pytest.raises(Refused, match="is offered; only a ready task"):
        offer(store, task, "w", now=1)
    accept(store, task, "w", now=2)
    with pytest.raises(Refused, match="is running; only a ready task"):
        offer(store, task, "w", now=3)


def test_an_offer_is_withdrawn_in_time(store: Store) -> None:
    hire(store, "w")
    hire(store, "other")
    task = offered(store)
    assert not admit(store, "other", now=60)
    assert go(store, "other", now=61).task == task
    with pytest.raises(Refused):
        accept(store, task, "w", now=62)
    assert "offer_withdrawn" in {event.kind for event in history(store, task)}


def test_offers_are_withdrawn_when_the_offeree_leaves(store: Store) -> None:
    hire(store, "w")
    hire(store, "other")
    tasks = [offered(store), offered(store)]
    mine = offered(store, "other")
    depart(store, "w", now=2)
    assert [state(store, task) for task in (*tasks, mine)] == ["ready", "ready", "offered"]


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_a_clock_jump_strands_no_offer(store: Store, jump: float) -> None:
    hire(store, "w")
    hire(store, "other")
    task = put(store, now=2 * DAY)
    offer(store, task, "w", now=2 * DAY + jump)
    drain(store, "other", now=2 * DAY)
    assert (state(store, task) == "running") == (jump < 0)
    assert drain(store, "other", now=3 * DAY + 60) == (["t"] if jump > 0 else [])


def test_an_offered_task_may_be_cancelled(store: Store) -> None:
    hire(store)
    task = offered(store)
    assert cancel(store, task, now=2)
    with pytest.raises(Refused):
        accept(store, task, "w", now=3)
    assert not admit(store, "w", now=1e6)


def test_a_worker_at_capacity_is_assigned_nothing_unless_it_may_queue(store: Store) -> None:
    hire(store, slots=2)
    running, waiting, third, fourth = (put(store, f"t{n}", demand=SLOT) for n in range(4))
    assign(store, running, "w", now=1)
    assert go(store).task == running
    assign(store, waiting, "w", now=1)
    before = snapshot(store.url)
    with pytest.raises(AtCapacity) as refused:
        assign(store, third, "w", now=1)
    assert str(refused.value) == "w is at capacity (2/2)."
    assert snapshot(store.url) == before
    assign(store, third, "w", now=1, or_queue=True)
    assign(store, waiting, "w", now=1)  # what it has already
    with pytest.raises(AtCapacity, match=r"w is at capacity \(3/2\)"):
        assign(store, fourth, "w", now=1)
    finish(store, first_fence(store), DONE, now=2)
    assert drain(store) == ["t1", "t2"]


def test_an_assigned_task_belongs_to_its_worker(store: Store) -> None:
    hire(store, "w")
    hire(store, "other")
    task = put(store, demand=SLOT)
    assign(store, task, "w", now=1)
    assert not admit(store, "other", now=2)
    assign(store, task, "other", now=2)
    assert not admit(store, "w", now=3)
    assert go(store, "other").task == task
    with pytest.raises(Refused, match="is running and cannot be assigned"):
        assign(store, task, "w", now=3)
    with pytest.raises(NotFound):
        assign(store, put(store), "nobody", now=3)


def test_what_waits_or_is_parked_may_be_assigned_beforehand(store: Store) -> None:
    hire(store, "w")
    hire(store, "other")
    tasks = [NewTask(name="a"), NewTask(name="b", needs=("a",))]
    numbers = submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
    assign(store, numbers["b"], "other", now=1)
    parked = Outcome(state=State.PARKED, kind="overload", until=9)
    finish(store, go(store).fence, parked, now=2)
    assign(store, numbers["a"], "other", now=3)
    assert not admit(store, "w", now=10)
    finish(store, go(store, "other", now=10).fence, DONE, now=11)
    assert not admit(store, "w", now=12)
    assert go(store, "other", now=12).name == "b"


def test_a_reopened_task_of_a_gang_goes_to_the_worker_of_the_gang(store: Store) -> None:
    hire(store, "w")
    hire(store, "second")
    tasks = [NewTask(name=name, gang="g", demand=SLOT) for name in ("a", "b")]
    numbers = submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
    assign(store, numbers["a"], "w", now=1)
    cancel(store, numbers["a"], now=2)
    assign(store, numbers["b"], "second", now=3)
    retry(store, numbers["a"], now=4)
    assert get_task(store, numbers["a"]).pinned == "second"
    assert {grant.task for grant in admit(store, "second", now=5)} == set(numbers.values())
