"""Short words for what store tests do all the time, and ways to weaken a store.

A weakened store is the real one with exactly one safeguard taken out: a condition dropped
from one named query, another number, or a driver that commits, waits or tells less than it
should. A scenario's check must pass on the real store and fail on the weakened one.
"""

from __future__ import annotations

import copy
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from msgspec.structs import replace

import weft
from databases import fresh_database, look, sqlite_store, wipe
from weft.config import DEFAULT_LIMITS
from weft.model import Grant, NewTask, NewWorker, Outcome, State
from weft.store import Store, open_store, sql
from weft.store.admission import admit
from weft.store.database import Cursor, Row, Transaction
from weft.store.leases import list_open
from weft.store.limit_table import list_limits, start_with
from weft.store.postgres import Postgres
from weft.store.sqlite import Sqlite
from weft.store.tasks import submit
from weft.store.wake import Outward
from weft.store.workers import register

T = TypeVar("T")
Work = Callable[[Cursor], tuple[T, Outward]]

DONE = Outcome(state=State.DONE)
AGAIN = Outcome(state=State.READY, kind="crash")
DAY = 86_400.0


def _tables() -> tuple[str, ...]:
    """List the tables of the schema, except the table whose row every writer changes."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for _, statements in sql.migrations("sqlite"):
            for statement in statements:
                connection.execute(statement)
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return tuple(sorted({name for (name,) in rows} - {"store"}))


TABLES = _tables()


_databases: dict[str, str] = {}


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty store. On PostgreSQL always the same one, wiped: that is faster.

    A module that imports this fixture uses it in place of the general one.
    """
    if getattr(request, "param", "sqlite") == "sqlite":
        yield sqlite_store(tmp_path / "weft.db")
        return
    server = request.getfixturevalue("postgres_server")
    if server not in _databases:
        keep = ExitStack()
        _databases[server] = keep.enter_context(fresh_database(server))
        request.session.addfinalizer(keep.close)
        open_store(_databases[server]).close()
    wipe(_databases[server])
    yield _databases[server]


def hire(store: Store, worker: str = "w", *, now: float = 0, **fields: Any) -> None:
    """Register a worker."""
    register(
        store, NewWorker(**{"id": worker, "slots": 8, "host": "h", **fields}), now=now, stated={}
    )


def put(
    store: Store, name: str = "t", *, now: float = 0, tenant: str = "default", **fields: Any
) -> int:
    """Submit an ad-hoc task on the repository `r`."""
    return submit(store, NewTask(name=name, **fields), repo="r", tenant=tenant, now=now)


def go(store: Store, worker: str = "w", *, now: float = 1) -> Grant:
    """Admit what comes next, which is one task."""
    grants = admit(store, worker, now=now)
    assert len(grants) == 1, f"{len(grants)} tasks were admitted, not one"
    return grants[0]


def first_fence(store: Store) -> int:
    """The fence of the oldest attempt under way."""
    return next(lease.fence for lease in list_open(store) if lease.kind == "attempt")


def drain(store: Store, worker: str = "w", *, now: float = 1) -> list[str]:
    """Admit until nothing more fits; the names in the order of admission."""
    names: list[str] = []
    while grants := admit(store, worker, now=now):
        names += [grant.name for grant in grants]
    return names


def used(store: Store, resource: str, *, now: float = 1) -> int:
    return next(limit.used for limit in list_limits(store, now=now) if limit.resource == resource)


def state(store: Store, task: int) -> str:
    """A task's state as an outside observer finds it."""
    [row] = look(store.url, "SELECT state FROM tasks WHERE id = ?", task)
    return str(row["state"])


def lease_state(store: Store, fence: int) -> str:
    [row] = look(store.url, "SELECT state FROM leases WHERE fence = ?", fence)
    return str(row["state"])


def snapshot(url: str) -> dict[str, list[str]]:
    """Everything in a store, to see that nothing has changed."""
    connection: Any
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    else:
        connection = psycopg.connect(url, autocommit=True, options="-c search_path=weft")
    with closing(connection):
        return {
            table: sorted(map(str, connection.execute(f"SELECT * FROM {table}").fetchall()))
            for table in TABLES
        }


def caught(
    store: Store, check: Callable[[Store], None], *weakenings: Callable[[Store], Store]
) -> None:
    """A check holds for the store, and fails for each weakened one."""
    check(store)
    for weakened in weakenings:
        wipe(store.url)
        start_with(store, DEFAULT_LIMITS)
        with pytest.raises(AssertionError) as failure:
            check(weakened(store))
        # Weft's own assertions prove nothing here.
        assert Path(weft.__file__).parent not in Path(failure.traceback[-1].path).parents


def weaken(store: Store, query: str, *replacements: tuple[str, str]) -> Store:
    """The same store with other words in one named query."""
    text = sql.queries("sqlite")[query]
    for old, new in replacements:
        if old not in text:
            raise LookupError(f"the query {query} does not say {old!r}")
        text = text.replace(old, new)
    if isinstance(store.database, Postgres):
        text = re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", text.replace("%", "%%"))
    return _altered(store, _queries={**vars(store.database)["_queries"], query: text})


def tuned(store: Store, **numbers: Any) -> Store:
    return Store(store.database, replace(store.tuning, **numbers))


def mute(store: Store) -> Store:
    """A store that tells nobody when something may have become admissible."""
    inner = store.database.write

    def write(work: Work[T]) -> T:
        def quietly(cursor: Cursor) -> tuple[T, Outward]:
            result, outward = work(cursor)
            outward.work = False
            return result, outward

        return inner(quietly)

    return _altered(store, write=write)


def piecemeal(store: Store) -> Store:
    """A store that commits every statement by itself."""
    inner = store.database.write

    def alone(action: Callable[[Cursor], T]) -> T:
        outward = Outward()
        outward.changed = True
        return inner(lambda cursor: (action(cursor), outward))

    def write(work: Work[T]) -> T:
        return work(_Piecemeal(alone))[0]

    return _altered(store, write=write)


def watched(store: Store, look_now: Callable[[], None]) -> Store:
    """The same store; somebody looks at the database after each statement."""
    inner = store.database.write

    def write(work: Work[T]) -> T:
        return inner(lambda cursor: work(_Watched(cursor, look_now)))

    return _altered(store, write=write)


def impatient(store: Store) -> Store:
    """A store that gives up at once when somebody else is writing."""
    if isinstance(store.database, Sqlite):
        return Store(Sqlite(store.database.path, patience=0), store.tuning)
    nowait = "SELECT 1 FROM store FOR UPDATE NOWAIT"
    return Store(Postgres(store.url, next_turn=nowait), store.tuning)


def connection_of(store: Store) -> sqlite3.Connection:
    """The connection of a store that is a file."""
    assert isinstance(store.database, Sqlite)
    return store.database.connection


def deferred(store: Store) -> Store:
    """A store whose writing transactions begin by reading."""
    if isinstance(store.database, Sqlite):
        return Store(_Deferred(store.database.path), store.tuning)
    return Store(Postgres(store.url, next_turn="SELECT 1"), store.tuning)


@contextmanager
def somebody_writes(url: str, seconds: float) -> Iterator[None]:
    """Another program keeps the store from being written for a while."""
    connection: Any
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection = psycopg.connect(url)
        connection.execute("UPDATE weft.store SET writes = writes")
    timer = threading.Timer(seconds, connection.rollback)
    with closing(connection):
        timer.start()
        try:
            yield
        finally:
            timer.join()


def _altered(store: Store, **attributes: object) -> Store:
    """A store over a copy of the same driver that differs in these attributes."""
    database = copy.copy(store.database)
    vars(database).update(attributes)
    return Store(database, store.tuning)


class _Piecemeal:
    def __init__(self, alone: Callable[[Callable[[Cursor], Any]], Any]) -> None:
        self._alone = alone

    def all(self, query: str, parameters: Mapping[str, Any]) -> Sequence[Row]:
        rows: Sequence[Row] = self._alone(lambda cursor: cursor.all(query, parameters))
        return rows

    def run(self, query: str, parameters: Mapping[str, Any]) -> None:
        self._alone(lambda cursor: cursor.run(query, parameters))

    def count(self, query: str, parameters: Mapping[str, Any]) -> int:
        return int(self._alone(lambda cursor: cursor.count(query, parameters)))

    def many(self, query: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        self._alone(lambda cursor: cursor.many(query, parameters))


class _Watched:
    def __init__(self, cursor: Cursor, look_now: Callable[[], None]) -> None:
        self._cursor = cursor
        self._look_now = look_now

    def all(self, query: str, parameters: Mapping[str, Any]) -> Sequence[Row]:
        return self._cursor.all(query, parameters)

    def run(self, query: str, parameters: Mapping[str, Any]) -> None:
        self._cursor.run(query, parameters)
        self._look_now()

    def count(self, query: str, parameters: Mapping[str, Any]) -> int:
        touched = self._cursor.count(query, parameters)
        self._look_now()
        return touched

    def many(self, query: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        self._cursor.many(query, parameters)
        self._look_now()


class _Deferred(Sqlite):
    def _begin(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")


def count_transactions(store: Store) -> tuple[Store, Counter[str]]:
    """Return the same store with a count of its reading and writing transactions."""
    counts: Counter[str] = Counter()
    database = copy.copy(store.database)

    def counted(kind: str) -> Callable[..., Any]:
        inner = getattr(store.database, kind)

        def transaction(work: Callable[..., Any]) -> Any:
            counts[kind] += 1
            return inner(work)

        return transaction

    vars(database).update(read=counted("read"), write=counted("write"))
    return Store(database, store.tuning), counts


class CountedStore(Store):
    """A store that counts the statements it sends, and the rows that come back or are written."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.database, store.tuning, redactor=store.redactor)
        self.statements: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self.database.read(
            lambda cursor: work(Transaction(_CountingCursor(self, cursor), self.tuning))
        )

    def write(self, work: Callable[[Transaction], T]) -> T:
        def body(cursor: Cursor) -> tuple[T, Outward]:
            transaction = Transaction(_CountingCursor(self, cursor), self.tuning, self.redactor)
            return work(transaction), transaction.outward

        return self.database.write(body)


class _CountingCursor:
    def __init__(self, counts: CountedStore, cursor: Cursor) -> None:
        self._counts = counts
        self._cursor = cursor

    def all(self, query: str, parameters: Mapping[str, Any]) -> Sequence[Row]:
        rows = self._cursor.all(query, parameters)
        self._count(query, len(rows))
        return rows

    def run(self, query: str, parameters: Mapping[str, Any]) -> None:
        self._count(query, 1)
        self._cursor.run(query, parameters)

    def count(self, query: str, parameters: Mapping[str, Any]) -> int:
        touched = self._cursor.count(query, parameters)
        self._count(query, touched)
        return touched

    def many(self, query: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        self._count(query, len(parameters))
        self._cursor.many(query, parameters)

    def _count(self, query: str, rows: int) -> None:
        self._counts.statements[query] += 1
        self._counts.rows[query] += rows
