"""Hosts that reach the database and a git remote themselves; the two fail one at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from hosts.conftest import SharedHosts
from hosts.host_observer import T1, T2, ObservedHosts
from repositories import git
from wait_until import wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def connected(shared: SharedHosts) -> Iterator[ObservedHosts]:
    """The hosts without a server between them and the database; home serves the git remote."""
    hosts = shared.get()
    home = hosts.network.hosts["home"]
    remote = home.home / "remote.git"
    git(home.home, "init", "--quiet", "--bare", str(remote))
    program = f"{git(remote, '--exec-path').strip()}/git-daemon"
    options = ("--export-all", "--enable=receive-pack", "--base-path=/home")
    daemon = home.start([program, *options, f"--listen={home.address}"], os.environ)
    url = f"git://{home.address}/{remote.name}"
    settings = hosts.root / "weft.toml"
    before = settings.read_text()
    settings.write_text(f'{before}\n[store]\nremote = "{url}"\n')
    hosts.restart_home()
    wait_until(lambda: git(remote, "for-each-ref", "refs/weft/home"))
    hosts.restart_beside_store(url)
    yield hosts
    daemon.kill()
    settings.write_text(before)
    hosts.restart_home()
    hosts.restart_workers(alpha={}, beta={})


@pytest.fixture
def apart(connected: ObservedHosts) -> ObservedHosts:
    connected.hold_back()
    return connected


@pytest.mark.parametrize(
    ("silent", "seconds"),
    [("store", T1 / 4), ("home", T2)],  # the store renews the leases while git is silent
    ids=["store", "git"],
)
def test_work_waits_while_the_store_or_git_alone_answers(
    apart: ObservedHosts, silent: str, seconds: float
) -> None:
    run = apart.submit(4)
    apart.wait_notes("start", 4, run)
    for name in ("alpha", "beta"):
        apart.network.cut(name, silent)
    apart.let_go()
    apart.wait_notes("end", 4, run)
    time.sleep(seconds)
    assert apart.states(run) == {"running"}
    for name in ("alpha", "beta"):
        apart.network.heal(name, silent)
    apart.wait_landed(run)
    apart.assert_first_attempts(run)


def test_a_host_cut_off_from_the_store_alone_loses_its_tasks(apart: ObservedHosts) -> None:
    run = apart.submit(4)
    apart.wait_notes("start", 4, run)
    lost = apart.tasks_on("alpha", run)
    apart.network.cut("alpha", "store")
    apart.let_go("beta")
    apart.wait_landed(run)
    apart.assert_never_doubled(run)
    assert {n.task for n in apart.journal(run) if n.attempt == 2} == {*lost}
    apart.network.heal("alpha", "store")
    apart.hold_back()
    again = apart.submit(4)
    assert {n.host for n in apart.wait_notes("start", 4, again)} == {"alpha", "beta"}
    apart.let_go()
    apart.wait_landed(again)
