"""A weft of a later version: opens a store with the steps of the schema it was given.

It prints a line when it is about to change the schema, and a line with the result. With a number as
its third argument it kills itself before the statement of that number, counted from the moment it
may change the schema.
"""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg.rows import DictRow, dict_row

from weft.errors import WeftError
from weft.store import sql
from weft.store.database import Database
from weft.store.postgres import Postgres
from weft.store.postgres_connection import connection_parameters
from weft.store.sqlite import Sqlite


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


STATEMENTS = itertools.count()
LAST = int(sys.argv[3]) if len(sys.argv) > 3 else None


def count_statement(_: object) -> None:
    if next(STATEMENTS) == LAST:
        os.kill(os.getpid(), signal.SIGKILL)


class CountingSqlite(Sqlite):
    def _begin(self, connection: sqlite3.Connection) -> None:
        tell("begins")
        super()._begin(connection)
        connection.set_trace_callback(count_statement)


class CountingConnection(psycopg.Connection[Any]):
    may_change = False

    def execute(self, query: Any, *rest: Any, **options: Any) -> Any:
        if self.may_change:
            count_statement(query)
        result = super().execute(query, *rest, **options)
        self.may_change = self.may_change or "pg_advisory_xact_lock" in query
        return result


class CountingPostgres(Postgres):
    def _connect(self) -> psycopg.Connection[DictRow]:
        return CountingConnection.connect(
            self.url, autocommit=True, row_factory=dict_row, **connection_parameters(self.url)
        )


def driver(url: str, steps: sql.Steps) -> Database:
    if url.startswith("sqlite"):
        return CountingSqlite(Path(url.removeprefix("sqlite:///")), steps=steps)
    tell("begins")  # the server knows whether the program waits for the lock
    return CountingPostgres(url, steps=steps)


if __name__ == "__main__":
    try:
        driver(sys.argv[1], msgspec.json.decode(sys.argv[2], type=sql.Steps)).close()
    except WeftError as error:
        tell(f"{type(error).__name__}: {error}")
    else:
        tell("opened")
