"""Builds that are weaker than they should be, to show that the tests would notice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from wait_until import PATIENCE
from weft.config import Tuning
from weft.store import Store, sql
from weft.store.database import Cursor, Database, Row, Transaction
from weft.store.postgres import Postgres
from weft.store.sqlite import Sqlite
from weft.store.wake import Outward

T = TypeVar("T")


class InterruptedStore(Store):
    """Lets something happen when a write has decided but not yet committed."""

    def __init__(self, database: Database, meanwhile: Callable[[], None]) -> None:
        super().__init__(database, Tuning())
        self._meanwhile = meanwhile

    def write(self, work: Callable[[Transaction], T]) -> T:
        def body(transaction: Transaction) -> T:
            result = work(transaction)
            self._meanwhile()
            return result

        return super().write(body)


def without_turns(url: str) -> Database:
    """A driver whose writers do not wait for each other."""
    if url.startswith("sqlite"):
        return _Turnless(Path(url.removeprefix("sqlite:///")))
    return Postgres(url, next_turn="SELECT 1")


class _Turnless(Sqlite):
    """SQLite, deciding over what it read in one transaction and writing in another."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._loose = sqlite3.connect(
            path, isolation_level=None, timeout=PATIENCE, check_same_thread=False
        )
        self._loose.row_factory = sqlite3.Row

    def write(self, work: Callable[[Cursor], tuple[T, Outward]]) -> T:
        cursor = _Postponing(self._loose)
        result, _ = work(cursor)
        cursor.flush()
        return result

    def close(self) -> None:
        self._loose.close()
        super().close()


class _Postponing:
    """Reads at once, and writes in the end."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._postponed: list[tuple[str, Mapping[str, Any]]] = []

    def all(self, query: str, parameters: Mapping[str, Any]) -> Sequence[Row]:
        return self._connection.execute(sql.queries("sqlite")[query], parameters).fetchall()

    def run(self, query: str, parameters: Mapping[str, Any]) -> None:
        self._postponed.append((sql.queries("sqlite")[query], parameters))

    def count(self, query: str, parameters: Mapping[str, Any]) -> int:
        self.run(query, parameters)
        return 1

    def many(self, query: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        for row in parameters:
            self.run(query, row)

    def flush(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for text, parameters in self._postponed:
            self._connection.execute(text, parameters)
        self._connection.execute("COMMIT")
