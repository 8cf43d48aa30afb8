"""Home and its database fail while agents work on other hosts."""

from __future__ import annotations

import time

import psycopg
import pytest

from hosts.host_observer import T1, ObservedHosts
from postgres_cluster import pooler_of
from store.test_lost_commits import Wire
from wait_until import wait_until

pytestmark = pytest.mark.timeout(300)


def test_agents_work_on_while_home_is_restarted(hosts: ObservedHosts) -> None:
    run = hosts.submit(4)
    hosts.wait_notes("start", 4, run)
    assert hosts.server is not None
    hosts.server.kill()
    hosts.let_go()
    hosts.wait_notes("end", 4, run)  # no server answers
    hosts.serve("--slots", "1")
    hosts.wait_landed(run)
    hosts.assert_first_attempts(run)


def test_agents_work_on_while_home_does_not_reach_its_database(hosts: ObservedHosts) -> None:
    """The git of home answers meanwhile, and the store does not."""
    run = hosts.submit(4)
    hosts.wait_notes("start", 4, run)
    hosts.network.cut("home", "store")
    hosts.let_go()
    hosts.wait_notes("end", 4, run)
    time.sleep(T1 / 4)
    hosts.network.heal("home", "store")
    hosts.wait_landed(run)
    hosts.assert_first_attempts(run)


def test_lost_answers_to_commit_neither_lose_nor_double_work(hosts: ObservedHosts) -> None:
    """Of every tenth transaction the database commits and home gets no answer."""
    home = hosts.network.hosts["home"]
    wire = Wire(str(hosts.cluster.directory / ".s.PGSQL.5432"), listen=home.listen)
    try:
        hosts.restart_home(f"postgresql://weft@127.0.0.1:{wire.port}/postgres")
        run = hosts.submit(4)
        hosts.wait_notes("start", 4, run)
        hosts.let_go()
        while hosts.states(run) != {"done"}:
            if wire.cut is None and wire.carried > 10:
                wire.carried, wire.cut = 0, (b"COMMIT", True)
            time.sleep(0.005)
        assert wire.cuts
        hosts.wait_landed(run)
        hosts.assert_never_doubled(run)
    finally:
        hosts.restart_home()
        wire.close()


def test_a_database_killed_behind_a_pooler_loses_no_work(hosts: ObservedHosts) -> None:
    with pooler_of(hosts.cluster, "postgres", hosts.network.hosts["store"]) as url:
        hosts.restart_home(url)
        run = hosts.submit(8)
        hosts.wait_notes("start", 4, run)
        hosts.cluster.kill()
        hosts.let_go()
        hosts.cluster.start()
        hosts.wait_landed(run)
        hosts.assert_first_attempts(run)
        hosts.restart_home()


def test_a_database_that_forgot_its_last_leases_takes_no_fence_twice(
    hosts: ObservedHosts,
) -> None:
    """Agents whose leases are forgotten bring nothing home, though their counts are given again."""
    for worker in hosts.workers.values():
        worker.stop()
    run = hosts.submit(4)
    file = hosts.cluster.directory / "dump.sql"
    hosts.cluster.run("pg_dump", "-d", hosts.cluster.url, "--schema=weft", "-f", file)
    for worker in hosts.workers.values():
        worker.resume()
    hosts.wait_notes("start", 4, run)
    forgotten = hosts.attempts(run)
    assert hosts.server is not None
    hosts.server.kill()
    hosts.let_go()
    hosts.wait_notes("end", 4, run)  # their outcomes wait for home
    with psycopg.connect(hosts.cluster.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA weft CASCADE")
    hosts.cluster.run("psql", "-q", "-d", hosts.cluster.url, "-v", "ON_ERROR_STOP=1", "-f", file)
    hosts.serve("--slots", "1")
    for host in {note.host for note in hosts.journal(run)}:
        hosts.wait_logged(host, "never given the fence")
    # Their counts are given again, with another random part.
    wait_until(lambda: {a["task"] for a in hosts.attempts(run)} == {*hosts.tasks(run)})
    fences = {attempt["fence"] for attempt in forgotten}
    assert not fences & {row["fence"] for row in hosts.rows("SELECT fence FROM leases")}
    assert not fences & {fence for *_, fence in hosts.candidates()}
