"""The invariants as a state machine: anything may happen, in any order, and all must hold.

Every step is followed by a look at all rows (`observer`), and every admission is compared
with a reference that goes through all tasks without any index. Limits, their owners and
spending are compared with books kept beside the store. Together they cover the invariants
1-5, 7-16 (claims), 22-25 of the store, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from databases import fresh_database, wipe
from observer import TERMINAL, Observer, Picture, Reference, Row
from store.spending_ledger import SpendingLedger
from weft.admission.capacity import shortages
from weft.config import Stated, Tuning
from weft.errors import InputError, LimitsDiffer, NeverFits, QueueFull, Refused
from weft.model import (
    AgentFile,
    Class,
    NewRun,
    NewTask,
    NewWorker,
    Outcome,
    Priority,
    State,
)
from weft.store import Store, open_store
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report
from weft.store.leases import (
    adopt,
    extend,
    free_proved_dead,
    release,
    renew,
    reserve,
    suspect_overdue,
    take,
)
from weft.store.limit_table import list_limits, penalise, set_limit
from weft.store.members import accept, assign, offer, reject
from weft.store.runs import learn_paths, submit_run
from weft.store.tasks import cancel, pause, resume, retry, skip, submit
from weft.store.workers import depart, heartbeat, register

TUNING = Tuning(queue=8, bypasses=3, lease=30, offer=20, prefer=20)
LIMITS = {"llm": 2, "requests": 4, "runs": 100, "run/agents": 3, "stage/implement": 2}
WORKERS = ("w1", "w2", "w3")
PATTERNS = ("a.py", "b.py", "src/x.py", "src/y.py", "src/*", "src/**", "**")
DAY = 86_400.0

# Few kinds, so that many tasks meet in one bucket.
demands = st.sampled_from(
    [
        {"worker:@": 1},
        {"worker:@": 1},
        {"worker:@": 1, "llm": 1, "provider:p": 1},
        {"worker:@": 1, "llm": 2, "requests": 1},
        {"worker:@": 2, "host:@/port": 2},
        {"worker:@": 1, "agent:solo": 1, "host:@/port": 1},
    ]
)
file_sets = st.lists(st.sampled_from(PATTERNS), max_size=3, unique=True).map(tuple)
# Pinned for good, or (with an end, which is reckoned when it is ready) preferring.
pins = st.sampled_from([{}, {}, {"pinned": "w1"}, {"pinned": "w2", "pin_until": 0.0}])
new_tasks = st.builds(
    lambda pin, **fields: NewTask(**fields, **pin),
    pins,
    name=st.just(""),
    files=file_sets,
    demand=demands,
    klass=st.sampled_from([Class.STANDARD, Class.STANDARD, *Class]),
    priority=st.sampled_from([Priority.NORMAL] * 3 + [*Priority]),
)
# Tasks of a plan, mostly alike: their order by files is then that of the plan.
USUAL: tuple[Class, Priority, dict[str, int]] = (Class.STANDARD, Priority.NORMAL, {})
kinds = st.sampled_from(
    [
        USUAL,
        USUAL,
        USUAL,
        (Class.STANDARD, Priority.HIGH, {}),
        (Class.INTERACTIVE, Priority.LOW, {}),
        (Class.STANDARD, Priority.NORMAL, {"llm": 1, "provider:p": 1}),
    ]
)
pick = st.integers(min_value=0, max_value=10**6)
# What a worker read of an agent's file: which file it was, and how many it allows.
agent_files = st.none() | st.builds(
    lambda source, most: (AgentFile(name="solo", source=source, max_concurrency=most),),
    st.sampled_from(["ours.md", "theirs.md"]),
    st.sampled_from([None, 1, 2]),
)
workers = st.builds(
    lambda ports, **fields: NewWorker(host="h", host_limits={"port": ports}, **fields),
    st.integers(1, 4),
    id=st.sampled_from(WORKERS),
    slots=st.integers(1, 3),
    agents=agent_files,
)
stated_limits = st.dictionaries(st.sampled_from(["llm", "requests"]), st.integers(1, 4), max_size=1)
spendings = st.none() | st.integers(0, 5)  # what an attempt says that it spent, if anything


class StoreMachine(RuleBasedStateMachine):
    """Users, workers, reapers and a mad clock, all on one store."""

    url: str  # set by the test for each kind of store

    @initialize(
        usd=st.none() | st.integers(2, 8),
        price=st.integers(1, 2),
        tasks=st.lists(new_tasks, max_size=3),
        eager=st.booleans(),
    )
    def begin(self, usd: int | None, price: int, tasks: list[NewTask], eager: bool) -> None:
        """Everybody has something to do: an empty store breaks nothing."""
        wipe(self.url)
        self.store: Store = open_store(self.url, tuning=TUNING, limits=LIMITS)
        self.eye = Observer(self.url)
        self.now = 1_000_000.0
        self.last_fence = 0
        self.runs = 0
        self.ledger = SpendingLedger(LIMITS)
        self.ended: dict[int, str] = {}  # the terminal state of every task that had one
        self.reopened: set[int] = set()
        for worker in WORKERS:
            self.come(NewWorker(id=worker, slots=2, host="h", host_limits={"port": 3}))
        for task in tasks:
            self.submit_task(task, "bob", None)
        apart = [("first.py",), ("second.py",), ("third.py",), ("fourth.py",)]
        self.submit_plan(apart, [3, 2, 1, 0], [USUAL] * 4, False, "ann", usd, price, eager)

    def teardown(self) -> None:
        if hasattr(self, "eye"):
            try:
                self.let_all_end()
            finally:
                self.eye.close()
                self.store.close()

    def let_all_end(self) -> None:
        """23: with costs that fit and work that ends, whatever is ready gets its turn."""
        # Wherever the clock was when somebody was parked: that time comes.
        self.now = max([self.now, *(row["until"] or 0.0 for row in self.eye.rows("tasks"))])
        for worker in WORKERS:
            depart(self.store, worker, now=self.now)
        roomy = (AgentFile(name="solo", source="ours.md", max_concurrency=50),)
        for worker in WORKERS:
            new = NewWorker(id=worker, slots=6, host="h", host_limits={"port": 9}, agents=roomy)
            register(self.store, new, now=self.now, stated={})
        for resource in ("llm", "requests", "provider:p", *self.budgets()):
            set_limit(self.store, resource, 10_000, now=self.now)
        leases = [row for row in self.eye.rows("leases") if row["kind"] == "attempt"]
        for lease in leases:
            release(self.store, lease["fence"], now=self.now)
        for _ in range(500):
            self.now += 60.0
            steps = self.let_people_and_gates_act()
            for grant in [g for worker in WORKERS for g in admit(self.store, worker, now=self.now)]:
                story = self.tasks()[grant.task]["story"]
                state = State.DONE if story is None else State.GATING
                finish(self.store, grant.fence, Outcome(state=state), now=self.now)
                steps += 1
            if not steps:
                break
        left = [r for r in self.eye.rows("tasks") if r["state"] not in ("done", "skipped")]
        assert left == []

    def let_people_and_gates_act(self) -> int:
        """Resume, retry and land whatever only a person or the gate moves."""
        tasks = self.tasks()
        steps = 0
        for row in tasks.values():
            if row["state"] == "paused":
                steps += resume(self.store, row["id"], now=self.now)
            elif row["state"] in ("blocked", "failed", "cancelled", "evicted"):
                steps += retry(self.store, row["id"], now=self.now)
            elif row["state"] == "gating":
                story = tasks.get(row["story"])
                whole = story is not None and story["state"] not in TERMINAL
                kin = [r for r in tasks.values() if whole and r["story"] == row["story"]]
                # The subtasks of a story land together, when all have their candidate.
                if all(relative["state"] in TERMINAL | {"gating"} for relative in kin):
                    steps += skip(self.store, row["id"], now=self.now)
        return steps

    def picture(self) -> Picture:
        return Picture(self.eye.everything())

    def tasks(self) -> dict[int, Row]:
        return {row["id"]: row for row in sorted(self.eye.rows("tasks"), key=lambda row: row["id"])}

    def come(self, worker: NewWorker) -> None:
        register(self.store, worker, now=self.now, stated={})
        self.ledger.come(worker)

    def budgets(self) -> list[str]:
        limits = self.eye.rows("limits")
        return sorted(row["resource"] for row in limits if row["resource"].endswith("/usd"))

    def reserved(self, lease: Row) -> dict[str, int]:
        """What a lease holds of what is used up."""
        costs = [row for row in self.eye.rows("lease_costs") if row["fence"] == lease["fence"]]
        return {r["resource"]: r["amount"] for r in costs if r["resource"].endswith("/usd")}

    def said(self, lease: Row, amount: int | None) -> dict[str, int]:
        return {} if amount is None else dict.fromkeys(self.reserved(lease), amount)

    def some(self, rows: list[Row], choice: int) -> Row | None:
        ordered = sorted(rows, key=lambda row: row.get("fence") or row["id"])
        return ordered[choice % len(ordered)] if ordered else None

    def some_task(self, choice: int, *states: str) -> int | None:
        rows = [r for r in self.eye.rows("tasks") if not states or r["state"] in states]
        row = self.some(rows, choice)
        return None if row is None else int(row["id"])

    def some_lease(self, choice: int, *states: str) -> Row | None:
        rows = [
            row
            for row in self.eye.rows("leases")
            if row["kind"] == "attempt" and (not states or row["state"] in states)
        ]
        return self.some(rows, choice)

    def lease_to_end(self, choice: int, *states: str) -> Row | None:
        """Mostly one in these states, sometimes any: somebody comes late."""
        late = choice % 4 == 0
        return self.some_lease(choice) if late else self.lease_with_budget(choice, *states)

    def lease_with_budget(self, choice: int, *states: str) -> Row | None:
        """One in these states that has reserved something, if there is one."""
        rows = [row for row in self.eye.rows("leases") if row["kind"] == "attempt"]
        fitting = [row for row in rows if row["state"] in states]
        return self.some([r for r in fitting if self.reserved(r)] or fitting, choice)

    def present(self, worker: str) -> bool:
        return any(
            row["id"] == worker and row["departed"] is None for row in self.eye.rows("workers")
        )

    # What users do.

    @rule(task=new_tasks, tenant=st.sampled_from(["ann", "bob"]), need=st.none() | pick)
    def submit_task(self, task: NewTask, tenant: str, need: int | None) -> None:
        before = self.picture()
        needed = None if need is None else self.some_task(need)
        needs = () if needed is None else (str(needed),)
        task = replace(task, needs=needs)
        try:
            submit(self.store, task, repo="r", tenant=tenant, now=self.now)
        except (QueueFull, NeverFits):
            assert self.picture().tables == before.tables
            return
        self.check_queue(before)

    def check_queue(self, before: Picture) -> None:
        """25: no newcomer makes the queue longer than its bound, and only the last goes.

        What comes back (a retry, a task handed back) is no newcomer and is never refused.
        """
        after = self.picture()
        queued = self.queued(after)
        assert len(queued) <= max(TUNING.queue, len(self.queued(before)))
        rank = Reference(after, "w1", self.now, TUNING).rank
        needed = {row["needs"] for row in before.tables["edges"]}
        for gone in after.tasks.values():
            if gone["state"] == "evicted" and before.tasks[gone["id"]]["state"] != "evicted":
                assert all(rank(gone) > rank(r) for r in queued if r["id"] not in needed)

    def queued(self, picture: Picture) -> list[Row]:
        waiting = {"waiting", "ready", "offered"}
        rows = picture.tasks.values()
        return [row for row in rows if row["run"] is None and row["state"] in waiting]

    @rule(
        files=st.lists(file_sets, min_size=1, max_size=4),
        paths=st.lists(st.integers(0, 3), min_size=4, max_size=4),
        kinds=st.lists(kinds, min_size=4, max_size=4),
        chain=st.booleans(),
        tenant=st.sampled_from(["ann", "bob"]),
        usd=st.none() | st.integers(1, 6),
        price=st.integers(1, 3),
        eager=st.booleans(),
    )
    def submit_plan(
        self,
        files: list[tuple[str, ...]],
        paths: list[int],
        kinds: list[tuple[Class, Priority, dict[str, int]]],
        chain: bool,
        tenant: str,
        usd: int | None,
        price: int,
        eager: bool,
    ) -> None:
        self.runs += 1
        run = f"r{self.runs}"
        demand = {"worker:@": 1, f"run:{run}/agents": 1, f"stage:{run}/implement": 1}
        if usd is not None:
            demand[f"run:{run}/usd"] = price
        tasks = [
            NewTask(
                name=str(number),
                files=claimed,
                demand={**demand, **kind[2]},
                klass=kind[0],
                priority=kind[1],
                path_seconds=float(paths[number]),
                needs=(str(number - 1),) if chain and number else (),
            )
            for number, (claimed, kind) in enumerate(zip(files, kinds, strict=False))
        ]
        budget = {} if usd is None else {"usd": usd}
        self.submit(NewRun(id=run, repo="r", tenant=tenant, limits=budget), tasks)
        for worker in WORKERS if eager else ():
            self.ask_for_work(worker, 1)

    def submit(self, run: NewRun, tasks: list[NewTask]) -> None:
        before = self.picture()
        try:
            submit_run(self.store, run, tasks, now=self.now)
        except NeverFits:
            assert self.picture().tables == before.tables
            return
        self.ledger.begin_run(run.id, run.limits.get("usd"))

    @rule(size=st.integers(2, 3), chain=st.booleans())
    def submit_gang(self, size: int, chain: bool) -> None:
        self.runs += 1
        run = f"g{self.runs}"
        first = [NewTask(name="first", demand={"worker:@": 1})] if chain else []
        members = [
            NewTask(
                name=f"m{n}",
                files=(f"gang{n}.py",),
                demand={"llm": 1} if n == 0 else {"requests": 1},
                gang="all",
                needs=("first",) if chain and n == 0 else (),
            )
            for n in range(size)
        ]
        self.submit(NewRun(id=run, repo="r"), [*first, *members])

    @rule(files=st.lists(st.sampled_from(PATTERNS[:4]), min_size=2, max_size=2))
    def submit_story(self, files: list[str]) -> None:
        """A story and two subtasks: one holder to others, two to each other."""
        self.runs += 1
        tasks = [
            NewTask(name="story", demand={"worker:@": 1}, needs=("a", "b")),
            NewTask(name="a", files=(files[0],), demand={"worker:@": 1}, story="story"),
            NewTask(
                name="b", files=(files[1],), demand={"worker:@": 1}, story="story", needs=("a",)
            ),
        ]
        self.submit(NewRun(id=f"s{self.runs}", repo="r"), tasks)

    @rule(choice=pick, verb=st.sampled_from([cancel, skip, retry, pause, resume]))
    def steer(self, choice: int, verb: Any) -> None:
        task = self.some_task(choice)
        if task is None:
            return
        state = self.picture().tasks[task]["state"]
        if verb is retry and state == "done":
            return
        if verb in (retry, skip) and state in TERMINAL:
            self.reopened.add(task)  # a person may, and that is an event
        verb(self.store, task, now=self.now)
        unchanged = self.picture().tables
        if verb in (cancel, skip):
            assert not verb(self.store, task, now=self.now)
            assert self.picture().tables == unchanged

    @rule(resource=st.sampled_from(["llm", "requests", "provider:p"]), number=st.integers(0, 3))
    def change_limit(self, resource: str, number: int) -> None:
        leases = self.eye.rows("leases")
        set_limit(self.store, resource, number, now=self.now)
        self.ledger.set(resource, number)
        assert self.eye.rows("leases") == leases  # 3: kills nothing, admits nothing

    @rule(choice=pick, number=st.integers(0, 8))
    def change_a_budget(self, choice: int, number: int) -> None:
        budgets = self.budgets()
        if budgets:
            self.change_limit(budgets[choice % len(budgets)], number)

    @rule(resource=st.sampled_from(["worker:w1", "host:h/port", "agent:solo", "run:r/usd"]))
    def change_what_others_own(self, resource: str) -> None:
        before = self.picture().tables
        with pytest.raises(InputError):
            set_limit(self.store, resource, 9, now=self.now)
        assert self.picture().tables == before  # 7

    @rule()
    def hit_a_rate_limit(self) -> None:
        self.store.write(lambda tx: penalise(tx, "p", now=self.now))
        picture = self.picture()
        nominal, effective = picture.nominal(), picture.effective(self.now, TUNING)
        assert all(effective[name] <= nominal[name] for name in nominal)  # 8

    @rule(choice=pick, seconds=st.integers(0, 5))
    def learn(self, choice: int, seconds: int) -> None:
        task = self.some_task(choice)
        if task is not None and self.picture().tasks[task]["run"] is not None:
            learn_paths(self.store, {task: float(seconds)})

    # What workers do.

    @rule(worker=st.sampled_from(WORKERS), times=st.integers(1, 4))
    def ask_for_work(self, worker: str, times: int) -> None:
        for _ in range(times if self.present(worker) else 0):
            self.ask_once(worker)

    def ask_once(self, worker: str) -> None:
        before = self.picture()
        expected = Reference(before, worker, self.now, TUNING).expected()
        grants = admit(self.store, worker, now=self.now)
        assert ({grant.task for grant in grants} or None) == expected
        self.check_admission(before)

    @rule(worker=st.sampled_from(WORKERS), choice=pick)
    def ask_for_one_task(self, worker: str, choice: int) -> None:
        task = self.some_task(choice, "ready")
        if task is None or not self.present(worker):
            return
        before = self.picture()
        admit_task(self.store, worker, task, now=self.now)
        self.check_admission(before)

    def check_admission(self, before: Picture) -> None:
        """1, 3, 4, 8, 10: what was granted fits, is whole, and has a fence never seen."""
        after = self.picture()
        known = {row["fence"] for row in before.tables["leases"]}
        fresh = [row for row in after.tables["leases"] if row["fence"] not in known]
        used, limits = after.used, after.effective(self.now, TUNING)
        for lease in sorted(fresh, key=lambda row: int(row["fence"])):
            assert lease["fence"] > self.last_fence
            self.last_fence = lease["fence"]
            costs = [r for r in after.tables["lease_costs"] if r["fence"] == lease["fence"]]
            for cost in costs:
                limit = limits.get(cost["resource"])
                assert limit is None or used[cost["resource"]] <= limit, cost
            task = after.tasks[lease["task"]]
            claimed = {r["pattern"] for r in after.tables["claims"] if r["task"] == task["id"]}
            assert claimed >= set(json.loads(task["files"]))
            units = [r for r in after.tables["lease_units"] if r["fence"] == lease["fence"]]
            ports = sum(c["amount"] for c in costs if c["resource"] == "host:h/port")
            assert len(units) == ports
            assert all(0 <= unit["unit"] < limits["host:h/port"] for unit in units)

    @rule(
        choice=pick,
        state=st.sampled_from(["done", "failed", "blocked", "gating", "parked", "ready"]),
        sent_back=st.booleans(),
        failed=st.booleans(),
        spent=spendings,
    )
    def finish_attempt(
        self, choice: int, state: str, sent_back: bool, failed: bool, spent: int | None
    ) -> None:
        lease = self.lease_to_end(choice, "held", "suspect")
        if lease is None:
            return
        failed = failed or state in ("failed", "blocked")
        outcome = Outcome(
            state=State(state),
            kind="crash" if failed else "success",
            signature="same" if failed else "",
            until=self.now + 10 if state == "parked" else None,
            sent_back=sent_back,
            spent=self.said(lease, spent),
        )
        before = self.picture().tables
        try:
            first = finish(self.store, lease["fence"], outcome, now=self.now)
        except Refused:
            assert self.picture().tables == before  # 11: refused means unchanged
            return
        if lease["state"] != "released":
            self.ledger.settle(self.reserved(lease), outcome.spent)
        unchanged = self.picture().tables
        assert finish(self.store, lease["fence"], outcome, now=self.now) == first
        assert self.picture().tables == unchanged  # 15

    @rule(choice=pick, spent=spendings)
    def hand_back(self, choice: int, spent: int | None) -> None:
        lease = self.lease_to_end(choice, "held", "suspect")
        if lease is None:
            return
        before = self.picture().tables
        said = self.said(lease, spent)
        freed = release(self.store, lease["fence"], now=self.now, spent=said)
        assert freed == (lease["state"] != "released")
        if freed:
            self.ledger.settle(self.reserved(lease), said)
        else:
            assert self.picture().tables == before
        unchanged = self.picture().tables
        assert not release(self.store, lease["fence"], now=self.now)
        assert self.picture().tables == unchanged

    @rule(choice=pick, spent=st.sampled_from([{"requests": 1}, {"run:r1/usd": -1}]))
    def spend_what_cannot_be_spent(self, choice: int, spent: dict[str, int]) -> None:
        lease = self.some_lease(choice, "held", "suspect")
        if lease is None:
            return
        before = self.picture().tables
        outcome = Outcome(state=State.DONE, spent=spent)
        with pytest.raises((InputError, Refused)):
            finish(self.store, lease["fence"], outcome, now=self.now)
        with pytest.raises(InputError):
            release(self.store, lease["fence"], now=self.now, spent=spent)
        assert self.picture().tables == before

    @rule(fence=st.integers(-1, 10**9))
    def use_a_fence_nobody_has(self, fence: int) -> None:
        if any(row["fence"] == fence for row in self.eye.rows("leases")):
            return
        before = self.picture().tables
        assert renew(self.store, [fence], now=self.now) == [fence]
        for effect in (
            lambda: finish(self.store, fence, Outcome(state=State.DONE), now=self.now),
            lambda: release(self.store, fence, now=self.now),
            lambda: report(self.store, fence, {"said": "hello"}, now=self.now),
            lambda: extend(self.store, fence, ["z.py"], now=self.now),
            lambda: adopt(self.store, fence, "w1", now=self.now),
        ):
            with pytest.raises(Refused):
                effect()
        assert self.picture().tables == before

    @rule(choice=pick, files=file_sets)
    def ask_for_more_files(self, choice: int, files: tuple[str, ...]) -> None:
        lease = self.some_lease(choice, "held", "suspect")
        if lease is None:
            return
        before = self.picture().tables
        try:
            held = extend(self.store, lease["fence"], files, now=self.now)
        except Refused:
            held = {"refused": 0}
        if held:
            assert self.picture().tables == before  # 4: at once or not at all

    @rule(choice=pick, total=st.integers(1, 6), of_budget=st.booleans())
    def ask_for_more_of_a_resource(self, choice: int, total: int, of_budget: bool) -> None:
        lease = self.some_lease(choice, "held")
        if lease is None:
            return
        budget = next(iter(self.reserved(lease)), "requests")
        resource = budget if of_budget else "requests"
        before = self.picture()
        lacks = total - self.held(before, lease, resource)
        more = {resource: lacks} if lacks > 0 else {}
        fits = not shortages(more, before.effective(self.now, TUNING), before.used)
        kept_free = any(row["reserved"] for row in before.tables["reservation"])
        try:
            granted = reserve(self.store, lease["fence"], {resource: total}, now=self.now)
        except Refused:
            assert self.picture().tables == before.tables
            return
        assert granted <= fits  # 1
        assert granted or not fits or kept_free
        after = self.picture()
        assert after.used == _grown(before.used, more if granted else {})
        reserve(self.store, lease["fence"], {resource: total}, now=self.now)
        assert self.picture().tables == after.tables  # a total: again is no more

    def held(self, picture: Picture, lease: Row, resource: str) -> int:
        costs = [row for row in picture.tables["lease_costs"] if row["fence"] == lease["fence"]]
        return sum(row["amount"] for row in costs if row["resource"] == resource)

    @rule(choice=pick)
    def give_a_sign_of_life(self, choice: int) -> None:
        lease = self.some_lease(choice)
        if lease is None:
            return
        alive = lease["state"] != "released"
        ended = self.picture().tasks[lease["task"]]["state"] in TERMINAL
        lost = renew(self.store, [lease["fence"]], now=self.now)
        assert bool(lost) == (not alive or ended)

    @rule(choice=pick, worker=st.sampled_from(WORKERS))
    def offer_a_task(self, choice: int, worker: str) -> None:
        task = self.some_task(choice, "ready")
        if task is not None and self.present(worker):
            offer(self.store, task, worker, now=self.now)

    @rule(choice=pick, yes=st.booleans(), worker=st.sampled_from(WORKERS))
    def answer_an_offer(self, choice: int, yes: bool, worker: str) -> None:
        task = self.some_task(choice, "offered")
        if task is None or not self.present(worker):
            return
        before = self.picture()
        try:
            answer = accept if yes else reject
            answer(self.store, task, worker, now=self.now)
        except Refused:
            assert self.picture().tables == before.tables
        self.check_admission(before)

    @rule(choice=pick, worker=st.sampled_from(WORKERS), queue=st.booleans())
    def assign_a_task(self, choice: int, worker: str, queue: bool) -> None:
        task = self.some_task(choice, "ready", "waiting")
        if task is None or not self.present(worker):
            return
        before = self.picture().tables
        try:
            assign(self.store, task, worker, now=self.now, or_queue=queue)
        except Refused:
            assert self.picture().tables == before

    @rule(worker=st.sampled_from(WORKERS), gate=st.sampled_from(["r1", "r2"]))
    def take_a_gate(self, worker: str, gate: str) -> None:
        if not self.present(worker):
            return
        fence = take(self.store, "gate", gate, {f"gate:{gate}": 1}, worker=worker, now=self.now)
        if fence is not None:
            assert fence > self.last_fence
            self.last_fence = fence

    @rule(worker=workers, stated=stated_limits)
    def come_back(self, worker: NewWorker, stated: dict[str, int]) -> None:
        """7: what others insist on is refused as a whole, what a worker owns follows it."""
        before = self.picture().tables
        insists = {name: Stated(value=n, source="weft.toml") for name, n in stated.items()}
        differs = self.ledger.differs(worker, insists)
        try:
            register(self.store, worker, now=self.now, stated=insists)
        except LimitsDiffer:
            assert differs
            assert self.picture().tables == before
            return
        assert not differs
        self.ledger.come(worker)
        assert heartbeat(self.store, worker.id, now=self.now)

    @rule(worker=workers)
    def come_with_other_times(self, worker: NewWorker) -> None:
        """7: nobody joins those at work with another idea of when somebody is dead."""
        before = self.picture()
        at_work = {row["id"] for row in before.tables["workers"] if row["departed"] is None}
        if not at_work - {worker.id}:
            return
        differing = Store(self.store.database, replace(TUNING, lease=TUNING.lease + 1))
        with pytest.raises(LimitsDiffer):
            register(differing, worker, now=self.now, stated={})
        assert self.picture().tables == before.tables

    # What death and time do.

    @rule(worker=st.sampled_from(WORKERS))
    def worker_dies(self, worker: str) -> None:
        used = self.picture().used
        was_there = self.present(worker)
        depart(self.store, worker, now=self.now)
        after = self.picture()
        assert after.used == used  # 5: found dead is suspect, not free
        if was_there:
            self.ledger.leave(worker, empties="h" if self.is_host_empty() else None)

    def is_host_empty(self) -> bool:
        leases = self.picture().open_leases
        return not any(map(self.present, WORKERS)) and not any(row["host"] == "h" for row in leases)

    @rule(seconds=st.sampled_from([0.5, 5.0, 25.0, 61.0, 1000.0, DAY, -DAY]))
    def time_passes(self, seconds: float) -> None:
        before = self.picture()
        self.now += seconds
        suspect_overdue(self.store, now=self.now)
        after = self.picture()
        assert after.used == before.used  # 5, 9
        assert after.tables["claims"] == before.tables["claims"]

    @rule(choice=pick, late=st.booleans())
    def reap(self, choice: int, late: bool) -> None:
        """Frees a suspect lease on proof, and nothing else."""
        if late:
            self.time_passes(61.0)
        lease = self.lease_to_end(choice, "suspect")
        if lease is None:
            return
        before = self.picture().tables
        freed = free_proved_dead(self.store, lease["fence"], now=self.now, proof="test")
        assert freed == (lease["state"] == "suspect")
        if freed:
            self.ledger.settle(self.reserved(lease), {})  # nobody can say what it spent
            if lease["host"] == "h" and self.is_host_empty():
                self.ledger.forget_host("h")  # its limits go with its last lease
        else:
            assert self.picture().tables == before

    @rule(choice=pick, worker=st.sampled_from(WORKERS))
    def adopt_an_orphan(self, choice: int, worker: str) -> None:
        lease = self.lease_with_budget(choice, "suspect")
        if lease is None or not self.present(worker):
            return
        before = self.picture()
        try:
            fence = adopt(self.store, lease["fence"], worker, now=self.now)
        except Refused:
            assert self.picture().tables == before.tables
            return
        assert fence > self.last_fence
        self.last_fence = fence
        after = self.picture()
        assert after.tables["claims"] == before.tables["claims"]
        shared = [name for name in before.used if not name.startswith("worker:")]
        assert {n: after.used.get(n) for n in shared} == {n: before.used[n] for n in shared}
        frozen = after.tables
        with pytest.raises(Refused):
            finish(self.store, lease["fence"], Outcome(state=State.DONE), now=self.now)
        assert self.picture().tables == frozen

    # What must hold at all times.

    @precondition(lambda self: hasattr(self, "eye"))
    @invariant()
    def nothing_is_broken(self) -> None:
        picture = self.picture()
        assert picture.broken() == []
        assert self.ledger.contradicted(picture) == []
        used = picture.used
        shown = {limit.resource: limit.used for limit in list_limits(self.store, now=self.now)}
        assert shown == {name: used.get(name, 0) for name in shown}  # 2
        for task, state in self.ended.items():
            now = picture.tasks[task]["state"]
            assert now == state or task in self.reopened, f"13: {task} went from {state} to {now}"
        self.ended = {t: r["state"] for t, r in picture.tasks.items() if r["state"] in TERMINAL}
        self.reopened.clear()
        numbers = sorted(row["id"] for row in picture.tables["events"])
        assert numbers == list(range(1, len(numbers) + 1))


def _grown(used: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return used | {name: used.get(name, 0) + n for name, n in more.items()}


@pytest.fixture(scope="module")
def machine_urls(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: str
) -> Iterator[dict[str, str]]:
    directory: Path = tmp_path_factory.mktemp("machine")
    with fresh_database(postgres_server) as postgres:
        yield {"sqlite": f"sqlite:///{directory / 'weft.db'}", "postgres": postgres}


def drive(url_of_store: str, examples: int, steps: int) -> None:
    class Machine(StoreMachine):
        url = url_of_store

    with open_store(Machine.url):
        pass
    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=examples, stateful_step_count=steps, print_blob=True),
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 35), ("postgres", 7)])
def test_no_sequence_of_events_breaks_an_invariant(
    machine_urls: dict[str, str], kind: str, examples: int
) -> None:
    drive(machine_urls[kind], examples, 40)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="the longer version: make chaos")
@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 1500), ("postgres", 200)])
def test_no_long_sequence_of_events_breaks_an_invariant(
    machine_urls: dict[str, str], kind: str, examples: int
) -> None:
    drive(machine_urls[kind], examples, 60)
