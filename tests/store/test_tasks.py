"""Tasks: submitted, waiting for others, stopped and reopened by people; runs, gangs, stories."""

from __future__ import annotations

from contextlib import suppress

import pytest

from databases import look
from store_helpers import (
    AGAIN,
    DONE,
    drain,
    first_fence,
    go,
    hire,
    put,
    snapshot,
    state,
    tuned,
    used,
)
from store_helpers import url as url
from weft.errors import AlreadyEnded, InputError, NeverFits, NotFound, QueueFull, Refused
from weft.model import AgentFile, Class, NewRun, NewTask, Outcome, Priority, State
from weft.store import Store
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.event_log import history
from weft.store.leases import extend, release, renew
from weft.store.limit_table import set_limit
from weft.store.probe import probe
from weft.store.runs import end_finished, get_run, learn_paths, list_runs, submit_run
from weft.store.tasks import (
    cancel,
    count_states,
    find_task,
    get_task,
    list_related_commits,
    list_tasks,
    pause,
    resume,
    retry,
    skip,
    submit,
)
from weft.store.workers import depart

SLOT = {"worker:@": 1}
PARKED = Outcome(state=State.PARKED, kind="rate_limit", until=50)


def run(store: Store, *tasks: NewTask, name: str = "R", tenant: str = "default") -> dict[str, int]:
    return submit_run(store, NewRun(id=name, repo="r", tenant=tenant), tasks, now=0)


def group(*names: str, **fields: object) -> list[NewTask]:
    return [NewTask(name=name, gang="g", demand=SLOT, **fields) for name in names]  # type: ignore[arg-type]  # as given


def waits(store: Store, task: int) -> list[str]:
    return [wait.text for wait in probe(store, task, now=9)]


def test_a_submitted_task_is_found_as_it_was_given(store: Store) -> None:
    new = NewTask(
        name="build",
        text="Build it.",
        files=("b.py", "a/**"),
        demand={"llm": 2},
        klass=Class.INTERACTIVE,
        priority=Priority.HIGH,
        agent="claude",
        stage="implement",
        path_seconds=9,
        pinned="w",
    )
    task = get_task(store, submit(store, new, repo="r", tenant="t", now=5))
    assert (task.name, task.text, task.repo, task.tenant) == ("build", "Build it.", "r", "t")
    assert (task.files, dict(task.demand)) == (("a/**", "b.py"), {"llm": 2})
    assert (task.klass, task.priority) == (Class.INTERACTIVE, Priority.HIGH)
    assert (task.agent, task.stage, task.pinned) == ("claude", "implement", "w")
    assert (task.state, task.since, task.submitted) == (State.READY, 5, 5)
    assert task.path_seconds == 0  # ad-hoc tasks go by submission


def test_a_nameless_task_is_called_by_its_number(store: Store) -> None:
    assert get_task(store, put(store, "")).name == "t1"


@pytest.mark.parametrize(
    ("new", "error", "message"),
    [
        (NewTask(name="t", needs=("7",)), InputError, "no task '7' to depend on"),
        (NewTask(name="t", needs=("other",)), InputError, "no task 'other' to depend on"),
        (NewTask(name="t", story="none"), InputError, "no task 'none'"),
        (NewTask(name="t", demand={"llm": 0}), InputError, "asks for 0 of llm"),
        (NewTask(name="t", demand={"llm": -1}), InputError, "asks for -1 of llm"),
        (NewTask(name="t", demand={"requests": 25}), NeverFits, "whose limit is 24"),
        (NewTask(name="t", demand={"host:@/ram_mb": 600}), NeverFits, "whose limit is 512"),
    ],
)
def test_a_task_that_could_never_start_is_refused(
    store: Store, new: NewTask, error: type[Exception], message: str
) -> None:
    hire(store, host_limits={"ram_mb": 512})
    before = snapshot(store.url)
    with pytest.raises(error, match=message):
        submit(store, new, repo="r", now=1)
    assert snapshot(store.url) == before


def test_a_paused_limit_is_no_size(store: Store) -> None:
    set_limit(store, "llm", 0, now=0)
    assert put(store, demand={"llm": 3})


def test_a_task_waits_for_all_it_needs_and_says_so(store: Store) -> None:
    hire(store)
    tasks = [NewTask(name="a"), NewTask(name="b"), NewTask(name="c", needs=("a", "b"))]
    numbers = run(store, *tasks)
    assert waits(store, numbers["c"]) == [
        "waiting for a, which is ready",
        "waiting for b, which is ready",
    ]
    finish(store, go(store).fence, DONE, now=1)
    assert waits(store, numbers["c"]) == ["waiting for b, which is ready"]
    assert skip(store, numbers["b"], now=2)
    assert go(store).name == "c"


@pytest.mark.parametrize("outcome", [State.FAILED, State.BLOCKED, State.GATING])
def test_what_needs_an_unfinished_task_waits_and_is_never_failed(
    store: Store, outcome: State
) -> None:
    hire(store)
    numbers = run(store, NewTask(name="a"), NewTask(name="b", needs=("a",)))
    finish(store, go(store).fence, Outcome(state=outcome, kind="other"), now=1)
    assert state(store, numbers["b"]) == "waiting"
    if outcome is not State.GATING:
        retry(store, numbers["a"], now=2)
        assert state(store, numbers["b"]) == "waiting"
        finish(store, go(store, now=3).fence, DONE, now=3)
        assert go(store, now=4).name == "b"


def test_cancelling_and_skipping_happen_once(store: Store) -> None:
    task, second = put(store), put(store)
    assert cancel(store, task, now=1, reason="not wanted")
    assert get_task(store, task).reason == "not wanted"
    assert skip(store, second, now=1)
    before = snapshot(store.url)
    assert not cancel(store, task, now=2)
    assert not cancel(store, second, now=2)
    assert not skip(store, second, now=2)
    assert snapshot(store.url) == before
    with pytest.raises(NotFound):
        cancel(store, 99, now=3)


def test_a_done_task_is_not_reopened(store: Store) -> None:
    hire(store)
    task = put(store)
    finish(store, go(store).fence, DONE, now=1)
    with pytest.raises(AlreadyEnded):
        retry(store, task, now=2)
    assert not cancel(store, task, now=2)


def test_a_retry_waits_for_the_cancelled_attempt_to_end(store: Store) -> None:
    hire(store)
    task = put(store, files=("a.py",), demand=SLOT)
    first = go(store)
    assert not retry(store, task, now=2)
    cancel(store, task, now=2)
    assert retry(store, task, now=3)
    assert waits(store, task) == ["waiting for the end of attempt 1"]
    assert not admit(store, "w", now=3)
    assert not admit_task(store, "w", task, now=3)
    release(store, first.fence, now=4)
    second = go(store, now=5)
    assert (second.task, second.attempt) == (task, 2)
    assert [event.kind for event in history(store, task)].count("task_reopened") == 1


def test_an_attempt_that_was_cancelled_owns_nothing_after_a_retry_either(store: Store) -> None:
    hire(store)
    task = put(store, files=("a.py",))
    fence = go(store).fence
    cancel(store, task, now=2)
    assert renew(store, [fence], now=2) == [fence]
    retry(store, task, now=3)
    assert renew(store, [fence], now=3) == [fence]
    with pytest.raises(Refused):
        extend(store, fence, ["b.py"], now=3)
    with pytest.raises(Refused):
        finish(store, fence, Outcome(state=State.FAILED, kind="crash"), now=3)
    assert state(store, task) == "waiting"


def test_pausing_keeps_a_task_from_starting_and_its_claims(store: Store) -> None:
    hire(store)
    task = put(store, files=("a.py",))
    finish(store, go(store).fence, AGAIN, now=1)
    assert pause(store, task, now=2)
    assert not pause(store, task, now=2)
    put(store, "other", files=("a.py",))
    assert drain(store, now=3) == []
    assert waits(store, task) == ["paused: paused"]
    assert resume(store, task, now=4)
    assert not resume(store, task, now=4)
    assert drain(store, now=5) == ["t"]


def test_a_paused_attempt_goes_on_when_resumed_and_stays_paused_when_it_ends(store: Store) -> None:
    hire(store)
    task = put(store)
    fence = go(store).fence
    pause(store, task, now=2)
    assert renew(store, [fence], now=2) == []
    resume(store, task, now=3)
    assert state(store, task) == "running"
    pause(store, task, now=4)
    release(store, fence, now=5)
    assert (state(store, task), drain(store)) == ("paused", [])
    resume(store, task, now=6)
    assert drain(store) == ["t"]


def test_a_task_behind_the_files_of_a_paused_task_says_what_helps(store: Store) -> None:
    hire(store)
    holder = put(store, "holder", files=("x.py",))
    fence = go(store).fence
    pause(store, holder, now=2)
    release(store, fence, now=3)
    [text] = waits(store, put(store, "next", files=("x.py",)))
    assert f"task {holder} holds; it is paused (`weft resume {holder}`" in text


def test_among_equals_in_a_full_queue_the_newest_leaves(store: Store) -> None:
    """Decided against seed 004, which throws out the oldest: docs/design/full-queue.md."""
    small = tuned(store, queue=3)
    old, middle, new = [put(small, name, now=now) for now, name in enumerate("abc")]
    with pytest.raises(QueueFull):
        put(small, "equal", now=3)
    assert [state(small, task) for task in (old, middle, new)] == ["ready"] * 3
    put(small, "urgent", now=4, klass=Class.INTERACTIVE)
    assert [state(small, task) for task in (old, middle, new)] == ["ready", "ready", "evicted"]
    put(small, "more urgent", now=5, klass=Class.INTERACTIVE, priority=Priority.CRITICAL)
    assert [state(small, task) for task in (old, middle)] == ["ready", "evicted"]


def test_a_full_queue_of_equals_serves_the_oldest_however_many_come(store: Store) -> None:
    """If the oldest left instead, none would ever wait long enough to be started."""
    small = tuned(store, queue=3)
    hire(small, slots=1)
    first = [put(small, name, demand={"worker:@": 1}) for name in "abc"]
    started = []
    for now in range(1, 7):
        for _ in range(4):  # more than leave
            with suppress(QueueFull):
                put(small, "late", now=now, demand={"worker:@": 1})
        grant = go(small, now=now)
        started.append(grant.task)
        finish(small, grant.fence, DONE, now=now)
    assert started[:3] == first
    assert started == sorted(started)


def test_a_full_queue_evicts_its_last_and_tells_why(store: Store) -> None:
    small = tuned(store, queue=3)
    first = put(small, "first", klass=Class.BATCH)
    needed = put(small, "needed", klass=Class.BATCH, priority=Priority.BACKGROUND)
    put(small, "needs it", needs=(str(needed),))
    assert put(small, "urgent", klass=Class.INTERACTIVE) == 4
    evicted = get_task(small, first)
    assert evicted.state is State.EVICTED
    assert evicted.reason == "the queue is full (3) and task 4 ranks higher"
    with pytest.raises(QueueFull, match="holds 3 tasks and all of them rank higher"):
        put(small, "late", klass=Class.BATCH)
    assert retry(small, first, now=1)  # a person may bring it back
    assert get_task(small, first).state is State.READY


def test_a_run_waits_for_its_place_among_the_runs(store: Store) -> None:
    hire(store, slots=9)
    set_limit(store, "runs", 1, now=0)
    first = run(store, NewTask(name="a"), name="R1")
    second = run(store, NewTask(name="b"), name="R2")
    third = run(store, NewTask(name="c"), name="R3")
    assert [listed.state for listed in list_runs(store)].count("waiting") == 2
    assert waits(store, second["b"]) == ["waiting for a place among the runs"]
    assert drain(store) == ["a"]
    assert end_finished(store, now=1) == []
    finish(store, first_fence(store), DONE, now=1)
    assert end_finished(store, now=2) == ["R1"]
    assert end_finished(store, now=2) == []
    assert drain(store) == ["b"]
    set_limit(store, "runs", 2, now=3)
    assert drain(store) == ["c"]
    assert (used(store, "runs"), get_run(store, "R3").state) == (2, "running")
    assert first != third
    with pytest.raises(InputError, match="There is a run R1 already"):
        run(store, name="R1")


def test_retrying_in_an_ended_run_does_not_escape_its_limits(store: Store) -> None:
    hire(store, slots=9)
    tasks = [NewTask(name=name, demand={"run:R/agents": 1}) for name in "abcdef"]
    numbers = run(store, *tasks)
    for task in numbers.values():
        cancel(store, task, now=1)
    end_finished(store, now=2)
    for task in numbers.values():
        with suppress(Refused):
            retry(store, task, now=3)
    assert len(drain(store)) <= 4  # run/agents


def test_learned_durations_change_the_order_within_a_run(store: Store) -> None:
    hire(store)
    paths = {"a": 5, "b": 3, "c": 1}
    numbers = run(store, *(NewTask(name=n, path_seconds=s, files=(n,)) for n, s in paths.items()))
    learn_paths(store, {numbers["c"]: 9.0})
    grant = go(store)
    assert grant.name == "c"
    learn_paths(store, {numbers["b"]: 8.0, numbers["a"]: 2.0})
    finish(store, grant.fence, DONE, now=2)
    assert go(store, now=3).name == "b"


@pytest.mark.parametrize(
    "members",
    [
        group(*"abc"),
        [*group("a", files=("src/**",)), *group("b", files=("src/x.py",))],
        [*group("a"), *group("b", needs=("a",))],
        [*group("a", pinned="w"), *group("b", pinned="v")],
    ],
    ids=["too wide", "same file", "one needs the other", "different workers"],
)
def test_a_group_that_could_never_start_as_a_whole_is_ordinary_tasks(
    store: Store, members: list[NewTask]
) -> None:
    hire(store, slots=2)
    hire(store, "v", slots=2)
    numbers = run(store, *members)
    rows = look(store.url, "SELECT gang FROM tasks")
    assert [row["gang"] for row in rows] == [None] * len(numbers)
    assert go(store).name == "a"


def test_the_members_of_a_gang_wait_for_each_other(store: Store) -> None:
    hire(store, slots=3)
    tasks = [
        NewTask(name="first", demand=SLOT, path_seconds=9),
        *group("a", "b"),
        NewTask(name="c", gang="g", demand=SLOT, needs=("first",)),
    ]
    numbers = run(store, *tasks)
    assert drain(store) == ["first"]
    assert waits(store, numbers["a"])[-1] == "waiting to start with c, which is waiting"
    put(store, "in the way", demand=SLOT, klass=Class.INTERACTIVE)
    [grant] = admit(store, "w", now=1)
    finish(store, first_fence(store), DONE, now=2)
    assert drain(store) == []
    finish(store, grant.fence, DONE, now=3)
    grants = admit(store, "w", now=4)
    assert sorted(grant.name for grant in grants) == ["a", "b", "c"]
    finish(store, grants[1].fence, AGAIN, now=5)
    assert go(store, now=6).task == grants[1].task  # a retry is an ordinary task


def test_a_gang_goes_on_without_a_member_that_was_cancelled(store: Store) -> None:
    hire(store)
    tasks = [NewTask(name="first"), *group("a"), *group("b", needs=("first",))]
    numbers = run(store, *tasks)
    assert drain(store) == ["first"]
    cancel(store, numbers["b"], now=1)
    assert drain(store) == ["a"]


def test_a_gang_starts_where_every_member_can_run(store: Store) -> None:
    files = [AgentFile(name=name, source=name) for name in ("x", "y")]
    hire(store, "only-x", agents=(files[0],))
    hire(store, "both", agents=tuple(files))
    hire(store, "pinned")
    run(store, *group("a", agent="x"), *group("b", agent="y"))
    assert not admit(store, "only-x", now=1)
    assert len(admit(store, "both", now=1)) == 2
    run(store, *group("c"), *group("d", pinned="pinned"), name="R2")
    assert not admit(store, "both", now=1)
    assert len(admit(store, "pinned", now=1)) == 2


def test_a_gang_is_one_turn_of_its_tenant(store: Store) -> None:
    hire(store, slots=20)
    run(store, *group(*"abc"), tenant="many")
    put(store, "m1", tenant="many", klass=Class.INTERACTIVE)
    put(store, "m2", tenant="many", klass=Class.INTERACTIVE)
    put(store, "m3", tenant="many", klass=Class.INTERACTIVE)
    put(store, "other", tenant="few", klass=Class.BATCH)
    assert [len(admit(store, "w", now=1)) for _ in range(2)] == [1, 1]
    assert go(store).name == "other"
    assert [go(store).name, len(admit(store, "w", now=1))] == ["m3", 3]


def test_a_pinned_task_is_for_its_worker_alone(store: Store) -> None:
    hire(store, "w")
    hire(store, "home")
    task = put(store, "mine", pinned="home")
    assert not admit(store, "w", now=1)
    assert not admit_task(store, "w", task, now=1)
    depart(store, "home", now=1)
    assert waits(store, task) == ["waiting for home, which is not present"]
    hire(store, "home", now=2)
    assert go(store, "home").task == task


def story(store: Store) -> dict[str, int]:
    hire(store)
    return run(
        store,
        NewTask(name="S", needs=("S.a", "S.b", "S.c")),
        NewTask(name="S.a", story="S", files=("x.py",), path_seconds=9),
        NewTask(name="S.b", story="S", files=("x.py", "y.py"), needs=("S.a",)),
        NewTask(name="S.c", story="S", files=("x*",)),
        NewTask(name="outside", files=("x.py",)),
    )


def test_subtasks_pass_their_claims_to_their_story(store: Store) -> None:
    numbers = story(store)
    first = go(store)
    assert first.name == "S.a"
    assert drain(store) == []  # its siblings intersect, and never run at once
    finish(store, first.fence, Outcome(state=State.GATING), now=1)
    held = look(store.url, "SELECT task, pattern FROM claims")
    assert {(row["task"], row["pattern"]) for row in held} == {
        (numbers["S"], pattern) for pattern in ("x*", "x.py", "y.py")
    }
    second = go(store, now=2)
    assert second.name in ("S.b", "S.c")  # what a sibling handed over binds others only
    finish(store, second.fence, Outcome(state=State.GATING), now=3)
    assert go(store, now=4).name in {"S.b", "S.c"} - {second.name}
    assert "waiting for x.py, which S is changing" in waits(store, numbers["outside"])
    cancel(store, numbers["S"], now=5)
    assert "waiting for x.py, which S is changing" not in waits(store, numbers["outside"])


def test_a_sibling_needs_the_candidate_and_others_need_the_landing(store: Store) -> None:
    hire(store)
    numbers = run(
        store,
        NewTask(name="S", needs=("S.a", "S.b")),
        NewTask(name="S.a", story="S", path_seconds=9),
        NewTask(name="S.b", story="S", needs=("S.a",)),
        NewTask(name="other", needs=("S.a",)),
    )
    finish(store, go(store).fence, Outcome(state=State.GATING), now=1)
    assert [state(store, numbers[name]) for name in ("S.b", "other", "S")] == [
        "ready",
        "waiting",
        "waiting",
    ]


def test_only_related_work_is_what_an_attempt_builds_on(store: Store) -> None:
    hire(store)
    names = ("S.a", "S.b", "need", "loner")
    numbers = run(
        store,
        NewTask(name="S", needs=("S.a", "S.b")),
        NewTask(name="S.a", story="S"),
        NewTask(name="S.b", story="S"),
        NewTask(name="need"),
        NewTask(name="loner"),
        NewTask(name="user", needs=("need",)),
    )
    for name in names:
        [grant] = admit_task(store, "w", numbers[name], now=0)
        outcome = Outcome(state=State.GATING, candidate=f"c-{name}", base="base")
        finish(store, grant.fence, outcome, now=1)

    def related(name: str) -> set[str]:
        return {*list_related_commits(store, numbers[name])}

    assert related("S") == related("S.a") == {"base", "c-S.a", "c-S.b"}
    assert related("user") == {"base", "c-need"}
    assert related("loner") == {"base", "c-loner"}


def test_a_file_held_by_a_pattern_hides_only_who_wants_it(store: Store) -> None:
    """A task set aside for one of its files must not hide those that share another with it."""
    hire(store)
    put(store, "holder", files=("lib/**",))
    assert drain(store) == ["holder"]
    put(store, "stuck", files=("lib/b.py", "x.py"))
    put(store, "free", files=("x.py",))
    assert drain(store) == ["free"]


def test_tasks_are_listed_and_counted_by_state(store: Store) -> None:
    hire(store)
    for name in "abc":
        put(store, name)
    go(store)
    assert count_states(store) == {State.RUNNING: 1, State.READY: 2}
    assert [task.name for task in list_tasks(store, [State.READY])] == ["b", "c"]
    assert [task.name for task in list_tasks(store, after=1, most=1)] == ["b"]
    assert find_task(store, "R", "a") is None
    run(store, NewTask(name="a"))
    read = find_task(store, "R", "a")
    assert read is not None
    assert read.id == 4
    with pytest.raises(NotFound):
        get_task(store, 99)


def test_a_parked_task_can_be_paused(store: Store) -> None:
    hire(store)
    task = put(store)
    finish(store, go(store).fence, PARKED, now=2)
    assert pause(store, task, now=3)
    assert not admit(store, "w", now=100)
    assert resume(store, task, now=101)
    assert go(store, now=101).task == task


def test_a_task_paused_while_it_ran_stays_so_when_it_is_to_be_parked(store: Store) -> None:
    hire(store)
    task = put(store)
    fence = go(store).fence
    pause(store, task, now=2)
    assert finish(store, fence, PARKED, now=3) is State.PAUSED
    assert not admit(store, "w", now=100)


def test_resuming_does_not_revive_a_cancelled_attempt(store: Store) -> None:
    hire(store)
    task = put(store)
    fence = go(store).fence
    cancel(store, task, now=2)
    retry(store, task, now=3)
    pause(store, task, now=4)
    resume(store, task, now=5)
    assert state(store, task) == "waiting"
    release(store, fence, now=6)
    assert go(store, now=7).attempt == 2


def test_a_person_who_reopens_a_task_gives_it_all_its_tries(store: Store) -> None:
    hire(store)
    task = put(store)
    failure = Outcome(state=State.READY, kind="crash", signature="same")
    states = [finish(store, go(store).fence, failure, now=n) for n in range(3)]
    assert states[-1] is State.BLOCKED
    retry(store, task, now=4)
    assert finish(store, go(store).fence, failure, now=5) is State.READY


def test_a_task_that_has_run_is_not_evicted(store: Store) -> None:
    hire(store)
    store = tuned(store, queue=1)
    first = put(store, "came back", klass=Class.BATCH)
    release(store, go(store).fence, now=2)
    with pytest.raises(QueueFull):
        put(store, "urgent", klass=Class.INTERACTIVE)
    assert state(store, first) == "ready"
