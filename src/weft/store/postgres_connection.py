"""Connections to PostgreSQL: their parameters, the settings of each transaction, and the schema.

A pooler in transaction mode (PgBouncer) gives each transaction another session of the server, and
refuses `options` at the start. So weft keeps no state in a session: the settings are part of each
transaction, and statements are prepared only where no pooler is between.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg import IsolationLevel
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.rows import DictRow

from weft.errors import ForeignStore, InputError, NewerStore, UnknownSchema
from weft.store import sql as texts
from weft.store.database import Row

_CLIENT: Final = {
    "connect_timeout": 10,
    # The system ends a connection to a server that has vanished, instead of waiting for hours.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds in which the server's system confirms what was sent
}
_SETTINGS: Final = {
    "search_path": "weft",
    # With `enable_seqscan=off` the server takes each query for an expensive query, and would
    # compile it to machine code at every call.
    "jit": "off",
    # A writer stopped inside its transaction would stop all writers: the server ends it.
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "30s",
    # Every query is a few look-ups by index. The server's statistics come too late for tables that
    # grow by a whole plan at once: they must not lead it to read whole tables.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
_SETTINGS_17: Final = {"transaction_timeout": "120s"}
_SERVER_KEEPALIVES: Final = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
_PREPARE_AFTER: Final = 5  # calls of a statement, as psycopg does by default


def connection_parameters(url: str) -> dict[str, Any]:
    """Return weft's connection parameters that the URL does not set itself."""
    asked = psycopg.conninfo.conninfo_to_dict(url)
    wanted: dict[str, Any] = dict(_CLIENT)
    if "," in str(asked.get("host", "")) or "," in str(asked.get("hostaddr", "")):
        wanted["target_session_attrs"] = "read-write"  # of several servers, the primary
    given = {name: value for name, value in wanted.items() if name not in asked}
    return given | {"prepare_threshold": None}


def transaction_settings(server_version: int) -> str:
    """Return the statement that sets a transaction's settings, until its end."""
    chosen = _SETTINGS | (_SETTINGS_17 if server_version >= 170000 else {})
    return "SELECT " + ", ".join(
        f"set_config('{name}', '{value}', true)" for name, value in chosen.items()
    )


def is_direct(connection: psycopg.Connection[DictRow]) -> bool:
    """Tell whether the server itself answers, and no pooler: a pooler invents the process id."""
    row = connection.execute("SELECT pg_backend_pid() AS pid").fetchone()
    return row is not None and bool(row["pid"] == connection.info.backend_pid)


class SumLoader(Loader):
    """A reader of sums: whole numbers are int, as SQLite gives them, and not Decimal."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text else int(text)


def configure(connection: psycopg.Connection[DictRow]) -> None:
    """Read sums as numbers, prepare statements, and let the server end a session whose machine has
    vanished; through a pooler only the first."""
    connection.adapters.register_loader("numeric", SumLoader)
    if is_direct(connection):
        connection.prepare_threshold = _PREPARE_AFTER
        pairs = [f"set_config('{name}', '{n}', false)" for name, n in _SERVER_KEEPALIVES.items()]
        connection.execute(f"SELECT {', '.join(pairs)}")


def split_password(url: str) -> tuple[str, str]:
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
