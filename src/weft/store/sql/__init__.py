"""The SQL of the store, as named queries and numbered migrations.

Every query lives in a `.sql` file beside this module, under a line `-- name: …` and a comment that
says its purpose. The text is written once with `:name` parameters; the few differences between the
two databases are replaced here.
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path
from typing import Final, Literal

Dialect = Literal["sqlite", "postgres"]
Steps = tuple[tuple[int, tuple[str, ...]], ...]
"""The schema's history: numbers from 1 on, each with its statements."""

_HERE: Final = Path(__file__).parent
_FILES: Final = (
    "admission.sql",
    "attempt_files.sql",
    "branch_landings.sql",
    "check_orders.sql",
    "events.sql",
    "gate.sql",
    "hops.sql",
    "leases.sql",
    "limits.sql",
    "members.sql",
    "output_requests.sql",
    "overview.sql",
    "projections.sql",
    "ready.sql",
    "repositories.sql",
    "reviews.sql",
    "runs.sql",
    "tasks.sql",
    "teams.sql",
    "tokens.sql",
    "workers.sql",
)
_NAME = re.compile(r"^-- name: (\w+)$")
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


@functools.cache
def queries(dialect: Dialect) -> dict[str, str]:
    """Read every named query, in the spelling of a database driver."""
    named: dict[str, str] = {}
    for file in _FILES:
        for name, text in _split(_read(file)):
            if name in named:
                raise ValueError(f"two queries are called {name}")
            named[name] = _psycopg(text) if dialect == "postgres" else text
    return named


@functools.cache
def migrations(dialect: Dialect) -> Steps:
    """Read the migrations, each split into statements."""
    steps = []
    for file in sorted(_HERE.joinpath("migrations").iterdir()):
        if file.name.endswith(".sql"):
            text = _without_comments(file.read_text(encoding="utf-8"))
            statements = tuple(
                statement.strip() for statement in text.split(";") if statement.strip()
            )
            if dialect == "sqlite":
                statements = tuple(map(_sqlite_keys, statements))
            steps.append((int(file.name.split("_")[0]), statements))
    return tuple(steps)


def view() -> str:
    """Return the statement that makes the view for autoscalers, on PostgreSQL alone."""
    return _without_comments(_read("wanted.sql"))


def digest(steps: Steps, version: int) -> str:
    text = [
        " ".join(statement.split())
        for number, its in steps
        if number <= version
        for statement in its
    ]
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def _sqlite_keys(statement: str) -> str:
    """Rewrite a table's key so that SQLite stores the table in a single tree instead of two.

    SQLite compares text byte by byte anyway and does not know a collation of that name.
    """
    statement = statement.replace(' COLLATE "C"', "")
    if statement.startswith("CREATE TABLE") and "PRIMARY KEY (" in statement:
        return f"{statement} WITHOUT ROWID"
    return statement.replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY")


def _read(file: str) -> str:
    return (_HERE / file).read_text(encoding="utf-8")


def _split(text: str) -> list[tuple[str, str]]:
    parts: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = _NAME.match(line)
        if match:
            parts.append((match[1], []))
        elif parts and not line.startswith("--"):
            parts[-1][1].append(line)
    return [(name, "\n".join(lines).strip().removesuffix(";")) for name, lines in parts]


def _psycopg(text: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))


def _without_comments(text: str) -> str:
    return "\n".join(line.split("--")[0] for line in text.splitlines())
