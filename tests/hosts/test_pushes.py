"""Candidates on their way home, when the network or the git of home fails."""

from __future__ import annotations

import time

import pytest

from hosts.host_observer import T1, ObservedHosts, Submitted
from repositories import git
from wait_until import wait_until

pytestmark = pytest.mark.timeout(300)


def push_all(hosts: ObservedHosts) -> Submitted:
    """Let two agents of each host end, over slow lines, until home receives the work of all."""
    for name in hosts.workers:
        hosts.network.slow_down(name, "6mbit")
    run = hosts.submit(4, "heavy")
    hosts.wait_notes("start", 4, run)
    hosts.let_go()
    objects = hosts.root / ".git" / "objects"
    wait_until(lambda: len([*objects.glob("tmp_objdir-incoming-*")]) == 4, "four pushes")
    assert not hosts.pushed(run)
    return run


def assert_sound(hosts: ObservedHosts) -> None:
    """Assert that home keeps no half of a push."""
    objects = hosts.root / ".git" / "objects"
    wait_until(lambda: not [*objects.glob("tmp_objdir-incoming-*")])
    assert git(hosts.root, "fsck", "--no-dangling", "--no-progress") == ""


def test_a_push_that_is_cut_off_in_its_middle_arrives_whole_or_not_at_all(
    hosts: ObservedHosts,
) -> None:
    """Beta is back before T1 and ends its push; alpha comes back too late, and is refused."""
    run = push_all(hosts)
    late = hosts.tasks_on("alpha", run)
    hosts.network.cut("alpha", "home")
    hosts.network.cut("beta", "home")
    for name in hosts.workers:
        hosts.network.speed_up(name)
    time.sleep(T1 / 6)
    hosts.network.heal("beta", "home")
    hosts.wait_landed(run)
    hosts.assert_never_doubled(run)
    before = (hosts.attempts(run), hosts.trunk(run))
    hosts.network.heal("alpha", "home")
    hosts.wait_logged("alpha", "Home refused the candidate")
    assert (hosts.attempts(run), hosts.trunk(run)) == before
    wait_until(lambda: not hosts.pushed(run) & {(task, 1) for task in late})
    first = {task for task, number in hosts.starts(run) if number == 1}
    second = {task for task, number in hosts.starts(run) if number == 2}
    assert first == {*hosts.tasks(run)}
    assert second == {*late}
    assert_sound(hosts)


def test_a_candidate_that_arrived_without_its_outcome_lands_once(hosts: ObservedHosts) -> None:
    """The workers stand still while git pushes; then each is cut off before it can finish."""
    run = push_all(hosts)
    for worker in hosts.workers.values():
        worker.stop()
    wait_until(lambda: hosts.pushed(run) == {(task, 1) for task in hosts.tasks(run)})
    for name in hosts.workers:
        hosts.network.cut(name, "home")
        hosts.network.speed_up(name)
    for worker in hosts.workers.values():
        worker.resume()
    time.sleep(T1 / 6)
    hosts.network.heal("beta", "home")
    hosts.wait_landed(run)
    hosts.assert_never_doubled(run)
    before = (hosts.attempts(run), hosts.trunk(run))
    hosts.network.heal("alpha", "home")
    hosts.hold_back()
    again = hosts.submit(4)  # alpha is back, and its late outcomes were refused
    assert {n.host for n in hosts.wait_notes("start", 4, again)} == {"alpha", "beta"}
    assert (hosts.attempts(run), hosts.trunk(run)) == before
    assert {task for task, number in hosts.starts(run) if number == 2} == {
        *hosts.tasks_on("alpha", run)
    }
    hosts.let_go()
    hosts.wait_landed(again)
    assert_sound(hosts)


def test_work_waits_for_the_git_of_home_while_the_store_answers(hosts: ObservedHosts) -> None:
    run = hosts.submit(4)
    hosts.wait_notes("start", 4, run)
    backend = f"{git(hosts.root, '--exec-path').strip()}/git-http-backend"
    home = hosts.network.hosts["home"]
    home.run("mount", "--bind", "/bin/false", backend, namespaces=("--mount", "--pid"))
    hosts.let_go()
    for name in hosts.workers:
        hosts.wait_logged(name, "git could not push")
    assert not hosts.pushed(run)
    held = hosts.rows("SELECT state FROM leases WHERE kind = 'attempt' AND released IS NULL")
    assert [row["state"] for row in held] == ["held"] * 4
    home.run("umount", backend, namespaces=("--mount", "--pid"))
    hosts.wait_landed(run)
    hosts.assert_first_attempts(run)
