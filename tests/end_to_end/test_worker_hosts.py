"""Hosts that join a server run its tasks from a mirror; their work lands at home."""

from __future__ import annotations

import os
import signal

import pytest

from end_to_end.worker_hosts import WorkerHosts
from repositories import git
from wait_until import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(100)

TOGETHER = (
    "cat > /dev/null; env > {place}/env-$WEFT_TASK; touch {place}/began-$WEFT_TASK; "
    "while [ ! -e {place}/began-{other} ]; do sleep 0.05; done; echo $WEFT_TASK > src/{file}"
)


def write_pair(hosts: WorkerHosts) -> None:
    """Write a plan of two tasks that end only if both run at the same time."""
    project = hosts.project
    for agent, other, file in (("left", "1.2", "a"), ("right", "1.1", "b")):
        script = TOGETHER.format(place=hosts.place, other=other, file=file)
        project.shell(agent, script)
    project.commit()
    project.plan.write_text(
        "## P\n<!-- execution: parallel -->\n- [ ] Make a\n  <!-- files: src/a; agent: left -->\n"
        "- [ ] Make b\n  <!-- files: src/b; agent: right -->\n"
    )


def test_a_host_that_joined_runs_tasks_and_home_lands_its_work(hosts: WorkerHosts) -> None:
    project = hosts.project
    write_pair(hosts)
    hosts.serve()
    token = hosts.join_token("--uses", "1", "--expires", "1h")
    hosts.start("far", "--token-file", str(token), "--slots", "1")
    [host] = hosts.wait_registered(1)
    answer = project.run("plan.md")
    assert {task["state"] for task in answer["tasks"]} == {"done"}
    workers = {row["worker"] for row in project.rows("SELECT * FROM attempts")}
    assert len(workers) == 2
    assert any(worker.startswith(f"{host}-") for worker in workers)
    for file in ("a", "b"):
        assert git(project.root, "show", f"weft/{project.run_id()}:src/{file}")
    assert_no_secret_leaks(hosts)
    assert not list(hosts.home_of("far").glob("*.git")), "it works from any directory"


def assert_no_secret_leaks(hosts: WorkerHosts) -> None:
    """No agent and no repository of a host has seen the token of the host."""
    state = hosts.home_of("far") / ".local" / "state" / "weft" / "hosts"
    [file] = state.glob("*/token")
    assert file.stat().st_mode & 0o077 == 0
    secret = file.read_text()
    for environment in hosts.place.glob("env-*"):
        assert secret not in environment.read_text()
        assert "WEFT_HOST_TOKEN_FILE" not in environment.read_text()
    [mirror] = (hosts.home_of("far") / ".cache" / "weft" / "mirrors").iterdir()
    for path in mirror.rglob("*"):
        if path.is_file() and path.stat().st_size < 100_000:
            assert secret.encode() not in path.read_bytes(), path


def test_a_join_token_lets_one_host_join_and_a_host_comes_back_with_its_own(
    hosts: WorkerHosts,
) -> None:
    hosts.arguments = ("--no-work",)
    hosts.serve()
    token = hosts.join_token()
    first = hosts.start("far", "--token-file", str(token), "--exit-when-idle", "1s")
    assert first.wait(timeout=PATIENCE) == 0
    second = hosts.start("other", "--token-file", str(token))
    assert second.wait(timeout=PATIENCE) != 0, "its only use is used"
    assert second.stderr is not None
    refusal = f"does not take the token in {token}: it is unknown, used up or expired"
    assert refusal in second.stderr.read()
    back = hosts.start("far", "--exit-when-idle", "1s")
    assert back.wait(timeout=PATIENCE) == 0
    names = {row["host"] for row in hosts.project.rows("SELECT * FROM workers")}
    assert len(names) == 1


def test_a_worker_that_is_killed_is_followed_by_the_next_worker_of_its_host(
    hosts: WorkerHosts,
) -> None:
    """The agent goes on, and the next worker of that host adopts it: no second attempt."""
    project = hosts.project
    hosts.arguments = ("--slots", "1")
    go = hosts.place / "go"
    wait = f"cat > /dev/null; while [ ! -e {go} ]; do sleep 0.05; done; echo x > src/$WEFT_TASK"
    project.shell("slow", wait)
    project.commit()
    project.plan.write_text(
        "## P\n<!-- execution: parallel -->\n- [ ] Make a\n  <!-- files: src/1.1; agent: slow -->\n"
        "- [ ] Make b\n  <!-- files: src/1.2; agent: slow -->\n"
    )
    hosts.serve()
    worker = hosts.start("far", "--token-file", str(hosts.join_token()), "--slots", "1")
    [host] = hosts.wait_registered(1)
    run = project.start("run", "plan.md")
    question = "SELECT * FROM leases WHERE kind = 'attempt' AND state <> 'released'"
    wait_until(lambda: len(project.rows(question)) == 2)
    wait_until(lambda: {*project.marked().values()} == {"1.1", "2.1"})
    os.kill(worker.pid, signal.SIGKILL)
    hosts.start("far", "--slots", "1")
    adopted = "SELECT * FROM events WHERE kind = 'attempt_adopted'"
    wait_until(lambda: project.rows(adopted))
    go.touch()
    assert run.wait(timeout=PATIENCE) == 0
    assert len(project.rows("SELECT * FROM attempts")) == 2
    [event] = project.rows(adopted)
    assert host in event["data"]


def test_a_host_that_leaves_hands_its_task_back_with_its_work(hosts: WorkerHosts) -> None:
    """The agent is stopped, its work is archived at home, and no attempt is lost."""
    project = hosts.project
    hosts.arguments = ("--slots", "1")
    project.shell("slow", f"cat > /dev/null; echo x > src/a; touch {hosts.place}/began; sleep 99")
    agent = project.root / ".weft" / "agents" / "slow.md"
    agent.write_text(agent.read_text().replace("---\n", "---\nneeds_labels: far\n", 1))
    project.commit()
    project.plan.write_text("## P\n- [ ] Make a\n  <!-- files: src/a; agent: slow -->\n")
    hosts.serve()
    token = str(hosts.join_token())
    worker = hosts.start("far", "--token-file", token, "--label", "near,far")
    [host] = hosts.wait_registered(1)
    project.start("run", "plan.md")
    wait_until((hosts.place / "began").exists)
    leaving = hosts.start("far", "--leave")
    assert leaving.wait(timeout=PATIENCE) == 0
    assert worker.wait(timeout=PATIENCE) == 0
    assert project.rows("SELECT * FROM leases WHERE kind = 'attempt' AND state <> 'released'") == []
    [attempt] = project.rows("SELECT * FROM attempts")
    assert attempt["worker"].startswith(f"{host}-")
    assert attempt["outcome"] == "Stopped: its host left."
    assert "1 attempt (0 failed)" in project.weft("report").stdout
    assert project.states() == {"1.1": "ready"}, "no other worker has its label"
    again = hosts.start("far", "--leave")
    assert again.wait(timeout=PATIENCE) == 0, "no worker runs there any more"
    kept = git(project.root, "for-each-ref", "--format=%(objectname)", "refs/weft").splitlines()
    assert any("src/a" in git(project.root, "ls-tree", "-r", commit) for commit in kept)


def test_an_agent_on_a_host_calls_the_tools_of_home(hosts: WorkerHosts) -> None:
    project = hosts.project
    project.agent("caller", "needs_labels: far\n")
    project.commit()
    project.plan.write_text(
        "## P\n- [ ] Make a\n  <!-- files: src/a; agent: caller -->\n"
        '  - script: call claim_files {"files": ["src/b"]}\n  - script: write src/b 1\n'
    )
    hosts.serve()
    hosts.start("far", "--token-file", str(hosts.join_token()), "--label", "far")
    hosts.wait_registered(1)
    answer = project.run("plan.md")
    assert [task["state"] for task in answer["tasks"]] == ["done"]
    assert git(project.root, "show", f"weft/{project.run_id()}:src/b") == "1\n"
    assert "claim_files" in project.weft("logs", "1.1").stdout


def test_a_worker_beside_its_store_leaves_when_it_is_told(hosts: WorkerHosts) -> None:
    project = hosts.project
    assert "No `weft worker` runs here" in project.weft("worker", "--leave").stdout
    worker = project.start("worker")
    wait_until(lambda: project.rows("SELECT * FROM workers WHERE departed IS NULL"))
    left = project.weft("worker", "--leave")
    assert (left.returncode, worker.wait(timeout=PATIENCE)) == (0, 0)
    assert "handed back all tasks and left" in left.stdout
