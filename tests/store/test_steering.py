"""What people do to tasks and runs as a whole: drain, cancel, pause, resume, reject."""

from __future__ import annotations

from typing import Any

import pytest

from store_helpers import (
    DONE,
    caught,
    drain,
    go,
    hire,
    put,
    snapshot,
    state,
    url,
    weaken,
)
from wait_until import PATIENCE
from weft.errors import AlreadyEnded, Refused
from weft.model import HUMAN, AgentFile, NewRun, NewTask, Outcome, Stage, State, TaskRequest
from weft.store import Store
from weft.store import admission as draining
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.event_log import history
from weft.store.gate import complete, intend, read_gate
from weft.store.leases import list_open, release, take
from weft.store.members import accept, offer
from weft.store.probe import order, probe, queue
from weft.store.runs import cancel_run, end_finished, get_run, pause_run, resume_run, submit_run
from weft.store.tasks import approve, cancel, get_task, reject, retry, skip

__all__ = ["url"]

CANDIDATE = Outcome(state=State.GATING, candidate="c" * 40, base="b" * 40)


def run(store: Store, *tasks: NewTask, name: str = "R") -> dict[str, int]:
    return submit_run(store, NewRun(id=name, repo="r", base="b" * 40), tasks, now=0)


def work(name: str, **fields: Any) -> NewTask:
    return NewTask(**{"name": name, "agent": "a", "files": (name,), **fields})


def to_gate(store: Store, task: int) -> None:
    [grant] = admit_task(store, "w", task, now=1)
    assert finish(store, grant.fence, CANDIDATE, now=2) is State.GATING


def begin_landing(store: Store, *tasks: int) -> int:
    """Let these be landing; the fence of the gate."""
    fence = take(store, "gate", "R", {"gate:R": 1}, worker="w", now=3)
    assert fence is not None
    open_ = [entry.id for entry in read_gate(store, "R").entries if set(entry.tasks) & set(tasks)]
    commits = ["d" * 40 for _ in open_]
    intend(
        store,
        fence,
        "R",
        old="b" * 40,
        new="d" * 40,
        tree="t" * 40,
        entries=open_,
        commits=commits,
        revision=1,
        every_commit=False,
        now=3,
    )
    return fence


def test_once_drained_no_worker_takes_anything_until_it_is_undone(store: Store) -> None:
    def check(store: Store) -> None:
        hire(store, "one")
        hire(store, "two")
        task, second = put(store, "t"), put(store, "u")
        offer(store, second, "two", now=0)
        assert draining.drain(store, now=1)
        assert not draining.drain(store, now=2)
        assert not admit(store, "one", now=2)
        assert not admit(store, "two", now=2)
        assert not admit_task(store, "one", task, now=2)
        assert not accept(store, second, "two", now=2)
        assert [wait.kind for wait in probe(store, task, now=2)] == ["drain"]
        assert draining.undo_drain(store, now=3)
        assert not draining.undo_drain(store, now=3)
        assert drain(store, "one", now=4) == ["t", "u"]

    caught(store, check, lambda real: weaken(real, "ledger", ("drained IS NOT NULL", "one = 2")))


def test_what_runs_goes_on_while_drained(store: Store) -> None:
    hire(store)
    task = put(store)
    grant = go(store)
    draining.drain(store, now=2)
    assert finish(store, grant.fence, DONE, now=3) is State.DONE
    assert state(store, task) == "done"


def test_whoever_waits_for_work_is_rung_when_the_drain_ends(store: Store) -> None:
    draining.drain(store, now=1)
    with store.listen("work") as listener:
        draining.undo_drain(store, now=2)
        assert listener.wait(PATIENCE)


def test_cancelling_a_run_ends_all_of_it(store: Store) -> None:
    hire(store)
    numbers = run(store, work("a"), work("b"), work("c", needs=("a",)), work("d"))
    to_gate(store, numbers["b"])
    [running] = admit_task(store, "w", numbers["a"], now=1)
    assert cancel_run(store, "R", now=3) == (sorted(numbers.values()), [])
    assert {state(store, number) for number in numbers.values()} == {"cancelled"}
    assert get_run(store, "R").state == "ended"
    assert [entry.state for entry in read_gate(store, "R").entries] == ["withdrawn"]
    # The process keeps its amounts until it has ended, and can do nothing any more.
    assert [lease.fence for lease in list_open(store)] == [running.fence]
    with pytest.raises(AlreadyEnded):
        finish(store, running.fence, DONE, now=4)
    release(store, running.fence, now=4)
    before = snapshot(store.url)
    assert cancel_run(store, "R", now=5) == ([], [])
    assert snapshot(store.url) == before


def test_what_is_landing_outlives_its_cancelled_run_and_ends_it(store: Store) -> None:
    hire(store)
    numbers = run(store, work("a"), work("b"))
    to_gate(store, numbers["a"])
    fence = begin_landing(store, numbers["a"])
    assert cancel_run(store, "R", now=4) == ([numbers["b"]], [numbers["a"]])
    assert get_run(store, "R").state == "running"
    assert end_finished(store, now=4) == []
    complete(store, fence, "R", 1, now=5)
    assert state(store, numbers["a"]) == "done"
    assert end_finished(store, now=6) == ["R"]


def test_neither_what_is_landing_nor_its_story_can_be_stopped(store: Store) -> None:
    """A story that was cancelled meanwhile would get a second end from the landing."""
    hire(store)
    numbers = run(
        store,
        NewTask(name="whole", needs=("a",)),
        work("a", story="whole"),
        work("other"),
    )
    to_gate(store, numbers["a"])
    fence = begin_landing(store, numbers["a"])
    before = snapshot(store.url)
    for task in (numbers["a"], numbers["whole"]):
        for verb in (cancel, skip):
            with pytest.raises(Refused, match="is landing and can no longer be stopped"):
                verb(store, task, now=4)
    with pytest.raises(Refused, match="is landing"):
        reject(store, numbers["a"], "no", now=4)
    assert snapshot(store.url) == before
    cancelled, landing = cancel_run(store, "R", now=5)
    assert (cancelled, landing) == ([numbers["other"]], [numbers["whole"], numbers["a"]])
    complete(store, fence, "R", 1, now=6)
    assert state(store, numbers["whole"]) == "done"


def test_a_cancelled_story_leaves_no_entry_of_the_rest_behind(store: Store) -> None:
    hire(store)
    numbers = run(
        store,
        NewTask(name="whole", needs=("a", "b")),
        work("a", story="whole"),
        work("b", story="whole"),
    )
    to_gate(store, numbers["a"])
    to_gate(store, numbers["b"])
    cancel_run(store, "R", now=3)
    assert [entry.state for entry in read_gate(store, "R").entries] == ["withdrawn"]


def test_a_paused_run_starts_nothing_and_goes_on_when_resumed(store: Store) -> None:
    hire(store)
    numbers = run(store, work("a"), work("b"), work("c", needs=("a",)), work("d"))
    to_gate(store, numbers["d"])
    [grant] = admit_task(store, "w", numbers["a"], now=1)
    elsewhere = put(store, "elsewhere")
    assert pause_run(store, "R", now=2) == [numbers[name] for name in "abc"]
    assert state(store, numbers["d"]) == "gating"
    assert drain(store, now=3) == ["elsewhere"]
    assert state(store, elsewhere) == "running"
    # What ran when it was paused is not tried again before it is resumed.
    finish(store, grant.fence, Outcome(state=State.READY, kind="crash"), now=4)
    assert not admit(store, "w", now=5)
    assert resume_run(store, "R", now=6) == [numbers[name] for name in "abc"]
    assert resume_run(store, "R", now=6) == []
    assert drain(store, now=7) == ["a", "b"]
    assert state(store, numbers["c"]) == "waiting"


def test_a_running_task_of_a_paused_run_goes_to_the_gate_when_it_succeeds(store: Store) -> None:
    hire(store)
    numbers = run(store, work("a"))
    [grant] = admit_task(store, "w", numbers["a"], now=1)
    pause_run(store, "R", now=2)
    assert finish(store, grant.fence, CANDIDATE, now=3) is State.GATING


def test_rejecting_what_is_at_the_gate_sends_it_back_with_the_reason(store: Store) -> None:
    hire(store)
    numbers = run(store, work("a"), work("b", needs=("a",)), work("c", files=("a",)))
    to_gate(store, numbers["a"])
    assert not admit_task(store, "w", numbers["c"], now=2)  # its file is held
    for _ in range(4):  # a person may say no as often as they like: it is no failure
        assert reject(store, numbers["a"], "wrong colour", now=3) is State.READY
        sent_back = [
            event for event in history(store, numbers["a"]) if event.kind == "task_sent_back"
        ]
        assert sent_back[-1].data["reason"] == "wrong colour"
        assert read_gate(store, "R").entries[-1].state == "withdrawn"
        to_gate(store, numbers["a"])
    last = read_gate(store, "R").entries[-1]
    assert (last.state, last.alone) == ("queued", False)


def test_rejected_work_gives_its_files_up(store: Store) -> None:
    hire(store)
    numbers = run(store, work("a"), work("c", files=("a",)))
    to_gate(store, numbers["a"])
    reject(store, numbers["a"], "no", now=3)
    assert admit_task(store, "w", numbers["c"], now=4)


def test_rejected_work_goes_back_to_whoever_made_it(store: Store) -> None:
    """Not to the judge, who was the last to look at it."""
    hire(store)
    request = TaskRequest(
        stages=(
            Stage(name="implement", agent="a", demand={"worker:@": 1}),
            Stage(name="judge", agent="j"),
        )
    )
    numbers = run(store, work("a", agent="j", stage="judge", request=request))
    to_gate(store, numbers["a"])
    reject(store, numbers["a"], "no", now=3)
    task = get_task(store, numbers["a"])
    assert (task.stage, task.agent, dict(task.demand)) == ("implement", "a", {"worker:@": 1})


def test_rejecting_what_is_asked_of_a_person_blocks_it_until_retried(store: Store) -> None:
    hire(store)
    numbers = run(store, NewTask(name="ask", agent=HUMAN), work("b", needs=("ask",)))
    assert reject(store, numbers["ask"], "not like this", now=1) is State.BLOCKED
    task = get_task(store, numbers["ask"])
    assert (task.state, task.reason) == (State.BLOCKED, "not like this")
    assert state(store, numbers["b"]) == "waiting"
    assert retry(store, numbers["ask"], now=2)
    assert approve(store, numbers["ask"], now=3)
    assert state(store, numbers["b"]) == "ready"
    with pytest.raises(AlreadyEnded):
        reject(store, numbers["ask"], "too late", now=4)


def test_only_what_a_person_may_judge_can_be_rejected(store: Store) -> None:
    hire(store)
    numbers = run(store, work("a"), NewTask(name="later", agent=HUMAN, needs=("a",)), work("b"))
    before = snapshot(store.url)
    with pytest.raises(Refused, match="only a task that is testing or asks you"):
        reject(store, numbers["a"], "no", now=1)
    with pytest.raises(Refused, match="the tasks it needs have not landed"):
        reject(store, numbers["later"], "no", now=1)
    assert snapshot(store.url) == before


def test_the_queue_lists_ready_tasks_in_order_with_what_holds_them_up(store: Store) -> None:
    hire(store, slots=1, agents=(AgentFile(name="a", source="file"),))
    numbers = run(
        store,
        work("short", path_seconds=1, demand={"worker:@": 1}),
        work("long", path_seconds=9, demand={"worker:@": 1}),
        work("same", files=("long",), path_seconds=5, demand={"worker:@": 1}),
        NewTask(name="ask", agent=HUMAN),
    )
    names = {number: name for name, number in numbers.items()}
    assert [names[number] for number in order(store, now=0)] == ["ask", "long", "same", "short"]
    assert go(store).name == "long"
    tasks, count = queue(store, now=2, most=2)
    assert count == 3
    assert [(task.name, [wait.kind for wait in waits]) for task, waits in tasks] == [
        ("ask", ["person"]),
        ("same", ["file", "limit"]),
    ]
