"""Hosts that are cut off: packets are dropped in the router, and no side is told."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hosts.host_observer import T1, ObservedHosts, observed_hosts

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObservedHosts]:
    with observed_hosts(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


@pytest.fixture
def hosts(started: ObservedHosts) -> ObservedHosts:
    started.hold_back()
    return started


def test_a_cut_shorter_than_t1_loses_and_restarts_nothing(hosts: ObservedHosts) -> None:
    run = hosts.submit(4)
    hosts.wait_notes("start", 4, run)
    hosts.network.cut("alpha", "home")
    time.sleep(T1 / 3)
    hosts.let_go()  # the agents of the host end while it is cut off
    hosts.wait_notes("end", 4, run)
    hosts.network.heal("alpha", "home")
    hosts.wait_landed(run)
    assert [(a["number"], a["outcome"]) for a in hosts.attempts(run)] == [(1, "success")] * 4
    assert len([note for note in hosts.journal(run) if note.word == "start"]) == 4


def test_a_host_cut_off_for_longer_than_t2_loses_its_tasks(hosts: ObservedHosts) -> None:
    """An agent that still works is ended by its own watchdog before the other host begins."""
    run = hosts.submit(4)
    starts = hosts.wait_notes("start", 4, run)
    names = hosts.tasks(run)
    ready, slow = (note.task for note in starts if note.host == "alpha")
    hosts.network.cut("alpha", "home")
    (hosts.network.hosts["alpha"].tmp / f"go-{names[ready]}").touch()
    hosts.let_go("beta")
    hosts.wait_landed(run)  # beta finishes the run alone
    seconds = [note for note in hosts.journal(run) if note.word == "start" and note.attempt == 2]
    assert {(note.host, note.task) for note in seconds} == {("beta", ready), ("beta", slow)}
    ends = [n.task for n in hosts.journal(run) if n.host == "alpha" and n.word == "end"]
    assert ends == [ready], "the watchdog ended the other agent"
    before = (hosts.attempts(run), hosts.candidates(), hosts.trunk(run))
    hosts.network.heal("alpha", "home")
    hosts.wait_logged("alpha", "Home refused the candidate")  # which came late
    assert (hosts.attempts(run), hosts.candidates(), hosts.trunk(run)) == before
    again = hosts.submit(4)  # the host takes tasks again
    assert {note.host for note in hosts.wait_notes("start", 4, again)} == {"alpha", "beta"}
    hosts.let_go()
    hosts.wait_landed(again)
