"""Many real processes on one store, killed and stopped at random, judged from outside.

The programs are in `worker_program`, `hammer_program` and `puppet_program`; what may never be
false is checked by `witness` (at every sample) and `replay` (at every admission), which read
the database with SQL of their own. `WEFT_CHAOS` turns on the longer version.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from databases import change, fresh_database, look
from databases import url as url
from store.database_observer import DatabaseObserver, Row, window
from store.life_locks import Signs
from store.replay import Before, Replay, check_rows
from store.storm import Storm
from store.weak_drivers import InterruptedStore, without_turns
from store.worker_processes import Member, StoreProcesses
from store.workload import BOOT, HOST, LIMITS, RUN, TUNING, new_worker, submit_work
from wait_until import PATIENCE, wait_until
from weft.config import Tuning
from weft.errors import StoreBusy
from weft.model import LeaseState, NewTask, NewWorker, Outcome, State
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.database import Database
from weft.store.leases import get_lease, reserve
from weft.store.postgres import Postgres
from weft.store.runs import end_finished
from weft.store.sqlite import Sqlite
from weft.store.tasks import count_states, get_task, submit
from weft.store.workers import list_workers, register
from weft.worker.reaper import Here, Silence, sweep

pytestmark = pytest.mark.each_store


@pytest.fixture
def signs(tmp_path: Path) -> Signs:
    return Signs(tmp_path / "signs")


@pytest.fixture
def processes(tmp_path: Path, signs: Signs) -> Iterator[StoreProcesses]:
    directory = tmp_path / "processes"
    directory.mkdir()
    members = StoreProcesses(directory)
    try:
        yield members
    finally:
        members.close()
        # What a killed worker's child still does takes a moment; nothing is left behind.
        wait_until(lambda: not signs.under_way(), "the last child has ended")


def weather(
    url: str, processes: StoreProcesses, signs: Signs, *, seed: int, size: int, actions: int
) -> None:
    """Submit work, let a storm loose on those who do it, and judge all that happened."""
    rng = random.Random(seed)
    with open_store(url, tuning=TUNING, limits=LIMITS) as store, window(url) as ask:
        submit_work(store, rng, size)
        before = Before(ask)
        storm = Storm(ask, processes, rng, url=url, signs=str(signs.directory))
        with DatabaseObserver(url, signs) as observer:
            storm.rage(workers=8, actions=actions)
        assert observer.most["alive"] > 1, "the witness saw no two workers at work at once"
        assert end_finished(store, now=time.time()) == [RUN]
        judge(url, before, observer)


def judge(url: str, before: Before, observer: DatabaseObserver) -> None:
    """Say everything that was ever wrong; then whether there was anything to go wrong."""
    assert observer.broken == []
    with window(url) as ask:
        replay = Replay(ask, before)
        assert replay.broken == []
        assert check_rows(ask, before) == []
        # Nothing with a lower number ever appeared later.
        assert observer.events == ask("SELECT * FROM events ORDER BY id")[: len(observer.events)]
        assert replay.full, "no limit was ever reached"
    assert_sound(url)


def assert_sound(url: str) -> None:
    if url.startswith("sqlite"):
        [answer] = look(url, "PRAGMA integrity_check")
        assert answer == {"integrity_check": "ok"}


def test_the_judges_see_what_may_never_be(url: str, signs: Signs) -> None:
    """A store doctored behind weft's back, in all the ways the storm below must not bring about."""
    with open_store(url, limits={"llm": 1}) as store, window(url) as ask:
        register(store, NewWorker(id="w", slots=2, host=HOST), now=0, stated={})
        for name in ("done", "held", "ready"):
            new = NewTask(name=name, files=("src/a.py",), demand={"llm": 1})
            submit(store, new, repo="r", now=0)
        before = Before(ask)
        [grant] = admit(store, "w", now=1)
        finish(store, grant.fence, Outcome(state=State.DONE), now=2)
        admit(store, "w", now=3)
        change(url, "DELETE FROM events WHERE kind = 'attempt_finished'")
        replay = Replay(ask, before)
        assert_said(replay.broken, "llm 2/1", "src/a.py while 1 holds src/a.py")
        assert_said(check_rows(ask, before), "task 1 was done 0 times", "task 3 is ready")
        change(url, "UPDATE lease_costs SET amount = 2")
        change(url, "INSERT INTO claims (repo, task, pattern) VALUES ('r', 3, 'src/**')")
        change(url, "UPDATE tasks SET state = 'running', bucket = NULL WHERE id = 3")
        change(url, "INSERT INTO lease_units (resource, unit, fence) VALUES ('port', 0, 1)")
        for task in (1, 3):
            signs.begin(task, 1)
        with DatabaseObserver(url, signs) as observer:
            wait_until(lambda: observer.samples > 1, "two looks were taken")
    assert_said(observer.broken, "llm 2/1", "intersect", "task 3 runs without a lease")
    assert_said(observer.broken, "a unit of port outlived its fence 1")
    assert_said(observer.broken, "(1, 1) is worked on without", "(3, 1) was worked on and never")


def assert_said(broken: list[str], *expected: str) -> None:
    for text in expected:
        assert any(text in one for one in broken), f"{text!r} is not in {broken}"


def test_workers_killed_and_stopped_at_random_break_nothing(
    url: str, processes: StoreProcesses, signs: Signs
) -> None:
    weather(url, processes, signs, seed=1, size=30, actions=6)


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="the longer version: make chaos")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10, 18))
def test_a_longer_storm_breaks_nothing(
    url: str, processes: StoreProcesses, signs: Signs, seed: int
) -> None:
    weather(url, processes, signs, seed=seed, size=400, actions=60)


def test_kills_in_the_middle_of_transactions_lose_nothing(
    url: str, processes: StoreProcesses, signs: Signs
) -> None:
    hammer(url, processes, signs, seed=2, size=30, kills=20)


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="the longer version: make chaos")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(20, 24))
def test_many_kills_in_the_middle_of_transactions_lose_nothing(
    url: str, processes: StoreProcesses, signs: Signs, seed: int
) -> None:
    hammer(url, processes, signs, seed=seed, size=300, kills=1000)


def hammer(
    url: str, processes: StoreProcesses, signs: Signs, *, seed: int, size: int, kills: int
) -> None:
    """Kill processes that do nothing but write; then let one process do what is left."""
    settings = {"url": url, "signs": str(signs.directory)}
    with open_store(url, tuning=TUNING, limits=LIMITS) as store, window(url) as ask:
        submit_work(store, random.Random(seed), size)
        before = Before(ask)
        with DatabaseObserver(url, signs) as observer:
            processes.start("worker_program", role="reap", **settings)
            hammers = processes.start(
                "hammer_program", role="hammer", seed=seed, kills=kills, **settings
            )
            wait_until(lambda: hammers.process.poll() is not None, "all were killed", 300)
            assert hammers.process.poll() == 0, hammers.complaint()
            assert_sound(url)
            recover(store, signs)
        assert end_finished(store, now=time.time()) == [RUN]
        judge(url, before, observer)


def recover(store: Store, signs: Signs) -> None:
    """What an ordinary start does after a crash: reap, and go on with the work."""
    signs.live("last")
    register(store, new_worker("last", 2, pid=os.getpid(), pid_start=0), now=time.time(), stated={})
    reaper = Silence()

    def is_all_done() -> bool:
        sweep_here(store, signs, reaper, now=time.time(), boottime=time.monotonic())
        while grants := admit(store, "last", now=time.time()):
            for grant in grants:
                finish(store, grant.fence, Outcome(state=State.DONE), now=time.time())
        return set(count_states(store)) == {State.DONE}

    wait_until(is_all_done, "what was left is done")


def sweep_here(
    store: Store, signs: Signs, silence: Silence, *, now: float, boottime: float
) -> list[int]:
    swept = sweep(
        store,
        here=Here(host=HOST, boot=BOOT),
        silence=silence,
        prove_worker_dead=signs.prove_worker_dead,
        prove_dead=signs.prove_dead,
        now=now,
        boottime=boottime,
    )
    assert not swept.unjudged
    return list(swept.freed)


ALONE = {"llm": 1, "requests": 4}
"""Limits under which one task at a time can have the model."""


def step_worker(
    processes: StoreProcesses, url: str, signs: Signs, name: str, *, boot: str
) -> Member:
    """A registered worker that does what the test tells it, at the times the test says."""
    member = processes.start("step_program")
    member.ask("live", str(signs.directory), name)
    assert member.ask("open", url, ALONE) is None
    place = {"id": name, "slots": 2, "host": HOST, "boot": boot, "pid": member.pid}
    assert member.ask("register", place, 0.0) is None
    return member


def stop(member: Member) -> None:
    member.stop()
    wait_until(member.is_stopped, "it is stopped")


def everything(url: str) -> dict[str, list[Row]]:
    """All rows there are."""
    with window(url) as ask:
        tables = ["tasks", "edges", "attempts", "leases", "lease_costs", "lease_units", "claims"]
        tables += ["limits", "workers", "reservation", "events", "durations", "failures"]
        return {
            table: sorted(ask(f"SELECT * FROM {table}"), key=lambda row: repr(sorted(row.items())))
            for table in tables
        }


def test_a_worker_elsewhere_that_was_stopped_too_long_changes_nothing_any_more(
    url: str, processes: StoreProcesses, signs: Signs
) -> None:
    """suspended-then-resumed, superseded-process-still-writes, late-owner-releases-successor.

    A weakened build, whose effects carry no fence, lets the first worker finish the task in
    place of the second: the rows before and after would differ.
    """
    with open_store(url, tuning=Tuning(lease=1), limits=ALONE) as store:
        task = submit(store, NewTask(name="t", demand={"llm": 1}, files=("a",)), repo="r", now=0)
        away = step_worker(processes, url, signs, "away", boot="another boot")
        [fence] = away.ask("admit", "away", 1.0)
        stop(away)
        # Told while it is stopped, done as soon as it is continued.
        effects: dict[tuple[object, ...], object] = {
            ("renew", fence, 300.0): [fence],
            ("report", fence, 300.0): {"error": "StaleFence"},
            ("extend", fence, "b", 300.0): {"error": "StaleFence"},
            ("finish", fence, "done", 300.0): {"error": "StaleFence"},
            ("finish", fence, "ready", 300.0): {"error": "StaleFence"},
            ("release", fence, 300.0): False,
            ("heartbeat", "away", 300.0): False,
            ("admit", "away", 300.0): {"error": "NotFound"},
        }
        for effect in effects:
            away.tell(*effect)
        successor = free_by_silence(store, signs, fence)
        before = everything(url)
        away.go_on()
        assert [away.answer() for _ in effects] == list(effects.values())
        assert everything(url) == before
        assert finish(store, successor, Outcome(state=State.DONE), now=301) is State.DONE
        assert get_task(store, task).state is State.DONE


def free_by_silence(store: Store, signs: Signs, fence: int) -> int:
    """Wait, on the reaper's clock, until a worker elsewhere counts as gone; take its task."""
    register(store, NewWorker(id="second", slots=2, host="there", boot="there"), now=2, stated={})
    silence, enough = Silence(), store.tuning.silence
    for boottime in (0.0, 1.0, enough - 0.1):
        assert sweep_here(store, signs, silence, now=boottime + 10, boottime=boottime) == []
        assert admit(store, "second", now=boottime + 10) == []
    # The second worker gives a sign of life, the first does not.
    register(store, NewWorker(id="second", slots=2, host="there", boot="there"), now=150, stated={})
    assert sweep_here(store, signs, silence, now=200, boottime=enough) == [fence]
    [grant] = admit(store, "second", now=201)
    assert grant.fence > fence
    return grant.fence


def test_a_worker_here_that_was_stopped_past_its_lease_goes_on_as_if_nothing_happened(
    url: str, processes: StoreProcesses, signs: Signs
) -> None:
    """expired-but-running: a weakened build, which frees at the deadline, admits the second."""
    with open_store(url, tuning=Tuning(lease=1), limits=ALONE) as store:
        for name in ("t", "u"):
            submit(store, NewTask(name=name, demand={"llm": 1}), repo="r", now=0)
        first = step_worker(processes, url, signs, "first", boot=BOOT)
        second = step_worker(processes, url, signs, "second", boot=BOOT)
        [fence] = first.ask("admit", "first", 1.0)
        stop(first)
        day = 86400.0
        for now in (3.0, day, 2 * day):
            assert sweep_here(store, signs, Silence(), now=now, boottime=now) == []
            assert get_lease(store, fence).state is LeaseState.SUSPECT
            assert second.ask("admit", "second", now) == []
        first.tell("heartbeat", "first", 2 * day)
        first.tell("renew", fence, 2 * day)
        first.tell("finish", fence, "done", 2 * day)
        first.go_on()
        assert [first.answer() for _ in range(3)] == [True, [], "done"]
        assert len(second.ask("admit", "second", 2 * day)) == 1


def test_a_worker_here_that_is_killed_frees_what_it_held_at_once(
    url: str, processes: StoreProcesses, signs: Signs
) -> None:
    with open_store(url, tuning=Tuning(lease=1), limits=ALONE) as store:
        submit(store, NewTask(name="t", demand={"llm": 1}), repo="r", now=0)
        first = step_worker(processes, url, signs, "first", boot=BOOT)
        second = step_worker(processes, url, signs, "second", boot=BOOT)
        [fence] = first.ask("admit", "first", 1.0)
        assert sweep_here(store, signs, Silence(), now=1.1, boottime=0) == []
        first.kill()
        assert sweep_here(store, signs, Silence(), now=1.2, boottime=0) == [fence]
        assert len(second.ask("admit", "second", 1.3)) == 1


def notes(url: str) -> list[str]:
    rows = look(url, "SELECT kind FROM events WHERE kind IN ('mine', 'theirs') ORDER BY id")
    return [row["kind"] for row in rows]


def test_others_go_on_although_a_process_is_stopped_inside_a_transaction(
    url: str, processes: StoreProcesses, signs: Signs
) -> None:
    """On PostgreSQL the server lets go of it; on SQLite others wait, and say so in the end."""
    stopped = step_worker(processes, url, signs, "stopped", boot=BOOT)
    other = step_worker(processes, url, signs, "other", boot=BOOT)
    stopped.tell("stop_inside", "mine", 1.0)
    assert stopped.answer() == "inside"
    wait_until(stopped.is_stopped, "it is stopped")
    other.tell("note", "theirs", 2.0)
    if url.startswith("sqlite"):
        with closing(Sqlite(Path(url.removeprefix("sqlite:///")), patience=0.3)) as database:
            hasty = Store(database, Tuning())
            with pytest.raises(StoreBusy, match="locked"):
                hasty.write(lambda tx: tx.event("hasty", now=3.0))
        stopped.go_on()
        assert stopped.answer() == 1
        assert other.answer() is None
        assert notes(url) == ["mine", "mine", "theirs"]
    else:
        assert other.answer() is None
        stopped.go_on()
        assert stopped.answer() == 2
        assert notes(url) == ["theirs", "mine", "mine"]


def test_others_go_on_when_a_process_is_killed_inside_a_transaction(
    url: str, processes: StoreProcesses, signs: Signs
) -> None:
    stopped = step_worker(processes, url, signs, "stopped", boot=BOOT)
    other = step_worker(processes, url, signs, "other", boot=BOOT)
    stopped.tell("stop_inside", "mine", 1.0)
    assert stopped.answer() == "inside"
    wait_until(stopped.is_stopped, "it is stopped")
    other.tell("note", "theirs", 2.0)
    stopped.kill()
    assert other.answer() is None
    assert notes(url) == ["theirs"]
    assert_sound(url)


def new_stores(url: str, rounds: int) -> Iterator[str]:
    """The same database, new each time; a new file each time."""
    for number in range(rounds):
        if url.startswith("sqlite"):
            yield f"{url}-{number}"
        else:
            change(url, "DROP SCHEMA IF EXISTS weft CASCADE")
            yield url


def assert_founded(url: str, limits: dict[str, int]) -> None:
    [row] = look(url, "SELECT * FROM store")
    assert len(row["identity"]) == 32
    found = {row["resource"]: row["capacity"] for row in look(url, "SELECT * FROM limits")}
    assert found == limits


def test_two_processes_found_one_store(url: str, processes: StoreProcesses) -> None:
    founders = [processes.start("step_program") for _ in range(2)]
    for new in new_stores(url, 20):
        for founder in founders:
            founder.tell("open", new, LIMITS)
        assert [founder.answer() for founder in founders] == [None, None]
        assert_founded(new, LIMITS)
        assert [founder.ask("close") for founder in founders] == [None, None]


def test_a_store_whose_founders_were_killed_is_founded_by_whoever_comes_next(
    url: str, processes: StoreProcesses
) -> None:
    founders = processes.start("hammer_program", role="found", seed=3)
    for new in new_stores(url, 8):
        founders.tell(new)
        assert founders.answer() == "killed"
        with open_store(new, limits=LIMITS) as store:
            assert list_workers(store, now=0) == []
        assert_founded(new, LIMITS)
        assert_sound(new)


def test_two_instances_start_idle(url: str, processes: StoreProcesses, signs: Signs) -> None:
    """Each alone believes in the full total; together they get it once.

    The weakened build is `test_two_instances_that_take_no_turns_each_take_the_full_total`.
    """
    with open_store(url, limits={"llm": 3}) as store:
        for number in range(12):
            submit(store, NewTask(name=f"t{number}", demand={"llm": 1}), repo="r", now=0)
        names = ["one", "two"]
        instances = [processes.start("step_program") for _ in names]
        for instance, name in zip(instances, names, strict=True):
            assert instance.ask("open", url, {"llm": 3}) is None
            place = {"id": name, "slots": 12, "host": HOST}
            assert instance.ask("register", place, 0.0) is None
        for now in (1.0, 2.0, 3.0, 4.0):
            for instance, name in zip(instances, names, strict=True):
                instance.tell("admit_all", name, now)
            fences = [fence for instance in instances for fence in instance.answer()]
            assert len(set(fences)) == 3
            for fence in fences:
                finish(store, fence, Outcome(state=State.DONE), now=now)
        assert count_states(store) == {State.DONE: 12}


def both_ask_for_the_total(
    first: Database, second: Database, signs: Signs, *, until: Callable[[threading.Thread], bool]
) -> tuple[list[bool], list[str]]:
    """Two attempts each ask for all there is, the second while the first has not committed.

    Says who got it, and what an observer thinks of that. The first commits when `until` is
    true of the second.
    """
    answers: list[bool] = []
    with open_store(first.url, limits={"llm": 3}) as store, closing(first), closing(second):
        for name in ("one", "two"):
            register(store, NewWorker(id=name, slots=1, host=HOST), now=0, stated={})
            submit(store, NewTask(name=name, demand={"worker:@": 1}), repo="r", now=0)
        fences = [admit(store, name, now=1)[0].fence for name in ("one", "two")]

        def take(by: Store, fence: int) -> None:
            answers.append(reserve(by, fence, {"llm": 3}, now=2))

        rival = threading.Thread(target=take, args=(Store(second, Tuning()), fences[1]))

        def meanwhile() -> None:
            rival.start()
            wait_until(lambda: until(rival), "the second is as far as it can be")

        take(InterruptedStore(first, meanwhile), fences[0])
        rival.join(PATIENCE)
        with DatabaseObserver(first.url, signs) as observer:
            pass
    return answers, sorted({text.split(": ")[-1] for text in observer.broken})


def has_answered(rival: threading.Thread) -> bool:
    return not rival.is_alive()


def waits_for(url: str) -> Callable[[threading.Thread], bool]:
    """Whether a second writer has got as far as waiting for the first."""
    if url.startswith("sqlite"):
        since = time.monotonic()
        return lambda _: time.monotonic() - since > 0.3  # nothing shows it
    question = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return lambda _: bool(look(url, f"{question} AND datname = current_database()"))


def driver(url: str) -> Database:
    return Sqlite(Path(url.removeprefix("sqlite:///"))) if "sqlite" in url else Postgres(url)


def test_of_two_that_ask_for_the_full_total_one_gets_it(url: str, signs: Signs) -> None:
    result = both_ask_for_the_total(driver(url), driver(url), signs, until=waits_for(url))
    assert result == ([True, False], [])


def test_two_instances_that_take_no_turns_each_take_the_full_total(url: str, signs: Signs) -> None:
    """The weakened build: the observer sees what no test of one process could."""
    driver(url).close()
    answers, broken = both_ask_for_the_total(
        without_turns(url), without_turns(url), signs, until=has_answered
    )
    assert answers == [True, True]
    assert broken == ["llm 6/3"]


def test_repeatable_read_over_commit(postgres_server: str, signs: Signs) -> None:
    """A row read FOR UPDATE but not written admits two under REPEATABLE READ; weft writes it."""
    isolation = quote(r"-c default_transaction_isolation=repeatable\ read")
    locked = "SELECT * FROM store FOR UPDATE"
    with fresh_database(postgres_server) as url:
        strict = url.replace("options=", f"options={isolation}%20")
        first, second = (Postgres(strict, next_turn=locked) for _ in range(2))
        answers, broken = both_ask_for_the_total(first, second, signs, until=waits_for(url))
        assert answers == [True, True]
        assert broken == ["llm 6/3"]
    with fresh_database(postgres_server) as url:
        strict = url.replace("options=", f"options={isolation}%20")
        first, second = (Postgres(strict) for _ in range(2))
        result = both_ask_for_the_total(first, second, signs, until=waits_for(url))
        assert result == ([True, False], [])
