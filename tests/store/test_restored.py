"""A store that has forgotten its last leases: restored from a backup, or failed over."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from databases import change
from postgres_cluster import Cluster, running_cluster
from store_helpers import DONE, go, hire, put, snapshot
from weft.errors import StaleFence
from weft.store import Store, open_store
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report, report_all
from weft.store.leases import adopt, extend, find_lost, free_proved_dead, release, renew, take
from weft.store.ledger import NONCE_BITS

pytestmark = pytest.mark.each_store

Backup = Callable[[str], Callable[[], None]]
"""Makes a backup of the store at a URL; returns a function that restores it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as running:
        yield running


def dump_and_restore(cluster: Cluster) -> Backup:
    def back_up(url: str) -> Callable[[], None]:
        file = cluster.directory / "dump.sql"
        cluster.run("pg_dump", "-d", url, "--schema=weft", "-f", file)

        def restore() -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DROP SCHEMA weft CASCADE")
            cluster.run("psql", "-q", "-d", url, "-v", "ON_ERROR_STOP=1", "-f", file)

        return restore

    return back_up


def copy_file(url: str) -> Callable[[], None]:
    path = Path(url.removeprefix("sqlite:///"))
    change(url, "PRAGMA wal_checkpoint(TRUNCATE)")
    kept = path.with_suffix(".kept")
    shutil.copy(path, kept)

    def restore() -> None:
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        shutil.copy(kept, path)

    return restore


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Backup]:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'weft.db'}", copy_file
    cluster: Cluster = request.getfixturevalue("cluster")
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS weft CASCADE")
    return cluster.url, dump_and_restore(cluster)


EFFECTS: tuple[Callable[[Store, int], object], ...] = (
    lambda store, fence: finish(store, fence, DONE, now=3),
    lambda store, fence: release(store, fence, now=3),
    lambda store, fence: report(store, fence, {"line": "x"}, now=3),
    lambda store, fence: extend(store, fence, ["src/**"], now=3),
    lambda store, fence: adopt(store, fence, "w", now=3),
    lambda store, fence: free_proved_dead(store, fence, now=3, proof="gone"),
)


def test_no_fence_is_accepted_twice_after_a_backup_was_restored(place: tuple[str, Backup]) -> None:
    """The count of a forgotten lease is given again; the forgotten holder must not pass for the
    new one. Without the nonce both would have the same fence."""
    url, back_up = place
    with open_store(url) as store:
        hire(store, slots=20)
        for number in range(8):
            put(store, f"t{number}")
        before = go(store)
    restore = back_up(url)
    with open_store(url) as store:
        forgotten = [go(store).fence for _ in range(4)]
        forgotten += [take(store, "gate", "r", {}, worker="w", now=1) or 0]
    restore()
    with open_store(url) as store:
        current = [go(store).fence for _ in range(4)]
        current += [take(store, "gate", "r", {}, worker="w", now=1) or 0]
        assert [f >> NONCE_BITS for f in current] == [f >> NONCE_BITS for f in forgotten]
        rows = snapshot(url)
        for fence in forgotten:
            for effect in EFFECTS:
                with pytest.raises(StaleFence, match="never given"):
                    effect(store, fence)
        assert renew(store, forgotten, now=3) == forgotten
        assert find_lost(store, forgotten) == forgotten
        assert report_all(store, [(fence, {"line": "x"}) for fence in forgotten], now=3)
        assert snapshot(url) == rows
        for fence in (before.fence, *current[:4]):
            finish(store, fence, DONE, now=4)


def test_fences_grow_and_are_never_equal(place: tuple[str, Backup]) -> None:
    url, _ = place
    with open_store(url) as store:
        hire(store, slots=40)
        for number in range(30):
            put(store, f"t{number}")
        fences = [go(store).fence for _ in range(30)]
    assert fences == sorted(set(fences))
    assert len({fence % (1 << NONCE_BITS) for fence in fences}) > 20
    assert max(fences) < 2**53  # exact in every reader of JSON
