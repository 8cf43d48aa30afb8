"""Teams in the store: claims once, amounts of each entrant, dollars reserved first, one winner."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from databases import look
from store_helpers import drain, go, hire, put, state, url, used
from weft.candidate_records import CheckVerdict
from weft.errors import NotFound, Refused
from weft.model import NewRun, NewTask, Outcome, Stage, State, TaskRequest, TeamRequest
from weft.store import Store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.gate import accept_entrant, complete, intend, read_open, record_verdict, reject
from weft.store.leases import extend, fix_team_base, list_open, release, take
from weft.store.limit_table import list_limits, set_limit
from weft.store.runs import submit_run
from weft.store.tasks import cancel, find_task, list_run, pause, resume, retry, skip
from weft.store.team_rows import TeamView, find_team
from weft.store.teams import choose_entrant, hedge, list_slow_hedges
from weft.store.workers import depart

pytestmark = pytest.mark.each_store

__all__ = ["url"]

MADE = Outcome(state=State.GATING, candidate="c", base="b")
CRASHED = Outcome(state=State.READY, kind="crash")
TOO_LONG = Outcome(state=State.READY, kind="timeout", reason="it took too long")


def pipeline(agent: str, *, run: str = "R", usd: int = 0) -> tuple[Stage, ...]:
    demand = {"worker:@": 1, f"agent:{agent}": 1, f"run:{run}/agents": 1, "requests": 1}
    dollars = {f"run:{run}/usd": usd} if usd else {}
    return (Stage(name="implement", agent=agent, demand={**demand, **dollars}),)


def team(*agents: str, run: str = "R", usd: int = 0, **fields: object) -> TeamRequest:
    total = usd * (len(agents) + 1)
    pipelines = tuple(pipeline(agent, run=run, usd=usd) for agent in agents)
    request = TeamRequest(strategy="best-of", pipelines=pipelines, micro_usd=total)
    return replace(request, **fields)


def start(store: Store, request: TeamRequest, *, run: str = "R", **limits: int) -> int:
    """Submit a run whose task `t` is for a team; return the task."""
    task = NewTask(name="t", files=("f",), request=TaskRequest(title="T", team=request))
    new = NewRun(id=run, repo="r", limits=limits)
    return submit_run(store, new, [task], now=0)["t"]


def tell(store: Store, task: int, number: int, *, passes: bool, now: float = 2) -> None:
    """Let the gate pass or reject the candidate of an entrant."""
    entrant = next(e for e in view(store, task).entrants if e.number == number)
    fence = take(store, "gate", "R", {"gate:R": 1}, worker="w", now=now)
    assert fence is not None
    entry = next(e for e in read_open(store, "R").entries if e.tasks == (entrant.task,))
    if passes:
        tree = f"tree{number}"
        accept_entrant(store, fence, "R", entry.id, tree=tree, lines=number, tests=(), now=now)
    else:
        reject(store, fence, "R", [entry.id], "red", f"{number} is red", now=now)
    release(store, fence, now=now)


def view(store: Store, task: int) -> TeamView:
    found = find_team(store, task)
    assert found is not None
    return found


def claims(store: Store) -> list[tuple[int, str]]:
    rows = look(store.url, "SELECT task, pattern FROM claims ORDER BY task, pattern")
    return [(row["task"], row["pattern"]) for row in rows]


def land(store: Store, now: float = 5) -> None:
    """Land the only entry of the queue."""
    fence = take(store, "gate", "R", {"gate:R": 1}, worker="w", now=now)
    assert fence is not None
    rows = read_open(store, "R")
    [entry] = [entry for entry in rows.entries if entry.state == "queued"]
    landing = intend(
        store,
        fence,
        "R",
        old="b",
        new="n",
        tree="x",
        entries=[entry.id],
        commits=["n"],
        revision=rows.revision,
        every_commit=False,
        now=now,
    )
    complete(store, fence, "R", landing.sequence, now=now)
    release(store, fence, now=now)


def test_the_claims_of_a_team_are_held_once_and_its_entrants_run_at_once(store: Store) -> None:
    hire(store)
    task = start(store, team("a", "b", "c"))
    outsider = put(store, "outsider", files=("f",))
    assert drain(store) == ["t/1", "t/2", "t/3"]
    assert claims(store) == [(task, "f")]
    assert state(store, outsider) == "ready"
    assert used(store, f"team:{task}/members") == 3
    assert used(store, "run:R/teams") == 1
    assert extend(store, list_open(store)[-1].fence, ["g"], now=1) == {}
    assert claims(store) == [(task, "f"), (task, "g")]


def test_the_winner_lands_and_all_others_are_stopped(store: Store) -> None:
    hire(store)
    task = start(store, team("a", "b"))
    first, second = go(store), go(store)
    finish(store, first.fence, MADE, now=2)
    finish(store, second.fence, MADE, now=2)
    tell(store, task, 2, passes=True)
    assert view(store, task).state == "open"
    tell(store, task, 1, passes=True)
    assert view(store, task).winner == 1
    assert state(store, second.task) == "cancelled"
    land(store)
    assert [state(store, number) for number in (task, first.task)] == ["done", "done"]
    assert claims(store) == []
    assert [lease.kind for lease in list_open(store)] == ["run"]


def test_a_hedge_starts_its_second_entrant_only_after_a_failure(store: Store) -> None:
    hire(store)
    task = start(store, team("a", "b", strategy="hedge", at_once=False))
    first = go(store)
    assert drain(store) == []
    finish(store, first.fence, TOO_LONG, now=2)
    second = go(store, now=3)
    assert second.agent == "b"
    finish(store, second.fence, MADE, now=4)
    tell(store, task, 2, passes=True)
    assert view(store, task).winner == 2


def test_a_hedge_starts_another_when_the_attempt_is_slower_than_nine_of_ten(store: Store) -> None:
    hire(store)
    done = Outcome(state=State.DONE)
    for number in range(10):
        put(store, f"old{number}", agent="a", stage="implement", demand={"worker:@": 1})
        finish(store, go(store, now=0).fence, done, now=10)
    task = start(store, team("a", "b", strategy="hedge", at_once=False))
    go(store, now=20)
    assert list_slow_hedges(store, now=29) == []
    assert list_slow_hedges(store, now=31) == [task]
    assert hedge(store, task, now=31)
    assert not hedge(store, task, now=31)
    assert go(store, now=32).name == "t/2"


def test_a_team_starts_only_with_its_place_and_its_dollars(store: Store) -> None:
    hire(store)
    start(store, team("a", "b", usd=10), teams=1, usd=40)
    request = TaskRequest(team=team("a", "b", usd=10))
    late = NewTask(name="late", files=("g",), request=request)
    submit_run(store, NewRun(id="S", repo="r", limits={"teams": 0}), [late], now=0)
    assert drain(store) == ["t/1", "t/2"]
    assert used(store, "run:R/usd") == 30  # two entrants, and the attempt after their failures


def test_a_team_whose_dollars_do_not_fit_does_not_start_at_all(store: Store) -> None:
    hire(store)
    start(store, team("a", "b", usd=10), usd=29)
    assert drain(store) == []
    assert claims(store) == []


def test_entrants_wait_for_members_and_never_keep_capacity_from_other_tasks(store: Store) -> None:
    hire(store)
    set_limit(store, "team/members", 1, now=0)
    task = start(store, team("a", "b"))
    assert drain(store) == ["t/1"]
    for number in range(30):  # after 20 bypasses another task would get a reservation
        put(store, f"p{number}", demand={"worker:@": 1, "requests": 1})
        grant = go(store)
        assert grant.name == f"p{number}"
        finish(store, grant.fence, Outcome(state=State.DONE), now=1)
    assert look(store.url, "SELECT * FROM reservation WHERE reserved") == []
    assert used(store, f"team:{task}/members") == 1


def test_the_reserved_dollars_cover_all_that_the_entrants_spend(store: Store) -> None:
    hire(store)
    task = start(store, team("a", "b", usd=10), usd=100)
    grants = [go(store), go(store)]
    for grant in grants:
        assert used(store, "run:R/usd") == 30
        spent = {f"team:{task}/usd": 7}
        finish(store, grant.fence, replace(TOO_LONG, spent=spent), now=2)
    last = go(store, now=3)
    assert last.name == "t/3"
    finish(store, last.fence, replace(TOO_LONG, spent={f"team:{task}/usd": 9}), now=4)
    assert state(store, task) == "blocked"
    assert used(store, "run:R/usd") == 23
    retry(store, task, now=5)
    again = go(store, now=6)
    assert used(store, "run:R/usd") == 53
    release(store, again.fence, now=7, spent={f"team:{task}/usd": 1})
    cancel(store, task, now=8)
    assert used(store, "run:R/usd") == 24


def test_an_entrant_that_cannot_be_paid_any_more_is_out(store: Store) -> None:
    """A crash counts as all that was reserved; without this rule the team would wait for ever."""
    hire(store)
    task = start(store, team("a", "a", usd=10, strategy="hedge", at_once=False), usd=100)
    for _ in range(3):
        grant = go(store)
        release(store, grant.fence, now=2)
    assert drain(store, now=3) == []
    assert state(store, task) == "blocked"


def test_none_green_is_tried_once_more_and_then_needs_a_person(store: Store) -> None:
    hire(store)
    task = start(store, team("a", "b"))
    for grant in (go(store), go(store)):
        finish(store, grant.fence, MADE, now=2)
    for number in (1, 2):
        tell(store, task, number, passes=False)
    last = go(store, now=3)
    events = look(store.url, "SELECT data FROM events WHERE kind = 'entrants_failed'")
    assert "Entrant 1: 1 is red" in events[0]["data"]
    assert "Entrant 2: 2 is red" in events[0]["data"]
    finish(store, last.fence, MADE, now=4)
    tell(store, task, 3, passes=False, now=5)
    row = find_task(store, "R", "t")
    assert row is not None
    assert row.state is State.BLOCKED
    assert "weft review R/t --compare" in row.reason
    assert claims(store) == []


def test_a_person_chooses_a_candidate_that_no_check_passed(store: Store) -> None:
    hire(store)
    task = start(store, team("a", "b"))
    grants = [go(store), go(store)]
    finish(store, grants[0].fence, MADE, now=2)
    tell(store, task, 1, passes=False)
    with pytest.raises(Refused, match="no candidate"):
        choose_entrant(store, task, 2, now=3)
    with pytest.raises(NotFound, match="no entrant 9"):
        choose_entrant(store, task, 9, now=3)
    choose_entrant(store, task, 1, now=3)
    assert state(store, grants[1].task) == "cancelled"
    assert claims(store) == [(task, "f")]
    with pytest.raises(Refused, match="has its winner"):
        choose_entrant(store, task, 1, now=3)
    land(store)
    assert state(store, task) == "done"


def test_a_chosen_candidate_that_fails_again_is_made_again_as_any_task(store: Store) -> None:
    hire(store)
    task = start(store, team("a", "b"))
    grants = [go(store), go(store)]
    for grant in grants:
        finish(store, grant.fence, MADE, now=2)
    tell(store, task, 1, passes=False)
    tell(store, task, 2, passes=True)
    fence = take(store, "gate", "R", {"gate:R": 1}, worker="w", now=4)
    assert fence is not None
    [entry] = [entry for entry in read_open(store, "R").entries if entry.state == "queued"]
    reject(store, fence, "R", [entry.id], "conflict", "trunk moved", now=4)
    grant = go(store, now=5)
    assert (grant.task, grant.attempt) == (grants[1].task, 2)
    assert f"team:{task}/members" not in grant.demand
    assert claims(store) == [(task, "f"), (grants[1].task, "f")]


def test_all_entrants_start_from_the_commit_of_the_first(store: Store) -> None:
    hire(store)
    start(store, team("a", "b"))
    first, second = go(store), go(store)
    assert fix_team_base(store, first.fence, "one") == "one"
    assert fix_team_base(store, second.fence, "two") == "one"


def test_an_entrant_is_tried_again_after_a_crash_and_is_out_after_a_failure(store: Store) -> None:
    hire(store)
    task = start(store, team("a", "b"))
    first = go(store)
    finish(store, first.fence, CRASHED, now=2)
    assert drain(store, now=3) == ["t/1", "t/2"]
    blocked = Outcome(state=State.BLOCKED, kind="other", reason="no way")
    finish(store, list_open(store)[-1].fence, blocked, now=4)
    assert [entrant.result for entrant in view(store, task).entrants] == ["open", "failed"]
    assert claims(store) == [(task, "f")]


def test_the_verbs_of_people_concern_the_task_of_the_team(store: Store) -> None:
    hire(store)
    task = start(store, team("a", "b"))
    first = go(store)
    with pytest.raises(Refused, match="weft skip R/t"):
        skip(store, first.task, now=2)
    assert pause(store, task, now=3)
    assert drain(store, now=3) == []
    assert resume(store, task, now=4)
    assert drain(store, now=4) == ["t/2"]
    skip(store, task, now=5)
    assert {row.state for row in list_run(store, "R")} == {State.SKIPPED, State.CANCELLED}


def test_a_held_back_team_starts_when_a_person_lets_it_go(store: Store) -> None:
    hire(store)
    request = TaskRequest(team=team("a", "b"), held="not yet")
    [task] = submit_run(
        store,
        NewRun(id="R", repo="r"),
        [NewTask(name="t", files=("f",), request=request)],
        now=0,
    ).values()
    assert drain(store) == []
    retry(store, task, now=1)
    assert drain(store) == ["t/1", "t/2"]


RESULTS = (MADE, MADE, MADE, TOO_LONG, CRASHED, None)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_in_whatever_order_one_candidate_lands_or_a_person_is_asked(
    store: Store, seed: int
) -> None:
    """Entrants finish, fail, crash and are handed back, the gate passes and rejects, in any order:
    no limit is exceeded, claims are held once, and all that was taken is given back."""
    chance = random.Random(seed)
    hire(store, slots=3)
    request = team(*"abc"[: chance.randint(2, 3)], usd=10)
    if chance.random() < 0.4:
        request = replace(request, strategy="hedge", at_once=False)
    task = start(store, request, usd=100)
    now, steps = 1.0, 0
    while state(store, task) not in ("done", "blocked") and steps < 200:
        now, steps = now + 1, steps + 1
        _do_something(store, task, chance, now)
        _assert_sound(store, task)
    assert steps < 200
    if state(store, task) == "done":
        rows = [row for row in list_run(store, "R") if row.id != task]
        assert sorted(row.state for row in rows if row.state is State.DONE) == [State.DONE]
    for lease in list_open(store):
        if lease.kind == "attempt":
            release(store, lease.fence, now=now)
    assert {lease.kind for lease in list_open(store)} <= {"run"}
    assert claims(store) == []


def _do_something(store: Store, task: int, chance: random.Random, now: float) -> None:
    attempts = [lease for lease in list_open(store) if lease.kind == "attempt"]
    queued = [entry for entry in read_open(store, "R").entries if entry.state == "queued"]
    choice = chance.random()
    if queued and choice < 0.4:
        entry = chance.choice(queued)
        if entry.story == task:
            land(store, now)
            return
        [number] = [e.number for e in view(store, task).entrants if e.task == entry.tasks[0]]
        tell(store, task, number, passes=chance.random() < 0.5, now=now)
    elif attempts and choice < 0.8:
        lease = chance.choice(attempts)
        outcome = chance.choice(RESULTS)
        try:
            if outcome is None:
                release(store, lease.fence, now=now)
            else:
                finish(store, lease.fence, outcome, now=now)
        except Refused:
            release(store, lease.fence, now=now)
    else:
        admit(store, "w", now=now)


def _assert_sound(store: Store, task: int) -> None:
    limits: Mapping[str, tuple[int, int]] = {
        limit.resource: (limit.used, limit.capacity) for limit in list_limits(store, now=0)
    }
    assert [name for name, (used_, most) in limits.items() if used_ > most] == []
    assert {holder for holder, _ in claims(store)} <= {task}
    landed = look(store.url, "SELECT * FROM entries WHERE state IN ('landing', 'landed')")
    assert len(landed) <= 1


def test_a_team_survives_the_loss_of_its_worker(store: Store) -> None:
    hire(store)
    hire(store, "other")
    task = start(store, team("a", "b"))
    first = go(store)
    release(store, first.fence, now=2)
    depart(store, "w", now=3)
    assert drain(store, "other", now=4) == ["t/1", "t/2"]
    assert view(store, task).state == "open"


def test_a_verdict_on_tests_is_part_of_the_choice(store: Store) -> None:
    hire(store)
    task = start(store, replace(team("a", "b")))
    for grant in (go(store), go(store)):
        finish(store, grant.fence, MADE, now=2)
    fence = take(store, "gate", "R", {"gate:R": 1}, worker="w", now=3)
    assert fence is not None
    entries = [entry.id for entry in read_open(store, "R").entries]
    for number, entry in enumerate(entries, 1):
        tests = ("test_x",)
        accept_entrant(store, fence, "R", entry, tree=entry, lines=number, tests=tests, now=3)
    if view(store, task).winner is None:
        for candidate, author, passed in ((0, 1, False), (1, 0, True)):
            verdict = CheckVerdict(
                base="b",
                combination=(entries[candidate], entries[author]),
                purpose="tests",
                tree="x",
                check_id="tests:c",
                commands=(),
                passed=passed,
                seconds=1,
            )
            record_verdict(store, fence, "R", verdict, "", now=4)
    assert view(store, task).winner is not None
