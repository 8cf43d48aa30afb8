"""Hand-overs and sleeps in the store: one transaction, one owner, one hop."""

from __future__ import annotations

import pytest

from databases import look
from store.test_gate_verbs import NEW, OLD, TREE, intend_landing, open_run
from weft.errors import InputError, StaleFence
from weft.model import (
    Grant,
    NewHop,
    NewTask,
    NewWorker,
    Outcome,
    Stage,
    State,
    WakingEvent,
)
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.attempt_end import finish, list_hops, list_run_hops
from weft.store.attempt_reports import propose_step
from weft.store.gate import complete
from weft.store.leases import list_open, release
from weft.store.ready import wake_due
from weft.store.tasks import add_tasks, get_task, pause, resume, retry, submit
from weft.store.workers import register

NEXT = Stage(name="implement", agent="b", demand={"worker:@": 1, "agent:b": 1})
HOP = NewHop(agent="b", note="go on", args={"n": 5, "text": "5", "l": ("x",)}, tree=TREE)
HANDED = Outcome(state=State.READY, kind="handed_over", then=NEXT, hop=HOP, candidate=NEW, base=OLD)


@pytest.fixture(autouse=True)
def worker(store: Store) -> None:
    register(store, NewWorker(id="w", slots=9, host="h"), now=0, stated={})


def start(store: Store, agent: str = "a", files: tuple[str, ...] = ("f",)) -> Grant:
    task = NewTask(name="", agent=agent, stage="implement", files=files, demand={"worker:@": 1})
    number = submit(store, task, repo="/r", now=1)
    [grant] = admit_task(store, "w", number, now=2)
    return grant


def claims(store: Store) -> list[str]:
    return [str(row["pattern"]) for row in look(store.url, "SELECT pattern FROM claims")]


def test_a_hand_over_ends_the_attempt_and_queues_the_task_for_its_next_agent(store: Store) -> None:
    grant = start(store)
    assert finish(store, grant.fence, HANDED, now=3) is State.READY
    task = get_task(store, grant.task)
    assert (task.state, task.agent, dict(task.demand)) == (State.READY, "b", dict(NEXT.demand))
    assert list_open(store) == []
    assert claims(store) == ["f"]
    [hop] = list_hops(store, grant.task)
    assert (hop.number, hop.giver, hop.agent, hop.candidate) == (1, "a", "b", NEW)
    assert hop.args == {"n": 5, "text": "5", "l": ("x",)}
    [following] = admit_task(store, "w", grant.task, now=4)
    assert (following.attempt, following.agent) == (2, "b")


def test_the_same_hand_over_again_adds_no_hop_and_a_stale_fence_none(store: Store) -> None:
    grant = start(store)
    finish(store, grant.fence, HANDED, now=3)
    assert finish(store, grant.fence, HANDED, now=4) is State.READY
    assert len(list_hops(store, grant.task)) == 1
    other = start(store, files=("g",))
    release(store, other.fence, now=5)
    with pytest.raises(StaleFence):
        finish(store, other.fence, HANDED, now=6)
    with pytest.raises(StaleFence):
        propose_step(store, other.fence, {"step": "sleep", "until": "2h"}, now=6)
    assert list_hops(store, other.task) == []


def test_a_hand_over_names_its_next_stage(store: Store) -> None:
    grant = start(store)
    with pytest.raises(InputError):
        finish(store, grant.fence, Outcome(state=State.READY, kind="handed_over", hop=HOP), now=3)
    assert get_task(store, grant.task).state is State.RUNNING


def test_hops_count_until_a_person_reopens_the_task(store: Store) -> None:
    grant = start(store)
    finish(store, grant.fence, HANDED, now=3)
    [again] = admit_task(store, "w", grant.task, now=4)
    stopped = Outcome(state=State.BLOCKED, kind="proposal", reason="too many")
    finish(store, again.fence, stopped, now=5)
    retry(store, grant.task, now=6)
    assert [hop.counts for hop in list_hops(store, grant.task)] == [False]


def sleep(store: Store, grant: Grant, event: WakingEvent | None) -> State:
    slept = Outcome(state=State.PARKED, kind="slept", until=100.0, wake=event, base=OLD)
    return finish(store, grant.fence, slept, now=10)


def test_a_sleeper_wakes_at_its_time_at_the_latest(store: Store) -> None:
    waited, grant = start(store, files=("g",)), start(store)
    sleep(store, grant, WakingEvent(kind="task_ended", subject=str(waited.task)))
    assert list_open(store)[0].task == waited.task
    wake_due(store, now=99)
    assert get_task(store, grant.task).state is State.PARKED
    wake_due(store, now=101)
    assert get_task(store, grant.task).state is State.READY
    assert look(store.url, "SELECT * FROM sleeps") == []


def test_a_paused_sleeper_goes_on_when_it_is_resumed(store: Store) -> None:
    waited, grant = start(store, files=("g",)), start(store)
    sleep(store, grant, WakingEvent(kind="task_ended", subject=str(waited.task)))
    pause(store, grant.task, now=11)
    finish(store, waited.fence, Outcome(state=State.DONE), now=12)
    assert get_task(store, grant.task).state is State.PAUSED
    resume(store, grant.task, now=13)
    assert get_task(store, grant.task).state is State.READY


def add_sleeper(store: Store, run: str, now: float = 4) -> Grant:
    task = NewTask(name="sleeper", agent="a", files=("own",), demand={"worker:@": 1})
    numbers = store.write(
        lambda tx: add_tasks(tx, [task], run=run, repo="/r", tenant="default", now=now)
    )
    [number] = numbers.values()
    pause(store, number, now=now)
    resume(store, number, now=now)
    [grant] = admit_task(store, "w", number, now=now)
    return grant


def test_a_landing_wakes_a_task_that_sleeps_until_trunk_moves(store: Store) -> None:
    fence, entries = open_run(store, "r", "a")
    grant = add_sleeper(store, "r")
    moved = WakingEvent(kind="trunk_moved", subject="r")
    assert sleep(store, grant, moved) is State.PARKED
    sequence = intend_landing(store, fence, "r", entries["a"])
    assert get_task(store, grant.task).state is State.PARKED
    complete(store, fence, "r", sequence, now=12)
    assert get_task(store, grant.task).state is State.READY
    assert list_run_hops(store, "r") == {}


def test_a_task_does_not_sleep_for_a_landing_that_came_while_it_worked(store: Store) -> None:
    fence, entries = open_run(store, "r", "a")
    sequence = intend_landing(store, fence, "r", entries["a"])
    grant = add_sleeper(store, "r", now=7)  # after the intent, before trunk has moved
    complete(store, fence, "r", sequence, now=8)
    moved = WakingEvent(kind="trunk_moved", subject="r")
    assert sleep(store, grant, moved) is State.READY
