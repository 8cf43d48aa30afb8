"""Leases after they were granted: renewed, ended, handed over, and refused when out of date."""

from __future__ import annotations

import pytest

from databases import look
from store_helpers import (
    AGAIN,
    DAY,
    DONE,
    drain,
    go,
    hire,
    lease_state,
    put,
    snapshot,
    state,
    tuned,
    used,
)
from store_helpers import url as url
from weft.errors import AlreadyEnded, InputError, Refused, StaleFence
from weft.formats import clock
from weft.model import Class, LeaseState, NewRun, NewTask, Outcome, State, TaskRequest
from weft.store import Store
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.attempt_reports import count_failures, durations, report, report_all
from weft.store.event_log import history, read_events
from weft.store.leases import (
    adopt,
    extend,
    find_lost,
    free_proved_dead,
    get_lease,
    list_open,
    release,
    renew,
    reserve,
    suspect_overdue,
    take,
)
from weft.store.limit_table import list_stopped, resume_agent, set_limit, stop_agent
from weft.store.probe import probe
from weft.store.runs import submit_run
from weft.store.tasks import cancel, get_task, list_attempts, pause, retry
from weft.store.workers import depart

pytestmark = pytest.mark.each_store

LLM = {"llm": 1}
SLOT = {"worker:@": 1}


def claims(store: Store) -> dict[int, list[str]]:
    kinds: dict[int, list[str]] = {}
    for row in look(store.url, "SELECT task, pattern FROM claims ORDER BY task, pattern"):
        kinds.setdefault(row["task"], []).append(row["pattern"])
    return kinds


def test_a_sign_of_life_moves_the_deadline_and_lifts_suspicion(store: Store) -> None:
    hire(store)
    put(store)
    fence = go(store, now=0).fence
    assert get_lease(store, fence).deadline == 60
    assert renew(store, [fence, 99], now=30) == [99]
    assert get_lease(store, fence).deadline == 90
    assert [lease.fence for lease in suspect_overdue(store, now=91)] == [fence]
    assert get_lease(store, fence).state is LeaseState.SUSPECT
    assert renew(store, [fence], now=92) == []
    assert get_lease(store, fence).state is LeaseState.HELD
    assert suspect_overdue(store, now=93) == []


def test_a_cancelled_tasks_process_is_told_so_but_keeps_its_amounts(store: Store) -> None:
    hire(store)
    task = put(store, demand=LLM, files=("a.py",))
    fence = go(store).fence
    cancel(store, task, now=2)
    assert renew(store, [fence], now=3) == [fence]
    assert used(store, "llm") == 1
    assert claims(store) == {}
    for effect in (
        lambda: report(store, fence, {}, now=3),
        lambda: extend(store, fence, ["b.py"], now=3),
        lambda: finish(store, fence, DONE, now=3),
    ):
        before = snapshot(store.url)
        with pytest.raises(Refused):
            effect()
        assert snapshot(store.url) == before
    assert release(store, fence, now=4)
    assert used(store, "llm") == 0
    assert state(store, task) == "cancelled"


def test_releasing_counts_as_no_failure_and_happens_once(store: Store) -> None:
    hire(store)
    task = put(store, files=("a.py",))
    fence = go(store).fence
    assert release(store, fence, now=2, reason="shutdown")
    before = snapshot(store.url)
    assert not release(store, fence, now=3)
    assert snapshot(store.url) == before
    assert claims(store) == {task: ["a.py"]}
    assert look(store.url, "SELECT * FROM failures") == []
    again = go(store, now=4)
    assert (again.task, again.attempt) == (task, 2)
    assert [attempt.outcome for attempt in list_attempts(store, task)] == ["shutdown", None]


def test_progress_may_say_anything(store: Store) -> None:
    hire(store)
    task = put(store)
    fence = go(store).fence
    data = {"line": "x\0y", "task": 5, "run": "other", "fence": 99, "kind": "landed", "now": 0}
    report(store, fence, data, now=7)
    event = history(store, task)[-1]
    assert (event.kind, event.at, event.task, event.run) == ("progress", 7, task, None)
    assert event.data["line"] == "x\0y"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("naïve ✓ 織\t\n'; DROP TABLE", "naïve ✓ 織\t\n'; DROP TABLE"),
        ("a NUL \0 inside", "a NUL \N{REPLACEMENT CHARACTER} inside"),
        ("half \udc80 a character", "half ? a character"),
    ],
)
def test_a_result_may_hold_any_text(store: Store, said: str, kept: str) -> None:
    hire(store)
    task = put(store, text=said)
    outcome = Outcome(state=State.DONE, result=said, reason=said)
    assert finish(store, go(store).fence, outcome, now=2) is State.DONE
    read = get_task(store, task)
    assert (read.text, read.result, read.reason) == (kept, kept, kept)


def test_finishing_twice_changes_nothing_and_answers_the_same(store: Store) -> None:
    hire(store)
    put(store)
    fence = go(store).fence
    outcome = Outcome(state=State.DONE, result="first")
    assert finish(store, fence, outcome, now=2) is State.DONE
    before = snapshot(store.url)
    assert finish(store, fence, outcome, now=3) is State.DONE
    with pytest.raises(AlreadyEnded, match="the first answer counts"):
        finish(store, fence, Outcome(state=State.FAILED, kind="other"), now=3)
    assert snapshot(store.url) == before


def test_an_outcome_of_a_paused_task_is_answered_alike_each_time(store: Store) -> None:
    hire(store)
    task = put(store)
    fence = go(store).fence
    pause(store, task, now=2)
    first = finish(store, fence, AGAIN, now=3)
    assert state(store, task) == "paused"
    assert finish(store, fence, AGAIN, now=4) is first


@pytest.mark.parametrize("where", ["waiting", "offered", "running", "paused", "cancelled"])
def test_an_attempt_cannot_end_in_a_state_that_is_not_an_outcome(store: Store, where: str) -> None:
    hire(store)
    put(store)
    fence = go(store).fence
    with pytest.raises(InputError, match=f"cannot end in the state {where}"):
        finish(store, fence, Outcome(state=State(where)), now=2)
    assert lease_state(store, fence) == "held"


@pytest.mark.parametrize("fence", [0, 99, -1])
def test_a_fence_nobody_was_given_changes_nothing(store: Store, fence: int) -> None:
    hire(store)
    put(store)
    go(store)
    before = snapshot(store.url)
    for effect in (
        lambda: report(store, fence, {}, now=2),
        lambda: release(store, fence, now=2),
        lambda: finish(store, fence, DONE, now=2),
        lambda: extend(store, fence, ["a"], now=2),
        lambda: adopt(store, fence, "w", now=2),
        lambda: free_proved_dead(store, fence, now=2, proof="none"),
    ):
        with pytest.raises(StaleFence):
            effect()
    assert snapshot(store.url) == before


def test_a_gates_fence_finishes_no_task(store: Store) -> None:
    hire(store)
    fence = take(store, "gate", "R", {"gate:R": 1}, worker="w", now=1)
    assert fence is not None
    with pytest.raises(Refused):
        finish(store, fence, DONE, now=2)
    with pytest.raises(Refused):
        report(store, fence, {}, now=2)
    assert lease_state(store, fence) == "held"


def test_a_parked_task_keeps_its_files_and_comes_back_in_time(store: Store) -> None:
    hire(store)
    task = put(store, files=("a.py",), demand=LLM)
    parked = Outcome(state=State.PARKED, kind="rate_limit", reason="resets at noon", until=500)
    finish(store, go(store).fence, parked, now=2)
    assert (used(store, "llm"), claims(store)) == (0, {task: ["a.py"]})
    put(store, "other", files=("a.py",))
    assert not admit(store, "w", now=499)
    [wait] = probe(store, task, now=3)
    assert wait.text == f"parked until {clock(500)}: resets at noon"
    assert go(store, now=500).task == task
    assert "task_unparked" in {event.kind for event in history(store, task)}


def test_nothing_is_parked_for_ever(store: Store) -> None:
    hire(store)
    put(store)
    fence = go(store).fence
    with pytest.raises(InputError):
        finish(store, fence, Outcome(state=State.PARKED, kind="rate_limit"), now=2)


def test_the_same_failure_three_times_is_a_pattern(store: Store) -> None:
    hire(store)
    task = put(store, files=("a.py",))

    def fail(kind: str, signature: str) -> State:
        outcome = Outcome(state=State.READY, kind=kind, reason="boom", signature=signature)
        return finish(store, go(store).fence, outcome, now=2)

    seen = [fail("crash", "E1"), fail("crash", "E2"), fail("timeout", "E1"), fail("crash", "E1")]
    assert seen == [State.READY] * 4
    assert fail("crash", "E1") is State.BLOCKED
    read = get_task(store, task)
    assert (read.state, read.reason) == (
        State.BLOCKED,
        "failed 3 times in the same way: boom",
    )
    assert claims(store) == {}
    assert not admit(store, "w", now=3)
    assert [wait.kind for wait in probe(store, task, now=3)] == ["person"]
    assert retry(store, task, now=4)
    assert go(store, now=5).attempt == 6


def test_failures_without_a_signature_are_no_pattern(store: Store) -> None:
    hire(store)
    put(store)
    answers = [finish(store, go(store).fence, AGAIN, now=2) for _ in range(6)]
    assert answers == [State.READY] * 6


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        (Outcome(state=State.GATING), True),
        (Outcome(state=State.PARKED, kind="overload", until=9), True),
        (Outcome(state=State.READY, kind="crash"), True),
        (Outcome(state=State.READY, kind="conflict", sent_back=True), False),
        (Outcome(state=State.READY, kind="scope", files=("a.py", "b.py")), False),
        (Outcome(state=State.DONE), False),
        (Outcome(state=State.FAILED, kind="other"), False),
        (Outcome(state=State.BLOCKED, kind="other"), False),
    ],
)
def test_claims_stay_with_the_task_until_it_ends_or_is_sent_back(
    store: Store, outcome: Outcome, kept: bool
) -> None:
    hire(store)
    task = put(store, files=("a.py",))
    rival = put(store, "other", files=("a.py",))
    finish(store, go(store).fence, outcome, now=2)
    assert claims(store) == ({task: ["a.py"]} if kept else {})
    if outcome.state is not State.READY:
        assert drain(store, now=3) == ([] if kept else ["other"])
    assert state(store, rival) in ("ready", "running")


def test_an_extension_is_granted_at_once_or_names_the_holders(store: Store) -> None:
    hire(store)
    first = put(store, "a", files=("src/a.py",))
    second = put(store, "b", files=("lib/**",))
    a, b = go(store), go(store)
    assert extend(store, a.fence, ["src/b.py", "docs/*.md"], now=2) == {}
    assert claims(store)[first] == ["docs/*.md", "src/a.py", "src/b.py"]
    assert get_task(store, first).files == ("docs/*.md", "src/a.py", "src/b.py")
    before = snapshot(store.url)
    assert extend(store, a.fence, ["x.py", "lib/c.py"], now=3) == {"lib/**": second}
    assert snapshot(store.url) == before
    assert extend(store, b.fence, ["docs/index.md"], now=3) == {"docs/*.md": first}
    assert extend(store, a.fence, ["src/b.py"], now=4) == {}  # what it has already


def test_an_adopted_attempt_goes_on_under_a_new_fence(store: Store) -> None:
    hire(store, "w1", slots=1, host_limits={"port": 3})
    task = put(store, files=("a.py",), demand={**SLOT, **LLM, "host:@/port": 2})
    put(store, "next", demand=SLOT)
    old = go(store, "w1")
    with pytest.raises(StaleFence, match="in good hands"):
        adopt(store, old.fence, "w1", now=2)
    depart(store, "w1", now=2)
    hire(store, "w2", slots=1, now=3)
    second = put(store, "mine", demand=SLOT)
    mine = go(store, "w2", now=3)
    assert mine.task in (second, task + 1)
    fresh = adopt(store, old.fence, "w2", now=4)
    assert fresh > mine.fence
    [attempt] = list_attempts(store, task)
    assert (attempt.number, attempt.fence, attempt.worker) == (1, fresh, "w2")
    assert attempt.ended is None
    assert (state(store, task), used(store, "llm"), used(store, "worker:w2")) == ("running", 1, 2)
    assert claims(store) == {task: ["a.py"]}
    units = look(store.url, "SELECT unit, fence FROM lease_units ORDER BY unit")
    assert [(row["unit"], row["fence"]) for row in units] == [(0, fresh), (1, fresh)]
    assert get_lease(store, old.fence).ended == "adopted"
    assert not admit(store, "w2", now=5)  # above its slots, which only stops further ones
    assert finish(store, fresh, DONE, now=6) is State.DONE
    assert look(store.url, "SELECT * FROM lease_units") == []
    with pytest.raises(StaleFence):
        adopt(store, old.fence, "w2", now=7)


def test_an_adoption_is_nobodys_turn(store: Store) -> None:
    hire(store, "w1")
    hire(store, "w2")
    put(store, "a1", tenant="a")
    adopted = go(store, "w1")
    depart(store, "w1", now=2)
    put(store, "a2", tenant="a")
    put(store, "a3", tenant="a")
    put(store, "b1", tenant="b")
    assert go(store, "w2").name == "a2"
    adopt(store, adopted.fence, "w2", now=3)
    assert go(store, "w2").name == "b1"


def test_only_proof_frees_a_suspect_lease_and_only_once(store: Store) -> None:
    hire(store)
    task = put(store, demand=LLM, files=("a.py",))
    fence = go(store).fence
    assert not free_proved_dead(store, fence, now=2, proof="wrong")
    depart(store, "w", now=3)
    assert lease_state(store, fence) == "suspect"
    assert used(store, "llm") == 1
    assert free_proved_dead(store, fence, now=4, proof="its lock is free")
    assert not free_proved_dead(store, fence, now=5, proof="its lock is free")
    assert (used(store, "llm"), state(store, task)) == (0, "ready")
    assert claims(store) == {task: ["a.py"]}
    reaped = [event for event in history(store, task) if event.kind == "lease_reaped"]
    assert [event.data["proof"] for event in reaped] == ["its lock is free"]


def test_a_gate_is_taken_over_at_its_deadline(store: Store) -> None:
    hire(store, "w1")
    hire(store, "w2")
    submit_run(store, NewRun(id="R", repo="r"), [NewTask(name="a")], now=0)
    gate = {"gate:R": 1}
    first = take(store, "gate", "R", gate, worker="w1", now=0)
    assert first is not None
    assert take(store, "gate", "R", gate, worker="w2", now=60) is None
    assert renew(store, [first], now=50) == []
    assert take(store, "gate", "R", gate, worker="w2", now=100) is None
    second = take(store, "gate", "R", gate, worker="w2", now=111)
    assert second is not None
    assert second > first
    assert renew(store, [first], now=112) == [first]
    assert get_lease(store, first).ended == "taken_over"
    assert used(store, "gate:R") == 1
    depart(store, "w2", now=113)
    assert free_proved_dead(store, second, now=114, proof="sooner, on proof")
    assert take(store, "gate", "R", gate, worker="w1", now=115) is not None


def test_a_check_is_not_taken_over_by_time(store: Store) -> None:
    hire(store, slots=1)
    first = take(store, "check", "R", SLOT, worker="w", now=0)
    assert first is not None
    assert take(store, "check", "R", SLOT, worker="w", now=1e6) is None
    assert release(store, first, now=1e6)
    assert take(store, "check", "R", SLOT, worker="w", now=1e6) is not None
    with pytest.raises(InputError):
        take(store, "attempt", "R", SLOT, worker="w", now=1e6)


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_a_clock_jump_frees_nothing_and_breaks_no_fence(store: Store, jump: float) -> None:
    hire(store, now=2 * DAY)
    put(store, demand=LLM, now=2 * DAY)
    fence = go(store, now=2 * DAY).fence
    suspect_overdue(store, now=2 * DAY + jump)
    assert [lease.fence for lease in list_open(store)] == [fence]
    assert used(store, "llm", now=2 * DAY + jump) == 1
    assert renew(store, [fence], now=2 * DAY + jump) == []
    assert finish(store, fence, DONE, now=2 * DAY) is State.DONE


def test_successes_teach_how_long_such_work_takes(store: Store) -> None:
    hire(store)
    for number, seconds in enumerate((30, 50, 40)):
        put(store, f"t{number}", agent="a", stage="test", files=("x.py", "y.py")[:number])
        fence = go(store, now=100).fence
        finish(store, fence, DONE if number != 1 else AGAIN, now=100 + seconds)
        if number == 1:
            cancel(store, 2, now=150)
    assert durations(store, "a", "test") == [(2, 40), (0, 30)]
    assert durations(store, "a", "test", most=1) == [(2, 40)]
    assert durations(store, "b", "test") == []


def test_fences_grow_and_events_are_numbered_in_order(store: Store) -> None:
    hire(store)
    task = put(store)
    fences = []
    for _ in range(3):
        fences.append(go(store).fence)
        release(store, fences[-1], now=2)
    assert fences == sorted(set(fences))
    assert [attempt.fence for attempt in list_attempts(store, task)] == fences
    events = [event.id for event in read_events(store)]
    assert events == list(range(1, len(events) + 1))
    assert [event.id for event in read_events(store, after=3, most=2)] == [4, 5]


def test_adopting_twice_is_adopting_once(store: Store) -> None:
    hire(store, "w1")
    hire(store, "w2")
    put(store)
    old = go(store, "w1").fence
    depart(store, "w1", now=2)
    fresh = adopt(store, old, "w2", now=3)
    before = snapshot(store.url)
    assert adopt(store, old, "w2", now=4) == fresh
    assert snapshot(store.url) == before
    hire(store, "w3", now=5)
    with pytest.raises(StaleFence):
        adopt(store, old, "w3", now=5)


def test_nobody_adopts_a_process_of_an_earlier_boot(store: Store) -> None:
    hire(store, "w1", boot="monday")
    hire(store, "w2", boot="tuesday")
    put(store)
    fence = go(store, "w1").fence
    depart(store, "w1", now=2)
    with pytest.raises(Refused, match="not where the attempt's process is"):
        adopt(store, fence, "w2", now=3)


def test_there_is_one_gate_whatever_its_holder_asks_for(store: Store) -> None:
    hire(store)
    first = take(store, "gate", "R", {}, worker="w", now=0)
    assert first is not None
    assert take(store, "gate", "R", {}, worker="w", now=59) is None
    set_limit(store, "requests", 0, now=60)
    assert take(store, "gate", "R", {"requests": 1}, worker="w", now=61) is None
    assert lease_state(store, first) == "held"  # what cannot be taken is not taken over either
    second = take(store, "gate", "R", {}, worker="w", now=61)
    assert second is not None
    assert lease_state(store, first) == "released"


def test_checks_do_not_take_what_is_kept_free(store: Store) -> None:
    """Neither a gate, a check nor an attempt that wants more passes over who is reserved for."""
    store = tuned(store, bypasses=2)
    hire(store)
    set_limit(store, "llm", 2, now=0)
    put(store, "small", demand=LLM)
    running = go(store)
    put(store, "big", demand={"llm": 2}, klass=Class.INTERACTIVE)
    for number in range(3):
        put(store, f"other {number}")
        finish(store, go(store).fence, DONE, now=1)
    assert any(event.kind == "capacity_reserved" for event in read_events(store))
    assert take(store, "check", "R", LLM, worker="w", now=2) is None
    assert not reserve(store, running.fence, {"llm": 2}, now=2)
    assert take(store, "check", "R", {"requests": 1}, worker="w", now=2) is not None


def test_more_files_are_not_taken_from_those_kept_free(store: Store) -> None:
    store = tuned(store, bypasses=2)
    hire(store)
    set_limit(store, "llm", 2, now=0)
    put(store, "small", demand=LLM, files=("own",))
    running = go(store)
    big = put(store, "big", demand={"llm": 2}, files=("src/**",), klass=Class.INTERACTIVE)
    for number in range(3):
        put(store, f"other {number}")
        finish(store, go(store).fence, DONE, now=1)
    assert any(event.kind == "capacity_reserved" for event in read_events(store))
    before = snapshot(store.url)
    assert extend(store, running.fence, ["src/a.py"], now=2) == {"src/**": big}
    assert snapshot(store.url) == before
    assert extend(store, running.fence, ["docs/a.md"], now=2) == {}


def test_a_named_task_waits_for_the_turns_of_other_tenants(store: Store) -> None:
    """24: a third admission in a row is refused while another tenant has something to start."""
    hire(store)
    named = [put(store, name, tenant="a") for name in ("a1", "a2", "a3")]
    foreign = put(store, "b1", tenant="b", files=("f",))
    for task in named[:2]:
        assert admit_task(store, "w", task, now=1)
    assert admit_task(store, "w", named[2], now=1) == []
    assert admit_task(store, "w", foreign, now=1)
    assert admit_task(store, "w", named[2], now=1)
    # Another tenant that could not start anyway holds nobody up.
    put(store, "b2", tenant="b", files=("f",))
    more = [put(store, name, tenant="a") for name in ("a4", "a5")]
    assert all(admit_task(store, "w", task, now=1) for task in more)


def test_a_check_goes_first_where_the_reserved_one_waits_for_files(store: Store) -> None:
    """It may be the check of the very task that holds them."""
    store = tuned(store, bypasses=2)
    hire(store)
    set_limit(store, "llm", 2, now=0)
    put(store, "holder", files=("f",))
    finish(store, go(store).fence, Outcome(state=State.GATING), now=1)
    put(store, "big", demand={"llm": 2}, files=("f",), klass=Class.INTERACTIVE)
    for number in range(3):
        put(store, f"other {number}")
        finish(store, go(store).fence, DONE, now=1)
    assert any(event.kind == "capacity_reserved" for event in read_events(store))
    assert take(store, "check", "R", LLM, worker="w", now=2) is not None


@pytest.mark.parametrize("amount", [0, -1, 2**50 + 1])
def test_odd_amounts_are_refused_in_a_sentence(store: Store, amount: int) -> None:
    hire(store)
    put(store)
    fence = go(store).fence
    with pytest.raises(InputError, match="of llm"):
        reserve(store, fence, {"llm": amount}, now=2)
    with pytest.raises(InputError, match="of llm"):
        take(store, "check", "R", {"llm": amount}, worker="w", now=2)
    with pytest.raises(InputError, match="of llm"):
        put(store, "odd", demand={"llm": amount})


def test_more_is_reserved_where_the_attempt_is(store: Store) -> None:
    hire(store, host_limits={"ram_mb": 100})
    put(store)
    fence = go(store).fence
    assert not reserve(store, fence, {"host:@/ram_mb": 101}, now=2)
    assert reserve(store, fence, {"host:@/ram_mb": 100}, now=2)
    assert used(store, "host:h/ram_mb") == 100


def test_a_success_does_not_end_in_failure(store: Store) -> None:
    hire(store)
    put(store)
    fence = go(store).fence
    with pytest.raises(InputError, match="A success cannot end"):
        finish(store, fence, Outcome(state=State.FAILED), now=2)


def test_nobody_gives_signs_of_life_for_a_run(store: Store) -> None:
    submit_run(store, NewRun(id="R", repo="r"), [NewTask(name="t")], now=0)
    [lease] = list_open(store)
    assert renew(store, [lease.fence], now=1) == [lease.fence]
    assert suspect_overdue(store, now=DAY) == []


def test_handing_back_is_told_of(store: Store) -> None:
    hire(store)
    task = put(store)
    release(store, go(store).fence, now=2, reason="shutdown")
    assert [e.data["reason"] for e in history(store, task) if e.kind == "attempt_released"] == [
        "shutdown"
    ]


def test_many_attempts_report_in_one_step_and_learn_who_is_lost(store: Store) -> None:
    hire(store)
    first_task, two = put(store, "one"), put(store, "two")
    first, second = go(store), go(store)
    cancel(store, two, now=2)
    assert find_lost(store, [first.fence, second.fence, 99]) == [second.fence, 99]
    reports = [(first.fence, {"said": "hello"}), (second.fence, {"said": "too late"})]
    assert report_all(store, reports, now=3) == [second.fence]
    assert [e.data["said"] for e in history(store, first_task) if e.kind == "progress"] == ["hello"]
    assert not [e for e in history(store, two) if e.kind == "progress"]


def test_an_attempts_work_is_kept_with_it(store: Store) -> None:
    hire(store)
    task = put(store, request=TaskRequest(title="a\ud800", budget=5), attached={"said": "\ud800"})
    outcome = Outcome(
        state=State.PARKED,
        kind="rate_limit",
        until=9,
        candidate="c0ffee",
        base="ba5e",
        session="s1",
        tokens=7,
        micro_usd=12,
    )
    finish(store, go(store).fence, outcome, now=2)
    [attempt] = list_attempts(store, task)
    assert (attempt.candidate, attempt.base, attempt.session) == ("c0ffee", "ba5e", "s1")
    assert (attempt.tokens, attempt.micro_usd) == (7, 12)
    kept = get_task(store, task)
    assert (kept.request, kept.attached) == (
        TaskRequest(title="a?", budget=5),
        {"said": "\ud800"},
    )
    assert count_failures(store, task, "rate_limit") == 1
    assert count_failures(store, task, "crash") == 0


def test_a_stopped_agent_is_not_started_before_a_person_has_looked(store: Store) -> None:
    hire(store)
    task = put(store, agent="codex", demand={"agent:codex": 1})
    second = put(store, "other", agent="claude", demand={"agent:claude": 1})
    store.write(lambda tx: stop_agent(tx, "codex", "not logged in", now=1))
    assert list_stopped(store, now=1) == {"codex": "not logged in"}
    assert go(store).task == second
    assert not admit(store, "w", now=2)
    [wait] = probe(store, task, now=2)
    assert "agent codex is stopped: not logged in" in wait.text
    assert resume_agent(store, "codex", now=3)
    assert not resume_agent(store, "codex", now=3)
    assert go(store).task == task
