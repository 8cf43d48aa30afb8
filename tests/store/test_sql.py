"""The SQL texts: every query is used, understood by both databases, and found by an index."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import weft
from databases import fresh_database
from store_helpers import connection_of
from weft.store import open_store, sql
from weft.store.postgres_connection import transaction_settings

SOURCES = Path(weft.__file__).parent
QUERIES = sorted(sql.queries("sqlite"))
CALL = re.compile(r'\b(?:tx|_tx|self)\.(?:all|one|value|run|count|many)\(\s*"(\w+)"')
PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
BIG = {"tasks", "leases", "lease_costs", "events", "attempts", "claims", "spending", "durations"}
LOOKS_AT_EVERYTHING = {
    "runs",  # a list for people
    "state_counts",  # a count for people
    "costs_of_the_rest",  # a sum for people
    "costs_by_agent",  # a sum for those who watch, seldom
    "queue",  # only when the ad-hoc queue is full, and bounded by its size
    "events_of_run",  # a report for people, once in the life of a run
    "uses_between",  # the same
    "claim_holders",  # claims are those of live tasks, all of them read by an admission too
    "held_files",  # the same
    "move_tasks",  # once, after its repository was moved or copied
}
"""Queries that may look at a whole table."""
STOPS_EARLY = {
    "typical_cost": ["SCAN attempts"],  # backwards by task, 200 rows
    "ledger": ["SCAN leases"],  # backwards by number, up to the second admission it meets
}
PARTIAL = {"leases_open", "tasks_aside", "tasks_free", "tasks_queue", "tasks_until"}
"""Indexes that leave most rows of a big table out."""


def used() -> dict[str, set[str]]:
    """The names of queries in the store's code, and the modules that say them."""
    parameters: dict[str, set[str]] = {}
    for path in (SOURCES / "store").rglob("*.py"):
        for name in CALL.findall(path.read_text(encoding="utf-8")):
            parameters.setdefault(name, set()).add(path.name)
    return parameters


def test_every_query_is_used_and_every_used_query_exists() -> None:
    assert set(used()) == set(QUERIES)


def test_only_the_store_speaks_sql() -> None:
    words = re.compile(r'"\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE) ')
    outside = [p for p in SOURCES.rglob("*.py") if (SOURCES / "store") not in p.parents]
    assert outside
    assert [p.name for p in outside if words.search(p.read_text(encoding="utf-8"))] == []


def test_each_query_says_what_it_is_for() -> None:
    folder = SOURCES / "store" / "sql"
    texts = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.sql"))
    described = re.findall(r"^-- name: (\w+)\n-- [A-Z].*[^ ]$", texts, re.MULTILINE)
    assert sorted(described) == QUERIES


def test_the_two_spellings_of_a_query_differ_in_parameters_only() -> None:
    for name, text in sql.queries("sqlite").items():
        postgres = sql.queries("postgres")[name]
        assert ";" not in text
        assert PARAMETER.findall(text) == re.findall(r"%\((\w+)\)s", postgres)
        assert re.sub(r"%\((\w+)\)s", r":\1", postgres).replace("%%", "%") == text


def test_every_query_is_understood_by_sqlite(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store:
        connection = connection_of(store)
        for text in sql.queries("sqlite").values():
            connection.execute(f"EXPLAIN {text}", dict.fromkeys(PARAMETER.findall(text)))


def test_every_query_is_understood_by_postgres(postgres_server: str) -> None:
    with fresh_database(postgres_server) as url:
        open_store(url).close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET search_path = weft")
            for name in QUERIES:
                assert postgres_plan(connection, name)


def postgres_plan(connection: psycopg.Connection[Any], query: str) -> str:
    """How PostgreSQL would go about a query whose parameters it does not know."""
    text = sql.queries("postgres")[query]
    order: list[str] = re.findall(r"%\((\w+)\)s", text)
    places = {name: f"${n}" for n, name in enumerate(dict.fromkeys(order), 1)}
    prepared = re.sub(r"%\((\w+)\)s", lambda m: places[m[1]], text).replace("%%", "%")
    connection.execute(f"PREPARE {query} AS {prepared}".encode())
    given = f" ({', '.join('NULL' for _ in places)})" if places else ""
    rows = connection.execute(f"EXPLAIN EXECUTE {query}{given}".encode()).fetchall()
    return "\n".join(str(row[0]) for row in rows)


def test_postgres_looks_given_tasks_up_by_number(postgres_server: str) -> None:
    """It would rather compare each of them with each that waits: 40 s for a plan of 20,000."""
    with fresh_database(postgres_server) as url:
        open_store(url).close()
        with psycopg.connect(url) as connection:
            connection.execute(transaction_settings(connection.info.server_version))
            for name in QUERIES:
                if "json_each(:ids)" in sql.queries("sqlite")[name]:
                    plan = postgres_plan(connection, name)
                    assert "Index Cond: (id = (json_each.key)::bigint)" in plan, name
                    assert "Join Filter: ((json_each" not in plan, name


def test_what_was_spent_is_not_summed_at_each_admission(
    postgres_server: str, plans: dict[str, list[str]]
) -> None:
    assert [step for step in plans["ledger"] if " s " in f"{step} "] == [
        "SEARCH s USING PRIMARY KEY (resource=?)"
    ] * 2
    with fresh_database(postgres_server) as url:
        open_store(url).close()
        with psycopg.connect(url) as connection:
            connection.execute(transaction_settings(connection.info.server_version))
            plan = postgres_plan(connection, "ledger")
    reads = [line for line in plan.splitlines() if "spending" in line]
    assert reads
    assert all("Index Scan Backward using spending_pkey" in line for line in reads)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """How SQLite would go about each query, step by step."""
    path = tmp_path_factory.mktemp("plans") / "weft.db"
    with open_store(f"sqlite:///{path}") as store:
        connection = connection_of(store)
        return {
            name: [
                row[3]
                for row in connection.execute(
                    f"EXPLAIN QUERY PLAN {text}", dict.fromkeys(PARAMETER.findall(text))
                )
            ]
            for name, text in sql.queries("sqlite").items()
        }


def whole_tables(query: str, steps: list[str]) -> list[str]:
    """The steps that go through a big table; a partial index is as small as its condition."""
    text = sql.queries("sqlite")[query]
    aliases = dict(re.findall(r"\b(?:FROM|JOIN) (\w+) (\w+)\b", text))
    names = {alias: table for table, alias in aliases.items()}
    plans = []
    for step in steps:
        scan = re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", step)
        if scan and names.get(scan[1], scan[1]) in BIG and scan[2] not in PARTIAL:
            plans.append(step)
    return plans


def test_each_query_finds_its_rows_by_an_index(plans: dict[str, list[str]]) -> None:
    scans = {query: whole_tables(query, plans[query]) for query in QUERIES}
    assert {
        query: steps for query, steps in scans.items() if steps and query not in LOOKS_AT_EVERYTHING
    } == STOPS_EARLY


def test_tasks_are_counted_and_listed_by_state_without_reading_the_others(
    plans: dict[str, list[str]],
) -> None:
    read = [step for step in plans["state_counts"] if step.startswith(("SCAN t", "SEARCH t"))]
    assert all("INDEX" in step or "PRIMARY KEY" in step for step in read), read
    [step] = plans["numbers_in"]
    assert step.startswith("SEARCH tasks USING COVERING INDEX tasks_state (state=? AND id>?)")


def test_the_indexes_that_may_be_scanned_leave_most_rows_out(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store:
        rows = (
            connection_of(store)
            .execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'")
            .fetchall()
        )
    partial = {name for name, text in rows if text and " WHERE " in text}
    assert partial >= PARTIAL


@contextmanager
def copied_package(folder: Path, name: str) -> Iterator[Path]:
    """The package of SQL texts once more, under another name, to be spoilt."""
    shutil.copytree(SOURCES / "store" / "sql", folder / name)
    sys.path.insert(0, str(folder))
    try:
        yield folder / name
    finally:
        sys.path.remove(str(folder))
        for module in [m for m in sys.modules if m.split(".")[0] == name]:
            del sys.modules[module]


def test_two_queries_of_one_name_are_refused(tmp_path: Path) -> None:
    with copied_package(tmp_path, "doubled_sql") as package:
        with (package / "runs.sql").open("a", encoding="utf-8") as file:
            file.write("\n-- name: task\n-- Once more.\nSELECT 1;\n")
        loader = importlib.import_module("doubled_sql")
        with pytest.raises(ValueError, match="two queries are called task"):
            loader.queries("sqlite")


def test_every_file_of_queries_is_read() -> None:
    folder = SOURCES / "store" / "sql"
    named = re.findall(
        r"^-- name: (\w+)$",
        "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.sql")),
        re.MULTILINE,
    )
    assert sorted(named) == QUERIES


def test_migrations_are_numbered_without_gaps_and_alike_for_both() -> None:
    for steps in (sql.migrations("sqlite"), sql.migrations("postgres")):
        assert [number for number, _ in steps] == list(range(1, len(steps) + 1))
        assert all(statements for _, statements in steps)
    sqlite, postgres = sql.migrations("sqlite"), sql.migrations("postgres")
    assert [len(texts) for _, texts in sqlite] == [len(texts) for _, texts in postgres]


def test_the_texts_ship_with_the_package() -> None:
    assert "weft.store.sql" in {
        module.name for module in pkgutil.walk_packages([str(SOURCES)], "weft.")
    }
