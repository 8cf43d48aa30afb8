"""PostgreSQL as people run it: killed, failed over, full, and behind a pooler."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psycopg
import pytest

from databases import look
from postgres_cluster import Cluster, own_directory, pooler_of, running_cluster, standby_of
from store_helpers import DONE, hire, put
from wait_until import PATIENCE, wait_until
from weft.errors import StoreError
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.leases import list_open, release
from weft.store.postgres import POLL_SECONDS
from weft.store.postgres_connection import connection_parameters

pytestmark = pytest.mark.each_store

THREADS = 4
TASKS = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster("-c max_connections=20") as running:
        yield running


@pytest.fixture
def database(cluster: Cluster) -> Iterator[str]:
    """The name of a new database of the cluster."""
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE own")
    yield "own"
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE own WITH (FORCE)")


def of(cluster: Cluster, database: str) -> str:
    return cluster.url.replace("/postgres?", f"/{database}?")


def work(store: Store, over: threading.Event) -> None:
    """Take tasks and finish each, as a worker does: wait while the store is away, and go on."""
    while not over.is_set():
        try:
            grants = admit(store, "w", now=1)
        except StoreError:
            continue
        for grant in grants:
            while not over.is_set():
                with suppress(StoreError):
                    finish(store, grant.fence, DONE, now=2)
                    break


@contextmanager
def busy_threads(urls: list[str]) -> Iterator[None]:
    over = threading.Event()
    stores = [open_store(url) for url in urls]
    threads = [threading.Thread(target=work, args=(store, over)) for store in stores]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
        for store in stores:
            store.close()


def assert_each_done_once(url: str) -> None:
    with open_store(url) as store:
        for lease in list_open(store):  # granted in a commit whose answer was lost
            release(store, lease.fence, now=3)
        while grants := admit(store, "w", now=4):
            finish(store, grants[0].fence, DONE, now=5)
    finished = look(
        url,
        "SELECT task, COUNT(*) AS n FROM events GROUP BY task, kind HAVING "
        "kind = 'attempt_finished'",
    )
    assert [row["n"] for row in finished] == [1] * TASKS
    assert look(url, "SELECT DISTINCT state FROM tasks") == [{"state": "done"}]


def ended(url: str) -> int:
    return int(look(url, "SELECT COUNT(*) AS n FROM tasks WHERE state = 'done'")[0]["n"])


def fill(url: str) -> None:
    with open_store(url) as store:
        hire(store, slots=100)
        for number in range(TASKS):
            put(store, f"t{number}")


def test_a_server_killed_under_load_loses_and_doubles_nothing(
    cluster: Cluster, database: str
) -> None:
    url = of(cluster, database)
    fill(url)
    with busy_threads([url] * THREADS):
        wait_until(lambda: ended(url) >= TASKS // 4)
        cluster.kill()
        cluster.start()
        before = ended(url)
        wait_until(lambda: ended(url) > min(before, TASKS - THREADS - 1))
    assert_each_done_once(url)


def test_a_full_server_is_waited_for(cluster: Cluster, database: str) -> None:
    url = of(cluster, database)
    with (
        open_store(url) as store,
        psycopg.connect(url, autocommit=True) as observer,
        ThreadPoolExecutor() as threads,
    ):
        end_sessions(observer)
        others = list(iter(lambda: connect_if_free(url), None))
        log, refusals = cluster.directory / "log", "too many clients"
        before = log.read_text().count(refusals)
        writer = threads.submit(put, store, "a")
        # More often than a pool of connections tries by itself.
        wait_until(lambda: writer.done() or log.read_text().count(refusals) > before + 4)
        for other in others:
            other.close()
        writer.result(PATIENCE)
    assert look(url, "SELECT name FROM tasks") == [{"name": "a"}]


def end_sessions(observer: psycopg.Connection) -> None:
    """End the other sessions of the observer's database."""
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    observer.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    count = f"SELECT COUNT(*) FROM pg_stat_activity WHERE {others}"
    wait_until(lambda: observer.execute(count).fetchone() == (0,))


def connect_if_free(url: str) -> psycopg.Connection | None:
    try:
        return psycopg.connect(url)
    except psycopg.OperationalError:
        return None


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    with running_cluster() as primary:
        open_store(primary.url).close()
        with standby_of(primary) as standby:
            yield primary, standby


def test_a_writer_of_a_server_that_is_read_only_now_goes_to_the_primary(
    pair: tuple[Cluster, Cluster],
) -> None:
    """The address stays, as a name or a floating address does; the old connection must not."""
    primary, standby = pair
    with own_directory() as place:
        address = place / "current"
        address.symlink_to(standby.directory)
        with open_store(f"postgresql://weft@/postgres?host={address}") as store:
            assert list_open(store) == []  # a connection to the standby is in the pool
            address.unlink()
            address.symlink_to(primary.directory)
            put(store, "a")
        assert look(primary.url, "SELECT name FROM tasks WHERE name = 'a'")


def test_of_several_servers_the_primary_is_chosen(pair: tuple[Cluster, Cluster]) -> None:
    primary, standby = pair
    hosts = f"host={standby.directory},{primary.directory}"
    with open_store(f"postgresql://weft@/postgres?{hosts}") as store:
        put(store, "chosen")
        # Without weft's parameters, the first that answers.
        assert look(store.url, "SELECT pg_is_in_recovery() AS standby") == [{"standby": True}]
    assert look(primary.url, "SELECT 1 AS n FROM tasks WHERE name = 'chosen'") == [{"n": 1}]


def test_a_promoted_standby_is_found_and_written_to(pair: tuple[Cluster, Cluster]) -> None:
    primary, standby = pair
    hosts = f"host={primary.directory},{standby.directory}"
    url = f"postgresql://weft@/postgres?{hosts}"
    with open_store(url) as store, ThreadPoolExecutor() as threads:
        put(store, "before")
        wait_until(lambda: look(standby.url, "SELECT 1 FROM tasks WHERE name = 'before'"))
        primary.kill()
        writer = threads.submit(put, store, "after")
        standby.promote()
        writer.result(PATIENCE)
    assert look(
        standby.url, "SELECT name FROM tasks WHERE name IN ('before', 'after') ORDER BY id"
    ) == [
        {"name": "before"},
        {"name": "after"},
    ]


def test_a_store_works_through_a_pooler_in_transaction_mode(
    cluster: Cluster, database: str
) -> None:
    """More clients than sessions of the server: each transaction may get another session."""
    with pooler_of(cluster, database) as pooled:
        fill(pooled)
        with busy_threads([pooled] * (2 * THREADS)):
            wait_until(lambda: ended(of(cluster, database)) == TASKS)
        assert_each_done_once(of(cluster, database))
        with psycopg.connect(pooled) as connection:  # a session that weft's transactions had
            left = connection.execute(
                "SELECT current_setting('search_path'), current_setting('enable_seqscan'), "
                "(SELECT COUNT(*) FROM pg_prepared_statements)"
            ).fetchone()
        assert left == ('"$user", public', "on", 0)


def test_changes_are_noticed_through_a_pooler(cluster: Cluster, database: str) -> None:
    direct = of(cluster, database)
    with pooler_of(cluster, database) as pooled, open_store(direct) as writer:
        with open_store(pooled) as store, store.listen("work") as listener:
            while listener.wait(2 * POLL_SECONDS):
                pass
            put(writer, "a")
            assert listener.wait(PATIENCE)
            assert "through a pooler" in store.database.version()
            assert "listen_url" in store.database.version()
        with open_store(pooled, listen_url=direct) as store, store.listen("work") as listener:
            listener.drain()
            put(writer, "b")
            assert listener.wait(PATIENCE)
            assert "pooler" not in store.database.version()


def test_the_parameters_of_a_url_come_before_those_of_weft() -> None:
    given = connection_parameters("postgresql://h1/d?keepalives_idle=7")
    assert "keepalives_idle" not in given
    assert given["tcp_user_timeout"] == 30_000
    assert "target_session_attrs" not in given
    assert connection_parameters("postgresql://h1,h2/d")["target_session_attrs"] == "read-write"
