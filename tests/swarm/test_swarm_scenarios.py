"""The ways in which earlier swarms broke, at the level of what members ask for.

Every scenario is a check that passes on the store and fails on one weakened in exactly the respect
it is about (`store_helpers.caught`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from forked_python import ForkedPython
from store_helpers import caught, state, weaken
from store_helpers import url as url
from swarm.test_membership import reap_silent
from swarm_helpers import DONE, FAILED, OWNER, end, join, post, take, take_all
from wait_until import PATIENCE
from weft.errors import AlreadyEnded, Refused
from weft.operations import long_poll, member_work, membership
from weft.operations.identity import LOCAL
from weft.store import Store
from weft.store.event_log import history
from weft.store.limit_table import list_limits, own_limit, set_limit
from weft.store.tasks import get_task

pytestmark = pytest.mark.each_store

ENDED_LOOKS_HELD = (
    "SELECT * FROM leases",
    "SELECT {0}, leases.*, {0} FROM leases".format(
        "CASE state WHEN 'released' THEN 'held' ELSE state END AS state"
    ),
)
NOTHING_IS_USED = ("CAST(SUM(c.amount) AS BIGINT), NULL", "CAST(0 AS BIGINT), NULL")
NOBODY_HOLDS = (
    "(SELECT CAST(SUM(c.amount) AS BIGINT) FROM leases l CROSS JOIN lease_costs c\n"
    "        WHERE l.state <> 'released' AND c.fence = l.fence AND c.resource = :resource) AS used",
    "0 AS used",
)


def never_over(store: Store) -> Store:
    """No lease, task or attempt ever looks ended."""
    running = "SELECT 'running' AS state, tasks.*, 'running' AS state FROM tasks"
    unended = "SELECT NULL AS ended, attempts.*, NULL AS ended FROM attempts"
    store = weaken(store, "lease", ENDED_LOOKS_HELD)
    store = weaken(store, "answer_under", ("WHERE l.fence", "WHERE 1 = 0 AND l.fence"))
    store = weaken(store, "task", ("SELECT * FROM tasks", running))
    return weaken(store, "attempt", ("SELECT * FROM attempts", unended))


def all_at_once(work: Callable[[int], None], count: int) -> None:
    """Let so many threads do it at the same time."""
    gate = threading.Barrier(count)

    def one(number: int) -> None:
        gate.wait(timeout=PATIENCE)
        work(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)


def test_duplicate_poll(store: Store) -> None:
    """Polling returned a task without marking it, so that the next poll returned it again.

    Weakened: what is admitted stays among the ready ones.
    """

    def check(store: Store) -> None:
        names = [f"m{number}" for number in range(6)]
        for name in names:
            join(store, name, max_tasks=20)
        sent = [post(store).task for _ in range(12)]
        got: list[int] = []

        def poll_until_nothing(number: int) -> None:
            for _ in sent:  # on a store that gives a task twice this would never end
                found = long_poll.poll(store, OWNER, names[number], now=2)
                if found is None:
                    return
                assert found.task is not None
                got.append(found.task.task)

        all_at_once(poll_until_nothing, len(names))
        assert Counter(got) == Counter(sent)

    def forgets_to_mark(store: Store) -> Store:
        stays_ready = [("state = 'running'", "state = 'ready'"), ("bucket = NULL, ", "")]
        unindexed = (":task,", "NULL,")  # else the index of open leases would still say no
        forgets = weaken(store, "start_task", *stays_ready)
        forgets = weaken(forgets, "add_lease", unindexed)
        again = weaken(forgets, "add_attempt", (":number,", ":fence,"))
        return weaken(
            again,
            "held_by_members",
            ("l.task, l.attempt, ", "a.task, a.number AS attempt, "),
            ("AND t.id = l.task AND a.task = l.task AND a.number = l.attempt", ""),
            ("w.token IS NOT NULL", "w.token IS NOT NULL AND a.fence = l.fence AND t.id = a.task"),
        )

    caught(store, check, forgets_to_mark)


def test_no_task_goes_twice_to_processes_that_poll_at_once(store: Store, tmp_path: Path) -> None:
    """Two of them are one member, restarted while its first process still polls."""
    for name in ("m0", "m1"):
        join(store, name, max_tasks=20)
    set_limit(store, "requests", 100, now=0)
    sent = [post(store).task for _ in range(30)]
    begin = tmp_path / "begin"
    program = Path(__file__).with_name("poller_program.py")
    pollers = [
        ForkedPython[str](
            [sys.executable, str(program), store.url, name, str(begin)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("m0", "m1", "m1")
    ]
    for poller in pollers:
        assert poller.stdout is not None
        assert poller.stdout.readline() == "ready\n"
    begin.touch()
    got = [
        tuple(one)
        for poller in pollers
        for one in json.loads(poller.communicate(timeout=PATIENCE)[0])
    ]
    assert sorted(task for task, _ in got) == sent
    assert len({fence for _, fence in got}) == 30
    held = [one.capacity.current for one in membership.list_members(store, OWNER, now=3)]
    assert max(held) <= 20


def test_two_polls_of_one_member_at_once_do_not_exceed_its_slots(store: Store) -> None:
    """The server looked at the capacity in one step and assigned in another.

    Weakened: use is not counted; or every statement commits by itself.
    """

    def check(store: Store) -> None:
        join(store, max_tasks=2)
        for _ in range(6):
            post(store)
        all_at_once(lambda _: take_some(store), 4)
        held = membership.get_member(store, OWNER, "m", now=3).tasks
        assert len(held) == 2

    def take_some(store: Store) -> None:
        for _ in range(2):
            long_poll.poll(store, OWNER, "m", now=2)

    def counts_nothing(store: Store) -> Store:
        store = weaken(store, "ledger", NOTHING_IS_USED)
        return weaken(store, "worker_use", NOBODY_HOLDS)

    caught(store, check, counts_nothing)


def test_progress_revives_finished_task(store: Store) -> None:
    """Progress after the end put a finished task back to work.

    Weakened: nothing ever looks ended.
    """

    def check(store: Store) -> None:
        join(store)
        sent = post(store)
        claimed = take(store)
        end(store, claimed)
        before = history(store, sent.task)
        with suppress(Refused):
            member_work.progress(store, OWNER, claimed.fence, text="still here", now=4)
        assert history(store, sent.task) == before
        assert state(store, sent.task) == "done"

    caught(store, check, never_over)


def test_stale_progress(store: Store) -> None:
    """Who had lost a task went on to report on it, over its successor's reports.

    Weakened: an ended lease looks held.
    """

    def check(store: Store) -> None:
        join(store, "slow")
        join(store, "quick")
        sent = post(store)
        slow = take(store, "slow")
        member_work.release(store, OWNER, slow.fence, now=3)
        quick = take(store, "quick", now=4)
        refused = 0
        for effect in (
            lambda: member_work.progress(store, OWNER, slow.fence, text="nearly", now=5),
            lambda: member_work.claim_files(store, OWNER, slow.fence, ["a.py"], now=5),
            lambda: end(store, slow, FAILED, now=5),
        ):
            try:
                effect()
            except Refused:
                refused += 1
        assert refused == 3
        assert [one.kind for one in history(store, sent.task)].count("progress") == 0
        assert end(store, quick, now=6) == "done"

    caught(store, check, never_over)


def test_released_task_flips_back(store: Store) -> None:
    """A task handed back to the pool was taken from its next owner by a late release.

    Weakened: an ended lease looks held.
    """

    def check(store: Store) -> None:
        join(store, "first")
        join(store, "second")
        sent = post(store)
        mine = take(store, "first")
        assert member_work.release(store, OWNER, mine.fence, now=3)
        theirs = take(store, "second", now=4)
        assert not member_work.release(store, OWNER, mine.fence, now=5)
        assert state(store, sent.task) == "running"
        assert theirs.attempt == 2

    caught(store, check, lambda s: weaken(s, "lease", ENDED_LOOKS_HELD))


def test_stranded_offer(store: Store) -> None:
    """What was offered to a member that died or never answered was offered for ever.

    Weakened: offers are not withdrawn when a member leaves; or not when their time is over.
    """

    def check(store: Store) -> None:
        for name in ("gone", "silent"):
            join(store, name)
        join(store, max_tasks=5)
        for name in ("gone", "silent"):
            post(store, name, to=name, how="offer", now=1)
        membership.close(store, OWNER, "gone", now=2)
        assert [one.name for one in take_all(store, now=2)] == ["gone"]
        assert [one.name for one in take_all(store, now=1 + store.tuning.offer)] == ["silent"]

    caught(
        store,
        check,
        lambda s: weaken(s, "offers_to", ("state = 'offered'", "FALSE")),
        lambda s: weaken(s, "due", ("until <= :now", "until <= :now AND state <> 'offered'")),
    )


def test_pool_claim_ignores_dependencies(store: Store) -> None:
    """Dependencies were looked at when a task was assigned, but not when it came from the pool.

    Weakened: what a task needs is not looked at when it is made ready.
    """

    def check(store: Store) -> None:
        join(store, max_tasks=5)
        first = post(store, "first")
        second = post(store, "second", needs=(first.task,))
        with suppress(Refused):
            member_work.claim(store, OWNER, "m", second.task, now=2)
        running = take_all(store)
        assert [one.name for one in running] == ["first"]
        end(store, running[0])
        assert [one.name for one in take_all(store)] == ["second"]

    blind = ("AND n.state NOT IN ('done', 'skipped')", "AND FALSE")
    caught(store, check, lambda s: weaken(s, "startable", blind))


def test_crash_fails_dependents(store: Store) -> None:
    """The task of a member that crashed was marked failed, and all that needed it with it.

    Weakened: what is reaped fails.
    """

    def check(store: Store) -> None:
        join(store, "crashed")
        join(store)
        first = post(store, "first", to="crashed", how="prefer")
        second = post(store, "second", needs=(first.task,))
        take(store, "crashed")
        reap_silent(store, now=1000)
        assert [state(store, one.task) for one in (first, second)] == ["ready", "waiting"]
        join(store, now=1001)
        end(store, take(store, now=1002), now=1003)
        assert take(store, now=1004).task == second.task

    fails = ("state = :state", "state = CASE :reason WHEN 'reaped' THEN 'failed' ELSE :state END")
    caught(store, check, lambda s: weaken(s, "leave_ready", fails))


def test_a_second_terminal_result_overwrites_the_first(store: Store) -> None:
    """The last answer won: a task that was done failed, or the other way round.

    Weakened: nothing ever looks ended.
    """

    def check(store: Store) -> None:
        join(store)
        sent = post(store)
        claimed = take(store)
        assert end(store, claimed, DONE) == "done"
        try:
            end(store, claimed, FAILED, now=4)
        except AlreadyEnded:
            refused = True
        else:
            refused = False
        assert refused
        about = get_task(store, sent.task)
        assert (about.result, state(store, sent.task)) == ("done it", "done")

    caught(store, check, never_over)


def test_who_is_preferred_and_stays_busy_is_preferred_no_longer(store: Store) -> None:
    """Work kept for a busy agent waited for it while capable ones were idle.

    Weakened: preferences have no end; or they end for work that is pinned for good, too.
    """

    def check(store: Store) -> None:
        join(store, "busy")
        join(store, "idle", max_tasks=5)
        post(store, "keeps it busy", to="busy", how="assign")
        take(store, "busy")
        post(store, "preferred", to="busy", how="prefer", now=10)
        post(store, "for good", to="busy", how="queue", now=10)
        patience = store.tuning.prefer
        assert take_all(store, "idle", now=10 + patience - 1) == []
        assert [one.name for one in take_all(store, "idle", now=10 + patience)] == ["preferred"]
        assert take_all(store, "idle", now=1e6) == []

    for_good_too = (
        "pin_until IS NOT NULL AND state = 'ready' AND pin_until <= :now",
        "state = 'ready'",
    )
    caught(
        store,
        check,
        lambda s: weaken(s, "preferences_due", ("pin_until <= :now", "FALSE")),
        lambda s: weaken(s, "preferences_due", for_good_too),
    )


def test_a_preference_gives_its_first_choice_time_from_when_it_is_ready(store: Store) -> None:
    """Weakened: the time counts from when it was sent, and is over before anybody could begin."""

    def check(store: Store) -> None:
        join(store, "choice")
        join(store, "other", max_tasks=5)
        need = post(store, "need", to="other", how="assign")
        post(store, "preferred", to="choice", how="prefer", needs=(need.task,), now=1)
        end(store, take(store, "other"), now=1000)
        assert take_all(store, "other", now=1001) == []
        assert take(store, "choice", now=1001).name == "preferred"

    from_the_start = ("CAST(:preferred AS DOUBLE PRECISION)", "pin_until")
    caught(store, check, lambda s: weaken(s, "enqueue", from_the_start))


def test_who_is_preferred_and_leaves_is_preferred_no_longer(store: Store) -> None:
    """Weakened: preferences for who leaves stay until their time is over."""

    def check(store: Store) -> None:
        join(store, "gone")
        join(store, "other")
        sent = post(store, to="gone", how="prefer")
        membership.close(store, OWNER, "gone", now=2)
        assert [one.task for one in take_all(store, "other", now=3)] == [sent.task]

    stays = ("pin_until IS NOT NULL", "FALSE")
    caught(store, check, lambda s: weaken(s, "preferences_for", stays))


def test_limits_and_budgets_are_checked_in_the_claim(store: Store) -> None:
    """Capacity was looked at, and the claim made later: by then others had taken it.

    Weakened: use is not counted; or what was spent is not.
    """

    def check(store: Store) -> None:
        join(store, max_tasks=5)
        set_limit(store, "llm", 1, now=0)
        store.write(lambda tx: own_limit(tx, "run:R/usd", 10, owner="run:R", now=0))
        first, second = (post(store, uses={"llm": 1}) for _ in range(2))
        dear = post(store, "dear", who=LOCAL, uses={"run:R/usd": 8})
        running = {one.task: one for one in take_all(store)}
        assert set(running) == {first.task, dear.task}
        with suppress(Refused):
            member_work.claim(store, OWNER, "m", second.task, now=3)
        assert state(store, second.task) == "ready"
        end(store, running[dear.task])  # all it reserved counts as spent
        also_dear = post(store, "also dear", who=LOCAL, uses={"run:R/usd": 8})
        assert take_all(store, now=4) == []
        assert state(store, also_dear.task) == "ready"
        [usd] = [one for one in list_limits(store, now=5) if one.resource == "run:R/usd"]
        assert usd.used == 8

    caught(
        store,
        check,
        lambda s: weaken(s, "ledger", NOTHING_IS_USED),
        lambda s: weaken(s, "ledger", ("WHERE total IS NOT NULL", "WHERE FALSE")),
    )
