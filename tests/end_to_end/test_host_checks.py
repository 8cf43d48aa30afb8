"""Hosts that joined with the right to check run checks of the gate; home lands what they tested."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from end_to_end.run_project import TESTED
from end_to_end.worker_hosts import WorkerHosts, open_hosts
from repositories import git
from wait_until import PATIENCE, wait_until

HOSTS = "SELECT * FROM workers WHERE checks <> ''"

pytestmark = pytest.mark.timeout(100)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[WorkerHosts]:
    with open_hosts(tmp_path, "--no-work") as opened:
        yield opened


def prepare(hosts: WorkerHosts, *, elsewhere: str = ":", **tuning: float) -> None:
    """Let the check note the home directory of its host, and the plan have a task."""
    place, project = hosts.place, hosts.project
    slow = f'if [ "$HOME" != {place} ]; then {elsewhere}; fi'
    project.settings(f"echo $HOME >> {place}/journal; {slow}; {TESTED}", "", **tuning)
    project.shell("write", "cat > /dev/null; echo x > src/$WEFT_TASK")
    project.commit()
    project.plan.write_text("## P\n- [ ] Make a\n  <!-- files: src/1.1; agent: write -->\n")


def verdicts(hosts: WorkerHosts) -> list[tuple[str, bool]]:
    rows = hosts.project.rows("SELECT * FROM verdicts WHERE purpose <> 'base' ORDER BY number")
    return [(row["host"], bool(row["passed"])) for row in rows]


def test_a_host_checks_a_candidate_and_home_lands_the_tested_tree(hosts: WorkerHosts) -> None:
    project = hosts.project
    prepare(hosts)
    hosts.serve()
    project.start("worker", "--checks", "no", "--slots", "1")
    token = hosts.join_token("--checks")
    hosts.start("far", "--token-file", str(token), "--slots", "1")
    [host] = hosts.wait_registered(1)
    answer = project.run("plan.md")
    assert {task["state"] for task in answer["tasks"]} == {"done"}
    assert verdicts(hosts) == [(host, True)]
    assert str(hosts.home_of("far")) in (hosts.place / "journal").read_text().split()
    [landing] = project.rows("SELECT * FROM landings")
    [verdict] = project.rows("SELECT * FROM verdicts WHERE host <> ''")
    assert landing["tree"] == verdict["tree"] == project.tree()
    assert f"on {host}" in project.weft("why", "1.1").stdout
    assert git(project.root, "for-each-ref", "refs/weft/checks") == ""
    assert json.loads(project.weft("verify", "--json").stdout)


def test_a_check_of_a_host_that_dies_runs_again_at_home(hosts: WorkerHosts) -> None:
    project = hosts.project
    began = hosts.place / "began"
    prepare(hosts, elsewhere=f"touch {began}; sleep 600", lease=1.0, gone_after=2.0)
    hosts.serve()
    project.start("worker", "--checks", "no", "--slots", "1")
    far = hosts.start("far", "--token-file", str(hosts.join_token("--checks")), "--slots", "1")
    hosts.wait_registered(1)
    run = project.start("run", "plan.md")
    wait_until(began.exists)
    os.kill(far.pid, signal.SIGKILL)
    assert run.wait(timeout=PATIENCE) == 0
    assert verdicts(hosts) == [("", True)]
    [lost] = project.rows("SELECT * FROM leases WHERE kind = 'check' AND ended = 'reaped'")
    assert lost["worker"] in {row["id"] for row in project.rows(HOSTS)}


def test_a_host_that_stops_lets_its_check_end(hosts: WorkerHosts) -> None:
    project = hosts.project
    began, go = hosts.place / "began", hosts.place / "go"
    wait = f"touch {began}; while [ ! -e {go} ]; do sleep 0.05; done"
    prepare(hosts, elsewhere=wait)
    hosts.serve()
    project.start("worker", "--checks", "no", "--slots", "1")
    token = str(hosts.join_token("--checks"))
    far = hosts.start("far", "--token-file", token, "--slots", "1", SHUTDOWN_TIMEOUT="100000")
    [host] = hosts.wait_registered(1)
    run = project.start("run", "plan.md")
    wait_until(began.exists)
    os.kill(far.pid, signal.SIGTERM)
    assert far.stderr is not None
    assert any("has 100 s to end" in line for line in iter(far.stderr.readline, ""))
    go.touch()
    assert far.wait(timeout=PATIENCE) == 0
    assert run.wait(timeout=PATIENCE) == 0
    assert verdicts(hosts) == [(host, True)]


def test_a_host_without_the_right_is_told_how_to_get_it(hosts: WorkerHosts) -> None:
    hosts.serve()
    token = str(hosts.join_token())
    asks = hosts.start("far", "--token-file", token, "--checks", "yes")
    assert asks.wait(timeout=PATIENCE) != 0
    assert asks.stderr is not None
    assert "--join --checks" in asks.stderr.read()
    assert hosts.project.rows("SELECT * FROM workers") == []
