"""A store of an earlier weft that a later weft opens, and the earlier weft again.

Migrations in the repository never change; a store of each released schema can be upgraded.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import psycopg
import pytest

from cli.shell import assert_one_sentence, make_project, weft
from databases import change, look
from databases import url as url
from forked_python import ForkedPython
from store.used_store import fill, go_on, load, read_everything
from store_helpers import put, snapshot
from wait_until import PATIENCE, wait_until
from weft.config import Tuning
from weft.errors import NewerStore, StoreError, UnknownSchema
from weft.store import Store, open_store, sql
from weft.store.limit_table import list_limits
from weft.store.postgres import Postgres
from weft.store.postgres_connection import MIGRATION_LOCK
from weft.store.sqlite import Sqlite

PROGRAM = Path(__file__).with_name("upgrade_program.py")
SECOND = (
    "ALTER TABLE tasks ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'",
    "CREATE TABLE looms (name TEXT PRIMARY KEY)",
    "INSERT INTO looms (name) SELECT name FROM tasks",
    # Done twice, this would show.
    "UPDATE limits SET capacity = capacity + 1 WHERE resource = 'llm'",
)


def known(url: str, *more: tuple[str, ...]) -> sql.Steps:
    """The steps of today, and those of weft's later versions."""
    steps = sql.migrations("sqlite" if url.startswith("sqlite") else "postgres")
    return (*steps, *enumerate(more, start=len(steps) + 1))


def open_later(url: str, *more: tuple[str, ...]) -> Store:
    return Store(open_driver(url, known(url, *more)), Tuning())


def open_driver(url: str, steps: sql.Steps) -> Any:
    if url.startswith("sqlite"):
        return Sqlite(Path(url.removeprefix("sqlite:///")), steps=steps)
    return Postgres(url, steps=steps)


def version(url: str) -> int:
    question = "PRAGMA user_version" if url.startswith("sqlite") else "SELECT * FROM schema_version"
    [row] = look(url, question)
    return int(next(iter(row.values())))


def has_changed(url: str) -> list[dict[str, Any]]:
    """What the second step has made of the tasks."""
    return look(url, "SELECT name, colour FROM tasks JOIN looms USING (name) ORDER BY name")


def capacity(url: str) -> int:
    [row] = look(url, "SELECT capacity FROM limits WHERE resource = 'llm'")
    return int(row["capacity"])


@pytest.fixture
def old(url: str) -> str:
    """A store that an earlier weft made and used."""
    with open_store(url) as store:
        put(store, "a")
        put(store, "b", files=("b.py",))
    return url


@contextmanager
def nobody_upgrades(url: str) -> Iterator[Any]:
    """Keep everybody from changing the schema; gives a connection that may."""
    connection: Any
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection = psycopg.connect(url, autocommit=True)
        connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
    with closing(connection):
        yield connection
        if url.startswith("sqlite"):
            connection.execute("COMMIT")


def start(url: str, *more: tuple[str, ...], dies_at: int | None = None) -> subprocess.Popen[str]:
    steps = msgspec.json.encode(known(url, *more)).decode()
    last = [] if dies_at is None else [str(dies_at)]
    return ForkedPython[str](
        [sys.executable, str(PROGRAM), url, steps, *last],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_begun(url: str, programs: list[subprocess.Popen[str]]) -> None:
    """Until each has seen the version before, and waits for its turn."""
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "begins\n"
    if not url.startswith("sqlite"):
        waiting = (
            "SELECT COUNT(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        wait_until(lambda: look(url, waiting) == [{"n": len(programs)}])


def answers(programs: list[subprocess.Popen[str]]) -> list[str]:
    return [program.communicate(timeout=PATIENCE)[0].strip() for program in programs]


def test_a_later_weft_upgrades_an_old_store_once_and_keeps_what_is_in_it(old: str) -> None:
    before = snapshot(old)
    limit = capacity(old)
    with nobody_upgrades(old):
        programs = [start(old, SECOND) for _ in range(2)]
        wait_begun(old, programs)
    assert answers(programs) == ["opened", "opened"]
    assert version(old) == len(known(old)) + 1
    assert has_changed(old) == [{"name": "a", "colour": "none"}, {"name": "b", "colour": "none"}]
    assert capacity(old) == limit + 1
    after = snapshot(old)
    untouched = before.keys() - {"tasks", "limits"}
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}
    assert len(after["tasks"]) == 2


def test_an_earlier_weft_refuses_an_upgraded_store_and_leaves_it_alone(old: str) -> None:
    newest = len(known(old))
    with nobody_upgrades(old):
        program = start(old, SECOND)
        wait_begun(old, [program])
    assert answers([program]) == ["opened"]
    before = snapshot(old)
    message = f"has schema {newest + 1}, this weft knows {newest}; upgrade weft to use it"
    with pytest.raises(NewerStore, match=message):
        open_store(old)
    assert snapshot(old) == before
    assert version(old) == newest + 1


def without_a_column(url: str) -> sql.Steps:
    """The first step as a development version had it, with the same number."""
    ((number, statements), *later) = known(url)
    column = "    target_text TEXT NOT NULL DEFAULT ''"
    assert any(column in statement for statement in statements)
    return (
        number,
        tuple(re.sub(f",\\s+{column.strip()}", "", statement) for statement in statements),
    ), *later


@pytest.mark.parametrize("way", ["changed", "without a digest"])
def test_a_store_of_an_unknown_schema_is_refused_with_the_way_on(url: str, way: str) -> None:
    open_driver(url, without_a_column(url) if way == "changed" else known(url)).close()
    if way == "without a digest":  # as the first stores were
        if url.startswith("sqlite"):
            change(url, "DROP TABLE schema_version")
        else:
            change(url, "ALTER TABLE schema_version DROP COLUMN digest")
    before = snapshot(url)
    way_on = "mv .*weft.db" if url.startswith("sqlite") else "ALTER SCHEMA weft RENAME"
    with pytest.raises(UnknownSchema, match=way_on):
        open_store(url)
    with pytest.raises(UnknownSchema, match=way_on):
        open_later(url, SECOND)
    assert snapshot(url) == before


def test_a_store_of_an_unknown_schema_is_told_by_doctor_and_commands(
    tmp_path: Path, url: str
) -> None:
    open_driver(url, without_a_column(url)).close()
    project = make_project(tmp_path / "project")
    refused = weft(project, "ps", WEFT_STORE=url)
    assert_one_sentence(refused, 2, "another development version", "start a new store")
    examined = weft(project, "doctor", WEFT_STORE=url)
    assert examined.returncode == 2
    assert f"PROBLEM  store: {refused.stderr.removeprefix('weft: ')}" in examined.stdout


def test_a_store_upgraded_while_one_waits_to_upgrade_it_is_refused_too(old: str) -> None:
    """The version it saw was an old one; the one it finds when its turn has come is too new."""
    newest = len(known(old))
    with nobody_upgrades(old) as connection:
        program = start(old, SECOND)
        wait_begun(old, [program])
        if old.startswith("sqlite"):
            connection.execute(f"PRAGMA user_version = {newest + 2:d}")
        else:
            connection.execute(f"UPDATE weft.schema_version SET version = {newest + 2:d}")
    [answer] = answers([program])
    assert answer.startswith("NewerStore: ")
    assert f"has schema {newest + 2}, this weft knows {newest + 1}" in answer
    assert version(old) == newest + 2
    assert capacity(old) == 12


@pytest.mark.parametrize("good", range(len(SECOND) + 1))
def test_an_upgrade_that_fails_in_the_middle_leaves_the_store_as_it_was(
    old: str, good: int
) -> None:
    before = snapshot(old)
    broken = (*SECOND[:good], "INSERT INTO nowhere VALUES (1)", *SECOND[good:])
    with pytest.raises(StoreError, match=r"cannot be used: .*nowhere"):
        open_later(old, broken)
    assert version(old) == len(known(old))
    assert snapshot(old) == before
    with open_store(old) as store:
        put(store, "c")
        assert {limit.resource: limit.capacity for limit in list_limits(store, now=0)}["llm"] == 12
    open_later(old, SECOND).close()  # nothing of the first try is in its way
    assert len(has_changed(old)) == 3


def end(program: subprocess.Popen[str]) -> int:
    program.communicate(timeout=PATIENCE)
    return program.returncode


def test_an_upgrade_killed_at_any_statement_is_done_once_by_the_next_process(old: str) -> None:
    """Weakened, the upgrade commits each statement by itself."""
    before, limit, newest = snapshot(old), capacity(old), len(known(old))
    deaths = 0
    while end(start(old, SECOND, dies_at=deaths)) == -signal.SIGKILL:
        deaths += 1
        if version(old) == newest:
            assert snapshot(old) == before
    assert deaths > len(SECOND) + 2  # it also died before it wrote the version and the digest
    open_later(old, SECOND).close()
    assert version(old) == newest + 1
    assert capacity(old) == limit + 1
    assert len(has_changed(old)) == 2


@pytest.mark.parametrize("dies_at", [5, 40])
def test_a_store_whose_maker_was_killed_is_made_by_the_next_process(url: str, dies_at: int) -> None:
    assert end(start(url, dies_at=dies_at)) == -signal.SIGKILL
    with open_store(url) as store:
        put(store, "a")
    assert version(url) == len(known(url))


REBUILT = (
    "CREATE TABLE penalties_new (provider TEXT NOT NULL, level BIGINT NOT NULL "
    "CHECK (level > 0), since DOUBLE PRECISION NOT NULL, successes BIGINT NOT NULL, "
    "PRIMARY KEY (provider))",
    "INSERT INTO penalties_new SELECT provider, level, since, successes FROM penalties",
    "DROP TABLE penalties",
    "ALTER TABLE penalties_new RENAME TO penalties",
)
"""A changed constraint, as docs/design/migrations.md says to write it."""


def test_a_migration_can_rebuild_a_table_on_both_databases(url: str) -> None:
    with open_store(url) as store:
        fill(store)
    before = snapshot(url)
    with open_later(url, REBUILT) as store:
        assert snapshot(url) == before
        with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)):
            store.write(lambda tx: tx.run("set_penalty", provider="p", level=0, since=0))


FROZEN = {
    1: {
        "sqlite": "0714b66008b7398182d8c86e2ece31c5ca6ae5c5fa5ccaf4f59f3f4ea6b3641a",
        "postgres": "7aa30c903d24699e4bace0b93b75e15058df9546f3a1828dd94723a364010bc3",
    },
    2: {
        "sqlite": "4601b9bce02fe06ba9035fa7a6c8fb1373ef6650f39d1562b71b548b82186ca9",
        "postgres": "aad2affc21f6ac366bddd868976982792086df238e5da41597e61ee154e9acfe",
    },
    3: {
        "sqlite": "7b552d5b86465360a6fff529bd08d4fcce34eebd2ee4f0d92b117899292be8d1",
        "postgres": "5d77a260528fbac6e6efaea17d36433517c385fcfc5058fb8801b7b13b5c67f7",
    },
    4: {
        "sqlite": "da26a895af9021d631673f2c45ff764fea71abb95db46722da4978965645a963",
        "postgres": "c9d8ddb47afbe1c28af28b5c2e3a418f2c659d2b05c79dde1c195bece89d10ec",
    },
    5: {
        "sqlite": "f335c00d14d6de3295dcdc7f2f56d54a6c96fb899c5b4bcda4a3ae7cc5c0564a",
        "postgres": "60d7e14995c6c579c6ea5080ad216b330914879cb9e2b390c0d0554306237888",
    },
    6: {
        "sqlite": "b3596ca2e47906321a44dff9ee618a698b04ab764eb26555a3214c9057bdb384",
        "postgres": "fe6fea1d4ef00f9f6b3771cb2c2543afe1f0ccb2d5a8c249f6fc04c98cb654b0",
    },
    7: {
        "sqlite": "6ead3ceb47006414b658250156ae603c1e5eef969a818e27766ca91119cc71ee",
        "postgres": "da5186e114b87216d75fc328f5eaf3422264506c549b7980472ecd987d1b1e8a",
    },
    8: {
        "sqlite": "45bb8e14abac6c6b73376b2db937b79a83afd1f3d2975818963abbec1617f950",
        "postgres": "3d2a44f52c07fe681bd26a0f3cec466fd9c935a3b19ca08c338b2c54cb60e94e",
    },
    9: {
        "sqlite": "003f968ba7a29931f728fbc41054849924266c87568e50f62c686b1d5edd1502",
        "postgres": "b7827c5fd45899901998c0147e8275ab62ce09592a718bb6d0800f507a40a5e3",
    },
    10: {
        "sqlite": "ae929bd0bd16fd4cce9f05aeb59917e61085c21820e53a819cb92be6ded1fb09",
        "postgres": "ebefea599013e736f69b94c9482caa1c99cd1aa4dfe84d87b6c356e402d861ea",
    },
    11: {
        "sqlite": "f9c2914bd05da8419997899c2829a549a45d777db0b0262dffa18c6ecad566f5",
        "postgres": "d2b2d3bb15b3187ae6787de75d187e088ac1a2afe2887723f699af0bf512dd19",
    },
    12: {
        "sqlite": "8688f7cb7f009918105d3123b67281a71a28802f26f9b0814f91b69c3013eb97",
        "postgres": "bfbe1af27b495ad226fbec79a93a8ae16253ed7bc0c16ebfd555fa05a329ac7d",
    },
    13: {
        "sqlite": "8738e0c7a40edc88ce0212054e0aa93e5b1d92836efe9e3a38ee30630a0c4f95",
        "postgres": "9b20485bc5ef6bfe7de2286a6225025ed033cb5fea29bb14feac284ea1400f44",
    },
    14: {
        "sqlite": "a9b9948bccbadf0486fdb41b8e17008ec9bb2bc4d73dafd6da273a317b25f68f",
        "postgres": "faf283eb397e46ee27d6b5480a297db3029f031b572b1d5e46c8ec436b096262",
    },
    15: {
        "sqlite": "058311e233e0e8a2e3837ab155a8ef8fbfdd23b5dec2b4d18f21ed8d92bbef81",
        "postgres": "2da74da6b0b1ef9a12008737bb573d2efccc07de8c8c50c886be27a4b8b8f482",
    },
    16: {
        "sqlite": "c0adde71fb0464a40b7cd3c2ca5b7a4e33854249ffc45e25f624293fffbcddd1",
        "postgres": "12f85381e28f0badece86cc2a92cdcf6abfd725631e985f4eb320bc5da31d3ad",
    },
    17: {
        "sqlite": "f530cd095134c3e46320fd8aea8dc5891be3ca08f78aa77c068a5b5837618d51",
        "postgres": "9fe0897736b0bdaf6a14f5f07c56ad425c49b21d92000335385612d228616e15",
    },
}
"""The digest of each migration with those before it. A line is added, and never changed."""


def test_no_migration_is_changed_once_it_is_in_the_repository() -> None:
    """A store keeps the digest: weft would refuse every store with the earlier text."""
    digests = {
        number: {
            dialect: sql.digest(sql.migrations(dialect), number)
            for dialect in get_args(sql.Dialect)
        }
        for number, _ in sql.migrations("sqlite")
    }
    assert digests == FROZEN
    assert sorted(digests) == list(range(1, len(digests) + 1))


RELEASED = sorted(Path(__file__).with_name("released").glob("*.sql"))


def make_released(url: str, rows: Path) -> None:
    """Make a store of a released schema, with the rows that the weft of that time wrote."""
    open_driver(url, known(url)[: int(rows.stem)]).close()
    load(url, rows.read_text())


@pytest.mark.parametrize("rows", RELEASED, ids=lambda path: path.stem)
def test_work_goes_on_in_an_upgraded_store_of_each_released_schema(url: str, rows: Path) -> None:
    make_released(url, rows)
    with open_store(url) as store:
        assert version(url) == len(known(url))
        assert not {"stage/plan", "stage/merge"} & {
            row.resource for row in list_limits(store, now=0)
        }
        read_everything(store)
        go_on(store)
