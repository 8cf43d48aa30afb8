"""What tests do to whole databases."""

from __future__ import annotations

import functools
import itertools
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from wait_until import PATIENCE
from weft.store import open_store

_numbers = itertools.count(1)

postgres_later = pytest.mark.parametrize(
    "url",
    [
        "sqlite",
        pytest.param(
            "postgres",
            marks=[
                pytest.mark.chaos,
                pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="by `make chaos`"),
            ],
        ),
    ],
    indirect=True,
)
"""For what is slow and hardly differs by store; what the store does is proved on both at once."""


@contextmanager
def fresh_database(server: str, template: str = "template1") -> Iterator[str]:
    """A database of its own on a running PostgreSQL, dropped in the end.

    Commits do not wait for the disk there: no test pulls the plug of the machine.
    """
    name = f"weft_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    try:
        yield _renamed(server, name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place without a store, for modules about the founding of stores.

    A module that imports this fixture uses it in place of the general one.
    """
    if getattr(request, "param", "sqlite") == "sqlite":
        yield f"sqlite:///{tmp_path / 'weft' / 'weft.db'}"
        return
    with fresh_database(request.getfixturevalue("postgres_server")) as database:
        yield database


def sqlite_store(path: Path) -> str:
    """Put a copy of an empty store there, which is faster than 170 statements; return its URL."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(_empty_store())
    path.chmod(0o600)
    return f"sqlite:///{path}"


@functools.cache
def _empty_store() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "weft.db"
        open_store(f"sqlite:///{path}").close()
        wipe(f"sqlite:///{path}")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def _renamed(server: str, database: str) -> str:
    parts = urlsplit(server)
    options = "options=" + quote("-c synchronous_commit=off")
    query = f"{parts.query}&{options}" if parts.query else options
    return urlunsplit(parts._replace(path=f"/{database}", query=query))


def look(url: str, question: str, *parameters: object) -> list[dict[str, Any]]:
    """Ask a store's database directly, as an outside observer; `?` marks parameters."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        with closing(sqlite3.connect(path, timeout=PATIENCE)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(question, parameters)]
    with psycopg.connect(url, row_factory=dict_row) as pg:
        pg.execute("SET search_path = weft")
        text = question.replace("%", "%%").replace("?", "%s")
        return list(pg.execute(text.encode(), parameters or None))


def can_write(url: str) -> bool:
    """Whether nobody keeps others from writing."""
    try:
        if url.startswith("sqlite"):
            path = Path(url.removeprefix("sqlite:///"))
            with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        else:
            with psycopg.connect(url) as pg:
                pg.execute("SET lock_timeout = '500ms'")
                pg.execute("UPDATE weft.store SET one = one")
                pg.rollback()
    except (sqlite3.OperationalError, psycopg.errors.LockNotAvailable):
        return False
    return True


def change(url: str, statement: str, *parameters: object) -> None:
    """Write to a store's database behind weft's back."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as connection:
            connection.execute(statement, parameters)
        return
    with psycopg.connect(url, autocommit=True) as pg:
        pg.execute("SET search_path = weft")
        pg.execute(statement.replace("?", "%s").encode(), parameters or None)


_KEPT = {"schema_version"}
_WIPE = """
    DO $$
    DECLARE name TEXT;
    BEGIN
        FOR name IN SELECT tablename FROM pg_tables
            WHERE schemaname = 'weft' AND tablename <> 'schema_version'
        LOOP
            EXECUTE format('DELETE FROM weft.%I', name);
        END LOOP;
        INSERT INTO weft.store (one, identity) VALUES (1, '');
    END $$
"""


def wipe(url: str) -> None:
    """Empty a store in place, which is faster than making a new one."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            connection.execute("BEGIN IMMEDIATE")
            for (table,) in tables.fetchall():
                if table in _KEPT:
                    continue
                connection.execute(f'DELETE FROM "{table}"')
            connection.execute("INSERT INTO store (one, identity) VALUES (1, '')")
            connection.execute("COMMIT")
        return
    with psycopg.connect(url, autocommit=True) as pg:
        pg.execute(_WIPE)
