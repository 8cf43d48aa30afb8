"""The ways in which earlier systems of this kind broke, and what stops each of them here.

Every scenario is a check that passes on the store and fails on one weakened in exactly the
respect it is about (`store_helpers.caught`), so none of them can pass by accident.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress

import pytest

from databases import look
from store_helpers import (
    AGAIN,
    DONE,
    caught,
    deferred,
    drain,
    go,
    hire,
    impatient,
    lease_state,
    mute,
    piecemeal,
    put,
    snapshot,
    somebody_writes,
    state,
    tuned,
    used,
    watched,
    weaken,
)
from store_helpers import (
    url as url,
)
from weft.errors import QueueFull, Refused, StoreError
from weft.model import Class, Lease, NewRun, NewTask, Outcome, State
from weft.process import process_table
from weft.store import Store, open_store
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report
from weft.store.database import Transaction
from weft.store.event_log import history
from weft.store.leases import (
    adopt,
    extend,
    free_proved_dead,
    release,
    renew,
    reserve,
    suspect_overdue,
)
from weft.store.limit_table import set_limit
from weft.store.members import offer, reject
from weft.store.runs import submit_run
from weft.store.tasks import cancel, list_attempts, pause, resume, retry
from weft.store.workers import depart
from weft.worker.engine import prove_worker_dead
from weft.worker.reaper import Here, Silence, sweep

pytestmark = pytest.mark.each_store

LLM = {"llm": 1}
ENDED_LOOKS_HELD = (
    "SELECT * FROM leases",
    "SELECT {0}, leases.*, {0} FROM leases".format(
        "CASE state WHEN 'released' THEN 'held' ELSE state END AS state"
    ),
)


def reap(store: Store, fence: int, *, now: float = 2) -> None:
    """Free a lease whose holder was proved dead."""
    suspect_overdue(store, now=1e9)
    assert free_proved_dead(store, fence, now=now, proof="its process is gone")


def test_duplicate_poll(store: Store) -> None:
    """Polling returned a pending task without marking it, so the next poll returned it again."""

    def check(store: Store) -> None:
        hire(store, "w1")
        hire(store, "w2")
        tasks = {put(store, "a"), put(store, "b")}
        polled = [grant.task for w in ("w1", "w2") * 2 for grant in admit(store, w, now=1)]
        assert sorted(polled) == sorted(tasks)

    def forgets_to_mark(store: Store) -> Store:
        stays_ready = [("state = 'running'", "state = 'ready'"), ("bucket = NULL, ", "")]
        unindexed = (":task,", "NULL,")  # else the index of open leases would still say no
        forgets = weaken(store, "start_task", *stays_ready)
        return weaken(forgets, "add_lease", unindexed)

    caught(store, check, forgets_to_mark)


def test_share_versus_cluster_usage(store: Store) -> None:
    """Each instance held its share of the total against the use of all: most of it lay idle."""

    def check(store: Store) -> None:
        workers = ("w1", "w2", "w3")
        for worker in workers:
            hire(store, worker, slots=24)
        for number in range(15):
            put(store, f"t{number}", demand=LLM)
        assert sum(len(drain(store, worker)) for worker in workers) == 12

    share = "capacity / (SELECT COUNT(*) FROM workers WHERE departed IS NULL) AS amount"
    caught(store, check, lambda s: weaken(s, "ledger", ("capacity AS amount", share)))


def test_expired_but_running(store: Store) -> None:
    """Reservations expired by time while their process ran on, and others took its place."""

    def check(store: Store) -> None:
        set_limit(store, "llm", 1, now=0)
        hire(store, "w1")
        hire(store, "w2")
        put(store, "a", demand=LLM)
        put(store, "b", demand=LLM)
        late = go(store, "w1")
        suspect_overdue(store, now=1e6)
        assert lease_state(store, late.fence) == "suspect"
        assert not admit(store, "w2", now=1e6)
        assert finish(store, late.fence, DONE, now=1e6) is State.DONE
        assert go(store, "w2", now=1e6).name == "b"

    only_held = ("l.state <> 'released'", "l.state = 'held'")
    caught(store, check, lambda s: weaken(s, "ledger", only_held))


def test_consume_gives_up_slot(store: Store) -> None:
    """A reservation ended when its work began, before the work itself was counted."""

    def check(store: Store) -> None:
        set_limit(store, "llm", 1, now=0)
        hire(store)
        put(store, "a", demand=LLM)
        put(store, "b", demand=LLM)
        fence = go(store).fence
        for step in (
            lambda: renew(store, [fence], now=2),
            lambda: report(store, fence, {"line": "started"}, now=2),
            lambda: extend(store, fence, ["more.py"], now=2),
            lambda: reserve(store, fence, {"requests": 1}, now=2),
        ):
            step()
            assert used(store, "llm") == 1
            assert not admit(store, "w", now=2)

    consumed = ("state = 'held', deadline", "state = 'released', ended = 'consumed', released")
    caught(store, check, lambda s: weaken(s, "renew", consumed))


def test_double_count_after_start(store: Store) -> None:
    """A started task was counted twice, as reserved and as active: half the capacity was lost."""

    def check(store: Store) -> None:
        set_limit(store, "llm", 2, now=0)
        hire(store)
        for name in "abc":
            put(store, name, demand=LLM)
        renew(store, [go(store).fence], now=2)
        assert used(store, "llm") == 1
        assert drain(store) == ["b"]
        assert used(store, "llm") == 2

    active = "(SELECT COUNT(*) FROM attempts a WHERE a.fence = c.fence AND a.ended IS NULL)"
    twice = ("SUM(c.amount)", f"SUM(c.amount * (1 + {active}))")
    caught(store, check, lambda s: weaken(s, "ledger", twice))


def test_stale_lock_two_cleaners(store: Store) -> None:
    """Two cleaners saw one stale lock; the slower one removed the lock of its new owner."""

    def clean(store: Store, proof: str | None = "gone", by: str = "") -> list[int]:
        successors = []

        def prove(lease: Lease) -> str | None:
            if by:  # while this cleaner looks, another does the whole work
                assert clean(store) == [lease.fence]
                successors.append(go(store, by, now=3))
            return proof

        swept = sweep(
            store,
            here=Here(host="h", boot=""),
            silence=Silence(),
            prove_worker_dead=lambda worker: "killed" if worker.id == "w1" else None,
            prove_dead=prove,
            now=2,
            boottime=2,
        )
        assert not swept.unjudged
        assert [lease_state(store, grant.fence) for grant in successors] == ["held"] * len(
            successors
        )
        assert all(state(store, grant.task) == "running" for grant in successors)
        return list(swept.freed)

    def check(store: Store) -> None:
        hire(store, "w1")
        hire(store, "w2")
        put(store, "a")
        go(store, "w1")
        assert clean(store, by="w2") == []

    as_it_was = (
        "SELECT * FROM leases",
        "SELECT 'suspect' AS state, leases.*, 'suspect' AS state FROM leases",
    )
    caught(store, check, lambda s: weaken(s, "lease", as_it_was))


def test_create_then_write_window(store: Store) -> None:
    """A lock file existed before its contents: who looked in between took it for a broken one."""

    def check(store: Store) -> None:
        half = (
            "SELECT COUNT(*) AS leases FROM leases l WHERE "
            "NOT EXISTS (SELECT 1 FROM lease_costs c WHERE c.fence = l.fence) OR "
            "NOT EXISTS (SELECT 1 FROM claims f WHERE f.task = l.task) OR "
            "NOT EXISTS (SELECT 1 FROM attempts a WHERE a.fence = l.fence)"
        )
        seen = []
        hire(store)
        put(store, files=("a.py",), demand=LLM)
        go(watched(store, lambda: seen.append(look(store.url, half)[0]["leases"])))
        assert len(seen) > 4
        assert not any(seen)

    caught(store, check, piecemeal)


def test_late_owner_releases_successor(store: Store) -> None:
    """A lock was released by its name: an owner that came late released that of its successor."""

    def check(store: Store) -> None:
        hire(store, "w1")
        hire(store, "w2")
        task = put(store, "a")
        late = go(store, "w1")
        reap(store, late.fence)
        successor = go(store, "w2", now=3)
        release(store, late.fence, now=4)
        with suppress(Refused):
            finish(store, late.fence, DONE, now=4)
        assert lease_state(store, successor.fence) == "held"
        assert state(store, task) == "running"

    mine = "SELECT task FROM leases WHERE fence = :fence"
    by_name = ("fence = :fence", f"task = ({mine}) ORDER BY fence DESC LIMIT 1")
    caught(store, check, lambda s: weaken(s, "lease", by_name))


def test_progress_revives_finished_task(store: Store) -> None:
    """Late progress put a finished task back to work."""

    def check(store: Store) -> None:
        hire(store)
        task = put(store)
        fence = go(store).fence
        finish(store, fence, DONE, now=2)
        before = history(store, task)
        with suppress(Refused):
            report(store, fence, {"line": "still here"}, now=3)
        assert history(store, task) == before
        assert renew(store, [fence], now=3) == [fence]
        assert state(store, task) == "done"

    def never_over(store: Store) -> Store:
        running = "SELECT 'running' AS state, tasks.*, 'running' AS state FROM tasks"
        unended = "SELECT NULL AS ended, attempts.*, NULL AS ended FROM attempts"
        store = weaken(store, "lease", ENDED_LOOKS_HELD)
        store = weaken(store, "task", ("SELECT * FROM tasks", running))
        return weaken(store, "attempt", ("SELECT * FROM attempts", unended))

    caught(store, check, never_over)


def test_released_task_flips_back(store: Store) -> None:
    """A task handed back to the pool returned to its former owner by a late update."""

    def check(store: Store) -> None:
        hire(store)
        task = put(store)
        fence = go(store).fence
        assert release(store, fence, now=2)
        with suppress(Refused):
            finish(store, fence, Outcome(state=State.BLOCKED, kind="other"), now=3)
        assert state(store, task) == "ready"
        assert not release(store, fence, now=3)

    caught(store, check, lambda s: weaken(s, "lease", ENDED_LOOKS_HELD))


def test_superseded_process_still_writes(store: Store) -> None:
    """A process that had been replaced went on to write as if it were the owner."""

    def check(store: Store) -> None:
        hire(store, "w1")
        hire(store, "w2")
        put(store, files=("a.py",))
        old = go(store, "w1").fence
        depart(store, "w1", now=2)
        adopt(store, old, "w2", now=3)
        before = snapshot(store.url)
        for effect in (
            lambda: report(store, old, {}, now=4),
            lambda: extend(store, old, ["b.py"], now=4),
            lambda: reserve(store, old, {"requests": 1}, now=4),
            lambda: release(store, old, now=4),
            lambda: finish(store, old, DONE, now=4),
            lambda: renew(store, [old], now=4),
        ):
            with suppress(Refused):
                effect()
            assert snapshot(store.url) == before

    caught(store, check, lambda s: weaken(s, "lease", ENDED_LOOKS_HELD))


def test_crash_fails_dependents(store: Store) -> None:
    """A crashed worker's task was marked failed, and all that needed it failed with it."""

    def check(store: Store) -> None:
        hire(store, "w1")
        hire(store, "w2")
        tasks = [NewTask(name="a"), NewTask(name="b", needs=("a",))]
        numbers = submit_run(store, NewRun(id="r", repo="r"), tasks, now=0)
        crashed = go(store, "w1")
        depart(store, "w1", now=2)
        reap(store, crashed.fence)
        assert [state(store, numbers[name]) for name in "ab"] == ["ready", "waiting"]
        finish(store, go(store, "w2", now=3).fence, DONE, now=4)
        assert go(store, "w2", now=5).name == "b"

    fails = ("state = :state", "state = CASE :reason WHEN 'reaped' THEN 'failed' ELSE :state END")
    caught(store, check, lambda s: weaken(s, "leave_ready", fails))


def test_pool_claim_ignores_dependencies(store: Store) -> None:
    """Work was checked for its dependencies when assigned, but not when claimed from the pool."""

    def check(store: Store) -> None:
        hire(store)
        first = put(store, "first")
        second = put(store, "second", needs=(str(first),))
        assert not admit_task(store, "w", second, now=1)
        assert drain(store) == ["first"]
        with pytest.raises(Refused):
            offer(store, second, "w", now=2)

    blind = ("AND n.state NOT IN ('done', 'skipped')", "AND FALSE")
    caught(store, check, lambda s: weaken(s, "startable", blind))


def test_second_spawn_overwrites_first(store: Store) -> None:
    """Processes were kept by task: starting a task again forgot the process that still ran."""

    def check(store: Store) -> None:
        hire(store)
        task = put(store)
        first = go(store)
        assert not admit_task(store, "w", task, now=2)
        reap(store, first.fence)
        second = go(store, now=3)
        attempts = [(attempt.number, attempt.fence) for attempt in list_attempts(store, task)]
        assert attempts == [(1, first.fence), (2, second.fence)]

    by_task = [
        (":number,", "1,"),
        (":started)", ":started) ON CONFLICT (task, number) DO UPDATE SET fence = :fence"),
    ]
    caught(store, check, lambda s: weaken(s, "add_attempt", *by_task))


def test_big_request_starves(store: Store) -> None:
    """Small requests kept fitting into what one ended, so the big one never fitted."""

    def check(store: Store) -> None:
        set_limit(store, "llm", 4, now=0)
        hire(store, slots=99)
        for number in range(4):
            put(store, f"small{number}", demand=LLM)
        grants = [go(store) for _ in range(4)]
        put(store, "big", demand={"llm": 4})
        admitted = []
        for number in range(40):
            put(store, f"later{number}", demand=LLM)
            finish(store, grants.pop(0).fence, DONE, now=1)
            grants += admit(store, "w", now=1)
            admitted.append(grants[-1].name if grants else "nothing")
            if "big" in admitted or not grants:
                break
        assert "big" in admitted
        assert admitted.index("big") <= store.tuning.bypasses + 4

    caught(store, check, lambda s: tuned(s, bypasses=10_000))


def test_throttled_tenant_idles_capacity(store: Store) -> None:
    """A tenant that had had its turns was held back although nobody else could use the room."""

    def check(store: Store) -> None:
        hire(store)
        set_limit(store, "provider:busy", 0, now=0)
        put(store, "stuck", tenant="other", demand={"provider:busy": 1})
        for name in "abcde":
            put(store, name, tenant="eager")
        assert drain(store) == list("abcde")

    latest = "SELECT turn FROM leases WHERE turn IS NOT NULL ORDER BY fence DESC LIMIT 2"
    throttled = f"SELECT turn FROM ({latest}) t GROUP BY turn HAVING COUNT(*) = 2"
    idles = ("v.aside IS NULL\n", f"v.aside IS NULL AND v.tenant NOT IN ({throttled})\n")
    caught(store, check, lambda s: weaken(s, "buckets", idles))


def test_batch_evicts_interactive(store: Store) -> None:
    """A full queue threw out its oldest entries, however urgent, for whatever came."""

    def check(store: Store) -> None:
        small = tuned(store, queue=2)
        urgent = [put(small, name, klass=Class.INTERACTIVE) for name in "ab"]
        with suppress(QueueFull):
            put(small, "batch", klass=Class.BATCH)
        assert [state(small, task) for task in urgent] == ["ready", "ready"]

    upside_down = ("SELECT id, class,", "SELECT id, 9 - class AS class,")
    caught(store, check, lambda s: weaken(s, "queue", upside_down))


def test_hold_and_wait_deadlock(store: Store) -> None:
    """Two agents each held a file and waited for the other's."""

    def check(store: Store) -> None:
        hire(store)
        put(store, "a", files=("x.py",))
        put(store, "b", files=("y.py",))
        a, b = go(store), go(store)
        assert extend(store, a.fence, ["y.py"], now=2) == {"y.py": b.task}
        larger = Outcome(state=State.READY, kind="scope", files=("x.py", "y.py"))
        finish(store, a.fence, larger, now=3)
        assert extend(store, b.fence, ["x.py"], now=4) == {}
        finish(store, b.fence, DONE, now=5)
        again = go(store, now=6)
        assert (again.name, again.files) == ("a", ("x.py", "y.py"))

    keeps = ("WHERE repo = :repo AND task = :task", "WHERE repo = :repo AND task = :task AND FALSE")
    caught(store, check, lambda s: weaken(s, "drop_claims", keeps))


@pytest.mark.parametrize(
    ("held", "asked"),
    [("src/**", "src/a.py"), ("src/a.py", "src/*.py"), ("src/*.py", "src/a*"), ("**", "a.py")],
)
def test_glob_versus_literal_path_missed(store: Store, held: str, asked: str) -> None:
    """File sets were compared as strings: `src/**` and `src/a.py` ran side by side."""

    def check(store: Store) -> None:
        hire(store)
        put(store, "first", files=(held,))
        put(store, "second", files=(asked,))
        assert drain(store) == ["first"]

    as_strings = ("repo = :repo", f"repo = :repo AND pattern = '{asked}'")
    caught(store, check, lambda s: weaken(s, "claims", as_strings))


def test_pid_reuse(store: Store) -> None:
    """A dead worker's process number was given to another program, so it passed for alive."""
    own = process_table.get_own()

    def check(store: Store) -> None:
        hire(store, "old", pid=own.pid, pid_start=float(own.start - 1))
        hire(store, "new", pid=own.pid, pid_start=float(own.start))
        put(store)
        lost = go(store, "old")
        swept = sweep(
            store,
            here=Here(host="h", boot=""),
            silence=Silence(),
            prove_worker_dead=prove_worker_dead,
            prove_dead=lambda lease: "no such process" if lease.worker == "old" else None,
            now=2,
            boottime=2,
        )
        assert swept.freed == (lost.fence,)
        assert go(store, "new", now=3).attempt == 2

    forgets = ("SELECT *", "SELECT NULL AS pid_start, workers.*, NULL AS pid_start")
    caught(store, check, lambda s: weaken(s, "workers_present", forgets))


def test_sqlite_busy_kills_the_service(store: Store) -> None:
    """Another writer was met with an error, `database is locked`, and the service ended."""

    def check(store: Store) -> None:
        failure = None
        with somebody_writes(store.url, 0.3):
            try:
                hire(store)
            except StoreError as error:
                failure = error
        assert failure is None

    with ExitStack() as stack:
        caught(store, check, lambda s: stack.enter_context(impatient(s)))


def test_read_then_write_upgrade_fails(store: Store) -> None:
    """A transaction read, then wrote: if another had written in between, it failed or was wrong."""

    def check(store: Store) -> None:
        between = threading.Event()
        failure = None

        def work(tx: Transaction) -> bool:
            tx.value("last_task")
            writer.start()
            too_early = between.wait(2)
            tx.run("set_limit", resource="llm", capacity=3, owner=None)
            return too_early

        def write_too() -> None:
            put(second)
            between.set()

        with open_store(store.url) as second:
            writer = threading.Thread(target=write_too)
            try:
                slipped_in = store.write(work)
            except StoreError as error:
                slipped_in, failure = False, error
            writer.join()
        assert (slipped_in, failure) == (False, None)

    with ExitStack() as stack:
        caught(store, check, lambda s: stack.enter_context(deferred(s)))


def test_rate_limited_task_fails_for_good(store: Store) -> None:
    """A rate limit counted as a failure, and after a few of them the task was given up."""

    def check(store: Store) -> None:
        hire(store)
        task = put(store, demand=LLM)
        for now in (100.0, 200.0, 300.0, 400.0, 500.0):
            limited = Outcome(state=State.PARKED, kind="rate_limit", until=now + 60)
            finish(store, go(store, now=now).fence, limited, now=now)
            assert state(store, task) == "parked"
            assert used(store, "llm") == 0
            assert not admit(store, "w", now=now + 59)
        assert go(store, now=560).attempt == 6

    fails = ("state = :state", "state = CASE :state WHEN 'parked' THEN 'failed' ELSE :state END")
    caught(store, check, lambda s: weaken(s, "leave_ready", fails))


def test_stranded_offer(store: Store) -> None:
    """A task offered to an agent that had died, or never answered, was offered for ever."""

    def check(store: Store) -> None:
        hire(store, "gone")
        hire(store, "silent")
        hire(store, "w")
        for worker in ("gone", "silent"):
            offer(store, put(store, worker), worker, now=1)
        depart(store, "gone", now=2)
        assert drain(store, now=2) == ["gone"]
        assert drain(store, now=1 + store.tuning.offer) == ["silent"]

    caught(
        store,
        check,
        lambda s: weaken(s, "offers_to", ("state = 'offered'", "FALSE")),
        lambda s: weaken(s, "due", ("until <= :now", "until <= :now AND state <> 'offered'")),
    )


def test_silent_queue_stall(store: Store) -> None:
    """There was work and there was room, but nobody was told, and all of them waited."""

    def check(store: Store) -> None:
        hire(store, "w")
        with store.listen("work") as bell:

            def rung(expected: int) -> int:
                """Whoever waited is woken, and finds what it waited for; returns its fence."""
                assert bell.wait(0)
                grants = admit(store, "w", now=9)
                assert [grant.task for grant in grants] == [expected]
                assert not admit(store, "w", now=9)
                bell.drain()
                return grants[0].fence

            first = put(store, "first", files=("src/*",))
            fence = rung(first)
            rung(put(store, "other", files=("lib/*",)))
            put(store, "before", files=("lib/a.py",))  # the best of the tasks set aside
            second = put(store, "second", files=("src/a.py",))
            assert not admit(store, "w", now=9)
            bell.drain()
            finish(store, fence, DONE, now=9)
            fence = rung(second)
            release(store, fence, now=9)
            fence = rung(second)
            cancel(store, second, now=9)
            retry(store, second, now=9)
            release(store, fence, now=9)
            finish(store, rung(second), AGAIN, now=9)
            offer(store, second, "w", now=9)
            reject(store, second, "w", now=9)
            finish(store, rung(second), DONE, now=9)
            third = put(store, "third", demand=LLM)
            pause(store, third, now=9)
            set_limit(store, "llm", 0, now=9)
            bell.drain()
            resume(store, third, now=9)
            assert not admit(store, "w", now=9)
            set_limit(store, "llm", 1, now=9)
            rung(third)

    never_brought_back = ("WHERE aside = :holder", "WHERE aside = :holder AND FALSE")
    caught(store, check, mute, lambda s: weaken(s, "bring_back", never_brought_back))
