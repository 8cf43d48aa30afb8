"""Opening a store: new ones are made once, others' are left alone, and errors are sentences."""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from cases import each_case
from databases import change, fresh_database, look
from databases import url as url
from store_helpers import connection_of, put, snapshot, somebody_writes
from wait_until import PATIENCE
from weft.errors import ForeignStore, InputError, NewerStore, StoreError, WeftError
from weft.store import Store, default_url, open_store, sql
from weft.store.database import Transaction
from weft.store.limit_table import list_limits, set_limit
from weft.store.sqlite import APPLICATION_ID
from weft.store.tasks import count_states

pytestmark = pytest.mark.each_store

Spoil = Callable[[Path], object]


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store's file with some work in it, closed."""
    path = tmp_path / "kept" / "weft.db"
    with open_store(f"sqlite:///{path}") as store:
        for number in range(9):
            put(store, f"t{number}", text="x" * 2000)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def assert_one_sentence(error: WeftError) -> None:
    text = str(error)
    assert text
    assert text[0].isupper() or text.startswith(("/", "'"))
    assert text.endswith(".")
    assert "\n" not in text
    assert "Traceback" not in text


def refused(url: str) -> WeftError:
    with pytest.raises(WeftError) as caught:
        open_store(url)
    assert_one_sentence(caught.value)
    return caught.value


def _other_program(path: Path, *, journal: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("CREATE TABLE photos (name TEXT)")
        connection.execute("INSERT INTO photos VALUES ('cat')")
        connection.commit()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.write_bytes(b"# Notes\n" * 50), id="text"),
        pytest.param(lambda path: path.write_bytes(b"x"), id="one-byte"),
        pytest.param(lambda path: path.write_bytes(bytes(8192)), id="zeros"),
        pytest.param(lambda path: path.write_bytes(b"SQLite format 3\0"), id="only-the-magic"),
        pytest.param(lambda path: _other_program(path, journal="DELETE"), id="other-sqlite"),
        pytest.param(lambda path: _other_program(path, journal="WAL"), id="other-sqlite-wal"),
    ],
)
def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path, make: Spoil) -> None:
    path = tmp_path / "weft.db"
    make(path)
    before = contents(tmp_path)
    error = refused(f"sqlite:///{path}")
    assert isinstance(error, ForeignStore)
    assert str(path) in str(error)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda data: data[:10], id="cut-in-the-magic"),
        pytest.param(lambda data: data[:72], id="cut-in-the-header"),
        pytest.param(lambda data: data[:4096], id="first-page-only"),
        pytest.param(lambda data: data[: len(data) // 8192 * 4096], id="half"),
        pytest.param(lambda data: data[:-4096], id="last-page-missing"),
        pytest.param(lambda data: data[:100] + bytes(len(data) - 100), id="zeros"),
        pytest.param(lambda data: data[:100] + b"\xa5" * (len(data) - 100), id="garbage"),
        pytest.param(lambda data: data[:4096] + b"\xff" * 4096 + data[8192:], id="a-bad-page"),
    ],
)
def test_a_damaged_store_is_refused_and_left_alone(
    file: Path, spoil: Callable[[bytes], bytes]
) -> None:
    file.write_bytes(spoil(file.read_bytes()))
    before = contents(file.parent)
    assert isinstance(refused(f"sqlite:///{file}"), ForeignStore)
    assert contents(file.parent) == before


def test_a_damaged_store_is_left_alone_with_what_a_crash_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "weft.db"
    with open_store(f"sqlite:///{path}") as store:
        put(store)
        crashed = contents(tmp_path)
    for name, data in crashed.items():
        (tmp_path / name).write_bytes(data)
    path.write_bytes(crashed["weft.db"][:100] + b"\xa5" * (len(crashed["weft.db"]) - 100))
    before = contents(tmp_path)
    assert before["weft.db-wal"]
    assert isinstance(refused(f"sqlite:///{path}"), ForeignStore)
    after = contents(tmp_path)
    for name in ("weft.db", "weft.db-wal"):  # the -shm holds nothing of its own
        assert after[name] == before[name]


def test_a_store_of_a_newer_weft_is_refused_and_left_alone(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = contents(file.parent)
    error = refused(f"sqlite:///{file}")
    assert isinstance(error, NewerStore)
    assert "has schema 99" in str(error)
    assert "upgrade weft" in str(error)
    assert contents(file.parent) == before


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda path: path.mkdir(), "Is a directory", id="directory"),
        pytest.param(lambda path: path.symlink_to(path), "symbolic links", id="loop"),
    ],
)
def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path, make: Spoil, reason: str) -> None:
    path = tmp_path / "weft.db"
    make(path)
    error = refused(f"sqlite:///{path}")
    assert isinstance(error, StoreError)
    assert str(path) in str(error)
    assert reason in str(error)


def test_a_path_through_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("text")
    assert isinstance(refused(f"sqlite:///{tmp_path / 'plain' / 'weft.db'}"), StoreError)
    assert (tmp_path / "plain").read_text() == "text"


def test_a_file_that_may_not_be_read_is_named(file: Path) -> None:
    file.chmod(0)
    # Without its capabilities root is bound by permissions like any other user.
    bound = ["setpriv", "--bounding-set=-all"] if os.geteuid() == 0 else []
    program = "import sys; from weft.store import open_store; open_store(sys.argv[1])"
    done = subprocess.run(
        [*bound, sys.executable, "-c", program, f"sqlite:///{file}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "StoreError: " in done.stderr
    assert f"{file}: Permission denied" in done.stderr


def test_an_empty_file_is_one_that_somebody_is_creating(tmp_path: Path) -> None:
    path = tmp_path / "weft.db"
    path.touch()
    with open_store(f"sqlite:///{path}") as store:
        assert list_limits(store, now=0)


@pytest.fixture
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_mask")
def test_the_store_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "weft" / "weft.db"
    with open_store(f"sqlite:///{path}") as store, store.listen("work"):
        put(store)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert modes == {
        "weft.db": 0o600,
        "weft.db-wal": 0o600,
        "weft.db-shm": 0o600,
        "weft.db.bells": 0o700,
    }


def test_a_store_may_be_a_link_to_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "weft.db").symlink_to(tmp_path / "elsewhere.db")
    open_store(f"sqlite:///{tmp_path / 'weft.db'}").close()
    assert (tmp_path / "elsewhere.db").stat().st_size


NAMES = """
import sys
from weft.store import open_store
from weft.store.tasks import list_tasks
with open_store(sys.argv[1]) as store:
    print(*(task.name for task in list_tasks(store)))
"""


def test_what_is_committed_stays_though_its_process_opens_the_store_twice(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops the locks of its process, and with them the log."""
    url = f"sqlite:///{tmp_path / 'weft.db'}"

    def seen_by_another_process() -> str:
        command = [sys.executable, "-c", NAMES, url]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=PATIENCE
        ).stdout.strip()

    with open_store(url) as store:
        put(store, "one")
        with open_store(url):
            assert seen_by_another_process() == "one"
            put(store, "two")
            assert seen_by_another_process() == "one two"
        put(store, "three")
        assert seen_by_another_process() == "one two three"


def test_a_file_that_takes_the_place_of_a_closed_store_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "weft.db"
    store = open_store(f"sqlite:///{path}")
    store.close()
    store.close()
    with path.open("r+b") as file:  # the same file, with another program's header
        file.write(b"not SQLite")
    assert isinstance(refused(f"sqlite:///{path}"), ForeignStore)


def test_the_file_is_marked_as_wefts_and_survives_a_power_cut(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        connection = connection_of(store)
        pragmas = ("journal_mode", "synchronous", "application_id", "user_version")
        values = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
    assert values == ["wal", 2, APPLICATION_ID, len(sql.migrations("sqlite"))]


def test_a_writer_that_waits_asks_again_in_short_steps(tmp_path: Path) -> None:
    """SQLite's own pauses grow to 100 ms, during which others come and go."""
    tries: list[str] = []
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store:
        connection_of(store).set_trace_callback(tries.append)
        with somebody_writes(store.url, 0.3):
            put(store)
    assert tries.count("BEGIN IMMEDIATE") > 20


@pytest.mark.parametrize("name", ["plain", "with space", "100%25", "ü", "a?b#c"])
def test_any_directory_name_will_do(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    url = default_url(folder)
    with open_store(url) as store:
        assert store.url == url
        assert (folder / "weft" / "weft.db").is_file()
        with open_store(store.url) as again:
            put(again)
        assert sum(count_states(store).values()) == 1


@each_case(
    "url",
    [
        "",
        "weft.db",
        "sqlite:",
        "sqlite:/x",
        "sqlite://",
        "sqlite:///",
        "mysql://u:secret@h/d",
        "mysql:u:secret@h/d",
        "u:secret@h/d",
        "host=h password=secret",
        "postgresql://u:secret@[::1/d",
        "postgresql://u:secret@127.0.0.1:1/d",
        "postgresql://u:secret@127.0.0.1:port/d",
        "postgresql://u:secret@127.0.0.1:99999/d",
        "postgresql://u:secret%@127.0.0.1/d",
        "postgresql://u:secret word@127.0.0.1/d",
        "postgresql://u:secret@127.0.0.1:1/d?nonsense=1",
        "postgresql://127.0.0.1:1/d?password=secret",
        "postgresql:///d?host=/nowhere&password=secret",
        "postgresql://u:secret@no.such.host.invalid/d",
    ],
)
def test_a_bad_url_is_explained_without_its_password(url: str) -> None:
    started = time.monotonic()
    error = refused(url)
    assert isinstance(error, InputError | StoreError)
    assert "secret" not in str(error)
    assert time.monotonic() - started < 60


def test_a_server_that_is_gone_is_reported_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    started = time.monotonic()
    error = refused(f"postgresql://u:secret@127.0.0.1:{port}/d")
    assert isinstance(error, StoreError)
    assert "refused" in str(error)
    assert time.monotonic() - started < 25  # it is not tried again for long


def test_a_newer_schema_on_the_server_is_refused_and_left_alone(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        put(store)
    change(postgres_url, "UPDATE schema_version SET version = 99")
    before = snapshot(postgres_url)
    assert isinstance(refused(postgres_url), NewerStore)
    assert snapshot(postgres_url) == before
    assert look(postgres_url, "SELECT version FROM schema_version") == [{"version": 99}]


def test_a_schema_of_another_program_is_refused_and_left_alone(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA weft")
        connection.execute("CREATE TABLE weft.looms (name TEXT)")
    error = refused(postgres_url)
    assert isinstance(error, ForeignStore)
    tables = look(postgres_url, "SELECT tablename FROM pg_tables WHERE schemaname = 'weft'")
    assert tables == [{"tablename": "looms"}]


def test_a_schema_without_a_version_is_refused(postgres_url: str) -> None:
    open_store(postgres_url).close()
    change(postgres_url, "DELETE FROM schema_version")
    assert isinstance(refused(postgres_url), ForeignStore)


def test_many_may_open_a_new_store_at_once(url: str) -> None:
    results: list[object] = []
    together = threading.Barrier(6)

    def open_it(number: int) -> None:
        together.wait()
        try:
            with open_store(url, limits={"llm": number}) as store:
                put(store, f"t{number}")
                results.append([limit.capacity for limit in list_limits(store, now=0)])
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the finding)
            results.append(error)

    threads = [threading.Thread(target=open_it, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [results[0]] * 6
    assert look(url, "SELECT COUNT(*) AS tasks FROM tasks") == [{"tasks": 6}]


def test_a_store_keeps_its_limits_when_opened_with_others(url: str) -> None:
    with open_store(url, limits={"llm": 5, "runs": 2}) as store:
        set_limit(store, "llm", 7, now=0)
    with open_store(url, limits={"llm": 9, "requests": 1}) as store:
        limits = {limit.resource: limit.capacity for limit in list_limits(store, now=0)}
    assert limits == {"llm": 7, "runs": 2}


def test_opening_an_old_store_again_changes_nothing(url: str) -> None:
    with open_store(url) as store:
        put(store)
    before = snapshot(url)
    open_store(url).close()
    assert snapshot(url) == before


def end_connections(url: str) -> int:
    """The server ends every other connection to this database; how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    return len(ended)


def test_a_connection_lost_between_transactions_is_not_noticed(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        for number in range(1, 4):
            put(store, f"t{number}")
            assert end_connections(postgres_url)
            assert sum(count_states(store).values()) == number
            assert end_connections(postgres_url)


def test_a_connection_lost_before_the_commit_repeats_the_transaction(postgres_url: str) -> None:
    tries = []

    def work(tx: Transaction) -> int:
        tries.append(tx.value("last_task"))
        tx.run("set_limit", resource="llm", capacity=len(tries), owner=None)
        if len(tries) == 1:
            end_connections(postgres_url)
        return int(tx.value("last_task"))

    with open_store(postgres_url) as store:
        assert store.write(work) == 0
        limits = {limit.resource: limit.capacity for limit in list_limits(store, now=0)}
    assert (len(tries), limits["llm"]) == (2, 2)


def test_a_verb_inside_a_transaction_is_a_defect_and_says_so(store: Store) -> None:
    def work(tx: Transaction) -> None:
        tx.event("half_done", now=0)
        count_states(store)

    with pytest.raises(RuntimeError, match="called inside another's transaction"):
        store.write(work)
    with pytest.raises(RuntimeError, match="called inside another's transaction"):
        store.read(lambda _: put(store))
    assert look(store.url, "SELECT COUNT(*) AS n FROM events") == [{"n": 0}]
    put(store)  # and the store is as good as before


def test_opening_a_store_silences_no_other_pool(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("psycopg.pool")
    level = log.level
    for _ in range(2):
        open_store(postgres_url).close()
    assert log.level == level
    assert len(log.filters) <= 1
    caplog.clear()
    log.warning("error connecting in %r: %s", "somebody's", "refused")
    log.warning("discarding broken connection: %s", object())
    log.warning("error connecting in %r: %s", "weft", "which is raised as an error")
    assert len(caplog.messages) == 2
    assert "raised as an error" not in caplog.text


def test_a_broken_constraint_looks_like_the_defect_it_is(store: Store) -> None:
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)):
        store.write(lambda tx: tx.run("set_limit", resource="llm", capacity=-1, owner=None))
    assert {limit.capacity for limit in list_limits(store, now=0) if limit.resource == "llm"} == {
        12
    }
