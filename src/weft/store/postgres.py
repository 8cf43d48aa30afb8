"""The PostgreSQL driver: a database shared by the processes of many machines.

All tables live in the schema `weft`. A writing transaction first *writes* the row of `store`:
reading it `FOR UPDATE` would not do, since under REPEATABLE READ a waiting reader continues with
its old snapshot. The written row makes writers take turns under every isolation level; the losers
of a race under the stricter levels are repeated.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from weft.errors import ForeignStore, InputError, NewerStore, StoreBusy, StoreError, UnknownSchema
from weft.store import sql as texts
from weft.store.database import Cursor, Row
from weft.store.wake import Listener, Listeners, Outward, Topic, wait_readable

T = TypeVar("T")

_CHANNELS: Final[Mapping[Topic, str]] = {"work": "weft_work", "events": "weft_events"}
_ABSENT: Final = 5.0  # seconds of silence after which the server may have dropped a writer
_REPEATABLE: Final = (errors.SerializationFailure, errors.DeadlockDetected)
_POOL: Final = "weft"
MIGRATION_LOCK: Final = 0x77656674
_PATIENCE: Final = 30.0
_NEXT_TURN: Final = "UPDATE store SET writes = writes + 1"
_NO_JIT: Final = "SET LOCAL jit = off"
"""With `enable_seqscan=off` the server takes each query for an expensive query, and would compile
it to machine code at every call. Part of each transaction: a pooler may drop the session's
options."""
_OPTIONS: Final = (
    "-c search_path=weft "
    # A writer stopped inside its transaction would stop all writers: the server ends it.
    "-c idle_in_transaction_session_timeout=10s "
    "-c lock_timeout=30s "
    # The server also ends a writer whose machine has vanished.
    "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3 "
    # Every query is a few look-ups by index. The server's statistics come too late for tables that
    # grow by a whole plan at once: they must not lead it to read whole tables.
    "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off "
    "-c plan_cache_mode=force_generic_plan"
)


class Postgres:
    """A pool of connections, each used by a thread at a time."""

    def __init__(
        self, url: str, *, next_turn: str = _NEXT_TURN, steps: texts.Steps | None = None
    ) -> None:
        """Connect and migrate; `steps` are the migrations that this program knows."""
        self.url = url
        self._secret, self.place = _place(url)
        self._queries = texts.queries("postgres")
        self._next_turn = next_turn
        self._listeners = Listeners()
        self._ears: _Ears | None = None
        self._ears_lock = threading.Lock()
        try:
            with self._connect() as connection:
                _migrate(connection, steps or texts.migrations("postgres"))
        except psycopg.Error as error:
            raise self._explain(error) from error
        self._pool = ConnectionPool(
            url,
            name=_POOL,
            connection_class=psycopg.Connection[DictRow],
            kwargs={"autocommit": True, "row_factory": dict_row, **self.connection_settings()},
            configure=_bound_transactions,
            min_size=0,
            max_size=8,
            timeout=_PATIENCE,
            open=True,
        )
        logging.getLogger("psycopg.pool").addFilter(_concerns_others)

    def connection_settings(self) -> dict[str, Any]:
        """Combine the options of the URL with weft's; the last setting of an option wins."""
        asked = psycopg.conninfo.conninfo_to_dict(self.url)
        return {
            "options": f"{asked.get('options', '')} {_OPTIONS}",
            "connect_timeout": asked.get("connect_timeout", 10),
        }

    def _connect(self) -> psycopg.Connection[DictRow]:
        return psycopg.Connection.connect(
            self.url, autocommit=True, row_factory=dict_row, **self.connection_settings()
        )

    def read(self, work: Callable[[Cursor], T]) -> T:
        def body(connection: psycopg.Connection[DictRow], _: _Phase) -> T:
            with connection.pipeline() as pipeline:
                first = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", _NO_JIT)
                cursor = _PostgresCursor(connection, pipeline, self._queries, first)
                result = work(cursor)
                cursor.send()
                connection.execute("COMMIT")
            return result

        return self._repeat(body)

    def write(self, work: Callable[[Cursor], tuple[T, Outward]]) -> T:
        def body(connection: psycopg.Connection[DictRow], phase: _Phase) -> tuple[T, Outward]:
            # A pipeline: writes travel with the next read or the commit.
            with connection.pipeline() as pipeline:
                first = ("BEGIN", _NO_JIT, self._next_turn)
                cursor = _PostgresCursor(connection, pipeline, self._queries, first)
                result, outward = work(cursor)
                cursor.send()
                for topic in outward.topics():
                    connection.execute(f"NOTIFY {_CHANNELS[topic]}")
                if time.monotonic() - cursor.answered > _ABSENT:
                    pipeline.sync()  # raises if the server ended this transaction
                phase.committing = outward.changed
                connection.execute("COMMIT" if outward.changed else "ROLLBACK")
            return result, outward

        result, outward = self._repeat(body)
        for topic in outward.topics():
            self._listeners.ring(topic)
        return result

    def _repeat(self, body: Callable[[psycopg.Connection[DictRow], _Phase], T]) -> T:
        """Run a transaction; repeat it if it lost a race, or its connection before the commit."""
        give_up = time.monotonic() + _PATIENCE
        for tries in itertools.count(1):
            phase = _Phase()
            try:
                with self._pool.connection() as connection:
                    try:
                        return body(connection, phase)
                    except BaseException:
                        phase.lost = not _roll_back(connection)
                        raise
            except (psycopg.IntegrityError, psycopg.ProgrammingError):
                raise  # a defect of weft, which must look like a defect
            except (psycopg.Error, PoolTimeout) as error:
                again = isinstance(error, _REPEATABLE) or (phase.lost and not phase.committing)
                # At least twice: a process suspended inside a transaction comes back long after.
                if not again or (tries > 1 and time.monotonic() > give_up):
                    raise self._explain(error) from error
                time.sleep(random.uniform(0.001, 0.01))  # noqa: S311
        raise AssertionError("counting never ends")

    def listen(self, topic: Topic) -> Listener:
        with self._ears_lock:
            if self._ears is None:
                self._ears = _Ears(self._connect, self._listeners)
        self._ears.ready()
        return Listener(topic, self._listeners)

    def version(self) -> str:
        with self._pool.connection() as connection:
            return f"PostgreSQL {connection.info.server_version // 10000}"

    def check(self) -> str | None:
        return None  # the server answers, and checks its files itself

    def close(self) -> None:
        if self._ears is not None:
            self._ears.close()
        self._listeners.close()
        self._pool.close()

    def _explain(self, error: Exception) -> StoreError:
        where = self.place
        if isinstance(error, (*_REPEATABLE, errors.LockNotAvailable)):
            return StoreBusy(f"The store {where} is busy; try again.")
        if isinstance(error, PoolTimeout):
            return StoreError(f"The store {where} cannot be reached; is its server running?")
        reason = _first_line(error)
        if self._secret:
            reason = reason.replace(self._secret, "…")
        return StoreError(f"The store {where} cannot be used: {reason}.")


def _roll_back(connection: psycopg.Connection[DictRow]) -> bool:
    """Roll back; return False if the connection is broken, which may show only now."""
    try:
        if not connection.closed:
            connection.execute("ROLLBACK")
    except psycopg.OperationalError:
        connection.close()
    return not connection.closed


def _concerns_others(record: logging.LogRecord) -> bool:
    """Hide the pool's report of each failed connection: weft reports it once, as an error."""
    return not (isinstance(record.args, tuple) and record.args[:1] == (_POOL,))


class _Phase:
    """Progress of a transaction, which decides whether it may be repeated."""

    committing = False  # COMMIT was sent; it may or may not have arrived
    lost = False  # the connection broke


class _PostgresCursor:
    def __init__(
        self,
        connection: psycopg.Connection[DictRow],
        pipeline: psycopg.Pipeline,
        queries: Mapping[str, str],
        first: Sequence[str],
    ) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._queries = queries
        # Writes are kept back until an answer is needed. Sent at once, they would leave the server
        # inside a pipeline, where it waits for a stopped client for ever; an idle transaction is
        # ended by the server.
        self._kept: list[tuple[str, Mapping[str, Any] | None]] = [(text, None) for text in first]
        self.answered = time.monotonic()  # time of the server's last answer

    def all(self, query: str, parameters: Mapping[str, Any]) -> Sequence[Row]:
        return self._answer(query, parameters).fetchall()

    def run(self, query: str, parameters: Mapping[str, Any]) -> None:
        self._kept.append((self._queries[query], parameters))

    def count(self, query: str, parameters: Mapping[str, Any]) -> int:
        return self._answer(query, parameters).rowcount

    def _answer(self, query: str, parameters: Mapping[str, Any]) -> psycopg.Cursor[DictRow]:
        self.send()
        cursor = self._connection.execute(self._queries[query], parameters)
        self._pipeline.sync()
        self.answered = time.monotonic()
        return cursor

    def send(self) -> None:
        """Send the writes that were kept back."""
        for text, parameters in self._kept:
            self._connection.execute(text, parameters)
        self._kept.clear()

    def many(self, query: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        self.send()
        with self._connection.cursor() as cursor:
            cursor.executemany(self._queries[query], parameters)
        self._pipeline.sync()
        self.answered = time.monotonic()


class _Ears:
    """A thread with its own connection that turns notifications into rings."""

    def __init__(
        self, connect: Callable[[], psycopg.Connection[DictRow]], listeners: Listeners
    ) -> None:
        self._connect = connect
        self._listeners = listeners
        self._closed = threading.Event()
        self._ready = threading.Event()
        self._stop, self._stopped = os.pipe()  # wakes the thread from its wait
        self._thread = threading.Thread(target=self._run, name="weft-listen", daemon=True)
        self._thread.start()

    def ready(self) -> None:
        """Wait until notifications arrive, so that none after this is missed."""
        self._ready.wait(5)

    def _run(self) -> None:
        while not self._closed.is_set():
            with suppress(psycopg.Error):  # the connection broke: connect again
                self._listen()
            self._ready.clear()
            self._closed.wait(1)

    def _listen(self) -> None:
        topic_of = {channel: topic for topic, channel in _CHANNELS.items()}
        with self._connect() as connection:
            for channel in topic_of:
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            self._ready.set()
            # A change may have happened before the connection listened.
            for topic in _CHANNELS:
                self._listeners.ring(topic)
            while not self._closed.is_set():
                wait_readable(None, connection.fileno(), self._stop)
                for notice in connection.notifies(timeout=0):
                    self._listeners.ring(topic_of[notice.channel])

    def close(self) -> None:
        self._closed.set()
        os.close(self._stopped)
        self._thread.join()
        os.close(self._stop)


def _bound_transactions(connection: psycopg.Connection[DictRow]) -> None:
    """Bound every transaction on servers that can, even if its client is stopped."""
    if connection.info.server_version >= 170000:
        connection.execute("SET transaction_timeout = '120s'")


def _migrate(connection: psycopg.Connection[DictRow], steps: texts.Steps) -> None:
    if _version(connection, steps) == steps[-1][0]:
        return
    connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
    try:
        # A new statement, hence a new snapshot: another process may have been faster.
        _apply(connection, _version(connection, steps), steps)
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (MIGRATION_LOCK,))


def _apply(
    connection: psycopg.Connection[DictRow], version: int | None, steps: texts.Steps
) -> None:
    with connection.transaction():
        connection.execute(_NO_JIT)
        if version is None:
            connection.execute("CREATE SCHEMA IF NOT EXISTS weft")
            connection.execute(
                "CREATE TABLE weft.schema_version (version BIGINT NOT NULL, digest TEXT NOT NULL)"
            )
            connection.execute("INSERT INTO weft.schema_version VALUES (0, '')")
        for number, statements in steps:
            if number > (version or 0):
                for statement in statements:
                    connection.execute(statement)
                connection.execute(
                    "UPDATE weft.schema_version SET version = %s, digest = %s",
                    (number, texts.digest(steps, number)),
                )


def _version(connection: psycopg.Connection[DictRow], steps: texts.Steps) -> int | None:
    """Return the schema's version, None if there is no schema yet; refuse an unknown schema."""
    with connection.pipeline(), connection.transaction():
        connection.execute(_NO_JIT)
        row = _find_version(connection)
    if row is None:
        return None
    version, newest = int(row["version"]), steps[-1][0]
    if version > newest:
        raise NewerStore(
            f"The store has schema {version}, this weft knows {newest}; upgrade weft to use it."
        )
    if row["digest"] != texts.digest(steps, version):
        raise UnknownSchema(
            f"The store has a schema {version} of another development version of weft, which this "
            "one cannot use. End its runs with the weft that made it, or start a new store: "
            "`ALTER SCHEMA weft RENAME TO weft_old` keeps the old one."
        )
    return version


def _find_version(connection: psycopg.Connection[DictRow]) -> Row | None:
    """Read version and digest of the schema; None if there is no schema yet."""
    row = connection.execute(
        "SELECT to_regclass('weft.schema_version') IS NOT NULL AS ours, "
        "EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'weft') AS something"
    ).fetchone()
    assert row is not None
    if not row["ours"]:
        if row["something"]:
            raise ForeignStore(
                "This database has a schema `weft` that is not weft's; use another database."
            )
        return None
    row = connection.execute(
        # As JSON: early stores have no column `digest`.
        "SELECT version, to_jsonb(v) ->> 'digest' AS digest FROM weft.schema_version v"
    ).fetchone()
    if row is None:
        raise ForeignStore("The store's schema has no version; restore it from a backup.")
    return row


def _place(url: str) -> tuple[str, str]:
    """Return the password in a URL, and its location without the password."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        # Its message quotes the unreadable text, which may be the password.
        raise InputError(
            "The store's URL cannot be read; write postgresql://user:password@host/database, "
            "with %-escapes for special characters."
        ) from None
    where = f"postgresql://{parts.get('host', '')}/{parts.get('dbname', '')}"
    return str(parts.get("password", "")), where


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
