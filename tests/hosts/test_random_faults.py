"""Random faults of three hosts during a run: no work is lost or done twice, no limit exceeded."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

import pytest

from chaos import CHAOS
from hosts.host_observer import T2, ObservedHosts, Submitted
from repositories import git

AT_ONCE: Final = 3  # agents that may run at the same time, of four slots
LONG: Final = 0.1  # of the faults last until a host is given up


class Faults:
    """Faults of the hosts, of home and of its database, each ended before the next."""

    def __init__(self, hosts: ObservedHosts, seed: int) -> None:
        self.hosts = hosts
        self.chance = random.Random(seed)

    def strike(self) -> None:
        kinds: tuple[Callable[[], None], ...] = (
            self.cut_off,
            self.cut_off,
            self.drop_one_way,
            self.drop_one_way,
            self.kill_worker,
            self.kill_home,
            self.cut_off_database,
            self.kill_database,
        )
        self.chance.choice(kinds)()

    def _wait(self) -> None:
        time.sleep(T2 + 1.0 if self.chance.random() < LONG else self.chance.uniform(0.05, 1.0))

    def _far(self) -> str:
        return self.chance.choice(("alpha", "beta"))

    def cut_off(self) -> None:
        host = self._far()
        self.hosts.network.cut(host, "home")
        self._wait()
        self.hosts.network.heal(host, "home")

    def drop_one_way(self) -> None:
        ends = [self._far(), "home"]
        self.chance.shuffle(ends)
        self.hosts.network.drop(*ends)
        self._wait()
        self.hosts.network.pass_on(*ends)

    def cut_off_database(self) -> None:
        self.hosts.network.cut("home", "store")
        time.sleep(self.chance.uniform(0.05, 1.0))
        self.hosts.network.heal("home", "store")

    def kill_worker(self) -> None:
        self.hosts.restart_workers(**{self._far(): {}})

    def kill_home(self) -> None:
        self.hosts.restart_home()

    def kill_database(self) -> None:
        self.hosts.cluster.kill()
        self.hosts.cluster.start()


def survive(hosts: ObservedHosts, seed: int, faults: int, tasks: int) -> None:
    """Run tasks while faults strike; a part of the tasks may end after each fault."""
    run = hosts.submit(tasks, "few")
    hosts.wait_notes("start", AT_ONCE, run)
    struck = Faults(hosts, seed)
    for number in range(1, faults + 1):
        struck.strike()
        for task in range((number - 1) * tasks // faults, number * tasks // faults):
            for host in ("alpha", "beta"):
                (hosts.network.hosts[host].tmp / f"go-1.{task + 1}").touch()
    hosts.let_go()
    hosts.wait_landed(run)
    hosts.assert_never_doubled(run)
    assert_never_too_many(hosts, run)
    for name in hosts.tasks(run).values():
        assert git(hosts.root, "show", f"weft/{run.id}:src/{run.plan}-{name}").strip() == name
    assert hosts.rows("SELECT * FROM claims") == []


def assert_never_too_many(hosts: ObservedHosts, run: Submitted) -> None:
    """Assert by the journals that at no moment more agents were alive than their limit allows."""
    spans: dict[tuple[int, int], list[float]] = {}
    for note in hosts.journal(run):
        spans.setdefault((note.task, note.attempt), []).append(note.at)
    begun = [min(times) for times in spans.values()]
    for moment in begun:
        alive = [pair for pair, times in spans.items() if min(times) <= moment <= max(times)]
        assert len(alive) <= AT_ONCE, alive


@pytest.mark.timeout(600)
def test_a_run_survives_8_random_faults(hosts: ObservedHosts) -> None:
    survive(hosts, seed=7, faults=8, tasks=16)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not CHAOS, reason="the longer version: make chaos")
@pytest.mark.parametrize("seed", range(2))
def test_a_run_survives_100_random_faults(hosts: ObservedHosts, seed: int) -> None:
    survive(hosts, seed=seed, faults=100, tasks=40)
