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

from weft.errors import StoreBusy, StoreError
from weft.store import sql as texts
from weft.store.database import Cursor, Row
from weft.store.postgres_connection import (
    configure,
    connection_parameters,
    is_direct,
    migrate,
    split_password,
    transaction_settings,
)
from weft.store.wake import Listener, Listeners, Outward, Topic, wait_readable

T = TypeVar("T")
log = logging.getLogger(__name__)

_ABSENT: Final = 5.0  # seconds of silence after which the server may have dropped a writer
_REPEATABLE: Final = (errors.SerializationFailure, errors.DeadlockDetected)
_LEAVING: Final = (
    errors.ReadOnlySqlTransaction,  # it is a standby now
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
)
"""Answers of a server that will not serve this connection any more; another server may."""
_POOL: Final = "weft"
_PATIENCE: Final = 30.0
_RECONNECT: Final = 2.0
"""Seconds after which a new connection is asked for again: the pool doubles its own pauses, and
would leave a server that is back alone for half a minute."""
_NEXT_TURN: Final = "UPDATE store SET writes = writes + 1"


class Postgres:
    """A pool of connections, each used by a thread at a time."""

    def __init__(
        self,
        url: str,
        *,
        listen_url: str | None = None,
        next_turn: str = _NEXT_TURN,
        steps: texts.Steps | None = None,
    ) -> None:
        """Connect and migrate; `steps` are the migrations that this program knows.

        Notifications come from `listen_url`, if a pooler answers at `url`.
        """
        self.url = url
        secret, self.place = split_password(url)
        self._listen_url = listen_url or url
        self._secrets = {secret, split_password(self._listen_url)[0]} - {""}
        self._queries = texts.queries("postgres")
        self._next_turn = next_turn
        self._listeners = Listeners()
        self._ears: PostgresListener | None = None
        self._ears_lock = threading.Lock()
        try:
            with self._connect() as connection:
                migrate(connection, steps or texts.migrations("postgres"))
                self._settings = transaction_settings(connection.info.server_version)
        except psycopg.Error as error:
            raise self._explain(error) from error
        self._pool = ConnectionPool(
            url,
            name=_POOL,
            connection_class=psycopg.Connection[DictRow],
            kwargs={"autocommit": True, "row_factory": dict_row, **connection_parameters(url)},
            configure=configure,
            min_size=0,
            max_size=8,
            timeout=_RECONNECT,
            reconnect_timeout=_RECONNECT,
            open=True,
        )
        for name in ("psycopg", "psycopg.pool"):
            logging.getLogger(name).addFilter(_concerns_others)

    def _connect(self) -> psycopg.Connection[DictRow]:
        return _connect(self.url)

    def read(self, work: Callable[[Cursor], T]) -> T:
        def body(connection: psycopg.Connection[DictRow], _: _Phase) -> T:
            with connection.pipeline() as pipeline:
                first = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", self._settings)
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
                first = ("BEGIN", self._settings, self._next_turn)
                cursor = _PostgresCursor(connection, pipeline, self._queries, first)
                result, outward = work(cursor)
                cursor.send()
                for topic in outward.topics():
                    connection.execute(f"NOTIFY {CHANNELS[topic]}")
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
        """Run a transaction; repeat it if it lost a race, or its server before the commit."""
        give_up = time.monotonic() + _PATIENCE
        for tries in itertools.count(1):
            phase = _Phase()
            try:
                with self._pool.connection() as connection:
                    try:
                        return body(connection, phase)
                    except BaseException as error:
                        if isinstance(error, _LEAVING):
                            connection.close()
                        phase.lost = not _roll_back(connection)
                        raise
            except (psycopg.IntegrityError, psycopg.ProgrammingError):
                raise  # a defect of weft, which must look like a defect
            except (psycopg.Error, PoolTimeout) as error:
                if phase.lost and phase.committing:
                    raise self._doubt(error) from error
                again = phase.lost or isinstance(error, (*_REPEATABLE, PoolTimeout))
                # At least twice: a process suspended inside a transaction comes back long after.
                if not again or (tries > 1 and time.monotonic() > give_up):
                    raise self._explain(error) from error
                if tries == 1 and not isinstance(error, _REPEATABLE):
                    log.info("repeating a transaction of %s: %s", self.place, self._reason(error))
                time.sleep(random.uniform(0.001, 0.01))  # noqa: S311
        raise AssertionError("counting never ends")

    def listen(self, topic: Topic) -> Listener:
        with self._ears_lock:
            if self._ears is None:
                self._ears = PostgresListener(lambda: _connect(self._listen_url), self._listeners)
        self._ears.wait_ready()
        return Listener(topic, self._listeners)

    def version(self) -> str:
        """Return the server's version, and whether a pooler keeps its notifications back."""
        try:
            with _connect(self._listen_url) as connection:
                number = connection.info.server_version // 10000
                direct = is_direct(connection)
        except psycopg.Error as error:
            raise self._explain(error) from error
        if direct:
            return f"PostgreSQL {number}"
        return (
            f"PostgreSQL {number} through a pooler, which passes no notifications on (weft looks "
            f"for changes every {POLL_SECONDS} s; `listen_url` in [store] may name the server "
            "itself)"
        )

    def check(self) -> str | None:
        return None  # the server answers, and checks its files itself

    def close(self) -> None:
        if self._ears is not None:
            self._ears.close()
        self._listeners.close()
        self._pool.close()

    def _doubt(self, error: Exception) -> StoreError:
        return StoreError(
            f"The connection to the store {self.place} broke before the answer to a commit: "
            f"{self._reason(error)}. The change may or may not be stored; look with `weft ps` "
            "before you repeat it."
        )

    def _explain(self, error: Exception) -> StoreError:
        where = self.place
        if isinstance(error, (*_REPEATABLE, errors.LockNotAvailable)):
            return StoreBusy(f"The store {where} is busy; try again.")
        if isinstance(error, PoolTimeout):
            return StoreError(f"The store {where} cannot be reached; is its server running?")
        return StoreError(f"The store {where} cannot be used: {self._reason(error)}.")

    def _reason(self, error: Exception) -> str:
        reason = _first_line(error)
        for secret in self._secrets:
            reason = reason.replace(secret, "…")
        return reason


def _connect(url: str) -> psycopg.Connection[DictRow]:
    return psycopg.Connection.connect(
        url, autocommit=True, row_factory=dict_row, **connection_parameters(url)
    )


def _roll_back(connection: psycopg.Connection[DictRow]) -> bool:
    """Roll back; return False if the connection is broken, which may show only now."""
    try:
        if not connection.closed:
            connection.execute("ROLLBACK")
    except psycopg.OperationalError:
        connection.close()
    return not connection.closed


def _concerns_others(record: logging.LogRecord) -> bool:
    """Hide the drivers' reports of a connection that failed: weft reports it once."""
    subject = record.args[0] if isinstance(record.args, tuple) and record.args else None
    ours = (psycopg.Connection, psycopg.Pipeline)
    return not (subject == _POOL or isinstance(subject, ours))


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


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


CHANNELS: Final[Mapping[Topic, str]] = {"work": "weft_work", "events": "weft_events"}
POLL_SECONDS: Final = 0.5
"""Pause between two looks for changes, where notifications do not arrive."""


class PostgresListener:
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

    def wait_ready(self) -> None:
        """Wait until notifications arrive, so that none after this is missed."""
        self._ready.wait(5)

    def _run(self) -> None:
        while not self._closed.is_set():
            with suppress(psycopg.Error), self._connect() as connection:  # broken: connect again
                if is_direct(connection):
                    self._listen(connection)
                else:
                    self._poll(connection)
            self._ready.clear()
            self._closed.wait(1)

    def _listen(self, connection: psycopg.Connection[DictRow]) -> None:
        topic_of = {channel: topic for topic, channel in CHANNELS.items()}
        for channel in topic_of:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        self._ready.set()
        self._ring_all()  # a change may have happened before the connection listened
        while not self._closed.is_set():
            wait_readable(None, connection.fileno(), self._stop)
            for notice in connection.notifies(timeout=0):
                self._listeners.ring(topic_of[notice.channel])

    def _poll(self, connection: psycopg.Connection[DictRow]) -> None:
        """Ring whenever a writing transaction has been committed since the last look."""
        seen = None
        while not self._closed.is_set():
            row = connection.execute("SELECT writes FROM weft.store").fetchone()
            if row != seen:
                seen = row
                self._ready.set()
                self._ring_all()
            wait_readable(POLL_SECONDS, self._stop)

    def _ring_all(self) -> None:
        for topic in CHANNELS:
            self._listeners.ring(topic)

    def close(self) -> None:
        self._closed.set()
        os.close(self._stopped)
        self._thread.join()
        os.close(self._stop)
