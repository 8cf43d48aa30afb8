"""What an admission costs: against a bare transaction, and as the queue grows."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from bench.figures import figure, median_ratio
from bench.stores import DEMAND, fill, open_roomy, postgres_url, sqlite_url, tasks
from weft.model import NewTask, Outcome, State
from weft.store import Store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.leases import release

_ROUNDS = 15
_BATCH = 80
_RUNNING = 4  # as many as a worker has slots by default


def weft_rate(store: Store) -> float:
    """Admissions per second while a few tasks run; only the admissions are timed."""
    running: deque[int] = deque()
    spent = 0.0
    for _ in range(_BATCH):
        start = time.perf_counter()
        [grant] = admit(store, "w0", now=1.0)
        spent += time.perf_counter() - start
        running.append(grant.fence)
        if len(running) > _RUNNING:
            finish(store, running.popleft(), Outcome(state=State.DONE), now=2.0)
    while running:
        finish(store, running.popleft(), Outcome(state=State.DONE), now=2.0)
    return _BATCH / spent


_BARE_TABLES = (
    "CREATE TABLE bare_leases (fence BIGINT PRIMARY KEY, task BIGINT, state TEXT)",
    "CREATE TABLE bare_costs (fence BIGINT, resource TEXT, amount BIGINT, "
    "PRIMARY KEY (fence, resource))",
    "CREATE TABLE bare_claims (task BIGINT, pattern TEXT, PRIMARY KEY (task, pattern))",
)


def bare_loop(execute: Callable[[str, tuple[object, ...]], object], mark: str) -> float:
    """Durable transactions per second of the bare driver: one lease, five costs, two claims."""
    for table in ("bare_leases", "bare_costs", "bare_claims"):
        execute(f"DELETE FROM {table}", ())
    lease = f"INSERT INTO bare_leases VALUES ({mark}, {mark}, {mark})"
    cost = f"INSERT INTO bare_costs VALUES ({mark}, {mark}, {mark})"
    claim = f"INSERT INTO bare_claims VALUES ({mark}, {mark})"
    begin = "BEGIN IMMEDIATE" if mark == "?" else "BEGIN"
    start = time.perf_counter()
    for number in range(_BATCH):
        execute(begin, ())
        execute(lease, (number, number, "held"))
        for resource in DEMAND:
            execute(cost, (number, resource, 1))
        for file in ("src/a.py", "tests/a.py"):
            execute(claim, (number, file))
        execute("COMMIT", ())
    return _BATCH / (time.perf_counter() - start)


@figure("admission_sqlite_ratio", "ratio", at_least=0.4)
def admission_sqlite_ratio() -> float:
    with sqlite_url() as url, open_roomy(url) as store:
        fill(store, tasks(_ROUNDS * _BATCH))
        path = Path(url.removeprefix("sqlite:///")).with_name("bare.db")
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        for statement in _BARE_TABLES:
            connection.execute(statement)
        with contextlib.closing(connection):
            return median_ratio(
                lambda: weft_rate(store), lambda: bare_loop(connection.execute, "?"), _ROUNDS
            )


@figure("admission_postgres_ratio", "ratio", at_least=0.4)
def admission_postgres_ratio() -> float:
    with postgres_url() as url, open_roomy(url) as store:
        fill(store, tasks(_ROUNDS * _BATCH))
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in _BARE_TABLES:
                connection.execute(statement)
            return median_ratio(
                lambda: weft_rate(store),
                lambda: bare_loop(lambda q, p: connection.execute(q, p or None), "%s"),
                _ROUNDS,
            )


Scenario = Callable[[int], list[NewTask]]
_FREE = 10


def all_admissible(count: int) -> list[NewTask]:
    return tasks(count)


def one_limit_full(count: int) -> list[NewTask]:
    """All but ten ask for a resource of which one is left, and they come first in order."""
    scarce = {**DEMAND, "run:r/scarce": 1}
    blocked = [
        NewTask(
            name=f"b{number}",
            demand=scarce,
            files=(f"src/b{number}.py", f"tests/b{number}.py"),
            path_seconds=1000.0 + number,
        )
        for number in range(count - _FREE)
    ]
    return blocked + tasks(_FREE)


def one_file_held(count: int) -> list[NewTask]:
    """All but ten want the same file, each with one of its own, and they come first."""
    blocked = [
        NewTask(
            name=f"b{number}",
            demand=DEMAND,
            files=("src/app.py", f"src/b{number}.py"),
            path_seconds=1000.0 + number,
        )
        for number in range(count - _FREE)
    ]
    return blocked + tasks(_FREE)


def one_directory_held(count: int) -> list[NewTask]:
    """All but ten want something in a directory that the first claims as a whole."""
    holder = NewTask(name="h", demand=DEMAND, files=("src/**",), path_seconds=10.0**6)
    blocked = [
        NewTask(
            name=f"b{number}",
            demand=DEMAND,
            files=(f"src/b{number}.py", f"tests/b{number}.py"),
            path_seconds=1000.0 + number,
        )
        for number in range(count - _FREE - 1)
    ]
    free = [
        NewTask(name=f"f{number}", demand=DEMAND, files=(f"docs/{number}.md", f"img/{number}"))
        for number in range(_FREE)
    ]
    return [holder, *blocked, *free]


def one_turn_waited_for(count: int) -> list[NewTask]:
    """All but ten come in the plan after one that waits for a file and wants theirs too."""
    holder = NewTask(name="h", demand=DEMAND, files=("setup.py",), path_seconds=10.0**6)
    first = NewTask(name="i", demand=DEMAND, files=("setup.py", "src/**"), path_seconds=10.0)
    later = [
        NewTask(
            name=f"b{number}",
            demand=DEMAND,
            files=(f"src/b{number}.py", f"tests/b{number}.py"),
            path_seconds=1000.0 + number,
        )
        for number in range(count - _FREE - 2)
    ]
    free = [
        NewTask(name=f"f{number}", demand=DEMAND, files=(f"docs/{number}.md", f"img/{number}"))
        for number in range(_FREE)
    ]
    return [holder, first, *later, *free]


@contextlib.contextmanager
def queue_of(count: int, scenario: Scenario) -> Iterator[Store]:
    from weft.model import NewRun
    from weft.store.runs import submit_run

    with sqlite_url() as url, open_roomy(url) as store:
        run = NewRun(id="r", repo="repository", limits={"scarce": 1})
        submit_run(store, run, scenario(count), now=0.0)
        if scenario is not all_admissible:
            admit(store, "w0", now=0.0)  # the first takes the scarce thing and keeps it
            [grant] = admit(store, "w0", now=0.0)  # whoever runs into it steps aside, once
            release(store, grant.fence, now=0.0)
        yield store


def seconds_per_admission(store: Store) -> float:
    """Admit and hand back; only the admissions are timed."""
    spent = 0.0
    for _ in range(100):
        start = time.perf_counter()
        [grant] = admit(store, "w0", now=1.0)
        spent += time.perf_counter() - start
        release(store, grant.fence, now=1.0)
    return spent / 100


_SCENARIOS = (
    all_admissible,
    one_limit_full,
    one_file_held,
    one_directory_held,
    one_turn_waited_for,
)


@figure("admission_growth_5k", "ratio", at_most=3)
def admission_growth_5k() -> float:
    """Time of an admission with 5,000 ready tasks ÷ with 500; the worst of the scenarios."""
    worst = 0.0
    for scenario in _SCENARIOS:
        with queue_of(500, scenario) as few, queue_of(5_000, scenario) as many:
            ratio = median_ratio(
                lambda many=many: seconds_per_admission(many),  # type: ignore[misc]
                lambda few=few: seconds_per_admission(few),  # type: ignore[misc]
                5,
            )
        worst = max(worst, ratio)
    return worst


@figure("admission_5k_ms", "ms", at_most=20)
def admission_5k_ms() -> float:
    """Time of an admission with 5,000 ready tasks; the worst of the scenarios."""
    worst = 0.0
    for scenario in _SCENARIOS:
        with queue_of(5_000, scenario) as store:
            worst = max(worst, seconds_per_admission(store))
    return 1000 * worst
