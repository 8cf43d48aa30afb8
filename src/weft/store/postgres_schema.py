"""The schema `weft` of a PostgreSQL: its version, and the migrations that are missing."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import IsolationLevel
from psycopg.rows import DictRow

from weft.errors import ForeignStore, NewerStore, UnknownSchema
from weft.store import sql as texts
from weft.store.database import Row
from weft.store.postgres_connection import transaction_settings

MIGRATION_LOCK: Final = 0x77656674
_WANTED_SINCE: Final = 3  # the first schema with all columns that the view `wanted` reads


def migrate(connection: psycopg.Connection[DictRow], steps: texts.Steps) -> None:
    """Apply the missing migrations in one transaction; processes take turns."""
    local = transaction_settings(connection.info.server_version)
    with connection.pipeline(), connection.transaction():
        connection.execute(local)
        version = _version(connection, steps)
    if version == steps[-1][0]:
        return
    # Under a stricter level the version below would be that of before the lock.
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    with connection.transaction():
        connection.execute(local)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        _apply(connection, _version(connection, steps), steps)


def _apply(
    connection: psycopg.Connection[DictRow], version: int | None, steps: texts.Steps
) -> None:
    if version is None:
        connection.execute("CREATE SCHEMA IF NOT EXISTS weft")
        connection.execute(
            "CREATE TABLE weft.schema_version (version BIGINT NOT NULL, digest TEXT NOT NULL)"
        )
        connection.execute("INSERT INTO weft.schema_version VALUES (0, '')")
    connection.execute("DROP VIEW IF EXISTS wanted")  # a migration may make its tables anew
    for number, statements in steps:
        if number > (version or 0):
            for statement in statements:
                connection.execute(statement)
            connection.execute(
                "UPDATE weft.schema_version SET version = %s, digest = %s",
                (number, texts.digest(steps, number)),
            )
    if steps[-1][0] >= _WANTED_SINCE:
        connection.execute(texts.view())


def _version(connection: psycopg.Connection[DictRow], steps: texts.Steps) -> int | None:
    """Return the schema's version, None if there is no schema yet; refuse an unknown schema."""
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
