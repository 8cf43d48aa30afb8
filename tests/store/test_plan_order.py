"""Plan order (PLANS.md ruling 7): ready tasks of a run that share a file go in plan order."""

from __future__ import annotations

import heapq
import random

import pytest

from patch_history import file_sets
from store_helpers import AGAIN, DONE, drain, go, hire, put, tuned, watched
from store_helpers import url as url
from weft.model import Class, NewRun, NewTask, Outcome, Priority, State
from weft.store import Store
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.leases import release
from weft.store.limit_table import set_limit
from weft.store.probe import probe
from weft.store.runs import learn_paths, submit_run
from weft.store.tasks import cancel, get_task, pause, resume

SENT_BACK = Outcome(state=State.READY, kind="conflict", sent_back=True)
PARKED = Outcome(state=State.PARKED, kind="rate_limit", until=50)


def plan(store: Store, *tasks: NewTask, run: str = "R") -> dict[str, int]:
    return submit_run(store, NewRun(id=run, repo="r"), tasks, now=0)


def task(name: str, *files: str, **fields: object) -> NewTask:
    return NewTask(name=name, files=files, **fields)  # type: ignore[arg-type]


def test_tasks_that_share_a_file_go_in_plan_order_whatever_their_paths(store: Store) -> None:
    hire(store)
    numbers = plan(store, task("a", "f"), task("b", "f", path_seconds=9), task("c", "f"))
    learn_paths(store, {numbers["c"]: 99.0})
    order = []
    while grants := admit(store, "w", now=1):
        order += [grant.name for grant in grants]
        finish(store, grants[0].fence, DONE, now=1)
    assert order == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("files", "later"),
    [(("a", "b"), "b"), (("a", "src/**"), "src/x"), (("a", "src/x"), "src/*"), (("a", "d"), "d/e")],
)
def test_a_task_that_waits_for_a_file_holds_back_later_ones_that_share_another(
    store: Store, files: tuple[str, ...], later: str
) -> None:
    hire(store)
    numbers = plan(
        store, task("holder", "a"), task("both", *files), task("later", later, path_seconds=9)
    )
    holder = go(store)
    assert drain(store) == []
    [wait] = probe(store, numbers["later"], now=1)
    assert (wait.kind, wait.subject) == ("order", str(numbers["both"]))
    finish(store, holder.fence, DONE, now=2)
    assert [wait.kind for wait in probe(store, numbers["later"], now=2)] == ["order"]
    both = go(store)
    assert (both.name, drain(store)) == ("both", [])
    finish(store, both.fence, DONE, now=2)
    assert drain(store) == ["later"]


def test_what_shares_nothing_with_a_waiting_task_is_not_held_back(store: Store) -> None:
    hire(store)
    plan(store, task("holder", "a"), task("both", "a", "b"), task("free", "c"))
    assert drain(store) == ["holder", "free"]


def test_between_candidate_and_landing_a_task_keeps_its_place(store: Store) -> None:
    hire(store)
    plan(store, task("first", "a"), task("both", "a", "b"), task("later", "b"))
    finish(store, go(store).fence, Outcome(state=State.GATING, candidate="c" * 40), now=2)
    assert drain(store) == []


def test_a_task_sent_back_goes_before_the_later_ones_again(store: Store) -> None:
    hire(store)
    plan(store, task("first", "a"), task("second", "a", path_seconds=9))
    first = go(store)
    finish(store, first.fence, SENT_BACK, now=2)
    assert drain(store, now=3) == ["first"]


@pytest.mark.parametrize("how", ["blocked", "cancelled", "paused"])
def test_a_predecessor_that_is_not_ready_holds_nobody_back(store: Store, how: str) -> None:
    hire(store)
    numbers = plan(store, task("holder", "a"), task("both", "a", "b"), task("later", "b"))
    holder = go(store)
    assert drain(store) == []
    if how == "blocked":
        finish(store, holder.fence, DONE, now=1)
        outcome = Outcome(state=State.BLOCKED, kind="other", reason="no")
        finish(store, go(store).fence, outcome, now=1)
    else:
        (cancel if how == "cancelled" else pause)(store, numbers["both"], now=1)
    assert drain(store) == ["later"]


def test_a_predecessor_that_needs_another_task_holds_nobody_back(store: Store) -> None:
    hire(store)
    plan(store, task("need"), task("slow", "b", needs=("need",)), task("later", "b"))
    assert drain(store) == ["need", "later"]


@pytest.mark.parametrize("stall", ["parked", "paused"])
def test_a_task_that_waits_for_a_stalled_one_may_be_passed(store: Store, stall: str) -> None:
    """Nobody knows when the parked or paused task lets go of its file."""
    hire(store)
    numbers = plan(
        store,
        task("holder", "a"),
        task("both", "a", "b"),
        task("later", "b"),
        task("behind", "b", "c"),
        task("last", "c"),
    )
    holder = go(store)
    assert drain(store) == []
    if stall == "parked":
        finish(store, holder.fence, PARKED, now=2)
    else:
        release(store, holder.fence, now=2)
        pause(store, numbers["holder"], now=2)
    assert drain(store, now=3) == ["later"]  # and `last` waits for `behind`, which waits for it
    if stall == "paused":
        resume(store, numbers["holder"], now=4)
    assert drain(store, now=60) == ["holder"]


def test_a_predecessor_that_lacks_something_else_may_be_passed(store: Store) -> None:
    hire(store)
    set_limit(store, "requests", 1, now=0)
    rare = {"requests": 1}
    numbers = plan(
        store, task("x", demand=rare), task("waits", "b", demand=rare), task("later", "b")
    )
    busy = admit_task(store, "w", numbers["x"], now=1)[0]
    later = go(store)
    assert later.name == "later"
    finish(store, later.fence, SENT_BACK, now=2)
    finish(store, busy.fence, DONE, now=2)
    assert drain(store, now=3) == ["waits"]  # now it lacks nothing, and goes first


def test_a_predecessor_pinned_to_a_worker_with_room_is_waited_for(store: Store) -> None:
    hire(store)
    hire(store, "other", slots=1)
    plan(store, task("theirs", "b", pinned="other"), task("later", "b"))
    assert drain(store) == []
    assert drain(store, "other") == ["theirs"]


def test_a_predecessor_pinned_to_a_busy_worker_may_be_passed(store: Store) -> None:
    hire(store)
    hire(store, "other", slots=1)
    put(store, "busy", pinned="other", demand={"worker:@": 1})
    go(store, "other")
    demand = {"worker:@": 1}
    plan(store, task("theirs", "b", pinned="other", demand=demand), task("later", "b"))
    assert drain(store) == ["later"]


def test_declared_urgency_goes_before_plan_order(store: Store) -> None:
    """The author gave that order; plan order decides what is left open."""
    hire(store)
    plan(
        store,
        task("normal", "a"),
        task("urgent", "a", priority=Priority.HIGH),
        task("asked", "a", klass=Class.INTERACTIVE, priority=Priority.LOW),
    )
    order = []
    for _ in range(3):
        grant = go(store)
        order.append(grant.name)
        finish(store, grant.fence, DONE, now=1)
    assert order == ["asked", "urgent", "normal"]


def test_a_less_urgent_task_waits_for_an_urgent_one_that_waits_for_a_file(store: Store) -> None:
    hire(store)
    numbers = plan(
        store,
        task("normal", "b"),
        task("urgent", "a", "b", priority=Priority.HIGH),
        task("holder", "a"),
    )
    [holder] = admit_task(store, "w", numbers["holder"], now=1)
    assert drain(store) == []
    finish(store, holder.fence, DONE, now=2)
    assert drain(store) == ["urgent"]


def test_runs_have_no_plan_order_between_them(store: Store) -> None:
    hire(store)
    plan(store, task("holder", "a"), task("both", "a", "b"))
    plan(store, task("other", "b"), run="S")
    assert drain(store) == ["holder", "other"]


def test_ad_hoc_tasks_have_no_plan_order(store: Store) -> None:
    hire(store)
    for name, files in (("holder", ("a",)), ("both", ("a", "b")), ("later", ("b",))):
        put(store, name, files=files)
    assert drain(store) == ["holder", "later"]


def test_a_gang_is_waited_for_and_waits_as_one(store: Store) -> None:
    hire(store, slots=2)
    gang = {"gang": "g", "demand": {"worker:@": 1}}
    plan(
        store,
        task("holder", "a"),
        task("one", "a", **gang),
        task("two", "b", **gang),
        task("later", "b"),
    )
    holder = go(store)
    assert drain(store) == []
    finish(store, holder.fence, DONE, now=2)
    assert sorted(grant.name for grant in admit(store, "w", now=2)) == ["one", "two"]


def test_a_gang_that_does_not_fit_may_be_passed(store: Store) -> None:
    hire(store, slots=2)
    slot = {"worker:@": 1}
    numbers = plan(
        store,
        task("one", "a", gang="g", demand=slot),
        task("two", "b", gang="g", demand=slot),
        task("later", "b", demand=slot),
        task("busy", demand=slot),
    )
    assert admit_task(store, "w", numbers["busy"], now=1)
    assert drain(store) == ["later"]


def test_subtasks_that_share_a_file_keep_plan_order_and_so_do_stories(store: Store) -> None:
    hire(store)
    plan(
        store,
        task("holder", "x"),
        NewTask(name="S", needs=("S.a", "S.b")),
        task("S.a", "y", "x", story="S"),
        task("S.b", "y", story="S", path_seconds=9),
        NewTask(name="T", needs=("T.a",)),
        task("T.a", "y", story="T", path_seconds=99),
    )
    holder = go(store)
    assert drain(store) == []
    finish(store, holder.fence, DONE, now=1)
    first = go(store)
    assert (first.name, drain(store)) == ("S.a", [])
    finish(store, first.fence, Outcome(state=State.GATING, candidate="c" * 40), now=2)
    assert drain(store) == ["S.b"]


def test_a_named_task_starts_whatever_its_place(store: Store) -> None:
    hire(store)
    numbers = plan(store, task("first", "a"), task("second", "a"))
    assert admit_task(store, "w", numbers["second"], now=1)
    assert drain(store) == []


def test_nothing_is_kept_free_for_a_task_that_only_waits_for_its_turn(store: Store) -> None:
    """Else the task before it would be stopped by what is kept free, and both for ever."""
    impatient = tuned(store, bypasses=2)
    hire(store, slots=2)
    slot = {"worker:@": 1}
    plan(
        store,
        task("holder", "a", demand=slot),
        task("both", "a", "b", demand=slot),
        task("later", "b", demand=slot, path_seconds=99),
        *(task(f"free{n}", demand=slot) for n in range(8)),
    )
    names: list[str] = []
    running: list[tuple[str, int]] = []
    for step in range(40):
        for grant in admit(impatient, "w", now=step):
            names.append(grant.name)
            running.append((grant.name, grant.fence))
        if len(running) == 2 or step > 20:
            rest = [grant for grant in running if grant[0] != "holder"] if step < 20 else running
            for ended in rest[:1]:
                running.remove(ended)
                finish(store, ended[1], DONE, now=step)
    assert len(names) == 11
    assert names.index("both") < names.index("later")


def test_thousands_that_wait_for_their_turn_cost_a_few_statements(store: Store) -> None:
    hire(store, slots=500)
    many = [task(f"t{n}", f"src/m{n}", path_seconds=50) for n in range(90)]
    plan(store, task("holder", "docs"), task("all", "docs", "src/**"), *many, task("free", "z"))
    assert go(store).name == "holder"
    writes: list[int] = []
    assert go(watched(store, lambda: writes.append(1))).name == "free"
    assert len(writes) < 80
    assert drain(store) == []


@pytest.mark.parametrize("slots", [1, 4, 8])
@pytest.mark.parametrize("seed", range(3))
def test_a_history_of_patches_is_replayed_in_order(store: Store, seed: int, slots: int) -> None:
    """40 patches that share files, no `depends`, any durations and paths: no patch comes early.

    Some attempts crash and are made again, some work is sent back by the gate.
    """
    dice = random.Random(seed)
    sets = file_sets(seed, 40)
    hire(store, slots=slots)
    tasks = [
        task(str(n), *files, demand={"worker:@": 1}, path_seconds=dice.uniform(0, 100))
        for n, files in enumerate(sets)
    ]
    plan(store, *tasks)
    landed: dict[str, list[int]] = {}
    running: list[tuple[float, int, int]] = []
    now = 0.0
    while True:
        while grants := admit(store, "w", now=now):
            for grant in grants:
                number = int(grant.name)
                for file in sets[number]:
                    earlier = [n for n in range(number) if file in sets[n]]
                    assert landed.get(file, []) == earlier, (number, file)
                heapq.heappush(running, (now + dice.uniform(1, 9), number, grant.fence))
        if not running:
            break
        now, number, fence = heapq.heappop(running)
        if dice.random() < 0.1:
            finish(store, fence, AGAIN, now=now)
            continue
        finish(store, fence, DONE, now=now)
        for file in sets[number]:
            landed.setdefault(file, []).append(number)
    assert sum(map(len, landed.values())) == sum(map(len, sets))


def test_a_task_that_asks_for_something_else_keeps_plan_order_too(store: Store) -> None:
    """Tasks of other agents or stages lie in other buckets, and share files all the same."""
    hire(store)
    demand = {"requests": 1}
    numbers = plan(
        store,
        task("holder", "a"),
        task("both", "a", "b", demand=demand),
        task("later", "b", path_seconds=9),
        task("free", "c"),
    )
    holder = go(store)
    assert drain(store) == ["free"]
    finish(store, holder.fence, DONE, now=2)
    assert drain(store, now=3) == ["both"]
    assert get_task(store, numbers["later"]).state is State.READY
