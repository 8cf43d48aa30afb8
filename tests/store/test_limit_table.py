"""Limits: whose they are, what changing them does, and amounts that are used up or numbered."""

from __future__ import annotations

import itertools

import pytest

from databases import look
from store_helpers import AGAIN, DAY, DONE, drain, go, hire, lease_state, put, snapshot, used
from store_helpers import url as url
from weft.config import DEFAULT_LIMITS, Stated
from weft.errors import InputError, LimitsDiffer
from weft.model import AgentFile, Limit, NewRun, NewTask, NewWorker, Outcome, State
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.event_log import read_events
from weft.store.leases import free_proved_dead, release, reserve
from weft.store.limit_table import differences, list_limits, penalise, set_limit
from weft.store.probe import probe
from weft.store.runs import end_finished, submit_run
from weft.store.tasks import cancel
from weft.store.workers import depart, list_workers, register

LLM = {"llm": 1}
PROVIDER = {"provider:p": 1}
DOLLAR = 1_000_000


def limit(store: Store, resource: str, *, now: float = 1) -> Limit | None:
    return next(
        (limit for limit in list_limits(store, now=now) if limit.resource == resource), None
    )


def effective(store: Store, resource: str, *, now: float = 1) -> int:
    stated = limit(store, resource, now=now)
    assert stated is not None
    return stated.effective


def test_a_new_store_starts_with_the_given_limits(store: Store) -> None:
    limits = {limit.resource: limit for limit in list_limits(store, now=0)}
    assert {name: limit.capacity for name, limit in limits.items()} == DEFAULT_LIMITS
    assert all(limit.effective == limit.capacity for limit in limits.values())
    assert all((limit.used, limit.owner) == (0, None) for limit in limits.values())


def test_a_limit_is_changed_with_an_event_and_tells_what_it_was(store: Store) -> None:
    assert set_limit(store, "llm", 3, now=5) == 12
    assert set_limit(store, "provider:p", 2, now=6) is None
    assert [
        (event.at, event.data["resource"], event.data["before"], event.data["capacity"])
        for event in read_events(store)
        if event.kind == "limit_set"
    ] == [(5, "llm", 12, 3), (6, "provider:p", None, 2)]


@pytest.mark.parametrize(
    ("resource", "capacity", "message"),
    [
        ("lmm", 3, "Did you mean llm?"),
        ("llm", -1, "cannot be -1; 0 pauses it"),
        ("provider:a\nb", 3, r"'provider:a\nb' has a character in its name that cannot be printed"),
        ("provider:\x1b[2J", 3, r"'provider:\x1b[2J' has a character"),
        ("worker:w", 3, "is set by worker w; change it there"),
        ("host:h/ram_mb", 3, "is set by host h; change it there"),
        ("agent:a", 3, "is set by h:a.md; change it there"),
    ],
)
def test_a_limit_that_is_not_ones_own_to_set_is_refused(
    store: Store, resource: str, capacity: int, message: str
) -> None:
    files = (AgentFile(name="a", source="h:a.md", max_concurrency=2),)
    hire(store, agents=files, host_limits={"ram_mb": 512})
    before = snapshot(store.url)
    with pytest.raises(InputError) as refused:
        set_limit(store, resource, capacity, now=1)
    assert message in str(refused.value)
    assert snapshot(store.url) == before


@pytest.mark.parametrize("odd", ["a\nb", "a\x1b[31m", "a\x7f", "a\u2028b"])
def test_no_limit_has_a_name_that_cannot_be_printed(store: Store, odd: str) -> None:
    before = snapshot(store.url)
    with pytest.raises(InputError, match="cannot be printed"):
        hire(store, odd)
    with pytest.raises(InputError, match="cannot be printed"):
        hire(store, host=odd, host_limits={"ram_mb": 1})
    with pytest.raises(InputError, match="cannot be printed"):
        hire(store, agents=(AgentFile(name=odd, source="s", max_concurrency=2),))
    with pytest.raises(InputError, match="cannot be printed"):
        store.write(lambda tx: penalise(tx, odd, now=1))
    assert snapshot(store.url) == before


def test_lowering_a_limit_kills_nothing_and_admits_nothing_until_it_fits(store: Store) -> None:
    hire(store, slots=20)
    for number in range(6):
        put(store, f"t{number}", demand=LLM)
    set_limit(store, "llm", 4, now=0)
    grants = [go(store) for _ in range(4)]
    set_limit(store, "llm", 2, now=2)
    assert {lease_state(store, grant.fence) for grant in grants} == {"held"}
    assert (used(store, "llm"), effective(store, "llm")) == (4, 2)
    for ended in (0, 1):
        finish(store, grants[ended].fence, DONE, now=3)
        assert not admit(store, "w", now=3)
    finish(store, grants[2].fence, DONE, now=3)
    assert drain(store) == ["t4"]


def test_a_limit_of_zero_pauses(store: Store) -> None:
    hire(store)
    set_limit(store, "llm", 0, now=0)
    task = put(store, demand=LLM)
    assert not admit(store, "w", now=1)
    assert [wait.text for wait in probe(store, task, now=1)] == [
        "waiting for the limit llm, which is paused"
    ]
    set_limit(store, "llm", 1, now=2)
    assert go(store).task == task


def test_a_process_configured_otherwise_is_refused_with_the_cure(store: Store) -> None:
    stated = {
        "llm": Stated(value=3, source="weft.toml"),
        "provider:p": Stated(value=2, source="WEFT_LIMIT_PROVIDER_P"),
        "runs": Stated(value=4, source="weft.toml"),
    }
    worker = NewWorker(id="w", slots=1, host="h")
    with pytest.raises(LimitsDiffer) as refused:
        register(store, worker, now=0, stated=stated)
    assert str(refused.value) == (
        "weft.toml says llm = 3, the store has 12: "
        "run `weft limits set llm 3`, or change weft.toml. "
        "WEFT_LIMIT_PROVIDER_P says provider:p = 2, the store has none: "
        "run `weft limits set provider:p 2`, or change WEFT_LIMIT_PROVIDER_P."
    )
    assert len(differences(store, stated)) == 2
    assert not list_workers(store, now=0)
    set_limit(store, "llm", 3, now=1)
    set_limit(store, "provider:p", 2, now=1)
    register(store, worker, now=2, stated=stated)
    assert not differences(store, stated)


def test_limits_of_a_worker_follow_it(store: Store) -> None:
    hire(store, slots=2)
    assert limit(store, "worker:w") == Limit(
        resource="worker:w", capacity=2, effective=2, used=0, owner="worker w"
    )
    hire(store, slots=5, now=1)
    assert effective(store, "worker:w") == 5
    hire(store, slots=5, now=2)
    changes = [event.data for event in read_events(store) if event.kind == "limit_set"]
    assert [(change["before"], change["capacity"]) for change in changes] == [(None, 2), (2, 5)]
    depart(store, "w", now=3)
    assert limit(store, "worker:w") is None


def test_limits_of_a_host_follow_whoever_registers_there(store: Store) -> None:
    hire(store, "w1", host_limits={"ram_mb": 1000, "port": 2})
    hire(store, "w2", host="h2", host_limits={"ram_mb": 500})
    put(store, "big", demand={"host:@/ram_mb": 800})
    assert not admit(store, "w2", now=1)
    assert go(store, "w1").demand == {"host:h/ram_mb": 800}
    hire(store, "w1", host_limits={"ram_mb": 700, "port": 2}, now=2)
    assert (used(store, "host:h/ram_mb"), effective(store, "host:h/ram_mb")) == (800, 700)


def test_an_agent_files_limit_is_replaced_when_the_file_is_reloaded(store: Store) -> None:
    def load(worker: str, most: int | None, source: str = "h:a.md") -> None:
        hire(store, worker, agents=(AgentFile(name="a", source=source, max_concurrency=most),))

    load("w1", 2)
    load("w2", 3)  # the same file, edited since
    assert limit(store, "agent:a") == Limit(
        resource="agent:a", capacity=3, effective=3, used=0, owner="h:a.md"
    )
    load("w1", None)
    assert limit(store, "agent:a") is None


def test_two_agent_files_that_disagree_are_refused_while_both_are_in_use(store: Store) -> None:
    mine = AgentFile(name="a", source="h1:a.md", max_concurrency=2)
    theirs = AgentFile(name="a", source="h2:a.md", max_concurrency=3)
    hire(store, "w1", agents=(mine,))
    before = snapshot(store.url)
    with pytest.raises(LimitsDiffer) as refused:
        hire(store, "w2", agents=(theirs,))
    assert str(refused.value) == (
        "Agent a: h2:a.md says max_concurrency 3, but worker w1 reads 2 from h1:a.md; "
        "make the two files agree."
    )
    assert snapshot(store.url) == before
    agreeing = AgentFile(name="a", source="h2:a.md", max_concurrency=2)
    hire(store, "w2", agents=(agreeing,))
    depart(store, "w1", now=1)
    hire(store, "w2", agents=(theirs,))
    assert effective(store, "agent:a") == 3


def test_an_agent_limit_binds_across_workers(store: Store) -> None:
    only_one = AgentFile(name="lead", source="h:lead.md", max_concurrency=1)
    for worker in ("w1", "w2"):
        hire(store, worker, agents=(only_one,))
    for name in "ab":
        put(store, name, agent="lead", demand={"agent:lead": 1})
    assert go(store, "w1").name == "a"
    assert not admit(store, "w2", now=1)


def test_a_runs_limits_come_from_the_templates_and_go_with_it(store: Store) -> None:
    set_limit(store, "stage/test", 2, now=0)
    run = NewRun(id="R", repo="r", limits={"agents": 7, "implement": 5})
    numbers = submit_run(store, run, [NewTask(name="a")], now=1)
    own = {limit.resource: limit.capacity for limit in list_limits(store, now=1) if limit.owner}
    assert own == {
        "gate:R": 1,
        "run:R/agents": 7,
        "run:R/teams": 2,
        "stage:R/test": 2,
        "stage:R/implement": 5,
        "stage:R/review": 1,
        "stage:R/judge": 1,
    }
    set_limit(store, "stage/test", 9, now=2)
    assert effective(store, "stage:R/test") == 2
    assert set_limit(store, "stage:R/test", 4, now=2) == 2
    cancel(store, numbers["a"], now=3)
    end_finished(store, now=3)
    assert not [limit for limit in list_limits(store, now=4) if limit.owner]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (NewRun(id="R", repo="r", limits={"agents": -1}), "run:R/agents cannot be -1; 0 pauses it"),
        (NewRun(id="R", repo="r", limits={"test": -3}), "stage:R/test cannot be -3"),
        (NewRun(id="R", repo="r", limits={"a\nb": 1}), "cannot be printed"),
        (NewRun(id="a/b", repo="r"), "cannot be called 'a/b'"),
        (NewRun(id="/", repo="r"), "cannot be called '/'"),
        (NewRun(id="", repo="r"), "cannot be called ''"),
        (NewRun(id="a\nb", repo="r"), "cannot be printed"),
    ],
)
def test_a_run_whose_limits_cannot_be_is_refused(store: Store, run: NewRun, message: str) -> None:
    before = snapshot(store.url)
    with pytest.raises(InputError) as refused:
        submit_run(store, run, [NewTask(name="t")], now=0)
    assert message in str(refused.value)
    assert snapshot(store.url) == before


def test_a_penalty_lowers_a_provider_for_every_process(store: Store) -> None:
    hire(store, slots=50)
    for number in range(13):
        put(store, f"t{number}", demand=PROVIDER)
    with open_store(store.url) as again:
        worse = [again.write(lambda tx: penalise(tx, "p", now=0)) for _ in range(5)]
        assert worse == [1, 2, 3, 4, 4]
    assert effective(store, "provider:p", now=0) == 12 // 5
    assert drain(store, now=0) == ["t0", "t1"]
    waits = probe(store, 3, now=0)
    assert [wait.text for wait in waits] == [
        "waiting for provider p, 2 of 2 busy (lowered from 12 by rate limits)"
    ]
    assert [effective(store, "provider:p", now=at) for at in (60, 120, 180)] == [3, 4, 6]
    assert len(drain(store, now=240)) == 11  # no limit of its own, and no penalty any more


def test_successes_ease_a_penalty(store: Store) -> None:
    hire(store)
    set_limit(store, "provider:p", 4, now=0)
    store.write(lambda tx: penalise(tx, "p", now=0))
    for number in range(5):
        assert effective(store, "provider:p") == 2
        put(store, f"t{number}", demand=PROVIDER)
        finish(store, go(store).fence, DONE, now=1)
    assert effective(store, "provider:p") == 4


def test_a_penalty_never_raises_what_is_paused_or_small(store: Store) -> None:
    store.write(lambda tx: penalise(tx, "p", now=0))
    set_limit(store, "provider:p", 0, now=0)
    assert effective(store, "provider:p", now=0) == 0
    set_limit(store, "provider:p", 1, now=0)
    assert effective(store, "provider:p", now=0) == 1


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_a_clock_jump_neither_frees_nor_exceeds_a_limit(store: Store, jump: float) -> None:
    hire(store, now=2 * DAY)
    set_limit(store, "llm", 1, now=2 * DAY)
    for name in "ab":
        put(store, name, demand=LLM, now=2 * DAY)
    first = go(store, now=2 * DAY)
    assert not admit(store, "w", now=2 * DAY + jump)
    assert used(store, "llm", now=2 * DAY + jump) == 1
    finish(store, first.fence, DONE, now=2 * DAY + jump)
    assert go(store, now=2 * DAY + jump).fence > first.fence


def budgeted(store: Store, dollars: int, *names: str) -> dict[str, int]:
    hire(store, slots=20)
    tasks = [NewTask(name=name, demand={"run:R/usd": 3 * DOLLAR}) for name in names]
    run = NewRun(id="R", repo="r", limits={"usd": dollars * DOLLAR})
    return submit_run(store, run, tasks, now=0)


def spent(dollars: int, state: State = State.DONE) -> Outcome:
    return Outcome(state=state, spent={"run:R/usd": dollars * DOLLAR})


def test_a_budget_counts_what_is_reserved_and_what_was_spent(store: Store) -> None:
    numbers = budgeted(store, 10, *"abcde")
    a, b, c = go(store), go(store), go(store)
    assert used(store, "run:R/usd") == 9 * DOLLAR
    assert not admit(store, "w", now=1)
    finish(store, a.fence, spent(1), now=2)
    assert used(store, "run:R/usd") == 7 * DOLLAR
    d = go(store)
    finish(store, b.fence, spent(3), now=2)
    release(store, c.fence, spent={"run:R/usd": 0}, now=2)  # it came to nothing
    assert used(store, "run:R/usd") == 7 * DOLLAR
    assert go(store).name == "c"
    assert not admit(store, "w", now=3)
    assert [wait.subject for wait in probe(store, numbers["e"], now=3)] == ["run:R/usd"]
    finish(store, d.fence, spent(0), now=4)
    assert go(store).name == "e"


def test_what_is_spent_is_read_off_the_last_settlement(store: Store) -> None:
    """And is the sum of all, in whatever order they come."""
    budgeted(store, 100, *"abcdefg")
    fences = [go(store).fence for _ in range(7)]
    for number, fence in enumerate(reversed(fences)):
        finish(store, fence, spent(number), now=2)
    rows = look(store.url, "SELECT * FROM spending ORDER BY number")
    assert [row["fence"] for row in rows] == fences[::-1]
    sums = list(itertools.accumulate(row["amount"] for row in rows))
    assert [row["total"] for row in rows] == sums
    assert used(store, "run:R/usd") == sums[-1] == 21 * DOLLAR


def test_an_overshoot_of_the_budget_stops_admissions(store: Store) -> None:
    budgeted(store, 10, *"abc")
    finish(store, go(store).fence, spent(25), now=1)
    assert used(store, "run:R/usd") == 25 * DOLLAR
    assert not admit(store, "w", now=2)
    set_limit(store, "run:R/usd", 28 * DOLLAR, now=3)
    assert go(store).name == "b"


def test_a_running_attempt_may_reserve_if_it_fits(store: Store) -> None:
    budgeted(store, 10, *"ab")
    a = go(store)
    more = {"run:R/usd": 7 * DOLLAR}
    assert reserve(store, a.fence, more, now=2)
    assert used(store, "run:R/usd") == 7 * DOLLAR
    assert reserve(store, a.fence, more, now=2)  # a total: again is no more
    assert reserve(store, a.fence, {"run:R/usd": DOLLAR}, now=2)
    assert not reserve(store, a.fence, {"run:R/usd": 11 * DOLLAR}, now=2)
    assert used(store, "run:R/usd") == 7 * DOLLAR
    assert go(store).name == "b"
    finish(store, a.fence, spent(2), now=3)
    assert used(store, "run:R/usd") == 5 * DOLLAR


def test_only_what_is_used_up_can_be_spent(store: Store) -> None:
    hire(store)
    put(store, demand=LLM)
    fence = go(store).fence
    before = snapshot(store.url)
    with pytest.raises(InputError, match="llm is not used up"):
        finish(store, fence, Outcome(state=State.DONE, spent={"llm": 1}), now=2)
    assert snapshot(store.url) == before


def test_ports_are_the_lowest_free_numbers_and_never_given_twice(store: Store) -> None:
    hire(store, host_limits={"port": 4})
    ports = "host:h/port"
    for number, amount in enumerate((2, 1, 1, 1)):
        put(store, f"t{number}", demand={"host:@/port": amount})
    a, b, c = go(store), go(store), go(store)
    assert [grant.units for grant in (a, b, c)] == [{ports: (0, 1)}, {ports: (2,)}, {ports: (3,)}]
    assert not admit(store, "w", now=1)
    finish(store, a.fence, AGAIN, now=2)
    assert go(store).units == {ports: (0, 1)}  # the same task, again first in order
    finish(store, b.fence, DONE, now=3)
    assert go(store).units == {ports: (2,)}


def test_a_gang_gets_different_ports(store: Store) -> None:
    hire(store, host_limits={"port": 3})
    tasks = [NewTask(name=name, gang="g", demand={"host:@/port": 1}) for name in "abc"]
    submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
    units = [grant.units["host:h/port"] for grant in admit(store, "w", now=1)]
    assert units == [(0,), (1,), (2,)]


@pytest.mark.parametrize("state", [State.DONE, State.READY, State.PARKED])
def test_what_nobody_says_was_saved_is_spent(store: Store, state: State) -> None:
    budgeted(store, 10, "a")
    until = 9 if state is State.PARKED else None
    finish(store, go(store).fence, Outcome(state=state, until=until), now=2)
    assert used(store, "run:R/usd") == 3 * DOLLAR


def test_a_cancelled_or_lost_attempt_has_spent_what_it_reserved(store: Store) -> None:
    numbers = budgeted(store, 20, *"abc")
    a, b, c = go(store), go(store), go(store)
    cancel(store, numbers["a"], now=2)
    release(store, a.fence, now=3, spent={"run:R/usd": DOLLAR})
    assert used(store, "run:R/usd") == 7 * DOLLAR
    release(store, b.fence, now=3)
    assert used(store, "run:R/usd") == 7 * DOLLAR
    depart(store, "w", now=4)
    assert free_proved_dead(store, c.fence, now=5, proof="test")
    assert used(store, "run:R/usd", now=6) == 7 * DOLLAR


def test_a_new_owner_is_known_even_if_it_says_the_same(store: Store) -> None:
    for source in ("one.md", "two.md"):
        agent = AgentFile(name="a", source=source, max_concurrency=2)
        hire(store, "w", agents=(agent,))
        stated = limit(store, "agent:a")
        assert stated is not None
        assert stated.owner == source
