"""Wake-ups: whoever waits learns of a change, and only once it is there to be found."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from databases import fresh_database, look
from store_helpers import DONE, hire, put
from wait_until import PATIENCE
from weft.errors import NotFound
from weft.model import Grant
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report
from weft.store.database import Transaction
from weft.store.leases import renew
from weft.store.tasks import cancel
from weft.store.wake import Listener
from weft.store.workers import heartbeat

pytestmark = pytest.mark.each_store

SUBMIT = """
import sys
from weft.model import NewTask
from weft.store import open_store
from weft.store.tasks import submit
with open_store(sys.argv[1]) as store:
    submit(store, NewTask(name="from elsewhere"), repo="r", now=0)
"""
LISTEN = """
import sys, time
from weft.store import open_store
store = open_store(sys.argv[1])
bell = store.listen("work")
print("listening", flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """One store of each kind for the whole module; tests differ in who listens."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("bells") / "weft.db"
        with open_store(f"sqlite:///{path}") as store:
            hire(store)
            yield store
        return
    with (
        fresh_database(request.getfixturevalue("postgres_server")) as url,
        open_store(url) as store,
    ):
        hire(store)
        yield store


@pytest.fixture
def bell(shared: Store) -> Iterator[Listener]:
    with shared.listen("work") as listener:
        settle(shared, listener)
        yield listener


def settle(store: Store, listener: Listener) -> None:
    """Let what was under way arrive, and forget it. A server's notifications take a moment."""
    while listener.wait(0 if store.url.startswith("sqlite") else 0.3):
        pass


def end_waiting_work(store: Store) -> None:
    for row in look(store.url, "SELECT id FROM tasks WHERE state = 'ready'"):
        cancel(store, row["id"], now=0)


def test_a_thread_wakes_whoever_waits(shared: Store, bell: Listener) -> None:
    thread = threading.Timer(0.05, put, (shared,))
    thread.start()
    assert bell.wait(PATIENCE)
    thread.join()


def test_another_process_wakes_whoever_waits(shared: Store, bell: Listener) -> None:
    subprocess.run([sys.executable, "-c", SUBMIT, shared.url], check=True, timeout=PATIENCE)
    assert bell.wait(PATIENCE)


def test_waiting_ends_by_itself(bell: Listener) -> None:
    started = time.monotonic()
    assert not bell.wait(0.1)
    assert 0.09 < time.monotonic() - started < PATIENCE


def test_a_topic_is_rung_only_by_what_concerns_it(shared: Store, bell: Listener) -> None:
    task = put(shared, "own")
    grants = admit(shared, "w", now=1)
    settle(shared, bell)
    with shared.listen("events") as log:
        settle(shared, log)
        report(shared, grants[0].fence, {"line": "progress"}, now=2)
        assert log.wait(PATIENCE)
        assert not bell.wait(0.2)
        settle(shared, log)
        renew(shared, [grants[0].fence], now=2)
        heartbeat(shared, "w", now=2)
        assert not log.wait(0.2)
        assert not bell.wait(0)
        finish(shared, grants[0].fence, DONE, now=3)
        assert log.wait(PATIENCE)
        assert bell.wait(PATIENCE)
    assert task


def test_what_was_not_committed_rings_nobody(shared: Store, bell: Listener) -> None:
    def work(tx: Transaction) -> None:
        tx.event("never_happened", now=0)
        tx.wake()
        raise NotFound

    with pytest.raises(NotFound):
        shared.write(work)
    shared.write(lambda tx: tx.wake())  # and neither does what changed nothing
    assert not bell.wait(0.2)


def test_many_rings_count_as_one(bell: Listener) -> None:
    for _ in range(5):
        bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)


def test_nobody_is_held_up_by_a_listener_that_does_not_listen(bell: Listener) -> None:
    for _ in range(70_000):  # more than a pipe holds
        bell.ring()
    assert bell.wait(PATIENCE)
    assert not bell.wait(0)


def test_who_is_woken_always_finds_the_change(shared: Store, bell: Listener) -> None:
    end_waiting_work(shared)
    settle(shared, bell)
    with open_store(shared.url) as second:
        for number in range(50):
            writer = threading.Thread(target=put, args=(second, f"t{number}"))
            writer.start()
            grants: list[Grant] = []
            while not grants:
                assert bell.wait(PATIENCE)  # a ring that came too early would be followed by none
                grants = admit(shared, "w", now=1)
            assert [grant.name for grant in grants] == [f"t{number}"]
            writer.join()


def test_a_listener_of_a_killed_process_is_cleaned_up_by_the_next_ring(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    with open_store(url) as store:
        child = subprocess.Popen(
            [sys.executable, "-c", LISTEN, url], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        with child.stdout:
            assert child.stdout.readline() == "listening\n"
            assert len(os.listdir(tmp_path / "weft.db.bells")) == 1
            put(store)
            assert len(os.listdir(tmp_path / "weft.db.bells")) == 1
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert len(os.listdir(tmp_path / "weft.db.bells")) == 1
        put(store)
        assert os.listdir(tmp_path / "weft.db.bells") == []


def test_a_closed_listener_leaves_no_file(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'weft.db'}")
    bells = tmp_path / "weft.db.bells"
    with store.listen("work"), store.listen("events"):
        assert len(os.listdir(bells)) == 2
    assert os.listdir(bells) == []
    store.listen("work")
    store.close()
    assert os.listdir(bells) == []


def test_two_stores_in_one_directory_do_not_ring_for_each_other(tmp_path: Path) -> None:
    with (
        open_store(f"sqlite:///{tmp_path / 'one.db'}") as first,
        open_store(f"sqlite:///{tmp_path / 'two.db'}") as two,
        first.listen("work") as bell,
    ):
        put(two)
        assert not bell.wait(0)
        put(first)
        assert bell.wait(PATIENCE)


def test_a_listener_may_be_closed_after_its_store(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'weft.db'}")
    with store.listen("work") as bell:
        store.close()
    bell.close()


def test_waiting_goes_on_after_the_pipes_were_swept_away(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store, store.listen("work"):
        shutil.rmtree(tmp_path / "weft.db.bells")
        put(store)
        with store.listen("work") as bell:
            put(store)
            assert bell.wait(PATIENCE)


def test_a_ring_that_fails_does_not_fail_what_was_committed(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store:
        (tmp_path / "weft.db.bells").write_text("in the way")
        put(store)
        assert look(store.url, "SELECT COUNT(*) AS tasks FROM tasks") == [{"tasks": 1}]


@pytest.mark.parametrize("shared", ["postgres"], indirect=True)
def test_a_listener_survives_the_loss_of_its_connection(shared: Store, bell: Listener) -> None:
    with psycopg.connect(shared.url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND query LIKE 'LISTEN%'"
        ).fetchall()
    assert ended
    assert bell.wait(PATIENCE)  # what happened meanwhile cannot be known, so it looks once
    settle(shared, bell)
    with open_store(shared.url) as second:
        put(second)
    assert bell.wait(PATIENCE)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """A process in which every descriptor below 1,100 is taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip(f"this machine allows only {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < 1100:
        taken.append(os.dup(taken[0]))
    yield
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_a_process_with_many_open_files_is_woken_too(url: str) -> None:
    with open_store(url) as store, store.listen("work") as bell:
        assert bell.fileno() > 1023
        settle(store, bell)
        subprocess.run([sys.executable, "-c", SUBMIT, url], check=True, timeout=PATIENCE)
        assert bell.wait(PATIENCE)


def test_a_store_with_a_listener_closes_at_once(url: str) -> None:
    store = open_store(url)
    with store.listen("work") as bell:
        bell.wait(0)
    started = time.monotonic()
    store.close()
    assert time.monotonic() - started < 25  # a pool would wait for its threads longer than that
