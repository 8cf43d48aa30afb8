"""Hosts that are cut off: packets are dropped in the router, and no side is told."""

from __future__ import annotations

import time

import pytest

from hosts.host_observer import T1, ObservedHosts
from wait_until import wait_until

pytestmark = pytest.mark.timeout(300)


def test_a_cut_shorter_than_t1_loses_and_restarts_nothing(hosts: ObservedHosts) -> None:
    run = hosts.submit(4)
    hosts.wait_notes("start", 4, run)
    hosts.network.cut("alpha", "home")
    time.sleep(T1 / 3)
    hosts.let_go()  # the agents of the host end while it is cut off
    hosts.wait_notes("end", 4, run)
    hosts.network.heal("alpha", "home")
    hosts.wait_landed(run)
    hosts.assert_first_attempts(run)


def test_a_host_cut_off_for_longer_than_t2_loses_its_tasks(hosts: ObservedHosts) -> None:
    """An agent that still works is ended by its own watchdog before the other host begins."""
    run = hosts.submit(4)
    hosts.wait_notes("start", 4, run)
    ready, slow = hosts.tasks_on("alpha", run)
    hosts.network.cut("alpha", "home")
    (hosts.network.hosts["alpha"].tmp / f"go-{hosts.tasks(run)[ready]}").touch()
    hosts.let_go("beta")
    hosts.wait_landed(run)  # beta finishes the run alone
    hosts.assert_never_doubled(run)
    seconds = [n for n in hosts.journal(run) if n.word == "start" and n.attempt == 2]
    assert {(n.host, n.task) for n in seconds} == {("beta", ready), ("beta", slow)}
    ends = [n.task for n in hosts.journal(run) if n.host == "alpha" and n.word == "end"]
    assert ends == [ready], "the watchdog ended the other agent"
    before = (hosts.attempts(run), hosts.trunk(run))
    hosts.network.heal("alpha", "home")
    hosts.wait_logged("alpha", "Home refused the candidate")  # which came late
    assert (hosts.attempts(run), hosts.trunk(run)) == before
    assert not hosts.pushed(run) & {(ready, 1), (slow, 1)}
    hosts.hold_back()
    again = hosts.submit(4)  # the host takes tasks again
    assert {n.host for n in hosts.wait_notes("start", 4, again)} == {"alpha", "beta"}
    hosts.let_go()
    hosts.wait_landed(again)


def test_hosts_that_are_heard_or_that_hear_alone_lose_their_tasks(hosts: ObservedHosts) -> None:
    """Of alpha nothing arrives; beta gets no answer, though its requests arrive."""
    run = hosts.submit(4)
    hosts.wait_notes("start", 4, run)
    hosts.network.drop("alpha", "home")
    hosts.network.drop("home", "beta")
    wait_until(lambda: all(a["outcome"] for a in hosts.attempts(run) if a["number"] == 1))
    wait_until(lambda: not hosts.project.marked())  # the watchdogs have ended all agents
    hosts.network.pass_on("alpha", "home")
    hosts.network.pass_on("home", "beta")
    hosts.let_go()
    hosts.wait_landed(run)
    hosts.assert_never_doubled(run)
    assert not [n for n in hosts.journal(run) if n.attempt == 1 and n.word == "end"]
    assert {task for task, number in hosts.starts(run) if number > 1} == {*hosts.tasks(run)}


def test_a_host_killed_whole_is_followed_by_another_and_comes_back(hosts: ObservedHosts) -> None:
    run = hosts.submit(4)
    hosts.wait_notes("start", 4, run)
    lost = hosts.tasks_on("alpha", run)
    hosts.network.hosts["alpha"].end()
    hosts.let_go("beta")
    hosts.wait_landed(run)
    hosts.assert_never_doubled(run)
    assert hosts.starts(run) == sorted(
        [(task, 1) for task in hosts.tasks(run)] + [(task, 2) for task in lost]
    )
    hosts.network.add("alpha")
    hosts.wait_ready(hosts.join("alpha"))
    hosts.hold_back()
    again = hosts.submit(4)
    assert {n.host for n in hosts.wait_notes("start", 4, again)} == {"alpha", "beta"}
    hosts.let_go()
    hosts.wait_landed(again)


def test_hosts_whose_clocks_are_a_day_off_work_as_others_do(hosts: ObservedHosts) -> None:
    """Their wall clocks alone are wrong: silence is measured by clocks that nobody sets."""
    hosts.restart_workers(alpha=hosts.false_time("+1d"), beta=hosts.false_time("-1d"))
    run = hosts.submit(4)
    hosts.wait_notes("start", 4, run)
    hosts.network.cut("alpha", "home")
    hosts.network.cut("beta", "home")
    time.sleep(T1 / 3)
    hosts.network.heal("alpha", "home")
    hosts.network.heal("beta", "home")
    hosts.let_go()
    hosts.wait_landed(run)
    hosts.assert_first_attempts(run)
    hosts.restart_workers(alpha={}, beta={})
